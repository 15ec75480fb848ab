"""``rate-limit``: how many rows a batch may take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from penstock.advice.kinds.common import on_driver, rounded, rows_per_second
from penstock.advice.measure import harm_of
from penstock.advice.replay import replay
from penstock.advice.values import UNKNOWN, Aims, Deployment, Job, Proposal
from penstock.units import human

STEPS = 14
NEAR = 0.7
"""On a driver whose queries all keep this share of the bound, no limit is looked for."""

PAYS = 0.98
"""A limit must bring the harm below this share of what it is without one."""

ALIKE = 1.02
"""Limits whose harm is within this factor of the least are as good; the largest of them is taken."""

ROOM = 2.0
"""Of the largest batch that comes without a limit, a raised one leaves room for so many times the rows."""


def rate_limit(deployment: Deployment, aims: Aims) -> Iterator[Proposal]:
    """Propose a limit for queries whose largest batches keep rows waiting, or a larger one where rows wait for theirs.

    In a burst each batch takes all that came during the one before, so that batches grow, and a row waits for the rest
    of one large batch and all of the next. Batches of a limited size deliver the first rows of a backlog early; too
    small ones pay the overhead too often. The limit is searched by replay over a grid between the rows that keep up
    with the mean rate and the largest batch. A limited batch also waits for the trigger, so that each limit is tried
    with the trigger as it is and without one.
    """
    now = replay(deployment)
    late = {
        job.driver
        for name, job in deployment.jobs.items()
        if aims.latency is None or now[name].latency.worst > NEAR * aims.latency
    }
    for name, job in deployment.jobs.items():
        if job.rate <= 0 or job.joint or job.scheduled or job.driver not in late:
            continue
        if not job.limiter or (np.isinf(job.limit) and _only_larger(job)):
            continue
        here = on_driver(deployment, job.driver)
        found = best_limit(here, name, aims)
        if found is None:
            continue
        limit, trigger, largest = found
        changes: dict[str, float] = {"limit": limit, **({} if trigger == job.trigger else {"trigger": trigger})}
        also: dict[str, float | str] = {} if trigger == job.trigger else {"trigger": trigger}
        apart = by_source(job, limit)
        first, *others = apart.items()
        yield Proposal(
            kind="rate-limit",
            query=name,
            setting=job.limiter,
            old=None if np.isinf(job.limit) else by_source(job, job.limit)[first[0]],
            new=first[1],
            unit="rows",
            why=_why(job, limit, trigger, largest),
            after=deployment.having(name, **changes),
            about=(name,),
            also={**{f"{job.limiter} of {other}": rows for other, rows in others}, **also},
            remark=_remark(job, trigger, apart),
        )


def _only_larger(job: Job) -> bool:
    """Whether only a larger limit can be judged: of unknown costs the replay takes the most, with which small batches
    look free; and where rows leave during a batch, small ones gain nothing.
    """
    return job.progressive or not job.certain


def _why(job: Job, limit: float, trigger: float, largest: float) -> str:
    bear = limit / max(trigger, job.seconds(limit))
    if limit > job.limit:
        held = job.limit / max(job.trigger, job.seconds(job.limit))
        return (
            f"batches of {job.limit:,.0f} rows handle {rows_per_second(held)}, and what comes beyond that piles up; "
            f"those of {limit:,.0f} rows handle {rows_per_second(bear)}{'' if job.certain else ' or more'}, and "
            f"without a limit its largest batch has {largest:,.0f} rows and takes {human(job.seconds(largest))}"
        )
    most = min(largest, job.limit)
    return (
        f"its largest batch has {most:,.0f} rows and takes {human(job.seconds(most))}, and rows wait that long twice: "
        f"for the batch before theirs and for their own; batches of {limit:,.0f} rows take {human(job.seconds(limit))} "
        f"and still handle {rows_per_second(bear)}, {bear / job.rate:.2g} times the mean rate"
    )


def by_source(job: Job, limit: float) -> dict[str, float]:
    """Return the limit of each source with which a batch has at most so many rows, as they come: Spark limits each."""
    there = [(name, share) for name, share in zip(job.facts.reads, job.facts.shares, strict=False) if share > 0]
    if len(there) < 2:
        return {job.name: limit}
    # Sources of one description are one reader, used twice.
    return {name: rounded(max(share for other, share in there if other == name) * limit) for name, _ in there}


def _remark(job: Job, trigger: float, apart: Mapping[str, float]) -> str:
    parts = []
    if len(job.facts.shares) > 1 and job.name not in apart:
        each = ", ".join(f"{rows:,.0f} for {name}" for name, rows in apart.items())
        parts.append(f"each source has this option for itself: {each}")
    if job.limiter == UNKNOWN:
        parts.append("set the source's option for it, if it has one")
    elif job.limiter.endswith("maxFilesPerTrigger"):
        parts.append("the source counts files, which the logs do not show: set as many files as hold so many rows")
    elif job.limiter == "rowsPerSecond":
        parts.append("the source has no such limit")
    if trigger != job.trigger:
        parts.append(f"needs the trigger at {human(trigger) if trigger else 'none'}")
    return "; ".join(parts)


def best_limit(deployment: Deployment, name: str, aims: Aims) -> tuple[float, float, float] | None:
    """Return the best limit of a query, the trigger with it, and the rows of its largest batch without any; None if no
    limit does less harm than the settings as they are.

    Parameters
    ----------
    deployment
        One driver.
    """
    job = deployment.jobs[name]
    free = replay(deployment.having(name, limit=float("inf")))[name]
    largest = float(free.rows.max(initial=0.0))
    now = harm_of(deployment, aims)
    best: list[tuple[float, float, float]] = []
    for trigger in dict.fromkeys((job.trigger, 0.0) if job.certain else (job.trigger,)):
        # What a shorter trigger gains by itself is not the limit's.
        unlimited = now if trigger == job.trigger else harm_of(deployment.having(name, trigger=trigger), aims)
        for limit in limits(job, trigger, largest):
            changed = deployment.having(name, limit=limit, trigger=trigger)
            harm = harm_of(changed, aims)
            if harm < PAYS * min(unlimited, now):
                best.append((harm, limit, trigger))
    if not best:
        return None
    least = min(harm for harm, _, _ in best)
    # The settings that are changed least, then the largest limit.
    good = [row for row in best if row[0] <= ALIKE * least]
    _, limit, trigger = max(good, key=lambda row: (row[2] == job.trigger, row[1]))
    return limit, trigger, largest


def limits(job: Job, trigger: float, largest: float) -> list[float]:
    """Return limits to try, from what keeps up with the mean rate up to the largest batch that comes without one; in
    place of a limit that there is also one that leaves room beyond.
    """
    raised, spare = rounded(ROOM * largest), 1 - job.cost * job.rate
    # Where no limit is enough the replay never catches up, and its largest batch is only how far it came. Of unknown
    # costs it takes the most, so that a larger limit may bear the rate all the same.
    bears = not job.certain or raised >= job.rate * max(trigger, job.seconds(raised))
    found = {raised} if bears and not np.isinf(job.limit) else set()
    if spare > 0 and largest >= 2:
        # A query keeps up if its rate's rows of a batch's time are no more than the limit.
        low = max(math.ceil(1.1 * job.rate * max(trigger, job.overhead / spare)), 1.0)
        grid = np.geomspace(low, largest, STEPS) if low < largest else ()
        found |= {limit for limit in map(rounded, grid) if low <= limit < largest}
    return sorted(limit for limit in found if limit > job.limit or (limit < job.limit and not _only_larger(job)))
