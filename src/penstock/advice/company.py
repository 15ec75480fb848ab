"""How long a query's batches would have taken without the company of other queries, and how many cores they use."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.arrays import Array, Bools, Ints
from penstock.inspection import Query, fit_batches

USUAL = 0.5
"""A batch waits for this share of the time in which others hold the cores, unless the log tells otherwise."""

MOST = 5000
"""Batches that this share is fitted to at most."""


@attrs.frozen(eq=False)
class Alone:
    """A query without company.

    Attributes
    ----------
    seconds
        Of each of its batches, as it would have been alone.
    cores, tasks
        As of `penstock.advice.values.Job`.
    """

    seconds: Array
    cores: float
    tasks: float


def alone(queries: Mapping[str, Query], cores: float) -> dict[str, Alone]:
    """Return what each query of a driver would be without the others.

    Tasks wait for those of other queries where the driver has no core for them; planning and logs go on meanwhile. How
    long a query waits while others hold the cores is fitted together with its overhead and its cost, since some batches
    come first and others wait for everything.
    """
    times = np.unique(np.concatenate([np.concatenate([q.batches.start, q.batches.end]) for q in queries.values()]))
    work = _work(queries, times, cores)
    used = {name: _used(query, work[name], cores) for name, query in queries.items()}
    everything = sum((_steps(times, queries[name], used[name]) for name in queries), np.zeros(times.size))
    # A query's own steps are made again: of all queries at once they would fill the memory.
    return {
        name: _alone(query, work[name], everything - _steps(times, query, used[name]), times, cores)
        for name, query in queries.items()
    }


def _work(queries: Mapping[str, Query], times: Array, cores: float) -> dict[str, Array]:
    """Return the seconds of one core that the tasks of each batch are; 0 where no tasks are told.

    Tasks have a core each, so that their seconds are the same in company. If all of a driver's are more than its cores
    can do in the time in which batches run, tasks shared the cores, and took as much longer.
    """
    told = {name: np.where(_told(query), query.batches.task_seconds, 0.0) for name, query in queries.items()}
    running = sum(
        (_steps(times, query, np.ones(len(query.batches))) for query in queries.values()), np.zeros(times.size)
    )
    room = cores * float(np.diff(times)[running[:-1] > 0.5].sum())
    shared = max(sum(float(seconds.sum()) for seconds in told.values()) / max(room, 1e-9), 1.0)
    return {name: seconds / shared for name, seconds in told.items()}


def _used(query: Query, work: Array, cores: float) -> Array:
    """Return the cores that each batch kept busy: the work of its tasks over its seconds; all where none are told."""
    share = work / np.maximum(query.batches.duration, 1e-9)
    return np.where(_told(query), np.clip(share, 0.0, cores), cores)


def _told(query: Query) -> Bools:
    """Return of which batches the log has tasks."""
    return np.isfinite(query.batches.task_seconds) & (query.batches.tasks > 0)


def _steps(times: Array, query: Query, used: Array) -> Array:
    """Return the cores that a query keeps busy from each time on."""
    change = np.zeros(times.size)
    np.add.at(change, _place(times, query.batches.start), used)
    np.add.at(change, _place(times, query.batches.end), -used)
    return np.cumsum(change)


def _place(times: Array, at: Array) -> Ints:
    return np.searchsorted(times, at)


def _alone(query: Query, work: Array, others: Array, times: Array, cores: float) -> Alone:
    batches, warm = query.batches, query.warm
    tasks = np.where(batches.tasks > 0, np.minimum(batches.tasks, cores), cores)
    wants = float(np.quantile(tasks[warm], 0.9)) if warm.any() else cores
    lost = np.clip(others - (cores - wants), 0.0, wants) / wants
    past = np.concatenate([[0.0], np.cumsum(lost[:-1] * np.diff(times))])
    kept = past[_place(times, batches.end)] - past[_place(times, batches.start)]
    if _told(query).all():
        # At least one task runs at a time, and no more than there are cores for.
        share = _waited(work[warm] / wants, batches.duration[warm], kept[warm], (1.0, wants))
    else:
        rows = batches.rows / max(float(batches.rows.max(initial=0.0)), 1.0)
        share = _waited(rows[warm], batches.duration[warm], kept[warm], (0.0, np.inf))
    seconds = np.maximum(batches.duration - share * kept, np.maximum(work / wants, 0.1 * batches.duration))
    return Alone(seconds, *_cores(query, work, seconds, wants, cores))


def _waited(work: Array, seconds: Array, kept: Array, cost: tuple[float, float]) -> float:
    """Return the share of the time in which others hold the cores that a batch waits.

    Fitted robustly together with an overhead and the ``cost`` of the work, the least and the most that it can be;
    `USUAL` where batches tell nothing.
    """
    if work.size == 0 or kept.sum() <= 0.01 * seconds.sum():
        return USUAL
    step = -(-work.size // MOST)
    work, seconds, kept = work[::step], seconds[::step], kept[::step]
    from scipy.optimize import least_squares

    parts = np.column_stack([np.ones(work.size), work, kept])
    scale = float(np.median(np.abs(seconds - np.median(seconds)))) + 0.01 * float(np.median(seconds))

    def off(found: Array) -> Array:
        return np.append((parts @ found - seconds) / scale, (found[2] - USUAL) / USUAL)

    least, most = cost[0], max(cost[1], cost[0] + 1e-6)
    start = np.array([0.5 * float(np.median(seconds)), min(least + 0.1, (least + most) / 2), USUAL])
    limits = (np.array([0.0, least, 0.0]), np.array([np.inf, most, 1.0]))
    return float(least_squares(off, start, bounds=limits, loss="soft_l1").x[2])


def _cores(query: Query, work: Array, seconds: Array, wants: float, cores: float) -> tuple[float, float]:
    """Return the cores that tasks keep busy while they run, and the share of the overhead in which they do.

    Seconds of tasks a row over seconds a row are how many run at once; at least one does, whatever company it had.
    Where overhead and cost cannot be told apart, tasks are all through the batch, on as many cores as in the mean.
    """
    batches = query.batches
    told = query.warm & _told(query) & (seconds > 0)
    if not told.any():
        return cores, 1.0
    whole, tasks = (fit_batches(batches.rows[told], each[told]) for each in (seconds, work))
    if not (whole.overhead and whole.cost and tasks.cost and tasks.overhead is not None):
        return float(np.clip(np.quantile(work[told] / seconds[told], 0.9), 0.05, wants)), 1.0
    here = float(np.clip(tasks.cost / whole.cost, min(1.0, wants), wants))
    return here, min(tasks.overhead / (here * whole.overhead), 1.0)
