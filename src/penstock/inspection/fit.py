"""How long a batch takes: ``seconds = overhead + cost · rows``, by a robust regression that says how sure it is."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array

LEAST = 8
"""Batches with rows that a fit needs."""

ALIKE = 1.25
"""Where the larger batches (95 of 100) have fewer than so many times the rows of the smaller (5 of 100), overhead and
cost cannot be told apart."""

UNSURE = 0.5
"""Relative standard error of the cost from which on it is not told."""

REJECT = 4.685
"""Tukey's biweight: residuals of so many scales do not count (95 % efficiency on normal noise)."""


@attrs.frozen(kw_only=True)
class Fit:
    """Seconds of a batch by its rows, and how well they are known.

    Attributes
    ----------
    overhead, cost
        Seconds a batch, and seconds a row; None where the data cannot tell (`reason`).
    overhead_error, cost_error
        Standard errors (s; s a row); None with them. Batches that follow each other are alike: the errors allow for
        that (Newey and West 1987).
    cost_most
        What a row costs at most (s): two standard errors above the fit, or, where overhead and cost cannot be told
        apart, all of the batch. None without batches.
    spread
        Scale of the relative residuals: one in three batches differs by more than this share from the fit.
    outliers
        Share of the batches that did not count because they differ too much.
    batches
        Batches with rows that were looked at.
    typical
        Median seconds of these batches; NaN without any.
    reason
        Why overhead or cost are None, in one sentence without a full stop.
    """

    overhead: float | None = None
    cost: float | None = None
    overhead_error: float | None = None
    cost_error: float | None = None
    cost_most: float | None = None
    spread: float = 0.0
    outliers: float = 0.0
    batches: int = 0
    typical: float = float("nan")
    reason: str | None = None

    @property
    def error(self) -> float | None:
        """Relative standard error of the cost."""
        return self.cost_error / self.cost if self.cost and self.cost_error is not None else None

    def seconds(self, rows: Array) -> Array:
        """Return the seconds of batches of so many rows; the typical batch where the fit cannot tell."""
        if self.overhead is None:
            return np.full(np.shape(rows), self.typical)
        return np.asarray(self.overhead + (self.cost or 0.0) * rows)


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
    there = (rows > 0) & (seconds > 0) & np.isfinite(seconds)
    rows, seconds = rows[there], seconds[there]
    count = int(rows.size)
    if count == 0:
        return Fit(reason="no batch has rows")
    typical = float(np.median(seconds))
    known = Fit(batches=count, typical=typical, cost_most=float(np.median(seconds / rows)))
    if count < LEAST:
        return attrs.evolve(known, reason=f"only {count} batches have rows, and {LEAST} are needed")
    few, many = np.quantile(rows, (0.05, 0.95))
    if many < ALIKE * few:
        return attrs.evolve(
            known,
            reason=f"all batches have about {np.median(rows):.0f} rows, so overhead and cost cannot be told apart",
        )
    overhead, cost = _start(rows, seconds)
    for _ in range(100):
        before = overhead, cost
        weight, scale = _weights(rows, seconds, overhead, cost)
        overhead, cost = _least_squares(rows, seconds, weight)
        if abs(overhead - before[0]) <= 1e-9 * typical and abs(cost - before[1]) * many <= 1e-9 * typical:
            break
    return _judged(known, rows, seconds, (overhead, cost), (weight, scale))


def _judged(known: Fit, rows: Array, seconds: Array, line: tuple[float, float], weights: tuple[Array, float]) -> Fit:
    """Return the fit with its errors; without a cost that the noise could have made."""
    (overhead, cost), (weight, scale) = line, weights
    overhead_error, cost_error = _errors(rows, seconds, overhead, cost, weight, scale)
    found = attrs.evolve(
        known,
        overhead=overhead,
        overhead_error=overhead_error,
        cost=cost,
        cost_error=cost_error,
        cost_most=cost + 2 * cost_error,
        spread=scale,
        outliers=float((weight <= 0).mean()),
    )
    if cost > 0 and cost_error <= UNSURE * cost:
        return found
    middle = float(np.median(rows))
    reason = "batches with more rows do not take measurably longer, so a row's cost is lost in the overhead"
    return attrs.evolve(found, overhead=overhead + cost * middle, cost=None, cost_error=None, reason=reason)


def _start(rows: Array, seconds: Array) -> tuple[float, float]:
    """Return the median of the slopes between batches half the sizes apart, and the median of what is left."""
    order = np.argsort(rows, kind="stable")
    x, y = rows[order], seconds[order]
    slopes = []
    for share in (0.5, 0.6, 0.75):
        far = max(int(share * x.size), 1)
        apart = x[far:] - x[:-far]
        slopes.append((y[far:] - y[:-far])[apart > 0] / apart[apart > 0])
    every = np.concatenate(slopes)
    cost = max(float(np.median(every)), 0.0) if every.size else 0.0
    return max(float(np.median(y - cost * x)), 0.0), cost


def _weights(rows: Array, seconds: Array, overhead: float, cost: float) -> tuple[Array, float]:
    """Return Tukey's weights over the squared prediction, and the scale of the relative residuals."""
    expected = np.maximum(overhead + cost * rows, 1e-6)
    rest = seconds / expected - 1
    scale = max(1.4826 * float(np.median(np.abs(rest))), 1e-9)
    share = np.clip(1 - (rest / (REJECT * scale)) ** 2, 0.0, None) ** 2
    return share / expected**2, scale


def _least_squares(rows: Array, seconds: Array, weight: Array) -> tuple[float, float]:
    """Return the weighted least squares line with neither part negative, in closed form."""
    total = weight.sum()
    x, y = (weight * rows).sum() / total, (weight * seconds).sum() / total
    variance = (weight * (rows - x) ** 2).sum()
    cost = float((weight * (rows - x) * (seconds - y)).sum() / variance) if variance > 0 else 0.0
    if cost <= 0:
        return float(y), 0.0
    overhead = float(y - cost * x)
    if overhead >= 0:
        return overhead, cost
    return 0.0, float((weight * rows * seconds).sum() / (weight * rows**2).sum())


def _errors(
    rows: Array, seconds: Array, overhead: float, cost: float, weight: Array, scale: float
) -> tuple[float, float]:
    """Return the standard errors of overhead and cost: the sandwich of M-estimators, Bartlett weights over lags."""
    expected = np.maximum(overhead + cost * rows, 1e-6)
    far = np.minimum(((seconds / expected - 1) / (REJECT * scale)) ** 2, 1.0)
    # Moving the line changes Tukey's residuals by the slope of his function, which is less than his weight.
    slope = ((1 - far) * (1 - 5 * far) / expected**2).sum()
    stretch = float(weight.sum() / slope) if slope > 0.3 * weight.sum() else 3.0
    table = np.stack([np.ones(rows.size), rows])
    inner = np.linalg.pinv((weight * table) @ table.T) * stretch
    moments = weight * table * (seconds - overhead - cost * rows)
    middle = moments @ moments.T
    lags = int(4 * (rows.size / 100) ** (2 / 9))
    for lag in range(1, min(lags, rows.size - 1) + 1):
        cross = moments[:, lag:] @ moments[:, :-lag].T
        middle = middle + (1 - lag / (lags + 1)) * (cross + cross.T)
    spread = np.diag(inner @ middle @ inner) * rows.size / max(rows.size - 2, 1)
    overhead_error, cost_error = np.sqrt(np.maximum(spread, 0.0))
    return float(overhead_error), float(cost_error)


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
