"""Provisioning: the fewest hosts, or the cheapest mix of them, for a latency bound, with a certificate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement
from penstock.errors import Infeasible, InputError, TooLong
from penstock.files import Document
from penstock.latency.estimate import Estimate
from penstock.latency.models import above_backlog, many_of, model_of
from penstock.load import LoadModel
from penstock.placement import Problem
from penstock.placement import place as place_by
from penstock.sizing.fleet import Fleet
from penstock.sizing.packing import Packing
from penstock.sizing.search import TIE, checked_document, interval_document
from penstock.sizing.trials import Place, Trials

STEPS = 8
"""Numbers of hosts tried one after another by an algorithm; after that the step doubles, and is bisected."""

Fitting = tuple[Placement, Cluster, Estimate]
"""A placement on a cluster, and what it comes to."""


@attrs.frozen(eq=False, kw_only=True)
class Provision:
    """The answer to how many hosts are enough.

    Attributes
    ----------
    hosts
        How many run operators.
    bound
        The latency that was asked for (s).
    estimate
        Of the placement.
    placement, cluster
        Where the operators run, and on which hosts.
    lower_bound
        No placement on fewer hosts meets the bound.
    mix, price, lower_price
        Hosts by the one they are like; their price per hour; no mix is cheaper than ``lower_price``.
    simulated
        Worst latency that the simulator measured (s), if it was asked.
    """

    hosts: int
    bound: float
    estimate: Estimate
    placement: Placement
    cluster: Cluster
    lower_bound: int
    mix: Mapping[str, int]
    price: float
    lower_price: float
    simulated: float | None = None

    def checked(self, worst: float) -> Provision:
        """Return the answer with the worst latency (s) that the simulator measured.

        Raises
        ------
        Infeasible
            If that is more than the bound.
        """
        found = attrs.evolve(self, simulated=worst)
        if worst > self.bound + TIE:
            raise Infeasible(
                f"the simulator measures {worst:.6g} s on the {self.hosts} hosts found, more than {self.bound:g} s",
                **found.document(),
            )
        return found

    def document(self) -> Document:
        """Return the keys of ``penstock provision --json``."""
        used = sorted(set(self.placement.values()))
        return {
            "hosts": self.hosts,
            "worst": self.estimate.told()["worst"],
            **interval_document(self.estimate),
            "bound": self.bound,
            "placement": dict(self.placement),
            "lower_bound": self.lower_bound,
            "least": self.lower_bound == self.hosts,
            "mix": dict(self.mix),
            "price": self.price,
            "lower_price": self.lower_price,
            "capacity": {name: self.cluster.hosts[name].capacity for name in used},
            "model": self.estimate.model,
            "bottleneck": self.estimate.bottleneck,
            "unknown": list(self.estimate.unended),
            "error": {**attrs.asdict(self.estimate.error), "relative": self.estimate.error.relative},
            "notes": list(self.estimate.notes),
            **checked_document(self.simulated, holds=(self.simulated or 0.0) <= self.bound + TIE),
        }


def placing(model: LoadModel, name: str, seed: int) -> Place:
    """Return a placement algorithm by its name, with random numbers of a seed."""

    def by(made: Cluster) -> Placement:
        problem = Problem(model, made, None, model.network.pins)
        return place_by(problem, name, np.random.default_rng(seed)).placement

    return by


def provision(
    model: LoadModel,
    fleet: Fleet,
    bound: float,
    *,
    name: str = "mace",
    place: Place | None = None,
    improve: Place | None = None,
) -> Provision:
    """Find the fewest hosts, or with several types the cheapest mix, whose latency is at most a bound.

    Small networks are searched exactly, so that the number is the least. Large ones are packed first fit by falling
    load, and otherwise placed by ``improve``, from the lower bound upwards.

    Parameters
    ----------
    fleet
        Hosts that may be taken.
    bound
        Latency (s).
    name
        Of the latency model.
    place
        Algorithm that has to be used; None: the best of what is known here.
    improve
        Algorithm to try where packing needs more than the lower bound.

    Raises
    ------
    Infeasible
        If no number of hosts is enough.
    """
    found = _provided(model, fleet.timed(name), bound, name, place, improve)
    return attrs.evolve(found, cluster=fleet.called(found.cluster.hosts))


def _provided(
    model: LoadModel, fleet: Fleet, bound: float, name: str, place: Place | None, improve: Place | None
) -> Provision:
    """Return the answer for a fleet as the model sees it."""
    decide = model_of(name)

    def estimate(placement: Placement, made: Cluster) -> Estimate:
        return decide(model, placement, made, fleet.statistics(made))

    work = Packing(model, fleet, bound)
    exact = name == "mace" and fleet.cluster.free_links
    if len(fleet.like) > 1 and (not exact or place is not None):
        raise InputError(
            "several types of hosts are mixed by the model mace, without links and --algorithm",
            at="--host-like",
            hint="name one host",
        )
    alone = work.alone()
    if exact and alone is not None:
        raise Infeasible(alone, hosts=None, lower_bound=None)
    if len(fleet.like) > 1 and work.names:
        return _mixed(work, estimate)
    backlog = above_backlog(name, model.network)
    lower = max(work.fewest(), 1) if backlog else 1  # Without operators too a cluster has a host.
    most = max(len(model.network.operators), 1)

    trials = Trials(work=work, exact=exact, backlog=backlog, place=place, improve=improve)

    def fits(count: int) -> Fitting | None:
        made = fleet.hosts({fleet.like[0]: count})
        many = many_of(name, model, made, fleet.statistics(made))
        for trial in trials.on(made, count):
            try:
                if many is not None and many.worst(trial).total > bound + TIE:
                    continue
                found = estimate(trial, made)
            except TooLong:
                continue
            if found.total.worst <= bound + TIE:
                return trial, made, found
        return None

    answer, proved = _least(fits, min(lower, most), most)
    if answer is None:
        raise Infeasible(
            f"no number of hosts like {fleet.like[0]!r} is enough for {bound:g} s by the model {name}"
            + (f": {alone}" if alone else ""),
            hosts=None,
            lower_bound=None,
        )
    sure = exact and place is None and proved and work.complete
    used = len(set(answer[0].values()))
    return _answer(work, answer, used if sure else min(lower, used), None)


def _mixed(work: Packing, estimate: Callable[[Placement, Cluster], Estimate]) -> Provision:
    """Return the cheapest mix of several types."""
    placement, price, proved = work.cheapest()
    cluster = work.fleet.called(sorted(set(placement.values())))
    found, lower = estimate(placement, cluster), work.lower_price()
    return _answer(work, (placement, cluster, found), work.fewest(), price if proved else lower)


def _answer(work: Packing, fitting: Fitting, lower: int, lower_price: float | None) -> Provision:
    (placement, cluster, found), fleet = fitting, work.fleet
    used, types = sorted(set(placement.values())), fleet.types(len(cluster.hosts))
    mix = Counter(types.get(name, name) for name in used)
    price = sum(cluster.hosts[name].price for name in used)
    least = lower * fleet.cluster.hosts[fleet.like[0]].price if lower_price is None else lower_price
    return Provision(
        hosts=len(used),
        bound=work.bound,
        estimate=found,
        placement=placement,
        cluster=cluster,
        lower_bound=min(lower, len(used)),
        mix=dict(sorted(mix.items())),
        price=price,
        lower_price=min(least, price),
    )


def _least(fits: Callable[[int], Fitting | None], low: int, most: int) -> tuple[Fitting | None, bool]:
    """Return what fits on the least number found, and whether every smaller one was tried."""
    for count in range(low, min(low + STEPS, most + 1)):
        if (found := fits(count)) is not None:
            return found, True
    below, step = low + STEPS - 1, STEPS
    while below < most:
        count = min(below + step, most)
        found = fits(count)
        if found is not None:
            high, answer = count, found
            while high - below > 1:
                middle = (below + high) // 2
                found = fits(middle)
                if found is None:
                    below = middle
                else:
                    high, answer = middle, found
            return answer, False
        below, step = count, 2 * step
    return None, False


class Need(NamedTuple):
    """What a latency bound (s) needs; None where no number of hosts is enough."""

    latency: float
    hosts: int | None = None
    lower_bound: int | None = None
    price: float | None = None


def curve(answer: Callable[[float], Provision], bound: float) -> list[Need]:
    """Return what bounds around one need."""
    bounds = sorted([bound * 2.0**k for k in np.arange(-3, 3.5, 0.5)] if bound else [0.0, 0.1, 1.0])
    rows: list[Need] = []
    for wanted in bounds:
        try:
            found = answer(wanted)
            rows.append(Need(wanted, found.hosts, found.lower_bound, found.price))
        except Infeasible:
            rows.append(Need(wanted))
    return rows
