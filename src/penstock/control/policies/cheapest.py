"""The policy `cheapest`: defer, shed, move or add a host, whatever costs least; all are priced in one currency."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.control.policies.base import Proposal, evacuated
from penstock.control.policies.joining import joined, moved, spread
from penstock.control.policies.pricing import hosted, price
from penstock.control.policies.provision import Provision
from penstock.control.policies.rebalance import Rebalance
from penstock.control.policies.shed import Shed
from penstock.control.situation import Situation
from penstock.steering import Plan


@attrs.frozen(kw_only=True)
class Cheapest:
    """Ask the other policies what they would do, and take what costs least over the horizon.

    The price of a course is the value of the tuples that it loses, of those that come later than the bound, the moves,
    and the hosts for as long as the horizon, and what those will cost that wait when it ends (`pricing`). A host that
    joins is priced with all that would move once it is there.

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
        defer = price(there, Plan(), self.shed)
        courses: dict[str, tuple[float, Proposal]] = {}
        for name, policy in (("shed", self.shed), ("move", self.rebalance), ("retire", self.provision)):
            found = policy(now, rng)
            if found is not None:
                courses["add" if found.plan.add else name] = (self._price(there, found, rng), found)
        if not courses:
            return None
        least = min(courses, key=lambda name: (courses[name][0], name))
        cost, found = courses[least]
        if cost >= defer - self.least * max(0.0, defer - hosted(now)) - 1e-9:
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
            return price(now, found.plan, self.shed, found.drain)
        with_them = joined(now, found.plan.add)
        return price(with_them, Plan(placement=spread(with_them, self.rebalance, rng)), self.shed)
