"""What a deployment is worth: latencies over draws, misses of the bound, load correlation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from penstock.advice.draw import Draw
from penstock.advice.replay import replay
from penstock.advice.rows import Replayed, Rows
from penstock.advice.values import Aims, Deployment, Interval, Latency
from penstock.arrays import Array

LOW_HIGH = (0.05, 0.5, 0.95)
"""Quantiles that make an interval."""

BESIDE = 0.01
"""Where a bound is kept, a second of latency below it counts as so much of a second beyond it."""


def interval(values: Sequence[float]) -> Interval:
    """Return quantiles 5, 50 and 95 % of values.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0])
    (1.1, 2.0, 2.9)
    """
    low, middle, high = (float(value) for value in np.quantile(np.asarray(values), LOW_HIGH))
    return low, middle, high


def latency(rows: Sequence[Rows]) -> Latency:
    """Return the latency over draws, one entry of `rows` each."""
    return Latency(
        p50=interval([each.quantile(0.5) for each in rows]),
        p99=interval([each.quantile(0.99) for each in rows]),
        worst=interval([each.worst for each in rows]),
    )


def harm(deployment: Deployment, replayed: Mapping[str, Replayed], aims: Aims) -> float:
    """Return the weighted seconds by which queries miss the bound, plus a little for latency below it."""
    worst = {name: rows.latency.worst for name, rows in replayed.items()}
    return sum(deployment.jobs[name].weight * (aims.misses(wait) + BESIDE * wait) for name, wait in worst.items())


def harm_of(deployment: Deployment, aims: Aims) -> float:
    """Return `harm` with the fitted costs."""
    return harm(deployment, replay(deployment), aims)


def mixed(after: Deployment, least: Deployment | None, draw: Draw) -> Deployment:
    """Return a change's outcome between the least and all of its effect, as the draw has it."""
    if least is None:
        return after
    jobs = {}
    for name, job in after.jobs.items():
        other = least.jobs[name]
        jobs[name] = attrs.evolve(
            job,
            overhead=other.overhead + draw.share * (job.overhead - other.overhead),
            cost=other.cost + draw.share * (job.cost - other.cost),
        )
    return attrs.evolve(after, jobs=jobs)


def correlation(deployment: Deployment) -> Array:
    """Return the load correlation between queries over the recorded time, shape ``(jobs, jobs)``.

    Population coefficients; 0 with a series that does not change.
    """
    if not deployment.jobs:
        return np.zeros((0, 0))
    load = np.array([job.load()[: deployment.recorded] for job in deployment.jobs.values()])
    load = load.reshape(len(deployment.jobs), -1)
    rest = load - load.mean(axis=1, keepdims=True)
    size = np.sqrt((rest**2).sum(axis=1))
    # What is left of a constant series is rounding.
    flat = size <= 1e-9 * np.sqrt((load**2).sum(axis=1)) + 1e-300
    scale = np.where(flat, np.inf, size)
    found = (rest @ rest.T) / scale[:, None] / scale[None, :]
    np.fill_diagonal(found, 1.0)
    return np.asarray(np.clip(found, -1.0, 1.0))


def busy(deployment: Deployment, replayed: Mapping[str, Replayed]) -> dict[str, float]:
    """Return the share of the time in which each query runs a batch."""
    span = deployment.period * deployment.periods
    return {
        name: float((rows.end - rows.start).sum() / max(span, float(rows.end.max(initial=0.0)), 1e-9))
        for name, rows in replayed.items()
    }


def crowded(deployment: Deployment, replayed: Mapping[str, Replayed], driver: str) -> float:
    """Return the share of a driver's busy time in which its batches want more cores than it has."""
    names = deployment.on(driver)
    times = np.concatenate([np.concatenate([replayed[name].start, replayed[name].end]) for name in names])
    if not times.size:
        return 0.0
    change = np.concatenate([sign * deployment.jobs[n].wanted(replayed[n].rows) for n in names for sign in (1, -1)])
    order = np.argsort(times, kind="stable")
    wanted, lasts = np.cumsum(change[order])[:-1], np.diff(times[order])
    over = wanted > deployment.drivers[driver] + 1e-9
    return float(lasts[over].sum() / max(lasts[wanted > 1e-9].sum(), 1e-12))
