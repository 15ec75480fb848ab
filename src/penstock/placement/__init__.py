"""DECIDE: where operators run. One file per family, one row per algorithm."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from penstock.cluster import Placement
from penstock.errors import Infeasible, InputError
from penstock.files import Document, suggest
from penstock.placement import objective
from penstock.placement.base import TIE, Algorithm, Arrays, Ints, Problem, as_arrays, check_copies, short
from penstock.placement.bound import whole_bound
from penstock.placement.climb import MaceClimb
from penstock.placement.correlation import Connected, Correlation, EvenlyRandom, LargestFirst, Pairwise, Random
from penstock.placement.economical import Economical, Replicated
from penstock.placement.exact import Exact
from penstock.placement.kinds import check_kinds
from penstock.placement.linked import check_least, improved, linked_latency, matters, trials, whole
from penstock.placement.moving import worthwhile
from penstock.placement.objective import OBJECTIVES, Weights
from penstock.placement.potential import Potential
from penstock.placement.repair import fits, repaired
from penstock.placement.terms import Divided, Terms, terms_of
from penstock.placement.verify import faults, over_link, over_memory, over_quota

__all__ = [
    "ALGORITHMS",
    "OBJECTIVES",
    "Algorithm",
    "Answer",
    "Arrays",
    "Divided",
    "Problem",
    "Row",
    "Terms",
    "Weights",
    "algorithm",
    "as_arrays",
    "copies_of",
    "faults",
    "place",
    "prepare",
    "terms_of",
]


MOST_LIFT = 1e6
"""Factor on quotas beyond which something else must stand in the way."""


@attrs.frozen
class Row:
    """One algorithm: what makes it, what it is measured by, and what it can do.

    Attributes
    ----------
    factory
        Its class, whose fields are its parameters.
    fixed
        Parameters that make this row.
    objective
        What its answers are measured by unless told otherwise.
    replicas
        ``none``, ``free`` (copies are operators of their own) or ``apart`` (never on one host).
    minimises
        Whether it looks for the least objective.
    proves
        Whether its answer is the least of all.
    """

    factory: Callable[..., Algorithm]
    fixed: Mapping[str, object] = attrs.field(factory=dict)
    objective: str = "latency"
    replicas: str = "none"
    minimises: bool = False
    proves: bool = False


ALGORITHMS: Mapping[str, Row] = {
    "correlation": Row(Correlation),
    "correlation-one-way": Row(Pairwise, {"step": "one-way"}),
    "correlation-two-way": Row(Pairwise, {"step": "two-way"}),
    "correlation-exchange": Row(Pairwise, {"step": "exchange"}),
    "largest-first": Row(LargestFirst, objective="balance"),
    "largest-first-balance": Row(Pairwise, {"by": "load"}, "balance"),
    "random": Row(Random),
    "random-even": Row(EvenlyRandom, objective="balance"),
    "random-balance": Row(Pairwise, {"by": "chance"}, "balance"),
    "connected": Row(Connected),
    "potential-greedy": Row(Potential, {"rule": "greedy"}, "potential"),
    "potential-greedy-linked": Row(Potential, {"rule": "greedy", "linked": True}, "potential"),
    "potential-dynamic": Row(Potential, {"rule": "accumulated"}, "potential"),
    "potential-dynamic-printed": Row(Potential, {"rule": "printed"}, "potential"),
    "resilient": Row(LargestFirst, {"fitted": False}, "balance", "free"),
    "economical": Row(Economical, objective="hosts", replicas="free"),
    "economical-replicated": Row(Replicated, {"colouring": "first-fit"}, "hosts", "apart"),
    "economical-replicated-minimal": Row(Replicated, {"colouring": "minimal"}, "hosts", "apart"),
    "mace-climb": Row(MaceClimb, minimises=True),
    "exact": Row(Exact, minimises=True, proves=True),
}


def algorithm(name: str, /, **parameters: object) -> Algorithm:
    """Return an algorithm by its name on the command line.

    Parameters
    ----------
    parameters
        Those that it does not have are an error.

    Raises
    ------
    InputError
        If there is no such algorithm or parameter.
    """
    row = _row(name)
    known = _tunable(row)
    for key in parameters:
        if key not in known:
            able = [other for other, each in ALGORITHMS.items() if key in _tunable(each)]
            hint = f"algorithms that have it: {', '.join(able)}" if able else suggest(key, sorted(known), "parameters")
            raise InputError(f"{name} has no such parameter", at=f"--{key.replace('_', '-')}", hint=hint)
    check_kinds(row.factory, parameters)
    return row.factory(**row.fixed, **parameters)


def copies_of(name: str, count: int) -> int:
    """Return how many copies of each operator an algorithm is to place: ``count``, or as many as it needs.

    Parameters
    ----------
    count
        0: two for algorithms that keep copies apart, and else one.
    """
    copies = count or (2 if _row(name).replicas == "apart" else 1)
    check_copies(copies)
    return copies


def prepare(problem: Problem, name: str, /, **parameters: object) -> None:
    """Load the compiled kernels that a large problem will use, so that its time is that of deciding.

    A small problem needs none: its kernels are interpreted, and nothing is loaded.
    """
    from penstock.native import jit

    m, periods = len(problem.names), problem.model.load.shape[1]
    if 4 * m * m * periods <= jit.LIMIT:
        return
    load = np.outer(np.arange(1.0, 7.0), np.arange(1.0, 4.0)) / 100
    small = Arrays.of(load, np.ones(2))
    with jit.compiling():
        algorithm(name, **parameters)(small, np.random.default_rng(0))


def _row(name: str, copies: int = 1) -> Row:
    """Return an algorithm's row, if there is one that places so many copies of each operator."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        hint = suggest(str(name), ALGORITHMS, "algorithms")
        raise InputError(f"{name!r} is no placement algorithm", at="--algorithm", hint=hint)
    if copies > 1 and ALGORITHMS[name].replicas == "none":
        able = [other for other, each in ALGORITHMS.items() if each.replicas != "none"]
        raise InputError(f"{name} places no replicas", at="--replicas", hint=f"those that do: {', '.join(able)}")
    return ALGORITHMS[name]


