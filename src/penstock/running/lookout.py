"""Watches a run while it goes on: says when a host is not what it was, and what is to be expected next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.latency.batches import BatchHosts
from penstock.running.drift import KEPT, Drift, Seen, Watch
from penstock.running.ended import seen
from penstock.running.forecast import BACK, Course, Forecast
from penstock.running.outlook import EVERY

if TYPE_CHECKING:
    from penstock.spark.run import Batch


@attrs.frozen(eq=False)
class _Heard:
    """The last batches of a run that goes on, and of its earlier runs none."""

    batches: Sequence[Batch]
    epoch: float
    begun: Sequence[float]


class Lookout:
    """Hears of batches as they end.

    Parameters
    ----------
    course
        What forecasts rest on.
    told
        Called with each drift, at most a trigger after the batch that shows it.
    ahead
        Called with new forecasts, every `penstock.running.outlook.EVERY` seconds.
    rng
        Where the chance of their intervals comes from.
    failed
        Told why, in a sentence, if it cannot go on; it then hears no more, and the run goes on without it.
    begun
        When queries began to start (s since 1970), if it is known.
    """

    def __init__(
        self,
        course: Course,
        told: Callable[[Drift], None],
        ahead: Callable[[Sequence[Forecast]], None],
        rng: np.random.Generator,
        failed: Callable[[str], None] = lambda _why: None,
        begun: float = 0.0,
    ) -> None:
        self.course, self.told, self.ahead, self.rng, self.failed = course, told, ahead, rng, failed
        self.watch = Watch.of(BatchHosts.of(course.statistics, course.cluster), course.young)
        self._batches: list[Batch] = []
        self._until, self._next, self._begin, self._over = 0.0, EVERY, 0.0, False
        self._begun = self._went_on = begun

    def hear(self, batches: Sequence[Batch], epoch: float, now: float) -> None:
        """Take in batches that have ended.

        Parameters
        ----------
        batches
            Those since the last call.
        epoch, now
            When the run began, and the present (s since 1970).
        """
        try:
            if not self._over:
                self._take(batches, epoch, now)
        except Exception as error:  # whatever it is, the run must not end of it
            self._over = True
            self.failed(f"hosts are not watched any more: {type(error).__name__}: {error}")

    def _take(self, batches: Sequence[Batch], epoch: float, now: float) -> None:
        course = self.course = self.course.since(epoch)
        # What runs at the same time shares the core: a batch is judged when those beside it have ended, too.
        self._went_on = self._went_on or now
        late = now - epoch - course.cluster.spark.trigger
        recent, ahead = now - BACK - KEPT, course.rates.duration > late
        # A forecast goes over what came since nothing waited.
        oldest = min(recent, epoch + self._begin) if ahead else recent
        self._batches = [b for b in (*self._batches, *batches) if b.start + b.duration > oldest]
        due = late >= self._next and ahead
        if due or any(self._until < b.start - epoch + b.duration <= late for b in self._batches):
            heard = _Heard(
                [b for b in self._batches if due or b.start + b.duration > recent], epoch, (epoch, self._went_on)
            )
            rows = seen(course.network, course.cluster, course.placement, course.statistics, heard)
            self._judge(rows, late)
            if due:
                self._next = late + EVERY
                self._forecast(late, rows)
        self._until = max(self._until, late)

    def _judge(self, rows: Sequence[Seen], late: float) -> None:
        for row in rows:
            if row.start >= 0 and self._until < row.end <= late:
                before = len(self.watch.drifts)
                self.watch = self.watch.after(row)
                began = max(0.0, self._begun - self.course.rates.start)
                for drift in self.watch.drifts[before:]:
                    self.told(attrs.evolve(drift, began=began))

    def _forecast(self, at: float, rows: Sequence[Seen]) -> None:
        past = [row for row in rows if row.start >= 0 and row.end <= at]
        if past:
            self._begin = self.course.begin(at, past, self._begin)
            self.ahead(self.course.forecast(at, self.watch, past, self.rng, self._begin))
