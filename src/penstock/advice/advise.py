"""Judging proposals: the recorded rates replayed before and after each, over draws of what the fits leave open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np

from penstock.advice.kinds import KINDS
from penstock.advice.measure import busy, correlation, grown, harm, interval, latency, mixed
from penstock.advice.replay import Draw, Replayed, Rows, drawn, replay
from penstock.advice.values import Advice, Aims, Deployment, Proposal, Report

DRAWS = 40
"""Possible truths that every proposal is judged by."""

WORTH = 0.05
"""A gain below this share of the harm is not worth a change."""

FACTORS = (1.0, 2.0, 5.0)
"""By which all rates are multiplied to show what growth does."""

NOTES = (
    "concurrent batches share the driver's cores evenly; memory that they take from each other is left out",
    "rates are what the logs show: a query that never waited shows what it managed, not what arrived",
)


def advise(deployment: Deployment, aims: Aims, rng: np.random.Generator, draws: int = DRAWS) -> Report:
    """Return advice on a deployment, the best first.

    Parameters
    ----------
    deployment
        With the rates to be ready for, bursts included.
    aims
        The latency bound, if there is one.
    rng
        Draws overheads, costs and noise within the errors of the fits; all proposals are judged by the same draws.
    draws
        How many.

    Returns
    -------
    Report
        Advice is in it only if it helps in 95 % of the draws, or frees cores and keeps every query within the bound
        (without one: about as it was).
    """
    truths = [drawn(deployment.jobs, rng) for _ in range(draws)]
    now = [replay(deployment, truth) for truth in truths]
    found = []
    for kind in KINDS.values():
        for proposal in kind(deployment, aims):
            judged = judge(deployment, proposal, aims, truths, now)
            if judged is not None:
                found.append(judged)
    order = list(KINDS)
    found.sort(key=lambda a: (-round(a.gain[1], 6), -a.proposal.saves, order.index(a.proposal.kind), a.proposal.query))
    return Report(
        deployment=deployment,
        advice=tuple(found),
        latency={name: latency([each[name].latency for each in now]) for name in deployment.jobs},
        growth={factor: _grown(deployment, factor) for factor in FACTORS},
        correlation=correlation(deployment),
        aims=aims,
        notes=(*NOTES, *_unsure(deployment)),
    )


def _unsure(deployment: Deployment) -> Iterator[str]:
    names = [name for name, job in deployment.jobs.items() if not job.certain]
    if names:
        yield (
            f"the logs do not show overhead and cost of {', '.join(names)}: the whole batch counts as cost, "
            "and no limit or trigger is advised"
        )


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


def _grown(deployment: Deployment, factor: float) -> dict[str, dict[str, float]]:
    larger = grown(deployment, factor)
    replayed = replay(larger)
    share = busy(larger, replayed)
    return {
        name: {"p99": rows.latency.quantile(0.99), "worst": rows.latency.worst, "busy": share[name]}
        for name, rows in replayed.items()
    }
