"""Spark's report of a batch, kept in the run's folder: how long it took, and what only Spark has counted."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.spark.shipped.spec import WriterSpec
from penstock.spark.shipped.told import report_of

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.connect.streaming.query import StreamingQuery
    from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

    from penstock.files import Document

EPOCH = "1970-01-01T00:00:00.000Z"
"""Spark's watermark until event time has come further."""


def document(progress: StreamingQueryProgress, spec: WriterSpec, frontiers: Mapping[str, int]) -> Document | None:
    """Return what is kept of a report; None of one that tells of no batch (Spark only looked for data).

    Parameters
    ----------
    progress
        Spark's ``StreamingQueryProgress``.
    frontiers
        Of sources without marks (µs, by name), as they were before the batch.
    """
    durations = progress.durationMs or {}
    if "addBatch" not in durations:
        return None
    observed = progress.observedMetrics or {}
    counts: dict[str, list[int]] = {}
    for name, streams in spec.observations.items():
        values = _values(observed.get(name))
        for stream, numbers in streams.items():
            before = counts.get(stream, [0, 0])
            counts[stream] = [was + _count(values, number) for was, number in zip(before, numbers, strict=True)]
    reached = dict(frontiers)
    for number, origin in enumerate(spec.origins):
        for name in observed:
            if name.startswith(f"water{number}_"):
                latest = _count(_values(observed[name]), 0)
                if latest:
                    frontier = latest - origin.lateness
                    reached[origin.name] = max(frontier, reached.get(origin.name, frontier))
    late: dict[str, int] = {}
    kept: dict[str, tuple[int, float]] = {}
    for stream, state in zip(spec.stateful, progress.stateOperators or (), strict=False):
        late[stream] = late.get(stream, 0) + int(state.numRowsDroppedByWatermark)
        kept[stream] = int(state.memoryUsedBytes), int(state.commitTimeMs) / 1000
    return {
        "batch": progress.batchId,
        "start": datetime.datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp(),
        "duration": durations["triggerExecution"] / 1000,
        "rows": int(progress.numInputRows or 0),
        "counts": counts,
        "late": {stream: rows for stream, rows in late.items() if rows},
        "state": kept,
        "begun": (progress.eventTime or {}).get("watermark", EPOCH) != EPOCH,
        "frontiers": reached,
        "durations": durations,
        "ahead": _ahead(progress.sources),
    }


def _ahead(sources: Iterable[SourceProgress]) -> dict[str, int]:
    """Return by topic the rows that were there when a batch was planned, and that it left for later ones."""
    found: dict[str, int] = {}
    for source in sources:
        latest, end = (_topics(text) for text in (source.latestOffset, source.endOffset))
        for topic, parts in latest.items():
            behind = (max(0, int(at) - int(end.get(topic, {}).get(part, at))) for part, at in parts.items())
            found[topic] = found.get(topic, 0) + sum(behind)
    return found


def _topics(text: str | None) -> dict[str, dict[str, int]]:
    """Return by topic and partition the offset that a Kafka source tells; nothing of any other source."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return {}
    return {name: part for name, part in value.items() if isinstance(part, dict)} if isinstance(value, dict) else {}


def save(progress: StreamingQueryProgress, spec: WriterSpec) -> bool:
    """Keep a report; return False if it tells of no batch."""
    before = report_of(spec.folder, spec.query, progress.batchId - 1)
    try:
        frontiers = json.loads(before.read())["frontiers"]
    except FileNotFoundError:
        frontiers = {}
    content = document(progress, spec, frontiers)
    if content is None:
        return False
    report_of(spec.folder, spec.query, progress.batchId).publish(json.dumps(content).encode())
    return True


class Reports:
    """The reports of a query's batches, asked of Spark by the query's own writer."""

    def __init__(self, spec: WriterSpec) -> None:
        self._spec = spec
        self._query: StreamingQuery | None = None

    def keep_before(self, batch: int) -> None:
        """Keep the report of the batch before this one.

        Nothing of a batch is computed before: so at most the last ended batch must be done again for its counts after a
        kill, and the controller need not live.

        Raises
        ------
        RuntimeError
            If Spark does not tell.
        """
        spec = self._spec
        if not spec.observed or batch == 0 or report_of(spec.folder, spec.query, batch - 1).exists():
            return
        if self._query is None:
            self._query = self._found()
        query = self._query
        for progress in (query.lastProgress, *reversed(query.recentProgress)) if query is not None else ():
            if progress is not None and progress.batchId == batch - 1 and save(progress, spec):
                return
        raise RuntimeError(f"Spark does not tell what batch {batch - 1} of {spec.query} counted")

    def _found(self) -> StreamingQuery | None:
        from pyspark.sql.connect.session import SparkSession

        url = f"{os.environ['SPARK_CONNECT_LOCAL_URL']};session_id={self._spec.session}"
        session = SparkSession.builder.remote(url).create()
        return next((query for query in session.streams.active if query.name == self._spec.query), None)


def _count(values: Sequence[Any], number: int | None) -> int:
    """Return a count among an observation's values, which has none of a batch in which Spark computed nothing."""
    return int(values[number] or 0) if values and number is not None else 0


def _values(row: Row | Mapping[str, Any] | None) -> list[Any]:
    """Return the values of an observation, which Connect gives as a row or as a table of its parts."""
    if row is None:
        return []
    values = row.get("values", row) if isinstance(row, dict) else row
    if hasattr(row, "asDict"):
        fields = row.asDict()
        values = fields.get("values", fields)
    if isinstance(values, dict):
        values = list(values.values())
    return list(values)
