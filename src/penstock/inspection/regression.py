"""A line through the batches that a quarter of them may disturb, and its errors."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array, deviation

REJECT = 4.685
"""Tukey's biweight: residuals of so many scales do not count (95 % efficiency on normal noise)."""


def start(rows: Array, seconds: Array) -> tuple[float, float]:
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


def weights(rows: Array, seconds: Array, overhead: float, cost: float) -> tuple[Array, float]:
    """Return Tukey's weights over the squared prediction, and the scale of the relative residuals."""
    expected = np.maximum(overhead + cost * rows, 1e-6)
    rest = seconds / expected - 1
    scale = max(deviation(rest), 1e-9)
    share = np.clip(1 - (rest / (REJECT * scale)) ** 2, 0.0, None) ** 2
    return share / expected**2, scale


def least_squares(rows: Array, seconds: Array, weight: Array) -> tuple[float, float]:
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


def errors(
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
