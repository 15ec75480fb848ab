"""Metrics of running queries in Prometheus' text format, and the small server that shows them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attrs

from penstock.errors import InputError
from penstock.telemetry.columns import Columns
from penstock.telemetry.events import Event, Progress, QueryStarted, QueryTerminated, epoch

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, math.inf)
"""Upper ends of the histogram of batch times (s)."""


@attrs.frozen
class Metric:
    """One metric: its name (with the unit), its type, its labels besides ``query``, and what it says."""

    name: str
    type: str
    help: str
    labels: tuple[str, ...] = ("query",)


METRICS: tuple[Metric, ...] = (
    Metric("penstock_query_running", "gauge", "1 while the query runs, 0 after it has ended"),
    Metric("penstock_query_starts_total", "counter", "starts of the query since the listener was added"),
    Metric("penstock_query_failures_total", "counter", "ends of the query by an exception"),
    Metric("penstock_query_rows_total", "counter", "rows read"),
    Metric("penstock_query_output_rows_total", "counter", "rows that the sink took, where it counts them"),
    Metric("penstock_query_late_rows_total", "counter", "rows that came behind the watermark and were not taken"),
    Metric("penstock_query_batch_seconds", "histogram", "seconds a batch"),
    Metric("penstock_query_part_seconds_total", "counter", "seconds spent in a part of the batches", ("query", "part")),
    Metric("penstock_query_last_batch_timestamp_seconds", "gauge", "when the last batch began, since the epoch"),
    Metric("penstock_query_lag_rows", "gauge", "rows that wait at the sources after the last batch"),
    Metric("penstock_query_event_time_lag_seconds", "gauge", "begin of the last batch minus its youngest event time"),
    Metric("penstock_query_state_rows", "gauge", "rows in the state of all stateful operators"),
    Metric("penstock_query_state_bytes", "gauge", "memory of the state of all stateful operators"),
    Metric("penstock_listener_dropped_events_total", "counter", "events left out because too many waited", ()),
)
"""All metrics; docs/reference/metrics.md is made from this table."""


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
                query = self._names[event.id] = event.name or event.id
                self._add("penstock_query_starts_total", 1, query)
                self._set("penstock_query_running", 1, query)
            elif isinstance(event, QueryTerminated):
                query = self._names.get(event.id, event.id)
                self._set("penstock_query_running", 0, query)
                self._add("penstock_query_failures_total", 1 if event.exception else 0, query)

    def _progress(self, progress: Progress) -> None:
        columns = Columns()
        columns.add(progress, 0, None)
        batch = columns.table()
        query = self._names[progress.id] = progress.name or progress.id
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
        start = epoch(progress.timestamp)
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
                yield from _heading(metric)
                yield from self._histogram(metric.name)
            elif not metric.labels:
                yield from exposed(metric, [((), self._dropped())])
            else:
                yield from exposed(metric, sorted(self._values[metric.name].items()))

    def _histogram(self, name: str) -> Iterator[str]:
        for query, counts in sorted(self._buckets.items()):
            label = f'query="{_escaped(query)}"'
            for end, count in zip(BUCKETS, counts, strict=True):
                shown = "+Inf" if math.isinf(end) else f"{end:g}"
                yield f'{name}_bucket{{{label},le="{shown}"}} {count}'
            yield f"{name}_sum{{{label}}} {self._sums[query]:.17g}"
            yield f"{name}_count{{{label}}} {counts[-1]}"


def exposed(metric: Metric, values: Iterable[tuple[tuple[str, ...], float]]) -> Iterator[str]:
    """Return the lines of a metric that is no histogram: its labels' values, and its value."""
    yield from _heading(metric)
    for labels, value in values:
        shown = ",".join(f'{k}="{_escaped(v)}"' for k, v in zip(metric.labels, labels, strict=True))
        yield f"{metric.name}{{{shown}}} {value:.17g}" if shown else f"{metric.name} {value:.17g}"


def _heading(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.type}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class MetricsServer:
    """Shows metrics at ``/metrics``.

    Parameters
    ----------
    metrics
        What is shown.
    port
        0: any free one; `port` says which.
    address
        The loopback interface unless told otherwise.

    Raises
    ------
    InputError
        If the port is taken.
    """

    def __init__(self, metrics: Metrics, port: int, address: str = "127.0.0.1") -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.partition("?")[0] in ("/metrics", "/")
                body = metrics.text().encode() if found else b"look at /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Stay silent."""

        try:
            self._server = ThreadingHTTPServer((address, port), Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(
                f"cannot listen on {address}:{port}: {why}", at="prometheus", hint="give another port"
            ) from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="penstock metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
