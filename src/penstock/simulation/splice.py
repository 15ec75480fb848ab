"""Rates that change while a simulation runs: the old ones until then, and new ones from then on."""

from __future__ import annotations

import math

import numpy as np

from penstock.arrays import Array
from penstock.errors import InputError
from penstock.workload import Rates

_MOST_PERIODS = 10_000_000


def periods(old: float, new: float, at: float, end: float) -> tuple[float, int]:
    """Return how long (s) the periods of rates are that others follow, and how many there are.

    Parameters
    ----------
    old, new
        Length of the periods of both (s).
    at, end
        When the new rates begin, and when there is no input any more (s).

    Raises
    ------
    InputError
        If no period of at least a millisecond fits both, and the time.
    """
    parts = [round(1000 * value) for value in (old, new, at) if value > 0]
    step = math.gcd(*parts) / 1000 if min(parts) >= 1 else 0.0
    if step == 0 or any(abs(value / step - round(value / step)) > 1e-6 for value in (old, new, at)):
        raise InputError("expected rates whose period and beginning are whole milliseconds", at="rates")
    count = math.ceil(end / step - 1e-9)
    if count > _MOST_PERIODS:
        raise InputError(f"expected at most {_MOST_PERIODS} periods, got {count}", at="rates")
    return step, count


def spliced(old: Rates, new: Rates, at: float, end: float) -> Rates:
    """Return rates that are the old ones until a time, and the new ones from their beginning after it.

    The last of the new ones hold to the end. Sources that they do not name go on as they were.

    Parameters
    ----------
    at, end
        When the new rates begin, and when there is no input any more (s).

    Raises
    ------
    InputError
        If `periods` refuses them.
    """
    step, count = periods(old.period, new.period, at, end)
    begin = round(at / step)
    found = {}
    for name in old.sources:
        series = _held(old.of_source(name), round(old.period / step), count)
        if name in new.sources:
            series[begin:] = _held(new.of_source(name), round(new.period / step), count - begin, on=True)
        found[name] = series
    for name in set(new.sources) - set(old.sources):
        series = np.zeros(count)
        series[begin:] = _held(new.of_source(name), round(new.period / step), count - begin, on=True)
        found[name] = series
    return Rates.of(step, found)


def _held(series: Array, times: int, count: int, *, on: bool = False) -> Array:
    """Return a series with each value held for several steps, cut or filled to a length: with 0, or its last value."""
    longer = np.repeat(series, times)[:count]
    return np.concatenate([longer, np.full(count - longer.size, series[-1] if on and series.size else 0.0)])
