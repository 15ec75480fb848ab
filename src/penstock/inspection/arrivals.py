"""The rows that arrive: before each batch, a second, and in steps."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array
from penstock.inspection.trigger import COMMON
from penstock.telemetry import Batches


def find_arrivals(batches: Batches) -> Array:
    """Return the rows that arrived before each batch and after the one before it, shape ``(sources, batches)``.

    Those that the batch took, and by how much the rows that wait have grown. The first batch's are what it took.
    """
    grown = np.diff(batches.lag, prepend=batches.lag[:1])
    rows = batches.by_source
    total = rows.sum(axis=0)
    came = np.maximum(total + np.nan_to_num(grown), 0.0)
    share = np.divide(rows, total, out=np.full(rows.shape, 1 / max(len(rows), 1)), where=total > 0)
    return np.asarray(share * came)


def mean_rate(batches: Batches, arrivals: Array) -> float:
    """Return rows a second over the time between the first and the last batch; NaN where there is none.

    How long a batch took says nothing of how long its rows took to come.
    """
    span = float(batches.start[-1] - batches.start[0])
    return float(arrivals[:, 1:].sum() / span) if span > 0 else float("nan")


def rate_series(batches: Batches, arrivals: Array, edges: Array) -> Array:
    """Return rows a second by source in each step, shape ``(sources, steps)``.

    What arrived between two batches is spread evenly over the time between them. What the first batch took had arrived
    before the time that the log tells of, and is left out; of a single batch it is spread over that batch.

    Parameters
    ----------
    edges
        Begin of each step and end of the last one (s since the epoch), shape ``(steps + 1,)``.
    """
    times = batches.start
    rows = arrivals[:, 1:]
    if times.size == 1:
        times, rows = np.append(times, times[0] + max(float(batches.duration[0]), 1e-3)), arrivals
    steps = np.diff(edges)
    series = np.zeros((len(arrivals), steps.size))
    for number, came in enumerate(rows):
        series[number] = np.diff(np.interp(edges, times, np.concatenate([[0.0], np.cumsum(came)]))) / steps
    return series


def step_of(span: float, gap: float) -> float:
    """Return a step (s) for rate series: no shorter than batches are apart, and a few thousand steps at most."""
    wanted = max(gap, span / 3600, 1.0)
    return next((float(step) for step in COMMON if step >= 1 and step >= wanted), float(np.ceil(wanted / 3600) * 3600))
