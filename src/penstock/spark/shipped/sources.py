"""The source by which Spark reads a log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.spark.hop import READ_ROWS, Hop, Piece
from penstock.spark.hop.logs import log_of
from penstock.spark.hop.topics import Topics
from penstock.spark.shipped import Offset
from penstock.spark.shipped.gate import end_with_parent
from penstock.spark.shipped.lockstep import Copy, told_end
from penstock.spark.shipped.parts import Parts
from penstock.spark.shipped.place import place_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class LogSource(DataSource):
    """Reads a log.

    Options: ``folder``, the run's; ``writer``, whose rows; ``schema``, the JSON of their type with envelope; ``begin``,
    the first batch to take; ``slots``, how many tasks read at a time; ``copy``, which copy of a unit reads; where they
    are in topics, ``prefix`` and ``partitions``, and the client's settings behind ``kafka.``.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock-log"

    def schema(self) -> StructType:
        """Return the rows' type."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.options["schema"]))

    def streamReader(self, schema: StructType) -> SpreadLogReader:  # noqa: N802
        """Return a reader whose rows tasks read, if the host has several at a time."""
        slots = int(self.options.get("slots", "1"))
        if slots == 1:
            # Spark asks for the simple reader then: without a Python worker in the task a batch ends 30 ms earlier.
            raise PySparkNotImplementedError(
                errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "streamReader"}
            )
        return SpreadLogReader(self.log(schema), int(self.options.get("begin", "0")), slots, Copy.of(self.options))

    def simpleStreamReader(self, schema: StructType) -> LogReader:  # noqa: N802
        """Return a reader."""
        return LogReader(self.log(schema), int(self.options.get("begin", "0")), Copy.of(self.options))

    def log(self, schema: StructType) -> Hop:
        """Return the log."""
        from pyspark.sql.pandas.types import to_arrow_schema

        topics = None
        if "prefix" in self.options:
            client = {key[6:]: value for key, value in self.options.items() if key.startswith("kafka.")}
            topics = Topics(client, self.options["prefix"], int(self.options["partitions"]))
        shape = to_arrow_schema(schema, timezone="UTC")
        return log_of(place_of(self.options["folder"]), topics, self.options["writer"], shape)


class LogReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log in the order of its batches.

    Spark forgets at a restart how far the event time of each input had come, and takes one that brings nothing new
    as one that has said nothing, which holds back every window. So a reader that is new in the middle of its log
    repeats the last mark first; the offset counts these starts, since the rows of a batch follow from offsets.
    """

    def __init__(self, log: Hop, begin: int = 0, copy: Copy | None = None) -> None:
        self.log, self.begin, self.copy = log, begin, copy
        self.until: int | None = None
        self.parts = Parts()
        end_with_parent()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what there is now, and nothing that comes later."""
        self.until = self.log.length()

    def initialOffset(self) -> Offset:  # noqa: N802
        """Begin with the first batch to take."""
        return {"log": self.log.writer, **self.log.at(self.begin), "starts": 0}

    def read(self, start: Offset) -> tuple[Iterator[pa.RecordBatch], Offset]:
        """Read what follows, a bounded number of rows; of a copy that follows, what the one that leads has read."""
        if (told := told_end(self.copy, self.parts, ("log", "batch"), start)) is not None:
            return self.readBetweenOffsets(start, told), told
        starts = start["starts"] + self.parts.begin(middle=start["batch"] > 0)
        most = self.parts.most() if self.until is None else None
        batches, position = self.log.read(start, self.until, most)
        rows = sum(batch.num_rows for batch in batches)
        self.parts.took(rows, caught_up=most is None or rows < most)
        end = {"log": start["log"], **position, "starts": starts}
        return iter(self._first(start, end) + batches), end

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[pa.RecordBatch]:  # noqa: N802
        """Read what lies between two offsets; the same again after a failure."""
        return iter(self._first(start, end) + self.log.between(start, end))

    def _first(self, start: Offset, end: Offset) -> list[pa.RecordBatch]:
        return list(self.log.mark(start)) if end["starts"] > start["starts"] else []

    def commit(self, end: Offset) -> None:
        """Nothing to do: a log is cleaned when all its readers have passed."""


class SpreadLogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log by several tasks at a time, to the same positions as `LogReader`."""

    def __init__(self, log: Hop, begin: int, slots: int, copy: Copy | None = None) -> None:
        self.log, self.begin, self.slots, self.copy = log, begin, slots, copy
        self.until: int | None = None
        self.parts = Parts()
        self.planned: tuple[Offset, Offset, list[Piece]] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what there is now, and nothing that comes later."""
        self.until = self.log.length()

    def initialOffset(self) -> Offset:  # noqa: N802
        """Begin with the first batch to take."""
        end_with_parent()
        return {"log": self.log.writer, **self.log.at(self.begin), "starts": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Take a bounded number of rows."""
        return ReadMaxRows(READ_ROWS * self.slots)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the position behind the rows that are read next."""
        end_with_parent()
        if (told := told_end(self.copy, self.parts, ("log", "batch"), start)) is not None:
            return told
        starts = start["starts"] + self.parts.begin(middle=start["batch"] > 0)
        most = READ_ROWS * self.slots
        if self.until is None:
            most = min(most, self.parts.most() or most)
        pieces, position = self.log.plan(start, self.until, most)
        rows = sum(piece[-1] for piece in pieces)
        self.parts.took(rows, caught_up=rows < most)
        end = {"log": start["log"], **position, "starts": starts}
        self.planned = start, end, pieces
        return end

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return what each task reads: pieces, and one of them the marks."""
        known = self.planned is not None and self.planned[:2] == (start, end)
        pieces = self.planned[2] if known and self.planned else self.log.pieces(start, end)
        shares = shared(sorted(pieces), self.slots) or [[]]
        marks = [start] if end["starts"] > start["starts"] else []
        marks += [end] if end["batch"] > start["batch"] else []
        return [InputPartition((share, marks if not number else [])) for number, share in enumerate(shares)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's share."""
        pieces, marks = partition.value
        for mark in marks:
            yield from self.log.mark(mark)
        yield from self.log.fetch(pieces)
        self.log.close()

    def commit(self, end: Offset) -> None:
        """Nothing to do: a log is cleaned when all its readers have passed."""


def shared(pieces: list[Piece], slots: int) -> list[list[Piece]]:
    """Return pieces dealt out to tasks in runs of about as many rows."""
    whole, done = sum(piece[-1] for piece in pieces), 0
    found: list[list[Piece]] = []
    for piece in pieces:
        if not found or done * slots >= len(found) * whole:
            found.append([])
        found[-1].append(piece)
        done += piece[-1]
    return found
