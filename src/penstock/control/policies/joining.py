"""What hosts are good for that join: where operators would go if they were there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
import numpy as np

from penstock.cluster import Host
from penstock.control.policies.base import evacuated
from penstock.control.policies.rebalance import Rebalance
from penstock.control.situation import Situation


def joined(now: Situation, hosts: Iterable[Host]) -> Situation:
    """Return this moment with some hosts more, which are empty, and work in batches where others do."""
    hosts = list(hosts)
    cluster = now.seen.cluster.having([*now.seen.cluster.hosts.values(), *hosts])
    fresh = dict.fromkeys((host.name for host in hosts if now.seen.triggers), cluster.spark.trigger)
    return attrs.evolve(now, seen=attrs.evolve(now.seen, cluster=cluster, triggers={**now.seen.triggers, **fresh}))


def spread(now: Situation, rebalance: Rebalance, rng: np.random.Generator) -> dict[str, str]:
    """Return all moves of a horizon: off dead hosts, then what `rebalance` would move, as often as it may decide."""
    found, goals = evacuated(now, now.seen.down), now.goals
    then = moved(now, found)
    for _ in range(max(1, round(goals.horizon / max(goals.cool_down, now.seen.period)))):
        moves = rebalance.moves(then, rng)
        if not moves:
            break
        found |= moves
        then = moved(then, moves)
    return found


def moved(now: Situation, moves: Mapping[str, str]) -> Situation:
    """Return this moment with some operators elsewhere, which rest there."""
    if not moves:
        return now
    seen = attrs.evolve(now.seen, placement={**now.seen.placement, **moves})
    return attrs.evolve(now, seen=seen, moved={**now.moved, **dict.fromkeys(moves, now.now)})
