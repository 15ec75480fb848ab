"""What is looked at, in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Iterator

from penstock.files import Document
from penstock.monitor.view import View
from penstock.telemetry.exposition import Metric, exposed

METRICS = (
    Metric("penstock_run_running", "gauge", "1 while the run goes on", ()),
    Metric("penstock_stream_rows_total", "counter", "rows that arrived on a stream", ("stream",)),
    Metric("penstock_stream_dropped_rows_total", "counter", "rows that were dropped on a stream", ("stream",)),
    Metric("penstock_stream_late_rows_total", "counter", "rows that came too late for a window", ("stream",)),
    Metric("penstock_host_busy_ratio", "gauge", "share of the last minute in which the host ran a batch", ("host",)),
    Metric("penstock_host_backlog_rows", "gauge", "rows that wait for the host", ("host",)),
    Metric("penstock_sink_rows_total", "counter", "rows that became visible at a sink", ("sink",)),
    Metric("penstock_sink_latency_seconds", "gauge", "latency over the whole run", ("sink", "quantile")),
    Metric("penstock_sink_batch_seconds", "gauge", "how long batches of a recorded query took", ("sink", "quantile")),
    Metric("penstock_sink_predicted_latency_seconds", "gauge", "latency that was predicted", ("sink", "quantile")),
    Metric("penstock_decisions_total", "counter", "decisions of the controller", ()),
)
"""All metrics of the dashboard; docs/reference/metrics.md is made from this table."""

WORDS = {"worst": "1", "p99": "0.99", "p50": "0.5"}


def exposition(view: View, now: float) -> str:
    """Return the metrics of a view at a time (s since the epoch)."""
    with view.lock:
        live = view.live(now, max(0, view.board.length - math.ceil(60 / view.board.step)))
        rows: dict[str, list[tuple[tuple[str, ...], float]]] = {metric.name: [] for metric in METRICS}
        for name, labels, value in _values(view, live):
            if value is not None:
                rows[name].append((labels, float(value)))
        lines = [line for metric in METRICS for line in exposed(metric, rows[metric.name])]
    return "".join(f"{line}\n" for line in lines)


def _values(view: View, live: Document) -> Iterator[tuple[str, tuple[str, ...], float | None]]:
    totals, series = live["totals"], live["series"]
    yield "penstock_run_running", (), float(view.status.word == "running")
    for name, row in totals["streams"].items():
        for metric, key in (("", "arrived"), ("dropped_", "dropped"), ("late_", "late")):
            yield f"penstock_stream_{metric}rows_total", (name,), row[key]
    yield from _of_sinks(view, totals)
    if view.kind == "plan":
        return  # nothing was measured
    for name, busy, waiting in zip(view.board.hosts, series["busy"], series["backlog"], strict=True):
        told = [share for share in busy if share is not None]
        yield "penstock_host_busy_ratio", (name,), sum(told) / len(told) if told else None
        yield "penstock_host_backlog_rows", (name,), waiting[-1] if waiting else None
    if view.kind == "run":
        yield "penstock_decisions_total", (), float(view.decided)


def _of_sinks(view: View, totals: Document) -> Iterator[tuple[str, tuple[str, ...], float | None]]:
    # Logs tell how long a batch took, not how long a row did.
    measured = "penstock_sink_batch_seconds" if view.kind == "log" else "penstock_sink_latency_seconds"
    for name, row in totals["sinks"].items():
        if view.kind != "plan":
            yield "penstock_sink_rows_total", (name,), row["rows"]
        for key, quantile in WORDS.items():
            if totals["whole"]:
                yield measured, (name, quantile), row["latency"][key]
            if row["predicted"] is not None:
                yield "penstock_sink_predicted_latency_seconds", (name, quantile), row["predicted"][key]
