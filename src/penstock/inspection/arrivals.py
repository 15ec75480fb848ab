"""The rows that arrive: before each batch, a second, and in steps."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array, Bools
from penstock.inspection.starts import EARLY, LATE
from penstock.inspection.trigger import COMMON
from penstock.telemetry import Batches

POLL = 1.0
"""Within so many seconds a query that waits without a trigger has seen its rows and begun their batch."""


def find_arrivals(batches: Batches) -> Array:
    """Return the rows that arrived before each batch and after the one before it, shape ``(sources, batches)``.

    Those that the batch took, and by how much those that wait there have grown. The first batch's are what it took;
    none are those of a first batch on a new checkpoint, which reads again what was read before.
    """
    lag = batches.lag_by_source
    grown = np.diff(lag, prepend=lag[:, :1])
    came = np.maximum(batches.by_source + np.nan_to_num(grown), 0.0)
    return np.where(_anew(batches), 0.0, came)


def _anew(batches: Batches) -> Bools:
    """Return which batches are the first of a run that did not go on where the one before had ended."""
    found = np.zeros(len(batches), dtype=bool)
    found[np.unique(batches.run, return_index=True)[1]] = True
    return found & (batches.number <= np.concatenate([[-1], batches.number[:-1]]))


def mean_rate(batches: Batches, arrivals: Array) -> float:
    """Return rows a second over the time between the first and the last batch; NaN where there is none.

    How long a batch took says nothing of how long its rows took to come. What came before a query began anew is not
    told, and neither is the time before that.
    """
    span = float(np.diff(batches.start)[~_anew(batches)[1:]].sum())
    return float(arrivals[:, 1:].sum() / span) if span > 0 else float("nan")


def rate_series(
    batches: Batches, arrivals: Array, edges: Array, trigger: float | None = None, *, at_restart: bool = False
) -> Array:
    """Return rows a second by source in each step, shape ``(sources, steps)``.

    What arrived between two batches is spread evenly over the time between them; where the query waited for rows, over
    the last interval of its trigger. What the first batch took had arrived before the time that the log tells of, and
    is left out; of a single batch it is spread over that batch.

    Parameters
    ----------
    edges
        Begin of each step and end of the last one (s since the epoch), shape ``(steps + 1,)``.
    trigger
        Interval of the trigger (s); 0 or None: none, or not told.
    at_restart
        Whether, under a trigger, what came while the query did not run counts as come when it ran again: a replay, in
        which it always runs, has it waiting then.
    """
    if len(batches) > 1:
        since, until = _came(batches, trigger or 0.0, at_restart=at_restart)
        rows = arrivals[:, 1:]
    else:
        since, until = batches.start, batches.start + np.maximum(batches.duration, 1e-3)
        rows = arrivals
    times = np.column_stack([since, until]).ravel()
    steps = np.diff(edges)
    series = np.zeros((len(arrivals), steps.size))
    for number, came in enumerate(rows):
        total = np.cumsum(came)
        up_to = np.column_stack([total - came, total]).ravel()
        series[number] = np.diff(np.interp(edges, times, up_to)) / steps
    return series


def _came(batches: Batches, trigger: float, *, at_restart: bool) -> tuple[Array, Array]:
    """Return from when to when (s since the epoch) the rows of each batch but the first came.

    A query that has left nothing waiting takes rows when its trigger fires next: had they come before the last time
    that it did, they would have been taken then.
    """
    until, wait = batches.start[1:], max(trigger, POLL)
    pause = until - np.maximum.accumulate(batches.end)[:-1]
    # How old rows are that a query found when it was started again is not told.
    there = (batches.run[1:] == batches.run[:-1]) | (at_restart and trigger > 0)
    waited = there & (np.nan_to_num(batches.lag[:-1]) == 0) & (pause > wait + LATE)
    if trigger > 0:
        fired = np.floor((until + EARLY) / trigger) * trigger
        until = np.where(waited & (until - fired <= LATE), fired, until)
    return np.where(waited, until - wait, batches.start[:-1]), until


def step_of(span: float, gap: float) -> float:
    """Return a step (s) for rate series: no shorter than batches are apart, and a few thousand steps at most."""
    wanted = max(gap, span / 3600, 1.0)
    return next((float(step) for step in COMMON if step >= 1 and step >= wanted), float(np.ceil(wanted / 3600) * 3600))
