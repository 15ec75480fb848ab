"""Which metrics there are, and how Prometheus reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import attrs

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
    Metric("penstock_query_late_rows_total", "counter", "rows behind the watermark, not taken (or their groups)"),
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


def exposed(metric: Metric, values: Iterable[tuple[tuple[str, ...], float]]) -> Iterator[str]:
    """Return the lines of a metric that is no histogram: its labels' values, and its value."""
    yield from heading(metric)
    for labels, value in values:
        shown = ",".join(f'{k}="{escaped(v)}"' for k, v in zip(metric.labels, labels, strict=True))
        yield f"{metric.name}{{{shown}}} {value:.17g}" if shown else f"{metric.name} {value:.17g}"


def heading(metric: Metric) -> Iterator[str]:
    """Return the lines that say what a metric is."""
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.type}"


def escaped(text: str) -> str:
    """Return a label's value as it is written between quotes."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
