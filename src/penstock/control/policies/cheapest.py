"""The policy `cheapest`: defer, shed, move or add a host, whatever costs least; all are priced in one currency."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
import numpy as np

from penstock.control.policies.base import Proposal
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
    and the hosts for as long as the horizon. A host that joins is priced with the placement that it makes possible.

    Attributes
    ----------
    shed, rebalance, provision
        The policies that are asked.
    least
        Share by which another course must be cheaper than going on, so that noise decides nothing.
    """

    shed: Shed = attrs.field(factory=Shed)
    rebalance: Rebalance = attrs.field(factory=Rebalance)
    provision: Provision = attrs.field(factory=lambda: Provision(retire=0.85))
    least: float = 0.02

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return the cheapest course where it is not to go on as it is."""
        if not now.ready:
            return None
        defer = price(now, Plan())
        courses: dict[str, tuple[float, Proposal]] = {}
        for name, policy in (("shed", self.shed), ("move", self.rebalance), ("add", self.provision)):
            found = policy(now, rng)
            if found is not None:
                courses[name] = (price(now, found.plan, found.drain), found)
        if not courses:
            return None
        least = min(courses, key=lambda name: (courses[name][0], name))
        cost, found = courses[least]
        if cost >= defer * (1 - self.least) - 1e-9:
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
    makes_room = plan.keep is None and bool(plan.placement or plan.add)
    gone = {*leaving, *plan.retire}
    return min(_price(now, plan, shares, gone) for shares in ([keep, {}] if makes_room and keep else [keep]))


def _price(now: Situation, plan: Plan, keep: Mapping[str, float], gone: Collection[str]) -> float:
    goals, prices = now.goals, now.goals.prices
    full, score = now.score(), now.score(keep)
    where = now.where(plan.placement)
    late, hosts = _late(now, where, keep), sum(host.price for host in now.seen.cluster.hosts.values())
    if plan.add:
        # What a host more makes possible: everything is spread over all of them.
        room = float(now.usable.sum() + sum(host.usable for host in plan.add))
        need = float(now.host_load(where, keep).sum(axis=0).mean())
        behind = float(now.host_backlog(where).sum())
        late = min(late, _spread(need, room, behind, now) * score)
        hosts += sum(host.price for host in plan.add)
    hosts -= sum(now.seen.cluster.hosts[name].price for name in gone if name in now.seen.cluster.hosts)
    return (
        prices.value * (full - score) * goals.horizon
        + prices.late * late
        + prices.hour * hosts * goals.horizon / 3600
        # A move is paid once, and what it is good for holds longer than the horizon.
        + (prices.move * len(plan.placement) + prices.late * _paused(now, plan.placement))
        * min(1.0, goals.horizon / HOLDS)
    )


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


def _spread(need: float, room: float, behind: float, now: Situation) -> float:
    """Return for how long (s) tuples are late when all hosts share the work and what waits."""
    allowed = now.goals.bound * room
    if need >= room:
        until = (allowed - behind) / max(need - room, 1e-9)
        return float(np.clip(now.goals.horizon - max(until, 0.0), 0.0, now.goals.horizon))
    return float(np.clip((behind - allowed) / (room - need), 0.0, now.goals.horizon))


def _paused(now: Situation, moves: Mapping[str, str]) -> float:
    """Return how many weighted tuples come later than the bound because their operator moves."""
    over = max(0.0, now.goals.pause - now.goals.bound)
    if not over:
        return 0.0
    row = {name: k for k, name in enumerate(now.seen.operators)}
    return float(sum(now.passing[row[name]] for name in moves)) * over
