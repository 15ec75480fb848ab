"""How long a batch takes: ``seconds = overhead + cost · rows``, by a robust regression that says how sure it is."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.inspection.fitted import Fit
from penstock.inspection.regression import errors, least_squares, start, weights

LEAST = 8
"""Batches with rows that a fit needs."""

ALIKE = 1.25
"""Where the larger batches (95 of 100) have fewer than so many times the rows of the smaller (5 of 100), overhead and
cost cannot be told apart, unless as many batches as a fit needs have `BURST` times the rows."""

BURST = 2.0
"""Of a long log a burst is few batches, which have at least so many times the rows of the smaller ones."""

UNSURE = 0.5
"""Relative standard error of the cost from which on it is not told."""


UNTIMED = "the progress has no durations (durationMs), so nothing can be said about cost"
"""Why there is no fit where batches have rows and no seconds."""


def fit_batches(rows: Array, seconds: Array) -> Fit:
    """Fit ``seconds = overhead + cost · rows`` over the batches that have rows.

    The noise of a batch grows with its length, so residuals are relative. The start is the median of slopes (Theil
    1950, Sen 1968), the fit Tukey's biweight by reweighted least squares: up to a quarter of the batches may be
    disturbed without moving it. Neither overhead nor cost is negative.

    Parameters
    ----------
    rows, seconds
        Of each batch, shape ``(batches,)``, in the order in which they ran.

    Examples
    --------
    >>> fit = fit_batches(np.arange(100.0, 900.0, 100.0), 0.2 + 0.001 * np.arange(100.0, 900.0, 100.0))
    >>> round(fit.overhead, 6), round(fit.cost, 6)
    (0.2, 0.001)
    """
    some = bool((rows > 0).any())
    there = (rows > 0) & (seconds > 0) & np.isfinite(seconds)
    rows, seconds = rows[there], seconds[there]
    count = int(rows.size)
    if count == 0:
        return Fit(reason=UNTIMED if some else "no batch has rows")
    typical = float(np.median(seconds))
    known = Fit(batches=count, typical=typical, cost_most=float(np.median(seconds / rows)))
    if count < LEAST:
        had = "batch has" if count == 1 else "batches have"
        return attrs.evolve(known, reason=f"only {count} {had} rows, and {LEAST} are needed")
    few, many = np.quantile(rows, (0.05, 0.95))
    if many < ALIKE * few and np.partition(rows, -LEAST)[-LEAST] < BURST * few:
        return attrs.evolve(
            known,
            reason=f"all batches have about {np.median(rows):.0f} rows, so overhead and cost cannot be told apart",
        )
    overhead, cost = start(rows, seconds)
    for _ in range(100):
        before = overhead, cost
        weight, scale = weights(rows, seconds, overhead, cost)
        overhead, cost = least_squares(rows, seconds, weight)
        if abs(overhead - before[0]) <= 1e-9 * typical and abs(cost - before[1]) * many <= 1e-9 * typical:
            break
    return _judged(known, rows, seconds, (overhead, cost), (weight, scale))


def _judged(known: Fit, rows: Array, seconds: Array, line: tuple[float, float], weights: tuple[Array, float]) -> Fit:
    """Return the fit with its errors; without a cost that the noise could have made."""
    (overhead, cost), (weight, scale) = line, weights
    overhead_error, cost_error = errors(rows, seconds, overhead, cost, weight, scale)
    found = attrs.evolve(
        known,
        overhead=overhead,
        overhead_error=overhead_error,
        cost=cost,
        cost_error=cost_error,
        cost_most=cost + 2 * cost_error,
        spread=scale,
    )
    if cost > 0 and cost_error <= UNSURE * cost:
        return found
    middle = float(np.median(rows))
    reason = "batches with more rows do not take measurably longer, so a row's cost is lost in the overhead"
    most = min(cost + 2 * cost_error, float(np.median(seconds / rows)))
    return attrs.evolve(
        found, overhead=overhead + cost * middle, cost=None, cost_error=None, cost_most=most, reason=reason
    )