@attrs.frozen(kw_only=True)
class Answer:
    """A checked placement and what it is worth.

    Attributes
    ----------
    objective, value, bound
        Its name, its value, and a lower bound over all placements (None where none is known).
    moved, moved_load
        The operators that ``previous`` has elsewhere, and their mean load in benchmark cores.
    over
        A sentence for each host over its quota and each link over its bandwidth, which only ``overload`` allows.
    """

    placement: Placement
    objective: str
    value: float
    bound: float | None
    moved: tuple[str, ...]
    moved_load: float
    over: tuple[str, ...] = ()

    def document(self) -> Document:
        """Return it as ``place`` answers."""
        return {
            "feasible": not self.over,
            **({"reason": "; ".join(self.over)} if self.over else {}),
            "placement": dict(self.placement),
            "objective": {"name": self.objective, "value": self.value, "lower_bound": self.bound},
            "moved": list(self.moved),
            "moved_load": self.moved_load,
        }


def place(
    problem: Problem, name: str, rng: np.random.Generator, terms: Terms | None = None, /, **parameters: object
) -> Answer:
    """Decide a placement, put right what a heuristic left over a quota, check it, and measure it.

    Parameters
    ----------
    name
        Of the algorithm.
    terms
        What it is measured by, and what it may do.
    parameters
        Of the algorithm.

    Raises
    ------
    Infeasible
        Naming the host or link that is short, and by how much.
    InputError
        If a parameter is wrong.
    """
    row, terms = _row(name, problem.replicas), terms or Terms()
    terms.check(problem)
    measure, weights = terms.measure or row.objective, terms.weights or Weights()
    held = problem.held(terms.theta)
    arrays = as_arrays(held)
    shared = {"objective": measure, "weights": weights}
    parameters |= {key: shared[key] for key in sorted(_parameters(row) & set(shared))}
    solve = (terms.divided or Divided()).of(algorithm(name, **parameters))
    again, apart = copy.deepcopy(rng), row.replicas == "apart"

    links = matters(problem, measure)

    def worth(given: Arrays, where: Ints) -> float:
        return linked_latency(held, given, where) if links else objective.value(given, where, measure, weights)

    def decide(lift: float) -> Ints:
        # Every further trial begins with the same random numbers.
        return _within(attrs.evolve(arrays, lift=lift), solve, rng if lift == 1.0 else copy.deepcopy(again), apart)

    where, lift = _decided(decide, terms, measure)
    feasible = lift == 1.0
    if links and row.minimises:
        seconds: float | None = parameters.get("seconds")  # type: ignore[assignment]
        alone, where = where, improved(held, arrays, where, quotas=feasible, seconds=seconds)
        if row.proves:
            check_least(held, arrays, alone, where)
    if terms.move_cost:
        lifted = attrs.evolve(arrays, lift=lift, bandwidth=None if terms.overload else arrays.bandwidth)
        more = {"most": trials(held)} if links else {}
        where = worthwhile(lifted, where, worth, terms.move_cost, apart=apart, **more)
    short_links = over_link(arrays, where)
    if short_links and not terms.overload and not apart and (kept := _within_links(arrays)) is not None:
        where, short_links = kept, []
    if wrong := [*([] if terms.overload else short_links), *over_memory(arrays, where)]:
        raise Infeasible("; ".join(wrong))
    placement = arrays.placement(where)
    if found := faults(held, placement, apart=apart, quotas=feasible, links=False):
        raise AssertionError(f"{name} gave a wrong placement: {'; '.join(found)}")
    tight = terms.tighten if measure == "latency" else 0
    moved = placement.moved(problem.previous or placement)
    load = dict(zip(arrays.names, arrays.mean, strict=True))
    return Answer(
        placement=placement,
        objective=measure,
        value=worth(arrays, where),
        bound=whole_bound(arrays, tight) if tight else objective.bound(arrays, measure),
        moved=moved,
        moved_load=float(sum(load[operator] for operator in moved)),
        over=(*over_quota(arrays, where), *short_links),
    )


