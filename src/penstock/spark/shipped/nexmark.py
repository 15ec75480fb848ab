"""The Nexmark source: auction events on a schedule."""

from __future__ import annotations

import datetime
import itertools
import json
import time
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from penstock.spark.shipped import Offset
from penstock.spark.shipped.gate import end_with_parent
from penstock.spark.shipped.lockstep import Copy, told_end
from penstock.spark.shipped.parts import Parts
from penstock.spark.shipped.place import place_of
from penstock.workload.nexmark import COLUMNS, SCHEMA, Nexmark, Schedule

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ROWS = f"{SCHEMA}, __id bigint, __stimulus bigint, __time timestamp"
"""The rows' schema as DDL, envelope included."""

Fields = tuple[Any, ...]
"""A row's values, envelope included."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class NexmarkSource(DataSource):
    """Auction events on a schedule.

    Options: ``rates`` (JSON), ``seed``, ``lateness`` (µs), ``gate``, ``all`` (every event at once), ``begin`` (the
    first event), ``slots`` (tasks that make events at a time), ``most`` (events a batch; 0: all that are due), ``copy``
    (which copy of a unit reads).

    Nothing comes before the file ``gate`` exists; it holds the epoch (µs) at which the schedule begins.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock-nexmark"

    def schema(self) -> str:
        """Return the rows' schema as DDL, envelope included."""
        return ROWS

    def streamReader(self, schema: StructType) -> SpreadNexmarkReader:  # noqa: N802
        """Return a reader whose events tasks make, if the host has several at a time."""
        if int(self.options.get("slots", "1")) == 1:
            raise PySparkNotImplementedError(
                errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "streamReader"}
            )  # fmt: skip
        return SpreadNexmarkReader(dict(self.options))

    def simpleStreamReader(self, schema: StructType) -> NexmarkReader:  # noqa: N802
        """Return a reader."""
        return NexmarkReader(dict(self.options))


class Events:
    """The events of a source; the offset is the number of the next one."""

    def __init__(self, options: dict[str, str]) -> None:
        rates = json.loads(options["rates"])
        self.schedule = Schedule.of(rates["values"], rates["period"])
        self.lateness = datetime.timedelta(microseconds=int(options["lateness"]))
        self.gate, self.everything = place_of(options["gate"]), options.get("all") == "true"
        self.seed = int(options.get("seed", "0"))
        self.begin, self.most = int(options.get("begin", "0")), int(options.get("most", "0"))
        self.name = options.get("name", "")
        self.salt = self.seed + (zlib.crc32(self.name.encode()) << 32)
        self.events: Nexmark | None = None
        self.epoch = 0
        self.until: float | None = None
        self.parts, self.copy = Parts(), Copy.of(options)

    def now(self) -> None:
        """Give the events that are due now, and none that come later."""
        self.open()
        self.until = time.time() - self.epoch / 1e6

    @property
    def first(self) -> Offset:
        """The offset of the first event to take."""
        return {"source": self.name, "event": self.begin, "starts": 0}

    def due(self, start: Offset) -> Offset:
        """Return the offset behind the events that are due by now; a new reader counts its start, as that of a log."""
        if (told := told_end(self.copy, self.parts, ("source", "event"), start)) is not None:
            return told
        if not self.open():
            return start
        now = time.time() - self.epoch / 1e6 if self.until is None else self.until
        if self.everything:
            now = self.schedule.duration
        first = start["event"]
        event = max(first, self.schedule.count_by(now))
        starts = start["starts"] + self.parts.begin(middle=first > 0)
        if self.until is None and not self.everything:
            there, event = event, min(event, first + (self.most or event), first + (self.parts.most() or event))
            self.parts.took(event - first, caught_up=event == there)
        return {**start, "event": event, "starts": starts}

    def rows(self, first: int, last: int) -> list[Fields]:
        """Return given events, with envelope."""
        self.open()
        rows = []
        for row in self.events.rows(first, last) if self.events is not None else ():
            key = ((row[0] * 2 + 1) * 0x9E3779B97F4A7C15 + self.salt) % 2**64 - 2**63
            rows.append((*row, key, self.epoch + round((row[3] - self.zero) / self.tick), row[3]))
        return rows

    def mark(self, start: Offset, end: Offset, rows: list[Fields]) -> list[Fields]:
        """Return a row without identity that carries the event time behind given events (``rows``, if at hand)."""
        self.open()
        if (end["event"] <= start["event"] and end["starts"] == start["starts"]) or self.events is None:
            return []
        at = (rows[-1] if rows else self.events.rows(end["event"] - 1, end["event"])[0])[3]
        return [(*(None,) * (len(COLUMNS) + 1), round((at - EPOCH) / self.tick), at - self.lateness)]

    def open(self) -> bool:
        """Look whether the schedule has begun."""
        if self.events is None and self.gate.exists():
            self.epoch = int(self.gate.read())
            self.events = Nexmark(self.schedule, self.seed, self.epoch)
            self.zero = EPOCH + datetime.timedelta(microseconds=self.epoch)
            self.tick = datetime.timedelta(microseconds=1)
        return self.events is not None


class NexmarkReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the events that are due, in the query's own process."""

    def __init__(self, options: dict[str, str]) -> None:
        self.events = Events(options)
        end_with_parent()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is due now, and nothing that comes later."""
        self.events.now()

    def initialOffset(self) -> Offset:  # noqa: N802
        """Begin with the first event to take."""
        return self.events.first

    def read(self, start: Offset) -> tuple[Iterator[Fields], Offset]:
        """Read the events that are due by now."""
        end = self.events.due(start)
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Fields]:  # noqa: N802
        """Read given events, and the mark behind them."""
        rows = self.events.rows(start["event"], end["event"])
        return iter([*rows, *self.events.mark(start, end, rows)])

    def commit(self, end: Offset) -> None:
        """Nothing to do: any event can be made again."""


class SpreadNexmarkReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the events that are due, by several tasks at a time."""

    def __init__(self, options: dict[str, str]) -> None:
        self.events, self.slots = Events(options), int(options["slots"])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is due now, and nothing that comes later."""
        self.events.now()

    def initialOffset(self) -> Offset:  # noqa: N802
        """Begin with the first event to take."""
        end_with_parent()
        return self.events.first

    def latestOffset(self, start: Offset, _limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the offset behind the events that are due by now."""
        end_with_parent()
        return self.events.due(start)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return which events each task makes; the last one also the mark."""
        first, last = start["event"], max(start["event"], end["event"])
        cuts = [first + (last - first) * number // self.slots for number in range(self.slots + 1)]
        shares = [(begin, until, None) for begin, until in itertools.pairwise(cuts) if until > begin]
        return [InputPartition(share) for share in [*shares, (last, last, (start, end))]]

    def read(self, partition: InputPartition) -> Iterator[Fields]:
        """Make a task's share."""
        first, last, ends = partition.value
        if ends is None:
            return iter(self.events.rows(first, last))
        start, end = ends
        return iter(self.events.mark(start, end, []))

    def commit(self, end: Offset) -> None:
        """Nothing to do: any event can be made again."""
