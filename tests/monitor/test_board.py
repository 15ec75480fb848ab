"""The board: series over a sliding window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.load.spans import covered
from penstock.monitor.board import BINS, Board, Latencies, step_of, summary, tail


def board(bins: int = 10, step: float = 1.0) -> Board:
    return Board(["a->b"], ["h1"], ["out"], begin=100.0, step=step, bins=bins)


@given(
    st.lists(st.tuples(st.floats(100, 160), st.floats(0, 8), st.floats(0, 1000)), max_size=40),
    st.integers(8, 40),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_rows_are_where_they_came(spans: list[tuple[float, float, float]], bins: int, step: float) -> None:
    """Whatever comes in order of time, each bin of the window holds the share of each span that lies in it."""
    mine = board(bins, step)
    for begin, length, rows in sorted(spans, key=lambda span: span[0] + span[1]):
        mine.add_flow("arrived", "a->b", rows, begin, begin + length)
    edges = mine.start + step * np.arange(bins + 1)
    wanted = np.zeros(bins)
    for begin, length, rows in spans:
        end = begin + length
        if end > begin:
            inside = np.clip(edges, begin, end)
            wanted += rows * np.diff(inside) / (end - begin)
        else:
            wanted += rows * ((edges[:-1] <= begin) & (begin < edges[1:]))
    # A span that ended before the window slid on may have been cut off at its beginning.
    np.testing.assert_allclose(mine.arrived[0], wanted, rtol=1e-6, atol=1e-6)


@given(
    st.lists(st.tuples(st.floats(60, 130), st.floats(-1, 8), st.floats(0, 1000)), max_size=40),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_many_spans_at_once_are_those_one_by_one(spans: list[tuple[float, float, float]], step: float) -> None:
    """Spans that are spread together give what they give one after the other, in and before the window."""
    one, all_at_once = board(64, step), board(64, step)
    for each in (one, all_at_once):
        each.slide(138.0)
    begin, length, rows = np.array(spans).reshape(-1, 3).T
    end = begin + length
    for span in zip(rows.tolist(), begin.tolist(), end.tolist(), strict=True):
        one.add_flow("arrived", "a->b", *span)
    all_at_once.add_flows("arrived", "a->b", rows, begin, end)
    np.testing.assert_allclose(all_at_once.arrived, one.arrived, rtol=1e-12, atol=1e-12)
    assert all_at_once.first == one.first


@given(st.lists(st.floats(0, 0.9), min_size=1, max_size=120))
def test_backlog_survives_sliding(puts: list[float]) -> None:
    """What waits is what was put minus what was taken, also where that happened before the window."""
    mine = board(8)
    for k, share in enumerate(puts):
        mine.add_flow("put", "a->b", 10.0, 100.0 + k, 100.0 + k)
        mine.add_flow("taken", "a->b", 10.0 * share, 100.5 + k, 100.5 + k)
    expected = sum(10.0 - 10.0 * share for share in puts)
    assert mine.backlog()[0, mine.length - 1] == pytest.approx(expected)
    assert mine.arrived.shape == (1, 8)


@given(st.permutations(range(4)))
def test_backlog_knows_what_flowed_before_the_window(order: list[int]) -> None:
    """What waits is the same in whatever order one hears of what was put and taken, also long after."""
    flows = [("put", 900.0, 100.0, 130.0), ("taken", 500.0, 129.0, 129.0), ("put", 9.0, 99.0, 99.0)]
    flows.append(("taken", 60.0, 105.0, 105.0))
    mine = board(8)
    for k in order:
        mine.add_flow(flows[k][0], "a->b", *flows[k][1:])
    assert mine.backlog()[0, mine.length - 1] == pytest.approx(900 - 500 + 9 - 60)
    many = board(8)
    many.slide(130.0)
    for series, *flow in flows:
        many.add_flows(series, "a->b", *np.array(flow)[:, None])
    np.testing.assert_allclose(many.backlog()[0, : mine.length], mine.backlog()[0, : mine.length])


def test_marks_tell_what_changed() -> None:
    """A mark is the first bin that changed since the mark before, counted from where the window begins now."""
    mine = board(20)
    mine.add_busy("h1", 103.0, 104.0)
    assert mine.mark() == 0
    mine.add_busy("h1", 105.0, 106.0)
    assert mine.mark() == 5
    mine.add_latency("out", np.array([101.5]), 107.0)
    assert mine.mark() == 1
    assert mine.mark() == mine.length


@given(st.lists(st.tuples(st.floats(92, 128), st.floats(0, 8)), max_size=40), st.sampled_from([0.5, 1.0, 2.0]))
def test_work_side_by_side_counts_once(spans: list[tuple[float, float]], step: float) -> None:
    """A host is busy while any of its batches runs, in whatever order one hears of them."""
    mine = board(80, step)
    for begin, length in spans:
        mine.add_busy("h1", begin, begin + length)
    parts = covered([(begin, begin + length) for begin, length in spans], mine.start, np.inf)
    edges = mine.start + step * np.arange(81)
    wanted = sum((np.diff(np.clip(edges, *part)) / step for part in parts), np.zeros(80))
    np.testing.assert_allclose(mine.busy[0], wanted, atol=1e-9)


def test_a_long_gap_empties_the_window() -> None:
    """After a gap longer than the window nothing of before is left in it."""
    mine = board(10)
    mine.add_busy("h1", 100.0, 101.0)
    mine.add_busy("h1", 10_000.0, 10_000.5)
    assert mine.busy.sum() == pytest.approx(0.5)
    assert mine.start <= 10_000 < mine.start + 10


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=300))
def test_quantiles_are_within_a_class(values: list[float]) -> None:
    """Worst is exact, p50 and p99 are those of the values within half a per cent, the mean is the mean."""
    mine = Latencies()
    mine.add(np.array(values))
    found = summary([mine])
    assert found["worst"] == max(values)
    assert found["count"] == len(values)
    assert found["mean"] == pytest.approx(np.mean(values))
    for key, share in (("p50", 0.5), ("p99", 0.99)):
        exact = np.quantile(values, share, method="inverted_cdf")
        assert found[key] == pytest.approx(exact, rel=0.006)


def test_nothing_has_no_quantiles() -> None:
    """Where nothing came out there is no latency."""
    assert summary([Latencies()]) == {"worst": None, "p99": None, "p50": None, "mean": None, "count": 0}


def test_the_shortest_step_that_fits_is_taken() -> None:
    """A window of bins as short as people can read off holds the whole duration."""
    assert step_of(BINS) == 1.0
    assert step_of(BINS + 1) == 2.0
    assert step_of(30 * 86400) == 3600.0


def test_tails_are_rounded_and_plain() -> None:
    """Part of a series has four digits, and None where there is nothing."""
    assert tail(np.array([1.0, 0.00123456, np.nan, 123456.0]), 1, 4) == [0.001235, None, 123500.0]
