"""The interval of a query's trigger, from when its batches began."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array
from penstock.telemetry import Batches

LATE = 0.04
"""Seconds by which a batch may begin after its trigger was due."""

COMMON = (
    0.1, 0.2, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 600, 900, 1200, 1800,
    3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip
"""Intervals and steps (s) that people choose."""


def find_trigger(batches: Batches) -> float | None:
    """Return the interval of the trigger (s), 0 for none (or one too short to matter), None if it cannot be told.

    Spark begins a batch at the next whole multiple of the interval since the epoch, or at once if that has passed. So
    the batches that began after a pause tell the interval: the largest of which they all are multiples.
    """
    same = batches.run[1:] == batches.run[:-1]
    gaps, pause = np.diff(batches.start)[same], (batches.start[1:] - batches.end[:-1])[same]
    starts = batches.start[1:][same][pause > 0.02]
    if gaps.size < 5:
        return None
    if starts.size < max(5, 0.05 * gaps.size):
        # It never waited, so the interval is shorter than its batches: as good as none if these are short.
        quick = float(np.quantile(batches.duration, 0.05))
        return 0.0 if quick < max(1.0, 0.5 * float(np.median(batches.duration))) else None
    waited = gaps[pause > 0.02]
    candidates = sorted(
        {*COMMON, *(_near(float(np.quantile(waited, q)), grain) for q in (0.1, 0.5) for grain in (0.1, 0.05, 0.01))},
        reverse=True,
    )
    for interval in candidates:
        if interval <= 0 or interval > 1.02 * np.quantile(waited, 0.9) + LATE:
            continue
        early = 0.002
        past = np.mod(starts + early, interval)
        if np.mean(past <= min(LATE + early, 0.2 * interval)) >= 0.9:
            return float(interval)
    return _evenly_apart(waited)


def _near(value: float, grain: float) -> float:
    """Return the multiple of a grain that is nearest."""
    return round(round(value / grain) * grain, 2)


def _evenly_apart(gaps: Array) -> float:
    """Return the interval of which gaps are multiples, though none since the epoch: a source's own pace; else 0."""
    base = float(np.quantile(gaps, 0.1))
    base = float(np.median(gaps[np.abs(gaps - base) <= max(LATE, 0.02 * base)]))
    if base < 0.2:
        return 0.0
    rest = np.abs(gaps - base * np.maximum(np.round(gaps / base), 1))
    if np.mean(rest <= max(LATE, 0.02 * base)) < 0.8:
        return 0.0
    return next((float(common) for common in COMMON if abs(common - base) <= 0.02 * common), round(base, 2))
