"""Which batches ran on warm code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.inspection.fit import LEAST, fit_batches


def warm(rows: Array, seconds: Array, run: NDArray[np.int64], beside: Array | None = None) -> NDArray[np.bool_]:
    """Return which batches ran warm: of each run, the first ones that take longer than the later half does are not.

    Parameters
    ----------
    rows, seconds, run
        Of each batch, shape ``(batches,)``; `run` numbers the runs.
    beside
        How many batches of other queries ran during each one. First batches that had clearly more company than the
        later half are slow for that reason, and count as warm.
    """
    done = np.ones(rows.size, dtype=bool)
    there = np.flatnonzero(rows > 0)
    if there.size < LEAST + 2:
        return done
    later = there[-max(there.size // 2, LEAST) :]
    fit = fit_batches(rows[later], seconds[later])
    if not fit.batches:  # Without durations there is nothing to compare.
        return done
    with np.errstate(divide="ignore", invalid="ignore"):
        over = seconds / fit.seconds(rows) - 1
    limit = max(0.1, 2 * fit.spread)
    for number in np.unique(run):
        mine = there[run[there] == number]
        cold = _cold(over[mine[: min(50, mine.size // 2) + 2]], limit)
        if cold == 0:
            continue
        if beside is not None and np.median(beside[mine[:cold]]) > np.median(beside[later]) + 0.5:
            continue
        done[(run == number) & (np.arange(rows.size) < mine[cold])] = False
    return done


def _cold(over: Array, limit: float) -> int:
    """Return how many first batches are slower, given by which share each is over the fit; the last two only help."""
    most = over.size - 2
    if most < 2:
        return 0
    # The median of three, so that one quick batch does not end the warm-up, nor one slow batch begin it.
    smooth = np.array([np.median(over[i : i + 3]) for i in range(most)])
    cold = int(np.argmax(smooth <= limit)) if (smooth <= limit).any() else most
    while cold < most and over[cold] > limit:
        cold += 1
    return cold
