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
    used = {name: _used(query, cores) for name, query in queries.items()}
    times = np.unique(np.concatenate([np.concatenate([q.batches.start, q.batches.end]) for q in queries.values()]))
    everything = sum((_steps(times, queries[name], used[name]) for name in queries), np.zeros(times.size))
    return {name: _alone(query, used[name], times, everything, cores) for name, query in queries.items()}


def _used(query: Query, cores: float) -> Array:
    """Return the cores that each batch kept busy: seconds of its tasks over its own; all where no tasks are told."""
    batches = query.batches
    share = batches.task_seconds / np.maximum(batches.duration, 1e-9)
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


def _alone(query: Query, used: Array, times: Array, everything: Array, cores: float) -> Alone:
    batches, warm = query.batches, query.warm
    tasks = np.where(batches.tasks > 0, np.minimum(batches.tasks, cores), cores)
    wants = float(np.quantile(tasks[warm], 0.9)) if warm.any() else cores
    # Made again: kept for all queries at once, these would be as many numbers as queries times batches.
    others = everything - _steps(times, query, used)
    lost = np.clip(others - (cores - wants), 0.0, wants) / wants
    past = np.concatenate([[0.0], np.cumsum(lost[:-1] * np.diff(times))])
    kept = past[_place(times, batches.end)] - past[_place(times, batches.start)]
    # Tasks have a core each while they run, whoever else waits for it: their seconds are the same in company.
    told = _told(query)
    least = np.where(told, batches.task_seconds, 0.0) / wants
    work = least if told.all() else batches.rows / max(float(batches.rows.max(initial=0.0)), 1.0)
    share = _waited(work[warm], batches.duration[warm], kept[warm], 1.0 if told.all() else 0.0)
    seconds = np.maximum(batches.duration - share * kept, np.maximum(least, 0.1 * batches.duration))
    return Alone(seconds, *_cores(query, seconds, wants, cores))


def _waited(work: Array, seconds: Array, kept: Array, least: float) -> float:
    """Return the share of the time in which others hold the cores that a batch waits.

    Fitted robustly together with an overhead and the cost of the work, which is at least ``least``; `USUAL` where
    batches tell nothing.
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

    start = np.array([0.5 * float(np.median(seconds)), least + 0.1, USUAL])
    limits = (np.array([0.0, least, 0.0]), np.array([np.inf, np.inf, 1.0]))
    return float(least_squares(off, start, bounds=limits, loss="soft_l1").x[2])


def _cores(query: Query, seconds: Array, wants: float, cores: float) -> tuple[float, float]:
    """Return the cores that tasks keep busy while they run, and the share of the overhead in which they do.

    Seconds of tasks a row over seconds a row are how many run at once; at least one does, whatever company it had.
    Where overhead and cost cannot be told apart, tasks are all through the batch, on as many cores as in the mean.
    """
    batches = query.batches
    told = query.warm & _told(query) & (seconds > 0)
    if not told.any():
        return cores, 1.0
    whole, tasks = (fit_batches(batches.rows[told], each[told]) for each in (seconds, batches.task_seconds))
    if not (whole.overhead and whole.cost and tasks.cost and tasks.overhead is not None):
        return float(np.clip(np.quantile(batches.task_seconds[told] / seconds[told], 0.9), 0.05, wants)), 1.0
    here = float(np.clip(tasks.cost / whole.cost, min(1.0, wants), wants))
    return here, min(tasks.overhead / (here * whole.overhead), 1.0)
