"""The few kinds of lines in an event log that tell of streaming, as checked values; all others are not even parsed.

An event log has a JSON document a line, which begins with its kind: ``{"Event":"SparkListenerTaskEnd",…``. Nine tenths
of the bytes are query plans and task metrics that nobody asks for here, so lines are told apart by their first bytes,
and of those that count only the fields named below are decoded (msgspec skips over the rest).
"""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from typing import Any

import msgspec

from penstock.files import Document

KIND = b'{"Event":"'
"""What a line of an event log begins with."""

STORES = (
    (b'"rocksdb', "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"),
    (b'"loadedMapCache', "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"),
)
"""Classes of state stores by what only their metrics have."""

_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"


class SourceProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One source of a progress report."""

    description: str = ""
    start_offset: msgspec.Raw = msgspec.Raw(b"null")
    end_offset: msgspec.Raw = msgspec.Raw(b"null")
    latest_offset: msgspec.Raw = msgspec.Raw(b"null")
    num_input_rows: int | None = 0
    metrics: Document | None = None


class StateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One stateful operator of a progress report."""

    operator_name: str | None = None
    num_rows_total: int | None = 0
    memory_used_bytes: int | None = 0
    num_rows_dropped_by_watermark: int | None = 0
    commit_time_ms: int | None = 0
    num_shuffle_partitions: int | None = None
    custom_metrics: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def store(self) -> str:
        """Class of its state store, as its metrics show; empty where they do not."""
        metrics = bytes(self.custom_metrics)
        return next((name for key, name in STORES if key in metrics), "")


class SinkProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The sink of a progress report; ``num_output_rows`` is -1 where it does not count."""

    description: str = ""
    num_output_rows: int | None = -1


class Progress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One ``StreamingQueryProgress``, as Spark 3.3 to 4.3 and Databricks write it."""

    id: str
    run_id: str
    timestamp: str
    name: str | None = None
    batch_id: int = -1
    batch_duration: float | None = None
    num_input_rows: int | None = None
    duration_ms: dict[str, float | None] | None = None
    event_time: dict[str, str | None] | None = None
    state_operators: list[StateProgress] | None = None
    sources: list[SourceProgress] | None = None
    sink: SinkProgress | None = None

    @property
    def start(self) -> float:
        """When the batch was triggered (s since the epoch).

        Raises
        ------
        Unreadable
            If that is no time, or none that a clock shows.
        """
        when = epoch(self.timestamp)
        if when <= 0:
            raise Unreadable(f"no time of a batch: {self.timestamp[:40]!r}")
        return when

    @property
    def durations(self) -> dict[str, float]:
        """Milliseconds by part of the batch."""
        return {name: value for name, value in (self.duration_ms or {}).items() if value is not None}


class ProgressEvent(msgspec.Struct, frozen=True, gc=False):
    """A progress report within an event log."""

    progress: Progress


