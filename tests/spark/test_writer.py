"""What a query's writer reads out of the bits that its rows carry, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark import shipped


@given(streams=st.integers(1, 70), rows=st.integers(0, 40), seed=st.integers(0, 2**32 - 1))
def test_bits_tell_counts_and_who_leaves(streams: int, rows: int, seed: int) -> None:
    """Arrived and dropped rows of every stream, and the rows that a sink gets, are those that the bits were made of."""
    rng = np.random.default_rng(seed)
    arrived = rng.random((rows, streams)) < 0.6
    dropped = arrived & (rng.random((rows, streams)) < 0.3)
    bits = np.stack([arrived, dropped], axis=2).reshape(rows, 2 * streams)
    other = rng.random(rows) < 0.2  # rows of another pass carry none of these columns
    columns = {}
    for begin in range(0, 2 * streams, shipped.BITS):
        part = bits[:, begin : begin + shipped.BITS]
        kind = np.int64 if part.shape[1] > 31 else np.int32
        values = (part.astype(np.int64) << np.arange(part.shape[1])).sum(axis=1).astype(kind)
        columns[f"_seen0_{begin // shipped.BITS}"] = pa.array(values, mask=other)
    table = pa.table(columns)
    names = [f"s{number}" for number in range(streams)]
    found = shipped._counts(table, [names])
    assert found == {
        name: [int((arrived[~other, k]).sum()), int((dropped[~other, k]).sum())] for k, name in enumerate(names)
    }
    for number in {0, streams // 2, streams - 1}:
        leaves = shipped._leaving(table, {"seen": [0, number]}).to_pylist()
        want = arrived[:, number] & ~dropped[:, number]
        assert [bool(leaf) for leaf in leaves] == (want & ~other).tolist()


def test_a_log_says_itself_who_leaves() -> None:
    """Rows for a log are flagged by a column of their own."""
    table = pa.table({"_e0": [True, False, None]})
    assert shipped._leaving(table, {"log": "/logs/a", "column": "_e0"}).to_pylist() == [True, False, None]


@pytest.mark.parametrize(("marked", "want"), [(True, {"0": 50, "1": 7}), (False, {"0": 90, "1": 9})])
def test_event_time_rises_by_marks_or_by_rows(marked: bool, want: dict[str, int]) -> None:
    """An origin's event time is its last mark's, or its last row's where it has no marks, and never goes back."""
    table = pa.table(
        {
            "_origin": pa.array([0, 0, 1, 1], pa.int32()),
            "_id": pa.array([None, 5, None, 6], pa.int64()),
            "_time": pa.array([50, 90, 3, 9], pa.timestamp("us", "UTC")),
        }
    )
    origins = {"0": {"marked": marked}, "1": {"marked": marked}}
    assert shipped._risen({"1": 7}, table, origins) == want
