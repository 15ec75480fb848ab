"""Standard workloads: stable, fluctuating, on-off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def stable(rate: float, periods: int) -> NDArray[np.float64]:
    """Return a constant series of ``rate`` tuples per second."""
    return np.full(periods, float(rate))


def fluctuating(
    mean: float, duration: float, *, cycle: float = 10.0, ratio: float = 4.0, offset: float = 0.0, period: float = 1.0
) -> NDArray[np.float64]:
    """Return a rate that alternates between high and low, half a cycle each (correlation paper, section 5.1.2).

    Parameters
    ----------
    mean
        Mean rate (tuples/s); high is ``2·ratio/(ratio+1)·mean``, low is ``high/ratio``.
    duration, cycle, offset, period
        Seconds: of the series, of one high and one low phase, by which the high phase begins later, of one sample.
    ratio
        High rate over low rate.

    Returns
    -------
    ndarray, shape (ceil(duration / period),)
        Mean rate within each period, exact also where a phase begins inside a period.
    """
    high = 2 * ratio / (ratio + 1) * mean
    low = high / ratio

    def integral(time: NDArray[np.floating]) -> NDArray[np.floating]:
        whole, rest = np.divmod(time - offset, cycle)
        return (
            whole * (high + low) * cycle / 2
            + np.minimum(rest, cycle / 2) * high
            + np.maximum(rest - cycle / 2, 0) * low
        )

    edges = np.arange(int(np.ceil(duration / period - 1e-9)) + 1) * period
    return np.asarray(np.diff(integral(edges)) / period, dtype=np.float64)


def on_off(
    rate: float, duration: float, rng: np.random.Generator, *, on: float = 5.0, off: float = 5.0, period: float = 1.0
) -> NDArray[np.float64]:
    """Return a rate that is ``rate`` or 0 for exponential times (correlation paper, section 5.1.2).

    Parameters
    ----------
    rate
        Tuples per second while active.
    duration, on, off, period
        Seconds: of the series, mean active and idle time, of one sample.

    Returns
    -------
    ndarray, shape (ceil(duration / period),)
        Mean rate within each period.
    """
    periods = int(np.ceil(duration / period - 1e-9))
    edges = np.arange(periods + 1) * period
    active = np.zeros(periods)
    time, is_on = 0.0, bool(rng.random() < on / (on + off))
    while time < edges[-1]:
        end = time + rng.exponential(on if is_on else off)
        if is_on:
            active += np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], time), 0, None)
        time, is_on = end, not is_on
    return rate * active / period
