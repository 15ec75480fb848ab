"""What copies of operators drop so that hosts have room, while one copy of each drops nothing."""

from __future__ import annotations

import numpy as np

from penstock.cluster import Placement, with_copies
from penstock.control.flow import Floats
from penstock.control.situation import Situation
from penstock.errors import Infeasible
from penstock.shedding.program import build_program
from penstock.shedding.replica import ReplicaPlan, replica_plan

DRAIN, LEAST = 0.5, 0.5
"""Share of the latency bound within which copies drop enough for what waits to be worked off, and share of what a host
can do that is left for what comes, at least."""


def dropping(now: Situation) -> frozenset[str]:
    """Return the streams in front of copies that drop something now."""
    return frozenset(name for name in now.seen.keep if "#" in name)


def replicated(now: Situation) -> bool:
    """Return whether anything that runs has copies."""
    return bool(with_copies(now.seen.operators))


def relieved(now: Situation, rates: Floats | None = None) -> ReplicaPlan | None:
    """Return what copies drop under rates, array (sources,), or the last ones; None: copies alone cannot make room.

    What waits is worked off as well, where that is possible: what a copy drops costs nothing.
    """
    where = now.where()
    if (where < 0).any():
        return None
    network, placed = now.priced(), Placement(now.seen.placement)
    rates = now.rates[:, -1] if rates is None else rates
    within = DRAIN * now.goals.bound
    waiting = now.usable * np.clip(1 - now.host_backlog(where) / now.usable / within, LEAST, 1.0)
    for room in (waiting, now.usable):
        cluster = now.cluster(dict(zip(now.hosts, room.tolist(), strict=True)))
        try:
            return replica_plan(build_program(network, cluster, placed), cluster, placed, rates)
        except Infeasible:
            continue
    return None
