"""The policy `drain`: a host that is to become empty gives away what it runs, and then leaves. Always active."""

from __future__ import annotations

import numpy as np

from penstock.control.policies.base import Proposal, counted, evacuated
from penstock.control.situation import Situation
from penstock.steering import Plan


def drain(now: Situation, rng: np.random.Generator) -> Proposal | None:
    """Return where operators of draining hosts go, or which of these hosts leave because nothing runs there."""
    there = sorted(host for host in now.draining if host in now.seen.cluster.hosts)
    used = set(now.seen.placement.values())
    empty = [host for host in there if host not in used]
    if empty and not now.seen.moving:
        left = "is empty and leaves" if len(empty) == 1 else "are empty and leave"
        return Proposal(policy="drain", plan=Plan(retire=tuple(empty)), why=f"{', '.join(empty)} {left}", asked=True)
    moves = evacuated(now, there) if there else {}
    if not moves:
        return None
    verb = "is" if len(there) == 1 else "are"
    return Proposal(
        policy="drain",
        plan=Plan(placement=moves),
        why=f"{', '.join(there)} {verb} to become empty: {counted(len(moves), 'operator')} to leave",
        expected={"worst": now.worst(now.where(moves))} if now.ready else {},
        asked=True,
    )