class QueryStarted(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A query was started."""

    id: str
    run_id: str
    name: str | None = None
    timestamp: str | None = None


class QueryTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A query has ended, by an exception or not."""

    id: str
    run_id: str
    exception: str | None = None


class ApplicationStart(msgspec.Struct, frozen=True, gc=False):
    """The application's name, identifier and start (ms since the epoch)."""

    name: str = msgspec.field(name="App Name", default="")
    id: str | None = msgspec.field(name="App ID", default=None)
    time: int = msgspec.field(name="Timestamp", default=0)


class ApplicationEnd(msgspec.Struct, frozen=True, gc=False):
    """The application's end (ms since the epoch)."""

    time: int = msgspec.field(name="Timestamp", default=0)


class LogStart(msgspec.Struct, frozen=True, gc=False):
    """The version of Spark that wrote the log."""

    version: str = msgspec.field(name="Spark Version", default="")


class ExecutorInfo(msgspec.Struct, frozen=True, gc=False):
    """What an executor has."""

    cores: int = msgspec.field(name="Total Cores", default=0)


class ExecutorAdded(msgspec.Struct, frozen=True, gc=False):
    """An executor has come."""

    time: int = msgspec.field(name="Timestamp")
    executor: str = msgspec.field(name="Executor ID")
    info: ExecutorInfo = msgspec.field(name="Executor Info")


class ExecutorRemoved(msgspec.Struct, frozen=True, gc=False):
    """An executor has gone."""

    time: int = msgspec.field(name="Timestamp")
    executor: str = msgspec.field(name="Executor ID")


class Environment(msgspec.Struct, frozen=True, gc=False):
    """The application's settings."""

    properties: dict[str, object] = msgspec.field(name="Spark Properties", default_factory=dict)


class JobProperties(msgspec.Struct, frozen=True, gc=False):
    """Which batch of which query a job belongs to."""

    query: str | None = msgspec.field(name="sql.streaming.queryId", default=None)
    batch: str | None = msgspec.field(name="streaming.sql.batchId", default=None)


class JobStart(msgspec.Struct, frozen=True, gc=False):
    """A job and its stages."""

    stages: list[int] = msgspec.field(name="Stage IDs", default_factory=list)
    properties: JobProperties | None = msgspec.field(name="Properties", default=None)
    infos: msgspec.Raw = msgspec.field(name="Stage Infos", default=msgspec.Raw(b"[]"))

    @property
    def real_time(self) -> bool:
        """Whether it reads a source in real-time mode, as the names of its RDDs' operators tell."""
        return b"RealTimeStreamScan" in bytes(self.infos)


class TaskMetrics(msgspec.Struct, frozen=True, gc=False):
    """What a task has used (ms)."""

    run: int = msgspec.field(name="Executor Run Time", default=0)
    collecting: int = msgspec.field(name="JVM GC Time", default=0)


class TaskEnd(msgspec.Struct, frozen=True, gc=False):
    """A task has ended."""

    stage: int = msgspec.field(name="Stage ID")
    metrics: TaskMetrics | None = msgspec.field(name="Task Metrics", default=None)


Event = (
    ApplicationEnd | ApplicationStart | Environment | ExecutorAdded | ExecutorRemoved | JobStart | LogStart
    | Progress | QueryStarted | QueryTerminated | TaskEnd
)  # fmt: skip

_PROGRESS = msgspec.json.Decoder(Progress)
_DECODERS: dict[bytes, msgspec.json.Decoder[Any]] = {
    name.encode(): msgspec.json.Decoder(kind)
    for name, kind in {
        "SparkListenerLogStart": LogStart,
        "SparkListenerApplicationStart": ApplicationStart,
        "SparkListenerApplicationEnd": ApplicationEnd,
        "SparkListenerEnvironmentUpdate": Environment,
        "SparkListenerExecutorAdded": ExecutorAdded,
        "SparkListenerExecutorRemoved": ExecutorRemoved,
        "SparkListenerJobStart": JobStart,
        "SparkListenerTaskEnd": TaskEnd,
        f"{_STREAMING}QueryStartedEvent": QueryStarted,
        f"{_STREAMING}QueryProgressEvent": ProgressEvent,
        f"{_STREAMING}QueryTerminatedEvent": QueryTerminated,
    }.items()
}
_NO_NUMBER = re.compile(rb":\s*(NaN|-?Infinity)\b")
_SPACED = re.compile(rb'\s*\{\s*"Event"\s*:\s*"([^"]*)"')


_DAMAGE = msgspec.DecodeError, UnicodeDecodeError, RecursionError
"""What reading JSON ends with that is none, or is nested too deeply."""


class Unreadable(ValueError):
    """A line is neither an event nor a progress report, or is damaged."""


def parse(line: bytes) -> Event | None:
    """Return the event of a line, or None where it tells nothing about streaming.

    Raises
    ------
    Unreadable
        If the line is damaged, or is nothing that Spark writes.
    """
    if line.startswith(KIND):
        name = line[len(KIND) : line.find(b'"', len(KIND))]
    elif found := _SPACED.match(line):
        name = found[1]
    elif line.isspace() or not line:
        return None
    else:
        return _progress(line)
    decoder = _DECODERS.get(name)
    if decoder is None:
        if not line.rstrip().endswith(b"}"):
            raise Unreadable("cut off")
        return None
    try:
        event = decoder.decode(line)
    except _DAMAGE as error:
        raise Unreadable(str(error)) from None
    found_event: Event = event.progress if type(event) is ProgressEvent else event
    return found_event


def _progress(line: bytes) -> Progress:
    try:
        # Python writes rates that Spark does not know as NaN or Infinity, which is no JSON.
        odd = b"NaN" in line or b"Infinity" in line
        return _PROGRESS.decode(_NO_NUMBER.sub(b": null", line) if odd else line)
    except _DAMAGE as error:
        raise Unreadable(str(error)) from None


def epoch(timestamp: str) -> float:
    """Return seconds since the epoch of one of Spark's timestamps, such as ``2026-01-01T10:00:00.123Z``.

    Raises
    ------
    Unreadable
        If it is none.
    """
    try:
        found = datetime.datetime.fromisoformat(timestamp)
    except ValueError:
        raise Unreadable(f"no time: {timestamp[:40]!r}") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)).timestamp()


def offsets(raw: msgspec.Raw) -> float | None:
    """Return how far an offset is, as one number: Kafka's partitions added up, a counter as it is; None of others.

    Event logs hold offsets as texts with JSON in them, progress reports as JSON.
    """
    return _offset(bytes(raw))


@lru_cache(maxsize=256)
def _offset(raw: bytes) -> float | None:
    """Return an offset as a number; a batch begins where the last one ended, so most are asked for twice or more."""
    try:
        value = msgspec.json.decode(raw)
        if isinstance(value, str):
            value = msgspec.json.decode(value)
        return _total(value)
    except _DAMAGE:
        return None


def _total(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | dict):
        return None
    if not isinstance(value, dict):
        try:
            return float(value)
        except OverflowError:
            return None
    if "sourceVersion" in value or "reservoirVersion" in value:  # Delta: a version and a place in it, not a count
        return None
    parts = [_total(part) for part in value.values()]
    return sum(part for part in parts if part is not None) if parts and None not in parts else None
