"""One unit under way: its query is started, looked at and stopped, while others go on."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from penstock.errors import EngineError
from penstock.spark.compile import Query
from penstock.spark.run.outside import blamed
from penstock.spark.run.recall import recall
from penstock.spark.run.reports import launch, marks, save_reports, told, was_passing
from penstock.spark.run.units import Unit
from penstock.spark.shipped.gate import close, owner_of, take_over
from penstock.spark.shipped.local import Local
from penstock.spark.shipped.tasks import make_task
from penstock.spark.shipped.turn import LIMITS, look_ahead
from penstock.spark.shipped.writer import known, make_writer
from penstock.spark.silent import Ask, waiting

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.hosts.base import SparkHost

NOTED = 1.0
"""Seconds within which Spark notes that a batch has ended which is committed."""


class Runner:
    """A generation of a unit.

    Parameters
    ----------
    unit
        What runs.
    query
        Compiled, with the generation that delivers.
    """

    def __init__(self, unit: Unit, query: Query) -> None:
        self.unit, self.query = unit, query
        self.handle: StreamingQuery | None = None
        self.begun_at = time.monotonic()

    @property
    def name(self) -> str:
        """The unit's name."""
        return self.unit.name

    @property
    def under_way(self) -> StreamingQuery:
        """Spark's handle of the query, once it is launched."""
        if self.handle is None:
            raise RuntimeError(f"query {self.name!r} is not launched")
        return self.handle

    @property
    def marks(self) -> tuple[int, int]:
        """The last batch begun, and the last ended."""
        return marks(self.query)

    def launch(self, interval: float | None = None) -> None:
        """Start the query, with a batch every ``interval`` (s); None: over what there is now."""
        recall(self.query)
        spec = self.query.spec
        self._decide_first()
        # By value: executors have nothing of ours.
        task = cloudpickle.dumps(make_task(spec)) if spec.spread and not spec.native else b""
        writer = (
            self.query.frame.writeStream.foreachBatch(make_writer(spec, task))
            .option("checkpointLocation", self.query.spec.checkpoint.uri)
            .outputMode("append")
            .queryName(self.name)
        )
        if interval is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(interval * 1000)} milliseconds")
        self.handle = launch(writer)

    def _decide_first(self) -> None:
        """Write the keep fractions of the first batch where executors read them; later ones are the writer's."""
        spec = self.query.spec
        if spec.knobs is None or spec.knobs.file is None:
            return
        folder = spec.folder / LIMITS / (self.unit.copy or self.name)
        for old in folder.names():
            # Of earlier generations of the unit, which deliver no more.
            if old != spec.knobs.file.name:
                (folder / old).remove()
        begun, ended = self.marks
        batch = begun if begun > ended else ended + 1
        look_ahead(spec, Local(spec), batch, *known(spec, batch - 1))

    def ready(self, before: int) -> bool:
        """Whether a batch after that number has ended, or the query has looked for data and found none."""
        return self.marks[1] > before or _waits(self.under_way)

    def look(self, ask: Ask = waiting) -> None:
        """Keep what Spark reports of its batches."""
        save_reports(self.query, self.under_way, ask)

    def goes_on(self) -> bool:
        """Whether the query runs and may deliver."""
        owner = owner_of(self.query.spec.folder, self.name)
        mine = owner["generation"] == self.query.spec.generation and not owner["closing"]
        with contextlib.suppress(Exception):
            return mine and bool(self.under_way.isActive)
        return False

    def failed(self) -> str | None:
        """Return what the query ended with, if it did."""
        error = self.under_way.exception()
        return None if error is None else f"query {self.name!r} failed: {told(self.query) or blamed(self.query, error)}"

    def check(self) -> None:
        """Raise the error that the query ended with, if it did."""
        error = self.failed()
        if error is not None:
            raise EngineError(f"{error}; run the same command again to go on" if self.passing else error)

    @property
    def passing(self) -> bool:
        """Whether it ended for a reason that passes."""
        return was_passing(self.under_way)

    def halt(self, host: SparkHost) -> None:
        """Stop, whatever is done: another one goes on for it."""
        with contextlib.suppress(Exception):
            if self.handle is not None and host.alive():
                self.handle.stop()

    def end(self, host: SparkHost, patience: float = 30.0) -> bool:
        """Stop at the end of the batch that runs; return whether nothing of a later one was done.

        A query that waits for data, or has failed, stops at once. One whose batch lasts too long, or whose host has
        died, is fenced, and its batch is done again when the unit goes on, unless it is being committed: it ends then.
        """
        close(self.query.spec.folder, self.name)
        deadline = time.monotonic() + patience
        self._await_end(host, patience)
        # Before it stops: messages that are on their way still come when the query that waits for them is gone.
        take_over(self.query.spec.folder, self.name, deliver=False)
        self._await_end(host, NOTED)
        with contextlib.suppress(Exception):
            if self.handle is not None and host.alive():
                self.handle.stop()
                self.look()
        begun, ended = self.marks
        return begun == ended or time.monotonic() < deadline

    def _await_end(self, host: SparkHost, patience: float) -> None:
        """Wait for the end of the batch that runs, if one does."""
        deadline = time.monotonic() + patience
        with contextlib.suppress(Exception):
            while self.handle is not None and host.alive() and time.monotonic() < deadline:
                begun, ended = self.marks
                if begun == ended or not self.handle.isActive:
                    break
                time.sleep(0.05)


def _waits(handle: StreamingQuery) -> bool:
    """Whether a query has looked for data and found none."""
    status = handle.status
    return str(status["message"]).startswith("Waiting for") and not status["isTriggerActive"]
