"""``trigger``: how often a batch begins."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.advice.kinds.common import on_driver
from penstock.advice.measure import busy, harm_of
from penstock.advice.replay import replay
from penstock.advice.values import Aims, Deployment, Job, Proposal
from penstock.units import human

INTERVALS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Intervals to choose from (s); 0: none."""

FULL = 0.8
"""Share of the interval that a batch at the mean rate may take."""

KEPT = 0.95
"""A shorter trigger should keep the latency within this share of the bound, for the noise of its batches."""

SPARE = 0.8
"""A longer trigger must keep the latency within this share of the bound."""


def trigger(deployment: Deployment, aims: Aims) -> Iterator[Proposal]:
    """Propose a shorter trigger where rows wait for it too long, or a longer one where the bound leaves time.

    Under a trigger T a row waits up to T and then the batch, ``overhead + cost · rate · T``; the overhead takes the
    share overhead / T of the time. So the longest trigger that keeps the bound is the cheapest.
    """
    for job in deployment.jobs.values():
        if job.rate <= 0 or not job.advisable:
            continue
        here = on_driver(deployment, job.driver)
        shorter = _shorter(here, job, aims)
        if shorter is not None:
            share = [busy(each, replay(each))[job.name] for each in (here, here.having(job.name, trigger=shorter))]
            yield _proposal(deployment, job, shorter, job.cores * job.tasks * (share[0] - share[1]))
            continue
        longer = _longer(here, job, aims)
        if longer is not None:
            yield _proposal(deployment, job, *longer)


def _fits(job: Job, interval: float) -> bool:
    return job.seconds(job.rate * interval) <= FULL * interval


def _shorter(here: Deployment, job: Job, aims: Aims) -> float | None:
    """Return the longest interval that keeps the bound with time to spare; where none does, or there is no bound, the
    longest that does about as little harm as any.
    """
    shorter = [interval for interval in INTERVALS if 0 < interval < job.trigger and _fits(job, interval)]
    if aims.latency is not None:
        if _keeps(here, aims.latency):
            return None
        kept = [i for i in shorter if _keeps(here.having(job.name, trigger=i), KEPT * aims.latency)]
        if kept:
            return max(kept)
    tried = {interval: harm_of(here.having(job.name, trigger=interval), aims) for interval in shorter}
    if not tried or min(tried.values()) >= 0.95 * harm_of(here, aims):
        return None
    least = min(tried.values())
    return max(interval for interval, harm in tried.items() if harm <= 1.1 * least)


def _keeps(here: Deployment, bound: float) -> bool:
    return all(rows.latency.worst <= bound for rows in replay(here).values())


def _longer(here: Deployment, job: Job, aims: Aims) -> tuple[float, float] | None:
    """Return the longest interval that keeps the bound with time to spare, and the cores that it frees."""
    if aims.latency is None:
        return None
    if not _keeps(here, aims.latency):
        return None
    before = busy(here, replay(here))[job.name]
    for interval in reversed(INTERVALS):
        if interval <= max(job.trigger, 0.0) or not _fits(job, interval):
            continue
        changed = replay(here.having(job.name, trigger=interval))
        if all(rows.latency.worst <= SPARE * aims.latency for rows in changed.values()):
            left = before - busy(here, changed)[job.name]
            saved = job.cores * job.tasks * left
            return (interval, saved) if left >= 0.05 * before and saved > 0.01 else None
    return None


def _proposal(deployment: Deployment, job: Job, interval: float, saved: float) -> Proposal:
    length = job.seconds(job.rate * interval)
    old = f"every {human(job.trigger)}" if job.trigger else "without a trigger"
    if interval > job.trigger:
        why = (
            f"its batches run {old} and pay {human(job.overhead)} each time; every {human(interval)} they take "
            f"{human(length)} at the mean rate, which frees {saved:.2g} cores and keeps the bound"
        )
    else:
        why = (
            f"a row waits up to {human(job.trigger)} for the trigger, though a batch of the rows of "
            f"{human(interval)} takes only {human(length)}; the added overhead takes {-saved:.2g} of the driver's cores"
        )
    return Proposal(
        kind="trigger",
        query=job.name,
        setting="trigger",
        old=job.trigger,
        new=interval,
        unit="s",
        why=why,
        after=deployment.having(job.name, trigger=interval),
        about=(job.name,),
        saves=saved,
    )
