"""Decisions as they are written down: what was seen, decided and why, what was expected, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.control.line import Decided, Line, Move, Seen
from penstock.control.policies.base import Proposal
from penstock.control.situation import Situation
from penstock.steering import Applied, Observation, Plan, Refused

MANY = 200
"""Operators or hosts beyond which a line holds only the busiest hosts."""


def seen_of(seen: Observation) -> Seen:
    """Return an observation in short."""
    worst = [row.worst for row in seen.latency.values() if row.worst is not None]
    p99 = [row.p99 for row in seen.latency.values() if row.p99 is not None]
    busy = {name: row.busy for name, row in seen.hosts.items()}
    if len(busy) > MANY:
        busy = dict(sorted(busy.items(), key=lambda item: -(item[1] or 0.0))[:10])
    return {
        "rates": {
            name: None if name in seen.unsure else count / seen.period
            for name, count in zip(seen.sources, seen.entered.tolist(), strict=True)
        },
        "busy": busy,
        "waiting": None if seen.waiting is None else float(np.nansum(seen.waiting)),
        "behind": None if seen.behind is None else float(np.nan_to_num(seen.behind).max(initial=0.0)),
        "worst": max(worst, default=None),
        "p99": max(p99, default=None),
        "delivered": sum(row.count for row in seen.latency.values()),
        "down": sorted(seen.down),
        "moving": sorted(seen.moving),
    }


def decided_of(plan: Plan, placement: Mapping[str, str]) -> Decided:
    """Return what a plan changes; moves name where operators were."""
    fresh = plan.network is not None
    moves: list[Move] = [
        {"operator": name, "from": placement[name], "to": host}
        for name, host in sorted(plan.placement.items())
        if name in placement
    ]
    document: Decided = {"moves": moves} if moves else {}
    if plan.keep is not None:
        document["keep"] = dict(sorted(plan.keep.items()))
    if plan.tables is not None:
        document["tables"] = {host: table["id"] for host, table in sorted(plan.tables.items())}
    if plan.limits:
        document["limits"] = dict(sorted(plan.limits.items()))
    if plan.triggers:
        document["triggers"] = dict(sorted(plan.triggers.items()))
    if fresh:
        document["attach"] = {n: h for n, h in sorted(plan.placement.items()) if n not in placement}
    if plan.add:
        document["add"] = [host.name for host in plan.add]
    if plan.retire:
        document["retire"] = list(plan.retire)
    return document


def decision(now: Situation, found: Proposal, applied: Applied | None, wrong: tuple[str, ...]) -> Line:
    """Return the line of a decision; ``came`` is still open.

    Parameters
    ----------
    applied
        What the engine made of it; None: it was not asked (a dry run, or a plan that may not be applied).
    wrong
        What the verifier found.
    """
    refused: tuple[Refused, ...] = () if applied is None else applied.refused
    return {
        "time": now.now,
        "policy": found.policy,
        "seen": seen_of(now.seen),
        "decided": decided_of(found.plan, now.seen.placement),
        "acted": applied is not None and bool(applied.begun),
        "refused": [*wrong, *(f"{each.change.kind} {each.change.name}: {each.why}".strip() for each in refused)],
        "why": found.why,
        "expected": {name: float(value) for name, value in found.expected.items()},
        "came": None,
    }
