"""The policy `cheapest`: defer, shed, move or add a host, whatever costs least; all are priced in one currency."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
import numpy as np

from penstock.control.policies.base import Proposal, evacuated
from penstock.control.policies.joining import joined, moved, spread
from penstock.control.policies.provision import Provision
from penstock.control.policies.rebalance import Rebalance
from penstock.control.policies.shed import Shed
from penstock.control.situation import Situation
from penstock.steering import Plan

HOLDS = 600.0
"""How long a placement is expected to be good for (s): moves are divided over so many seconds."""


@attrs.frozen(kw_only=True)
class Cheapest:
    """Ask the other policies what they would do, and take what costs least over the horizon.

    The price of a course is the value of the tuples that it loses, of those that come later than the bound, the moves,
    and the hosts for as long as the horizon. A host that joins is priced with all that would move once it is there.

    Attributes
    ----------
    shed, rebalance, provision
        The policies that are asked.
    least
        Share of what going on costs besides the hosts by which another course must be cheaper, so that noise decides
        nothing: what hosts cost is certain.
    """

    shed: Shed = attrs.field(factory=Shed)
    rebalance: Rebalance = attrs.field(factory=Rebalance)
    provision: Provision = attrs.field(factory=lambda: Provision(retire=0.85))
    least: float = 0.02

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return the cheapest course where it is not to go on as it is."""
        if not now.ready:
            return None
        # What is on dead hosts starts elsewhere whatever is decided here, as far as others are up.
        there = moved(now, evacuated(now, now.seen.down))
        defer = price(there, Plan())
        courses: dict[str, tuple[float, Proposal]] = {}
        for name, policy in (("shed", self.shed), ("move", self.rebalance), ("add", self.provision)):
            found = policy(now, rng)
            if found is not None:
                courses[name] = (self._price(there, found, rng), found)
        if not courses:
            return None
        least = min(courses, key=lambda name: (courses[name][0], name))
        cost, found = courses[least]
        if cost >= defer - self.least * max(0.0, defer - _hosted(now)) - 1e-9:
            return None
        said = ", ".join(f"{name} {value:.4g}" for name, (value, _) in sorted(courses.items()))
        return Proposal(
            policy="cheapest",
            plan=found.plan,
            why=f"{least} costs {cost:.4g} over {now.goals.horizon:g} s (defer {defer:.4g}, {said}): {found.why}",
            expected={**found.expected, "price": cost, "otherwise_price": defer},
            hard=found.hard,
            drain=found.drain,
            course=found.policy,
        )

    def _price(self, now: Situation, found: Proposal, rng: np.random.Generator) -> float:
        if not found.plan.add:
            return price(now, found.plan, found.drain)
        with_them = joined(now, found.plan.add)
        return price(with_them, Plan(placement=spread(with_them, self.rebalance, rng)))


def price(now: Situation, plan: Plan, leaving: Collection[str] = ()) -> float:
    """Return what a plan costs over the horizon, in the currency of ``goals.prices``.

    A plan that makes room is priced with everything kept as well as with what is dropped now: what is not needed any
    more is not dropped any longer.

    Parameters
    ----------
    leaving
        Hosts that leave once they are empty, besides those that the plan retires.
    """
    keep = now.seen.keep if plan.keep is None else plan.keep
    makes_room = plan.keep is None and bool(plan.placement)
    gone = {*leaving, *plan.retire}
    return min(_price(now, plan, shares, gone) for shares in ([keep, {}] if makes_room and keep else [keep]))


def _price(now: Situation, plan: Plan, keep: Mapping[str, float], gone: Collection[str]) -> float:
    goals, prices = now.goals, now.goals.prices
    full, score = now.score(), now.score(keep)
    return (
        prices.value * (full - score) * goals.horizon
        + prices.late * _late(now, now.where(plan.placement), keep)
        + _hosted(now, gone)
        # A move is paid once, and what it is good for holds longer than the horizon.
        + (prices.move * len(plan.placement) + prices.late * _paused(now, plan.placement))
        * min(1.0, goals.horizon / HOLDS)
    )


def _hosted(now: Situation, gone: Collection[str] = ()) -> float:
    """Return what hosts cost over the horizon, without some that leave."""
    goals, hosts = now.goals, now.seen.cluster.hosts.values()
    return goals.prices.hour * sum(host.price for host in hosts if host.name not in gone) * goals.horizon / 3600


def _late(now: Situation, where: np.ndarray, keep: Mapping[str, float]) -> float:
    """Return how many weighted tuples come later than the bound over the horizon."""
    waits = now.waits(where, keep)
    through = np.zeros(len(now.hosts))
    placed = where >= 0
    np.maximum.at(through, where[placed], now.passing[placed])
    step = now.goals.horizon / max(1, waits.shape[1] - 1)
    lost = float(now.passing[~placed].max(initial=0.0)) * now.goals.horizon
    late: float = ((waits > now.goals.bound).sum(axis=1) * step * through).sum()
    return min(late, now.score() * now.goals.horizon) + lost


def _paused(now: Situation, moves: Mapping[str, str]) -> float:
    """Return how many weighted tuples come later than the bound because their operator moves."""
    over = max(0.0, now.goals.pause - now.goals.bound)
    if not over:
        return 0.0
    row = {name: k for k, name in enumerate(now.seen.operators)}
    return float(sum(now.passing[row[name]] for name in moves)) * over