def _within(arrays: Arrays, solve: Algorithm, rng: np.random.Generator, apart: bool) -> Ints:
    """Return a placement within what hosts may carry: the algorithm's, put right where it needs to be.

    Raises
    ------
    Infeasible
        If none was found.
    """
    if arrays.mean.sum() > arrays.limit.sum() * (1 + TIE):
        raise short(arrays)
    where = solve(arrays, rng)
    if fits(arrays, where):
        return where
    better = None if apart else repaired(arrays, where)
    if better is not None:
        return better
    full = (arrays.host_mean(where) <= arrays.limit * (1 + TIE)).all()
    raise Infeasible("; ".join(over_memory(arrays, where))) if full else short(arrays, where)


def _within_links(arrays: Arrays) -> Ints | None:
    """Return a placement within quotas, memories and links that keeps queries whole; None where it is not within."""
    where = whole(arrays)
    return where if fits(arrays, where) and not over_link(arrays, where) else None


def _decided(decide: Callable[[float], Ints], terms: Terms, measure: str) -> tuple[Ints, float]:
    """Return a placement and the factor on quotas that it was decided with: 1 where they can be kept, else infinite.

    Fewest hosts mean nothing without quotas: there all are lifted by the least factor that is enough, to 1 %, and only
    where they cannot be kept, also where they are soft.

    Raises
    ------
    Infeasible
        If something else than quotas stands in the way.
    """
    if terms.soft and measure != "hosts":
        return decide(math.inf), math.inf
    try:
        return decide(1.0), 1.0
    except Infeasible:
        if not (terms.overload or terms.soft):
            raise
        if measure != "hosts":
            return decide(math.inf), math.inf
    low, high = 1.0, 2.0
    while True:
        try:
            found = decide(high)
            break
        except Infeasible:
            if high > MOST_LIFT:
                raise
            low, high = high, 2 * high
    while high > 1.01 * low:
        middle = (low + high) / 2
        try:
            found, high = decide(middle), middle
        except Infeasible:
            low = middle
    return found, high


def _tunable(row: Row) -> set[str]:
    """Return the parameters of an algorithm that its row leaves open."""
    return _parameters(row) - set(row.fixed)


def _parameters(row: Row) -> set[str]:
    return set(inspect.signature(row.factory).parameters)
