"""How much the company of other queries has slowed a query's batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.arrays import Array
from penstock.inspection import Query


def _wanted(queries: Mapping[str, Query], used: Mapping[str, float]) -> tuple[Array, Array]:
    """Return the times at which batches begin or end, and the cores that are wanted from each on."""
    times = np.unique(np.concatenate([np.concatenate([q.batches.start, q.batches.end]) for q in queries.values()]))
    change = np.zeros(times.size)
    for name, query in queries.items():
        np.add.at(change, np.searchsorted(times, query.batches.start), used[name])
        np.add.at(change, np.searchsorted(times, query.batches.end), -used[name])
    return times, np.cumsum(change)


def slowdown(queries: Mapping[str, Query], used: Mapping[str, float], cores: float) -> dict[str, Array]:
    """Return, of each query's batches, how many times as long they took as alone: the cores that were wanted at the
    time over those that there are, in the mean over the batch.
    """
    times, wanted = _wanted(queries, used)
    # How far a batch gets in a time is that time over how slow all are.
    progress = np.concatenate([[0.0], np.cumsum(np.diff(times) / np.maximum(wanted[:-1] / cores, 1.0))])
    found = {}
    for name, query in queries.items():
        done = np.interp(query.batches.end, times, progress) - np.interp(query.batches.start, times, progress)
        found[name] = query.batches.duration / np.maximum(np.minimum(done, query.batches.duration), 1e-9)
    return found


def cores_of(query: Query, cores: float) -> float:
    """Return how many cores a query's batches keep busy while they run: seconds of its tasks over its own.

    What it had while others ran may be too little: the batches that had most count. All cores where no tasks are told.
    """
    batches = query.batches
    told = query.warm & (batches.tasks > 0) & (batches.duration > 0) & np.isfinite(batches.task_seconds)
    if not told.any():
        return cores
    share = batches.task_seconds[told] / batches.duration[told]
    return float(np.clip(np.quantile(share, 0.9), 0.05, cores))
