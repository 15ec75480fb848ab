"""The interval of a query's trigger, from when its batches began."""

from __future__ import annotations

import math

import numpy as np

from penstock.arrays import Array
from penstock.inspection.starts import AT_ONCE, LATE, Starts
from penstock.telemetry import Batches

COMMON = (
    0.1, 0.2, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 600, 900, 1200, 1800,
    3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip
"""Intervals and steps (s) that people choose."""

HINT = math.log(10)
"""Evidence that keeps an interval from being passed over as too short to matter."""


def find_trigger(batches: Batches) -> float | None:
    """Return the interval of the trigger (s), 0 for none (or one too short to matter), None if it cannot be told.

    After a batch Spark waits for the next whole multiple of the interval since the epoch, or goes on at once if that
    has passed. So an interval tells which batches waited; the largest that is right about when they began is taken.
    A query may have been started again with another one: its last run decides, if it tells, or contradicts the others.
    """
    starts, latest = Starts.of(batches), Starts.of(batches, last=True)
    own = _interval(latest)
    if own or len(latest) == len(starts):
        return own
    whole = _interval(starts)
    return whole if not whole or latest.allows(whole) else own


def _interval(starts: Starts) -> float | None:
    """Return the interval by which batches began, 0 for none, None if it cannot be told."""
    if len(starts) < 4:
        return None
    matters = max(1.0, 0.5 * float(np.median(starts.ended - starts.before)))
    possible = False
    for interval in _candidates(starts.gaps):
        match = starts.under(interval)
        if match.told:
            # Where few of those that should have waited did, a divisor would fit them by chance.
            return interval if match.on >= 0.6 * match.waited else None
        if match.possible and (interval > matters or (match.on >= 2 and match.evidence >= HINT)):
            possible = True
    # Rows that come evenly begin batches so without a trigger, and at multiples of any short interval, or never.
    return None if possible and not _evenly_apart(starts.gaps[starts.pause > AT_ONCE]) else 0.0


def _candidates(gaps: Array) -> list[float]:
    """Return intervals that may be the trigger's, the largest first: usual ones, and the commonest gaps."""
    found = {*map(float, COMMON), *map(float, range(1, 61))}
    for grain in (0.1, 0.05, 0.01):
        values, counts = np.unique(np.round(gaps / grain), return_counts=True)
        common = grain * values[np.argsort(-counts, kind="stable")[:4]]
        found |= {round(float(value), 2) for value in common if value >= 20 * grain}
    return sorted((each for each in found if each <= 1.02 * gaps.max() + LATE), reverse=True)


def _evenly_apart(gaps: Array) -> bool:
    """Whether gaps are multiples of one interval."""
    if gaps.size < 5:
        return False
    base = float(np.quantile(gaps, 0.1, method="lower"))
    base = float(np.median(gaps[np.abs(gaps - base) <= max(LATE, 0.02 * base)]))
    rest = np.abs(gaps - base * np.maximum(np.round(gaps / base), 1))
    return base >= 0.2 and bool(np.mean(rest <= max(LATE, 0.02 * base)) >= 0.8)
