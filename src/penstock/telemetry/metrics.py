"""Metrics of running queries, kept up to date by what the queries tell, in Prometheus' text format."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

from penstock.telemetry.cause import cause_of
from penstock.telemetry.columns import Columns
from penstock.telemetry.events import Event, Progress, QueryStarted, QueryTerminated
from penstock.telemetry.exposition import BUCKETS, METRICS, escaped, exposed, heading


class Metrics:
    """The metrics of all queries; taking an event in and showing them may happen on different threads."""

    def __init__(self, dropped: Callable[[], int] = lambda: 0) -> None:
        self._dropped = dropped
        self._lock = threading.Lock()
        self._values: dict[str, dict[tuple[str, ...], float]] = {metric.name: {} for metric in METRICS}
        self._buckets: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._names: dict[str, str] = {}

    def take(self, event: Event) -> None:
        """Take one event in."""
        with self._lock:
            if isinstance(event, Progress):
                self._progress(event)
            elif isinstance(event, QueryStarted):
                query = self._known(event)
                self._add("penstock_query_starts_total", 1, query)
                self._set("penstock_query_running", 1, query)
            elif isinstance(event, QueryTerminated):
                query = self._names.get(event.id, event.id)
                self._set("penstock_query_running", 0, query)
                self._add("penstock_query_failures_total", 1 if cause_of(event.exception) else 0, query)

    def _known(self, event: QueryStarted | Progress) -> str:
        """Return the name of a query, whose counters are there from now on: what is first seen at 1 has not grown."""
        query = self._names[event.id] = event.name or event.id
        for name in ("penstock_query_starts_total", "penstock_query_failures_total"):
            self._add(name, 0, query)
        return query

    def _progress(self, progress: Progress) -> None:
        columns = Columns()
        columns.add(progress, 0, None)
        batch = columns.table()
        query = self._known(progress)
        self._set("penstock_query_running", 1, query)
        self._set("penstock_query_lag_rows", float(batch.lag[0]), query)
        if "addBatch" not in progress.durations and not batch.rows[0]:
            return  # Spark only looked for data
        took = float(batch.duration[0])
        self._add("penstock_query_rows_total", float(batch.rows[0]), query)
        self._add("penstock_query_output_rows_total", float(batch.output[0]), query)
        self._add("penstock_query_late_rows_total", float(batch.late[0]), query)
        for part, seconds in batch.parts.items():
            self._add("penstock_query_part_seconds_total", float(seconds[0]), query, part)
        start = progress.start
        self._set("penstock_query_last_batch_timestamp_seconds", start, query)
        self._set("penstock_query_event_time_lag_seconds", start - float(batch.event_time[0]), query)
        if progress.state_operators:
            self._set("penstock_query_state_rows", float(batch.state_rows[0]), query)
            self._set("penstock_query_state_bytes", float(batch.state_bytes[0]), query)
        counts = self._buckets.setdefault(query, [0] * len(BUCKETS))
        for number, end in enumerate(BUCKETS):
            counts[number] += took <= end
        self._sums[query] = self._sums.get(query, 0.0) + took

    def _set(self, name: str, value: float, *labels: str) -> None:
        if not math.isnan(value):
            self._values[name][labels] = value

    def _add(self, name: str, value: float, *labels: str) -> None:
        if not math.isnan(value):
            self._values[name][labels] = self._values[name].get(labels, 0.0) + value

    def text(self) -> str:
        """Return all metrics in Prometheus' text format 0.0.4."""
        with self._lock:
            return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for metric in METRICS:
            if metric.type == "histogram":
                yield from heading(metric)
                yield from self._histogram(metric.name)
            elif not metric.labels:
                yield from exposed(metric, [((), self._dropped())])
            else:
                yield from exposed(metric, sorted(self._values[metric.name].items()))

    def _histogram(self, name: str) -> Iterator[str]:
        for query, counts in sorted(self._buckets.items()):
            label = f'query="{escaped(query)}"'
            for end, count in zip(BUCKETS, counts, strict=True):
                shown = "+Inf" if math.isinf(end) else f"{end:g}"
                yield f'{name}_bucket{{{label},le="{shown}"}} {count}'
            yield f"{name}_sum{{{label}}} {self._sums[query]:.17g}"
            yield f"{name}_count{{{label}}} {counts[-1]}"
