"""The source by which Spark reads a log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from penstock.spark.hop import Hop
from penstock.spark.hop.kafka import Topics
from penstock.spark.hop.logs import log_of
from penstock.spark.shipped.gate import end_with_parent
from penstock.spark.shipped.place import place_of


class LogSource(DataSource):
    """Reads a log.

    Options: ``folder``, the run's; ``writer``, whose rows; ``schema``, the JSON of their type with envelope; ``begin``,
    the first batch to take; where they are in topics, ``prefix`` and ``partitions``, and the client's settings behind
    ``kafka.``.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock-log"

    def schema(self) -> Any:
        """Return the rows' type."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.options["schema"]))

    def simpleStreamReader(self, schema: Any) -> LogReader:  # noqa: N802
        """Return a reader."""
        from pyspark.sql.pandas.types import to_arrow_schema

        topics = None
        if "prefix" in self.options:
            client = {key[6:]: value for key, value in self.options.items() if key.startswith("kafka.")}
            topics = Topics(client, self.options["prefix"], int(self.options["partitions"]))
        shape = to_arrow_schema(schema, timezone="UTC")
        log = log_of(place_of(self.options["folder"]), topics, self.options["writer"], shape)
        return LogReader(log, int(self.options.get("begin", "0")))


class LogReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log in the order of its batches.

    Spark forgets at a restart how far the event time of each input had come, and takes one that brings nothing new
    as one that has said nothing, which holds back every window. So a reader that is new in the middle of its log
    repeats the last mark first; the offset counts these starts, since the rows of a batch follow from offsets.
    """

    def __init__(self, log: Hop, begin: int = 0) -> None:
        self.log, self.begin, self.fresh = log, begin, True
        self.until: int | None = None
        end_with_parent()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what there is now, and nothing that comes later."""
        self.until = self.log.length()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Begin with the first batch to take."""
        return {"log": self.log.writer, **self.log.at(self.begin), "starts": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        """Read what follows, a bounded number of rows."""
        starts = start["starts"] + (self.fresh and start["batch"] > 0)
        self.fresh = False
        batches, position = self.log.read(start, self.until)
        end = {"log": start["log"], **position, "starts": starts}
        return iter(self._first(start, end) + batches), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:  # noqa: N802
        """Read what lies between two offsets; the same again after a failure."""
        return iter(self._first(start, end) + self.log.between(start, end))

    def _first(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        return list(self.log.mark(start)) if end["starts"] > start["starts"] else []

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: a log is cleaned when all its readers have passed."""
