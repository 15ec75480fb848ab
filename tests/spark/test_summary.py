"""The report of a run, from batches that need no Spark."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from penstock.network import Network, Operator, Sink, Source
from penstock.running.report import unread
from penstock.spark.run import Batch, Outcome
from penstock.spark.run.history import History
from penstock.spark.run.summary import summary

NETWORK = Network.of(
    "one", [Source(name="s")], [Operator(name="a", kind="map", inputs=("s",))], [Sink(name="z", input="a")]
)


def busy(batches: list[Batch], history: History | None = None) -> float | None:
    """Return how busy the only host was."""
    nothing = {"z": np.zeros(0)}
    outcome = Outcome(1000.0, batches, nothing, nothing, {}, 10.0, history=history or History())
    found: float | None = summary(outcome, NETWORK, {"a": "h1"}, ["h1"])["hosts"]["h1"]["busy"]
    return found


def batch(query: str, number: int, start: float, duration: float) -> Batch:
    """Return a batch without rows."""
    return Batch(query, number, start, duration, 0, {}, host="h1")


def test_a_host_that_does_several_batches_at_once_is_busy_once() -> None:
    """How busy a host was is a share of the time, however many of its queries had a batch."""
    assert busy([batch("a", 0, 1000.0, 4.0), batch("b", 0, 1002.0, 4.0), batch("c", 0, 1009.0, 1.0)]) == 0.7


def test_a_host_is_idle_until_a_run_ends() -> None:
    """A run lasts from its first rows to its end, however early its last batch ended; also where none came at all."""
    nothing = {"z": np.zeros(0)}
    only = attrs.evolve(batch("a", 0, 997.0, 2.0), rows=5)
    outcome = Outcome(1000.0, [only], nothing, nothing, {}, 10.0, begun=[1000.0], ended=[1017.0])
    assert summary(outcome, NETWORK, {"a": "h1"}, ["h1"])["hosts"]["h1"]["busy"] == pytest.approx(0.1)
    again = attrs.evolve(outcome, begun=[1000.0, 2000.0], ended=[1017.0, 2020.0])
    assert summary(again, NETWORK, {"a": "h1"}, ["h1"])["hosts"]["h1"]["busy"] == pytest.approx(0.05)
    killed = attrs.evolve(again, ended=[2020.0])
    assert killed.runs == [(997.0, 999.0), (2000.0, 2020.0)]


def test_one_batch_that_tells_nothing_makes_a_share_unknown() -> None:
    """Where a batch does not say how much its host worked, the share of all is not known."""
    silent = attrs.evolve(batch("a", 1, 1004.0, 4.0), busy=None)
    assert busy([batch("a", 0, 1000.0, 4.0), silent]) is None
    assert busy([batch("a", 0, 1000.0, 4.0), attrs.evolve(silent, busy=0.5)]) == 0.75


def test_what_is_in_the_history_does_not_make_a_host_idle() -> None:
    """Where older batches are known no longer, the share is that of the time since."""
    kept = [batch("a", 5, 1096.0, 1.0), batch("a", 6, 1098.0, 2.0)]
    assert busy(kept, History(upto={"a": 5})) == pytest.approx(3 / 4)


def test_a_run_without_rows_has_no_latency_and_idle_hosts() -> None:
    """Latencies of no rows are not known, and hosts without operators were there: they did nothing."""
    batches = [batch("a", 0, 1000.0, 1.0), batch("a", 1, 1004.0, 1.0)]
    outcome = Outcome(1000.0, batches, {"z": np.zeros(0)}, {"z": np.zeros(0)}, {}, 5.0)
    found = summary(outcome, NETWORK, {"a": "h1"}, ["h2", "h1"])
    assert found["hosts"] == {"h1": {"busy": 0.4}, "h2": {"busy": 0.0}}
    none = {"mean": None, "p50": None, "p99": None, "max": None, "count": 0}
    assert found["latency"] == found["sinks"]["z"]["latency"] == none


def test_windows_that_wait_for_a_silent_source_are_told() -> None:
    """Rows of a window come out when all its sources are further: of one that has had no row this is said."""
    sources = [Source(name=name, time="at") for name in "st"]
    both = Operator(name="u", kind="union", inputs=("s", "t"))
    sums = Operator(name="sum", kind="aggregate", inputs=("u",), window=60.0)
    network = Network.of("two", sources, [both, sums], [Sink(name="z", input="sum")])
    nothing = {"z": np.zeros(0)}
    counts = {"s->u": (5, 0), "u->sum": (5, 0)}
    outcome = Outcome(1000.0, [attrs.evolve(batch("u", 0, 1000.0, 1.0), counts=counts)], nothing, nothing, {}, 10.0)
    held = summary(outcome, network, {"u": "h1", "sum": "h1"}, ["h1"])["held"]
    assert held == {"sum": ["t"]}
    assert unread({}, {}, {}, {}, held) == ["penstock: the windows of 'sum' wait for rows of 't'"]
    more = attrs.evolve(outcome.batches[0], counts={**counts, "t->u": (1, 0)})
    assert "held" not in summary(attrs.evolve(outcome, batches=[more]), network, {"u": "h1", "sum": "h1"}, ["h1"])
