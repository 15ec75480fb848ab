"""Queries that a scheduler runs now and then, with ``Trigger.Once`` or ``AvailableNow``."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.arrays import Array, Ints
from penstock.inspection.starts import AT_ONCE, Starts
from penstock.telemetry import Batches

LEAST = 3
"""Runs that show a schedule."""

RUNNING = 0.5
"""Share of the time that a query on a schedule runs at most."""

EVENLY = 0.25
"""Share of the median distance by which half of the runs may be closer or farther apart."""


@attrs.frozen(eq=False, kw_only=True)
class Schedule:
    """The runs of a query on a schedule.

    Attributes
    ----------
    apart
        Distance between the starts of runs (s), the mean, without those that did not take place.
    phase
        Begin of a run (s since the epoch), from which the others are about multiples of `apart` away.
    first
        Index of the first batch of each run.
    """

    apart: float
    phase: float
    first: Ints

    @property
    def batches(self) -> float:
        """Batches of a run, the median."""
        return float(np.median(np.diff(self.first)))

    def sums(self, values: Array) -> Array:
        """Return the sums over each run of what each batch has, along the last axis."""
        return np.asarray(np.add.reduceat(values, self.first, axis=-1))

    def counted(self, batches: Batches, arrivals: Array) -> tuple[Batches, Array]:
        """Return a batch a run, and what arrived for all of it: before it, though several batches may take that."""
        return batches.take(self.first), self.sums(arrivals)


def once_each(batches: Batches) -> bool:
    """Return whether each run had one batch: what lies between them is then up to whoever starts the query."""
    return bool(np.unique(batches.run).size == len(batches))


def schedule(batches: Batches) -> Schedule | None:
    """Return the schedule of a query that ran several times, about evenly apart, and mostly did not run; else None.

    The rows that come between two runs wait for the next, which no trigger of the query tells. A run takes them in
    batches that follow each other; where batches wait, a trigger does tell.
    """
    first = np.concatenate([[0], np.flatnonzero(np.diff(batches.run)) + 1])
    if first.size < LEAST:
        return None
    pause = Starts.of(batches).pause
    if pause.size and float(np.median(pause)) > AT_ONCE:
        return None
    start, end = batches.start[first], np.maximum.reduceat(batches.end, first)
    apart = np.diff(start)
    middle = float(np.median(apart))
    ran = float((end - start)[:-1].sum())
    if middle <= 0 or ran > RUNNING * float(start[-1] - start[0]):
        return None
    if float(np.median(np.abs(apart - middle))) > EVENLY * middle:
        return None
    number = np.append(0.0, np.cumsum(np.maximum(np.round(apart / middle), 1.0)))
    mean = float((start[-1] - start[0]) / number[-1])
    return Schedule(apart=mean, phase=float(np.median(start - mean * number)), first=first)


def by_run(batches: Batches, arrivals: Array) -> tuple[Batches, Array]:
    """Return batches and what arrived before each; of a query on a schedule one a run."""
    runs = schedule(batches)
    return (batches, arrivals) if runs is None else runs.counted(batches, arrivals)
