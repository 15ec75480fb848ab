"""Watches a run while it goes on: says when a host is not what it was, and what is to be expected next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from penstock.control.forecast import KEPT, Drift, Seen, Watch
from penstock.control.outlook import BACK, EVERY, Course, Forecast, seen
from penstock.latency.batches import BatchHosts


@attrs.frozen(eq=False)
class _Heard:
    """Batches, as far as `penstock.control.outlook.seen` asks for them."""

    batches: Sequence[Any]
    epoch: float


class Lookout:
    """Hears of batches as they end.

    Parameters
    ----------
    course
        What forecasts rest on.
    told
        Called with each drift, at most a trigger after the batch that shows it.
    ahead
        Called with new forecasts, every `penstock.control.outlook.EVERY` seconds.
    rng
        Where the chance of their intervals comes from.
    """

    def __init__(
        self,
        course: Course,
        told: Callable[[Drift], None],
        ahead: Callable[[Sequence[Forecast]], None],
        rng: np.random.Generator,
    ) -> None:
        self.course, self.told, self.ahead, self.rng = course, told, ahead, rng
        self.watch = Watch.of(BatchHosts.of(course.statistics, course.cluster))
        self._batches: list[Any] = []
        self._until, self._next = 0.0, EVERY

    def hear(self, batches: Sequence[Any], epoch: float, now: float) -> None:
        """Take in batches that have ended.

        Parameters
        ----------
        batches
            `penstock.spark.run.Batch`, those since the last call.
        epoch, now
            When the run began, and the present (s since 1970).
        """
        self._batches = [b for b in (*self._batches, *batches) if b.start + b.duration > now - BACK - KEPT]
        course = self.course
        # What runs at the same time shares the core: a batch is judged when those beside it have ended, too.
        late = now - epoch - course.cluster.spark.trigger
        rows = seen(course.network, course.cluster, course.placement, course.statistics, _Heard(self._batches, epoch))
        for row in rows:
            if row.start >= 0 and self._until < row.end <= late:
                before = len(self.watch.drifts)
                self.watch = self.watch.after(row)
                for drift in self.watch.drifts[before:]:
                    self.told(drift)
        self._until = max(self._until, late)
        if late >= self._next and course.rates.duration > late:
            self._next = late + EVERY
            self._forecast(late, rows)

    def _forecast(self, at: float, rows: Sequence[Seen]) -> None:
        past = [row for row in rows if row.start >= 0 and row.end <= at]
        if past:
            self.ahead(self.course.forecast(at, self.watch, past, self.rng))
