"""What rows that queue tell of a host."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.load.queueing import BEHIND, Passed, told_by_queues
from penstock.load.statistics import HostStatistics


def served(came: np.ndarray, cost: np.ndarray | float, work: float) -> Passed:
    """Return the rows that a host takes one after the other, at whole milliseconds."""
    free, left = 0.0, np.zeros(len(came))
    for row, (at, took) in enumerate(zip(came, np.broadcast_to(cost, len(came)), strict=True)):
        free = left[row] = max(free, at) + took
    return Passed(came, np.round(left, 3), work)


def bursts(rate: float, base: float, length: float = 40.0) -> np.ndarray:
    """Return when rows come: at a base rate, and at a higher one from 10 to 18 s."""
    return np.concatenate([np.arange(0, 10, 1 / base), np.arange(10, 18, 1 / rate), np.arange(18, length, 1 / base)])


@settings(max_examples=30, deadline=None)
@given(cost=st.floats(0.0005, 0.004), load=st.floats(1.15, 2.0), factor=st.floats(0.5, 2.0))
def test_a_queue_tells_the_cost_of_a_row(cost: float, load: float, factor: float) -> None:
    """The factor is what rows took while they queued over what they should have taken, in whole milliseconds."""
    found = told_by_queues([served(bursts(load / cost, 0.4 / cost), cost, cost / factor)])
    assert found is not None
    assert found.factor == pytest.approx(factor, rel=0.01)
    assert found.error < 0.01


def test_where_nothing_queues_nothing_is_told() -> None:
    """Rows that come at half of what a host can do leave its statistics as they were, and so does no row at all."""
    assert told_by_queues([served(bursts(500, 400), 0.001, 0.001)]) is None
    assert told_by_queues([Passed(np.zeros(0), np.zeros(0), 0.001)]) is None
    assert told_by_queues([]) is None
    assert told_by_queues([served(bursts(1400.0, 300.0), 0.001, 0.0)]) is None


def test_rows_of_other_queries_count_while_one_queues() -> None:
    """Two queries share a host: while rows of the one queue, what the other does is work as well."""
    heavy, light = bursts(1300.0, 300.0), np.arange(0, 40, 1 / 200)
    came = np.concatenate([heavy, light])
    order = np.argsort(came, kind="stable")
    cost = np.concatenate([np.full(len(heavy), 0.001), np.full(len(light), 0.0005)])[order]
    both = served(came[order], cost, 0.0)
    mine = np.concatenate([np.ones(len(heavy), bool), np.zeros(len(light), bool)])[order]
    parts = [Passed(both.came[part], both.left[part], work / 1.25) for part, work in ((mine, 0.001), (~mine, 0.0005))]
    found = told_by_queues(parts)
    assert found is not None
    assert found.factor == pytest.approx(1.25, rel=0.02)
    alone = told_by_queues(parts[:1])
    assert alone is not None
    assert alone.factor > 1.3


def test_young_code_does_not_count() -> None:
    """Rows that took three times as long in the first second of a burst change the factor by little."""
    came = bursts(1400.0, 300.0)
    cost = np.where((came > 10) & (came < 10.5), 0.003, 0.001)
    found = told_by_queues([served(came, cost, 0.001)])
    assert found is not None
    assert found.factor == pytest.approx(1.0, rel=0.02)


def test_times_in_which_code_was_young_do_not_count() -> None:
    """Up to a time nothing is told by what queued, however much it was."""
    came = bursts(1400.0, 300.0)
    rows = served(came, np.where(came < 14, 0.002, 0.001), 0.001)
    found = told_by_queues([rows], young=float(rows.left[came < 14][-1]))
    assert found is not None
    assert found.factor == pytest.approx(1.0, rel=0.01)
    assert told_by_queues([rows], young=30.0) is None


def test_what_was_known_besides_stays() -> None:
    """Overhead and the core's speed are of another mode, and stay; errors are those of the queue."""
    before = HostStatistics(overhead=0.2, speed=1e7, factor=3.0, error=0.4, correlation=-0.5)
    found = told_by_queues([served(bursts(1400.0, 300.0), 0.001, 0.001)], before)
    assert found is not None
    assert (found.overhead, found.speed, found.correlation) == (0.2, 1e7, 0.0)
    assert found.error < 0.05
    assert found.factor == pytest.approx(1.0, rel=0.01)


def test_a_row_is_slow_by_the_time_that_the_others_take() -> None:
    """Times without a queue are those of rows that took up to twice as long as the fastest, and a little."""
    came = np.arange(0.0, 10.0, 0.01)
    assert Passed(came, came + 0.05, 1.0).full() == []
    late = came + 0.05 + np.where((came >= 3) & (came < 5), 0.06 + BEHIND, 0.0)
    (span,) = Passed(came, late, 1.0).full()
    assert span == pytest.approx((3.61, 5.6), abs=0.011)
