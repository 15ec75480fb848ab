"""What is asked of a placement, whatever algorithm makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np

from penstock.errors import InputError
from penstock.placement.base import Algorithm, Problem
from penstock.placement.climb import MaceClimb
from penstock.placement.domains import Domains
from penstock.placement.grouping import Grouped
from penstock.placement.kinds import check_kinds
from penstock.placement.objective import OBJECTIVES, Weights


@attrs.frozen(kw_only=True)
class Divided:
    """How a large problem is made smaller, with any algorithm (Xing et al., section 4.3).

    Attributes
    ----------
    domains
        Parts into which hosts and operators are divided.
    overlap
        Share of the next domain's hosts that each reaches into; 0: an exchange sees all hosts.
    least
        Mean load (benchmark cores) below which operators are placed in groups; 0: each alone.
    """

    domains: int = 1
    overlap: float = 0.0
    least: float = 0.0

    def __attrs_post_init__(self) -> None:
        check_kinds(type(self), attrs.asdict(self))

    def of(self, solve: Algorithm) -> Algorithm:
        """Return an algorithm that divides first; domains, which are placed one after the other, share its time."""
        if isinstance(solve, MaceClimb) and solve.seconds is not None and self.domains > 1:
            solve = attrs.evolve(solve, seconds=solve.seconds / self.domains)
        if self.domains != 1 or self.overlap:
            solve = Domains(inner=solve, count=self.domains, overlap=self.overlap)
        return Grouped(inner=solve, least=self.least) if self.least else solve


@attrs.frozen(kw_only=True)
class Terms:
    """What a placement is measured by, and what it may do.

    Attributes
    ----------
    measure
        Objective; the algorithm's own by default.
    weights
        Of potential energies.
    theta
        Share of the operators, the lightest, that stay where ``problem.previous`` has them.
    divided
        How the problem is made smaller first.
    move_cost
        Units of the objective per benchmark core moved; only moves that pay are made.
    overload
        Whether quotas and bandwidths may be exceeded where they cannot be kept.
    soft
        Whether quotas only guide the algorithm, as the energy of load does (Wang et al., section 3.2).
    tighten
        Linear programs by which the lower bound of the latency is raised; see `whole_bound`.
    """

    measure: str | None = None
    weights: Weights | None = None
    theta: float = 0.0
    divided: Divided | None = None
    move_cost: float = 0.0
    overload: bool = False
    soft: bool = False
    tighten: int = 0

    def __attrs_post_init__(self) -> None:
        check_kinds(type(self), attrs.asdict(self, recurse=False))
        if self.measure is not None and self.measure not in OBJECTIVES:
            raise InputError(f"expected one of {', '.join(OBJECTIVES)}, got {self.measure!r}", at="--objective")
        if self.tighten < 0:
            raise InputError(f"expected at least 0 linear programs, got {self.tighten}", at="--tighten")
        if not (np.isfinite(self.move_cost) and self.move_cost >= 0):
            raise InputError(f"expected a finite cost of at least 0, got {self.move_cost}", at="--move-cost")

    def check(self, problem: Problem) -> None:
        """Refuse terms that a problem cannot meet."""
        if self.move_cost and problem.previous is None:
            raise InputError("a move is from where an operator was", at="--move-cost", hint="pass --previous")
        if self.divided is not None and self.divided.least and problem.replicas > 1:
            raise InputError("copies of an operator cannot be in one group", at="--group-below")
        if self.divided is not None and problem.replicas > 1 and (self.divided.domains != 1 or self.divided.overlap):
            at = "--domains" if self.divided.domains != 1 else "--overlap"
            raise InputError("copies of an operator cannot be kept apart in domains", at=at, hint="leave it out")


def terms_of(given: Mapping[str, object]) -> tuple[Terms, dict[str, object]]:
    """Return what of some keyword arguments is said of a placement, and what is left for its algorithm."""
    make: Callable[..., Terms] = Terms
    names = {field.name for field in attrs.fields(Terms)}
    rest = {name: value for name, value in given.items() if name not in names}
    return make(**{name: value for name, value in given.items() if name in names}), rest
