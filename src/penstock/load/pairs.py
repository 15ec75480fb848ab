"""What a join with a time window meets: the rows that came of its other input within the window."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array


def recent(rates: Array, within: float, period: float) -> Array:
    """Return the mean rates over the last ``within`` seconds, in the mean over the moments of each period.

    Before the first period they were those of the first, as where a network has been running.

    Parameters
    ----------
    rates
        Array (inputs, periods), tuples/s, each held for a period (s).

    Examples
    --------
    >>> recent(np.array([[1.0, 1.0, 5.0, 5.0, 5.0]]), within=2.0, period=1.0)
    array([[1., 1., 2., 4., 5.]])
    """
    # Sums of changes, so that constant rates stay what they are to the last bit.
    change = rates - rates[:, :1]
    if not within or not change.any():
        return rates
    whole, part = divmod(within / period, 1.0)
    rest = 1.0 - part

    def ago(series: Array, periods: float) -> Array:
        skipped = int(min(periods, series.shape[1]))
        return np.pad(series, ((0, 0), (skipped, 0)))[:, : series.shape[1]]

    # What came up to the middle of each period, less what came up to the beginnings of the windows, in the mean.
    since, before = np.cumsum(change, axis=1) - change / 2, ago(change, whole + 1)
    came = since - ago(since, whole + 1) - rest * before - rest**2 / 2 * (ago(change, whole) - before)
    found = rates[:, :1] + came * (period / within)
    # What cancels leaves a rounding.
    return np.where(found > 1e-12 * rates.max(axis=1, keepdims=True), found, 0.0)
