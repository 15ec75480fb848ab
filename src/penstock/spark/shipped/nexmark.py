"""The Nexmark source: auction events on a schedule."""

from __future__ import annotations

import datetime
import json
import time
import zlib
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from penstock.spark.shipped.gate import end_with_parent
from penstock.spark.shipped.place import place_of
from penstock.workload.nexmark import COLUMNS, SCHEMA, Nexmark, Schedule

ROWS = f"{SCHEMA}, _id bigint, _stimulus bigint, _time timestamp"
"""The rows' schema as DDL, envelope included."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class NexmarkSource(DataSource):
    """Auction events on a schedule.

    Options: ``rates`` (JSON), ``seed``, ``lateness`` (µs), ``gate``, ``all`` (every event at once), ``begin`` (the
    first event).

    Nothing comes before the file ``gate`` exists; it holds the epoch (µs) at which the schedule begins.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock-nexmark"

    def schema(self) -> str:
        """Return the rows' schema as DDL, envelope included."""
        return ROWS

    def simpleStreamReader(self, schema: Any) -> NexmarkReader:  # noqa: N802
        """Return a reader."""
        return NexmarkReader(dict(self.options))


class NexmarkReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the events that are due; the offset is the number of the next event."""

    def __init__(self, options: dict[str, str]) -> None:
        rates = json.loads(options["rates"])
        self.schedule = Schedule.of(rates["values"], rates["period"])
        end_with_parent()
        self.lateness = datetime.timedelta(microseconds=int(options["lateness"]))
        self.gate, self.everything = place_of(options["gate"]), options.get("all") == "true"
        self.seed = int(options.get("seed", "0"))
        self.begin = int(options.get("begin", "0"))
        self.name = options.get("name", "")
        self.salt = self.seed + (zlib.crc32(self.name.encode()) << 32)
        self.events: Nexmark | None = None
        self.epoch = 0
        self.until: float | None = None
        self.fresh = True

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is due now, and nothing that comes later."""
        self._open()
        self.until = time.time() - self.epoch / 1e6

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Begin with the first event to take."""
        return {"source": self.name, "event": self.begin, "starts": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        """Read the events that are due by now; a new reader repeats the event time first, as that of a log does."""
        if not self._open():
            return iter([]), start
        now = time.time() - self.epoch / 1e6 if self.until is None else self.until
        if self.everything:
            now = self.schedule.duration
        starts = start["starts"] + (self.fresh and start["event"] > 0)
        self.fresh = False
        end = {**start, "event": max(start["event"], self.schedule.count_by(now)), "starts": starts}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:  # noqa: N802
        """Read given events; behind them stands a row without identity that carries the event time."""
        self._open()
        first, last = start["event"], end["event"]
        if (last <= first and end["starts"] == start["starts"]) or self.events is None:
            return iter([])
        rows = []
        for row in self.events.rows(first, last):
            key = ((row[0] * 2 + 1) * 0x9E3779B97F4A7C15 + self.salt) % 2**64 - 2**63
            rows.append((*row, key, self.epoch + round((row[3] - self.zero) / self.tick), row[3]))
        at = (rows[-1] if rows else self.events.rows(last - 1, last)[0])[3]
        mark = (*(None,) * (len(COLUMNS) + 1), round((at - EPOCH) / self.tick), at - self.lateness)
        return iter([*rows, mark])

    def _open(self) -> bool:
        if self.events is None and self.gate.exists():
            self.epoch = int(self.gate.read())
            self.events = Nexmark(self.schedule, self.seed, self.epoch)
            self.zero = EPOCH + datetime.timedelta(microseconds=self.epoch)
            self.tick = datetime.timedelta(microseconds=1)
        return self.events is not None

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: any event can be made again."""
