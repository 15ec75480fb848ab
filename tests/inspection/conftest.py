"""Made event logs: the numbers in them are chosen, so that a test knows what must be found."""

from __future__ import annotations

import gzip
import json
import struct
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pyarrow
import pytest
from backports import zstd

EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z
STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"


def iso(when: float) -> str:
    """Return a time as Spark writes it."""
    return datetime.fromtimestamp(round(when, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@attrs.frozen(kw_only=True)
class Batch:
    """One batch as a test wants it; the offsets are Kafka's."""

    query: str
    number: int
    start: float
    rows: int
    seconds: float
    offset: int = 0
    lag: int = 0
    run: int = 0
    state: int | None = None
    late: int = 0
    tasks: tuple[float, ...] = ()


def identifier(*words: object) -> str:
    """Return an identifier that is the same in every run of the tests."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, words))))


def progress(batch: Batch, *, named: bool = True, text_offsets: bool = True, version: str = "4.3.0") -> dict[str, Any]:
    """Return a progress report as Spark of a version writes it."""
    ms = round(1000 * batch.seconds)

    def offset(value: int) -> Any:
        shown = {batch.query: {"0": value // 2, "1": value - value // 2}}
        return json.dumps(shown) if text_offsets else shown

    source = {
        "description": f"KafkaV2[Subscribe[{batch.query}]]",
        "startOffset": offset(batch.offset),
        "endOffset": offset(batch.offset + batch.rows),
        "latestOffset": offset(batch.offset + batch.rows + batch.lag),
        "numInputRows": batch.rows,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 2.0,
    }
    if version >= "3.2":
        source["metrics"] = {"avgOffsetsBehindLatest": str(batch.lag / 2)}
    state = {
        "operatorName": "stateStoreSave",
        "numRowsTotal": batch.state,
        "numRowsUpdated": 1,
        "memoryUsedBytes": 100 * (batch.state or 0),
        "numRowsDroppedByWatermark": batch.late,
        "commitTimeMs": 4,
        "customMetrics": {"loadedMapCacheHitCount": 3},
    }
    durations = {"addBatch": ms - 30, "walCommit": 10, "queryPlanning": 12, "latestOffset": 2, "getBatch": 1}
    durations["commitOffsets"] = 5
    report: dict[str, Any] = {
        "id": identifier(batch.query),
        "runId": identifier(batch.query, batch.run),
        "name": batch.query if named else None,
        "timestamp": iso(batch.start),
        "batchId": batch.number,
        "durationMs": {"triggerExecution": ms, **durations},
        "eventTime": {},
        "stateOperators": [] if batch.state is None else [state],
        "sources": [source],
        "sink": {"description": "Files", "numOutputRows": -1},
        "observedMetrics": {},
    }
    if version >= "3.4":
        report["batchDuration"] = ms
    return report


def events(batches: Iterable[Batch], *, app: str = "app-1", cores: int = 4, version: str = "4.3.0") -> list[str]:
    """Return the lines of an event log: what penstock reads among what it passes over."""
    batches = sorted(batches, key=lambda batch: batch.start + batch.seconds)
    first = min(batch.start for batch in batches) - 5
    last = max(batch.start + batch.seconds for batch in batches)
    found: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": version},
        {"Event": "SparkListenerResourceProfileAdded", "Resource Profile Id": 0},
        {
            "Event": "SparkListenerExecutorAdded",
            "Timestamp": round(1000 * first) + 500,
            "Executor ID": "1",
            "Executor Info": {"Host": "h", "Total Cores": cores, "Log Urls": {}},
        },
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.sql.shuffle.partitions": "4"}},
        {
            "Event": "SparkListenerApplicationStart",
            "App Name": "made",
            "App ID": app,
            "Timestamp": round(1000 * first),
            "User": "nobody",
        },
    ]
    begun: set[str] = set()
    task = 0
    for job, batch in enumerate(batches):
        report = progress(batch, version=version)
        if report["runId"] not in begun:
            begun.add(report["runId"])
            started = {key: report[key] for key in ("id", "runId", "name", "timestamp")}
            found.append({"Event": f"{STREAMING}QueryStartedEvent", **started})
        plan = {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", "plan": "x" * 300}
        found += [plan, _job(job, report)]
        for seconds in batch.tasks:
            found.append(_task(job, task, seconds))
            task += 1
        found.append({"Event": f"{STREAMING}QueryProgressEvent", "progress": report})
    found.append({"Event": "SparkListenerApplicationEnd", "Timestamp": round(1000 * last)})
    return [json.dumps(event, separators=(",", ":")) for event in found]


def _job(job: int, report: dict[str, Any]) -> dict[str, Any]:
    return {
        "Event": "SparkListenerJobStart",
        "Job ID": job,
        "Stage Infos": [],
        "Stage IDs": [job],
        "Properties": {
            "sql.streaming.queryId": report["id"],
            "streaming.sql.batchId": str(report["batchId"]),
            "callSite.long": "somewhere",
        },
    }


def _task(stage: int, number: int, seconds: float) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task Type": "ResultTask",
        "Task End Reason": {"Reason": "Success"},
        "Task Info": {"Task ID": number, "Accumulables": [{"ID": 1, "Name": "n", "Update": "3"}]},
        "Task Metrics": {
            "Executor Run Time": round(1000 * seconds),
            "Executor CPU Time": round(0.8e9 * seconds),
            "JVM GC Time": 2,
        },
    }


def paced(
    query: str = "clicks",
    *,
    count: int = 60,
    overhead: float = 0.2,
    cost: float = 0.001,
    rate: Callable[[int], float] = lambda number: 400 + 300 * np.sin(number),
    trigger: float = 2.0,
    noise: float = 0.0,
    seed: int = 0,
    begin: float = EPOCH,
    **more: Any,
) -> list[Batch]:
    """Return the batches of a query under a trigger, as Spark paces them; `more` goes into each batch.

    Values of `more` that are callable are called with the batch's number.
    """
    rng = np.random.default_rng(seed)
    found, start, offset = [], begin, 0
    for number in range(count):
        rows = max(round(rate(number) * trigger), 0)
        seconds = round((overhead + cost * rows) * float(np.exp(noise * rng.standard_normal())), 3)
        extra = {key: value(number) if callable(value) else value for key, value in more.items()}
        found.append(Batch(query=query, number=number, start=start, rows=rows, seconds=seconds, offset=offset, **extra))
        offset += rows
        due = begin + trigger * (np.floor((start - begin) / trigger + 1e-6) + 1)
        start = round(max(due, start + seconds), 3)
    return found


def lz4_blocks(data: bytes, size: int = 32 * 1024) -> bytes:
    """Compress as lz4-java's LZ4BlockOutputStream does."""
    codec = pyarrow.Codec("lz4_raw")
    parts = []
    for at in range(0, len(data), size):
        plain = data[at : at + size]
        packed = codec.compress(plain, asbytes=True)
        parts.append(struct.pack("<8sBiiI", b"LZ4Block", 0x25, len(packed), len(plain), 0) + packed)
    return b"".join([*parts, struct.pack("<8sBiiI", b"LZ4Block", 0x15, 0, 0, 0)])


def snappy_chunks(data: bytes, size: int = 32 * 1024) -> bytes:
    """Compress as snappy-java's SnappyOutputStream does."""
    codec = pyarrow.Codec("snappy")
    parts = [b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)]
    for at in range(0, len(data), size):
        packed = codec.compress(data[at : at + size], asbytes=True)
        parts.append(struct.pack(">i", len(packed)) + packed)
    return b"".join(parts)


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "zstd": zstd.compress,
    "zstd in frames": lambda data: b"".join(zstd.compress(data[at : at + 5000]) for at in range(0, len(data), 5000)),
    "gz": gzip.compress,
    "lz4": lz4_blocks,
    "snappy": snappy_chunks,
    "lz4 frame": lambda data: pyarrow.compress(data, "lz4", asbytes=True),
}


def text(lines: Iterable[str]) -> bytes:
    """Return lines as the bytes of a file."""
    return "".join(line + "\n" for line in lines).encode()


@pytest.fixture
def make() -> SimpleNamespace:
    """The maker of logs."""
    return SimpleNamespace(
        Batch=Batch,
        CODECS=CODECS,
        EPOCH=EPOCH,
        STREAMING=STREAMING,
        events=events,
        identifier=identifier,
        iso=iso,
        paced=paced,
        progress=progress,
        text=text,
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write the event log of some batches, and return its path."""

    def written(batches: Iterable[Batch], name: str = "app-1", **options: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text(events(batches, **options)))
        return path

    return written
