"""The policy `replicate`: what ran on a dead host is started on others, and survivors shed on copies if they must."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from penstock.cluster import base_name
from penstock.control.policies.base import Proposal, counted, evacuated
from penstock.control.policies.copies import dropping, relieved, replicated
from penstock.control.situation import Situation
from penstock.steering import Plan

LEAST = 0.05
"""Changes of what copies keep below this are not worth a decision, unless nothing is to be dropped any more: it costs
nothing that they drop a little more."""

WAITED = 0.6
"""Share of the latency bound for which something must have waited before copies begin to drop: one that has dropped can
no longer take over."""


@attrs.frozen(kw_only=True)
class Replicate:
    """Fail over, and shed on replicas (Xiao et al., section 4).

    An operator with a copy that is alive loses nothing meanwhile; a single one goes on from its checkpoint where the
    engine has one. Where copies overload the survivors for so long that latency is at stake, some of them drop input;
    one of each operator never does.
    """

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return where the operators of dead hosts go, or what copies drop."""
        dead = [host for host in sorted(now.seen.down) if host in set(now.seen.placement.values())]
        if dead and (moves := evacuated(now, dead)):
            alive = {base_name(name) for name, host in now.seen.placement.items() if host not in now.seen.down}
            single = sorted(name for name in moves if base_name(name) not in alive)
            rest = f"; {', '.join(single[:5])} had no other copy" if single else ""
            worst = {"worst": now.worst(now.where(moves))} if now.ready else {}
            return Proposal(
                policy="replicate",
                plan=Plan(placement=moves),
                why=f"{', '.join(dead)} {'is' if len(dead) == 1 else 'are'} down: {counted(len(moves), 'operator')} to "
                f"start where most room is{rest}",
                expected={**worst, "single": float(len(single))},
            )
        found = self._shed(now) if replicated(now) and now.ready else None
        return _stuck(now, dead) if found is None and dead else found

    def _shed(self, now: Situation) -> Proposal | None:
        fresh = now.now - now.acted.get("replicate", -np.inf) < now.goals.cool_down
        if dropping(now) and fresh:
            return None  # a change begins copies anew, or lets others lead
        shares = now.host_load(now.where())[:, -1] / now.usable
        # While copies and hosts are started the others are short of time, and are no longer when these run.
        waited = 1.0 if fresh or now.seen.moving or now.seen.down else WAITED
        needed = shares.max(initial=0.0) > 1 and _behind(now) >= waited * now.goals.bound
        if not needed and not dropping(now):
            return None
        if (plan := relieved(now)) is None:
            return None  # copies alone cannot make room: `shed` drops for all of them
        keep = plan.streams(now.network, now.seen.placement)
        changes = (abs(now.seen.keep.get(n, 1.0) - keep.get(n, 1.0)) for n in {*keep, *now.seen.keep})
        change = max(changes, default=0.0)
        # The last drops are lifted however small they are: a copy that drops cannot take over.
        if change < LEAST and (keep or not change):
            return None
        return Proposal(
            policy="replicate",
            plan=Plan(keep=keep),
            why=f"copies need {shares.max():.2f} times what a host can work off: "
            + (
                f"{', '.join(sorted(plan.keep))} drop, and each operator has a copy that drops nothing"
                if plan.keep
                else "none drops any more"
            ),
            expected={"load": max(plan.load.values(), default=0.0), "score": now.score()},
        )


def _stuck(now: Situation, dead: Sequence[str]) -> Proposal | None:
    """Say which operators stand still on dead hosts, and why nobody starts them elsewhere."""
    alive = {base_name(name) for name, host in now.seen.placement.items() if host not in now.seen.down}
    still = [name for name, host in sorted(now.seen.placement.items()) if host in dead and base_name(name) not in alive]
    still = [name for name in still if name not in now.seen.moving]
    if not still or now.seen.silent - now.seen.down:
        return None  # a host that does not answer yet may take them
    pinned = [name for name in still if base_name(name) in now.network.pins]
    lacking = "no other host is up" if set(now.hosts) <= now.draining else "no other host has memory for it"
    because = (["it is pinned"] if pinned else []) + ([lacking] if len(pinned) < len(still) else [])
    many = f" and {len(still) - 5} more" if len(still) > 5 else ""
    return Proposal(
        policy="replicate",
        plan=Plan(),
        why=f"{', '.join(dead)} {'is' if len(dead) == 1 else 'are'} down, and {', '.join(still[:5])}{many} "
        f"{'stands' if len(still) == 1 else 'stand'} still: {', or '.join(because)}",
        hard=False,
    )


def _behind(now: Situation) -> float:
    """Return how long something has waited (s), where that is seen, or is going to."""
    if now.seen.behind is not None:
        return float(np.nan_to_num(now.seen.behind).max(initial=0.0))
    return float((now.host_backlog(now.where()) / now.usable).max(initial=0.0))
