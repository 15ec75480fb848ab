"""Tomorrow's rates from the recorded ones: seasonal smoothing, with its error on the last day that is known."""

from __future__ import annotations

import math
import warnings

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.errors import InputError
from penstock.extras import install
from penstock.units import human

DAY = 86400.0
STEP = 1800.0
"""Step of the forecast (s)."""


HIGH = 1.645
"""Standard deviations of the error on the held-out day that make the high forecast: 95 % of the steps lie below."""


@attrs.frozen(eq=False, kw_only=True)
class Forecast:
    """Forecast rates of one query.

    Attributes
    ----------
    middle, high
        Rows a second in each step to come: expected, and what 95 % of the steps stay below.
    error
        On the held-out end of the history: sum of the absolute errors over the sum of the rates.
    naive
        The same error of "as a day before".
    """

    middle: Array
    high: Array
    error: float
    naive: float


def forecast(rates: Array, period: float, horizon: float) -> Forecast:
    """Forecast a series with a daily season.

    Holt and Winters' additive smoothing of half-hourly means without a trend (Winters 1960), fitted by statsmodels. The
    error is that of the same forecast made at the end of the history less the horizon.

    Parameters
    ----------
    rates
        Rows a second, shape ``(periods,)``, in periods of `period` seconds.
    horizon
        How far (s).

    Raises
    ------
    InputError
        If the horizon is none, the history is shorter than two days and the horizon, or statsmodels is missing.
    """
    if not horizon > 0:
        raise InputError(f"expected a time > 0 s, got {horizon:g}", at="--forecast")
    short = too_short(rates.size * period, horizon)
    if short is not None:
        raise InputError(short, at="--forecast", hint="read more logs, or ask for a shorter time")
    values = _means(rates, period)
    ahead = max(math.ceil(horizon / STEP), 1)
    past, held = values[:-ahead], values[-ahead:]
    tried = _smoothed(past, ahead)
    day = round(DAY / STEP)
    before = np.resize(past[-day:], ahead)
    scale = max(float(np.abs(held).sum()), 1e-12)
    middle = _smoothed(values, ahead)
    spread = float(np.sqrt(np.mean((tried - held) ** 2)))
    return Forecast(
        middle=middle,
        high=middle + HIGH * spread,
        error=float(np.abs(tried - held).sum()) / scale,
        naive=float(np.abs(before - held).sum()) / scale,
    )


def too_short(history: float, horizon: float) -> str | None:
    """Return why a history of so many seconds is too short for a forecast, or None if it is not."""
    needed = 2 * DAY + max(horizon, STEP)
    if history >= needed - 0.5 * STEP:
        return None
    return (
        f"the history is {_hours(history)} long, and a forecast of {_hours(horizon)} needs {_hours(needed)}: two days "
        "to learn from and the horizon to test on"
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else human(seconds)


def _means(rates: Array, period: float) -> Array:
    """Return means over steps of the forecast, the last step ending with the history."""
    edges = np.arange(rates.size + 1) * period
    total = np.concatenate([[0.0], np.cumsum(rates * period)])
    count = int(edges[-1] / STEP + 1e-9)
    marks = edges[-1] - STEP * np.arange(count, -1.0, -1.0)
    return np.asarray(np.diff(np.interp(marks, edges, total)) / STEP)


def _smoothed(values: Array, ahead: int) -> Array:
    try:
        from statsmodels.tsa.holtwinters import ExponentialSmoothing
    except ImportError:
        raise InputError("a forecast needs statsmodels", at="--forecast", hint=install("forecast")) from None
    if values.max() <= 0:
        return np.zeros(ahead)
    scale = float(values.max())
    with warnings.catch_warnings():
        # It warns where the best smoothing lies at an end of its range, which is an answer too.
        warnings.simplefilter("ignore")
        model = ExponentialSmoothing(
            values / scale,
            seasonal="add",
            seasonal_periods=round(DAY / STEP),
            initialization_method="heuristic",
        )
        found = model.fit().forecast(ahead)
    return np.maximum(np.asarray(found, float) * scale, 0.0)
