"""Whether a proposal pays: the recorded rates replayed before and after it, under every possible truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from penstock.advice.draw import Draw
from penstock.advice.measure import harm, interval, latency, mixed
from penstock.advice.replay import replay
from penstock.advice.rows import Replayed, Rows
from penstock.advice.values import Advice, Aims, Deployment, Proposal

WORTH = 0.05
"""A gain below this share of the harm is not worth a change."""


def judge(
    deployment: Deployment,
    proposal: Proposal,
    aims: Aims,
    truths: Sequence[Draw],
    now: Sequence[dict[str, Replayed]],
) -> Advice | None:
    """Return the advice with its effect, or None if it does not pay.

    Parameters
    ----------
    now
        The deployment replayed under each of the truths.
    """
    becomes = proposal.becomes or proposal.about
    gains, before, after, harms = [], [], [], []
    touched = _touched(deployment, proposal.after)
    for truth, was in zip(truths, now, strict=True):
        changed = mixed(proposal.after, proposal.least, truth)
        # Drivers do not touch each other: the others are as they were.
        jobs = {name: job for name, job in changed.jobs.items() if job.driver in touched}
        cores = {name: count for name, count in changed.drivers.items() if name in touched}
        fresh = replay(attrs.evolve(changed, jobs=jobs, drivers=cores), truth)
        then = {name: fresh[name] if name in fresh else was[name] for name in changed.jobs}
        # A query that is not there afterwards is not compared.
        compared = {name: rows for name, rows in was.items() if name in then or name in proposal.about}
        harms.append(harm(deployment, compared, aims))
        gains.append(harms[-1] - harm(changed, then, aims) - proposal.costs)
        before.append(_joined(was, proposal.about))
        after.append(_joined(then, becomes))
    gain = interval(gains)
    helps = gain[0] > 0 and gain[1] >= WORTH * float(np.median(harms)) and _missed(now, aims)
    if not helps and not (proposal.saves > 0 and _bearable(before, after, aims)):
        return None
    return Advice(proposal=proposal, before=latency(before), after=latency(after), gain=gain)


def _touched(before: Deployment, after: Deployment) -> set[str]:
    """Return the drivers whose queries or cores differ."""
    found = {name for name in after.drivers if after.drivers[name] != before.drivers.get(name)}
    for name in {*before.jobs, *after.jobs}:
        old, new = before.jobs.get(name), after.jobs.get(name)
        if old is not new:
            found |= {job.driver for job in (old, new) if job is not None}
    return found


def _missed(now: Sequence[dict[str, Replayed]], aims: Aims) -> bool:
    """Whether a query misses the bound in more than one draw of twenty; without a bound, always."""
    worst = [max(rows.latency.worst for rows in each.values()) for each in now]
    return aims.latency is None or float(np.quantile(worst, 0.95)) > aims.latency


def _joined(replayed: dict[str, Replayed], names: Iterable[str]) -> Rows:
    return Rows.joined(replayed[name].latency for name in names)


def _bearable(before: Sequence[Rows], after: Sequence[Rows], aims: Aims) -> bool:
    """Whether the rows wait about as long as before, or within the bound, in 95 % of the draws."""
    bounds = [1.1 * rows.worst if aims.latency is None else max(aims.latency, rows.worst) for rows in before]
    return float(np.mean([rows.worst <= bound for rows, bound in zip(after, bounds, strict=True)])) >= 0.95
