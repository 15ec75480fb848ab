"""What a query's writer reads out of the bits that its rows carry, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from penstock.spark.shipped import BITS
from penstock.spark.shipped.gate import take_over
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.share import Reached, arrived, count, reached_by
from penstock.spark.shipped.spec import Origin, SinkExit, WriterSpec
from penstock.spark.shipped.told import manifest_of
from penstock.spark.shipped.writer import make_writer, slowest


@given(streams=st.integers(1, 70), rows=st.integers(0, 40), seed=st.integers(0, 2**32 - 1))
def test_bits_tell_counts_and_who_leaves(streams: int, rows: int, seed: int) -> None:
    """Arrived and dropped rows of every stream, and the rows that a sink gets, are those that the bits were made of."""
    rng = np.random.default_rng(seed)
    came = rng.random((rows, streams)) < 0.6
    dropped = came & (rng.random((rows, streams)) < 0.3)
    bits = np.stack([came, dropped], axis=2).reshape(rows, 2 * streams)
    other = rng.random(rows) < 0.2  # rows of another pass carry none of these columns
    columns = {}
    for begin in range(0, 2 * streams, BITS):
        part = bits[:, begin : begin + BITS]
        kind = np.int64 if part.shape[1] > 31 else np.int32
        values = (part.astype(np.int64) << np.arange(part.shape[1])).sum(axis=1).astype(kind)
        columns[f"_seen0_{begin // BITS}"] = pa.array(values, mask=other)
    table = pa.table(columns)
    names = [f"s{number}" for number in range(streams)]
    found = count(table, (tuple(names),))
    assert found == {
        name: [int((came[~other, k]).sum()), int((dropped[~other, k]).sum())] for k, name in enumerate(names)
    }
    for number in {0, streams // 2, streams - 1}:
        leaves = arrived(table, SinkExit("out", (0, number), (), None, {}, "")).to_pylist()
        want = came[:, number] & ~dropped[:, number]
        assert [bool(leaf) for leaf in leaves] == (want & ~other).tolist()


@pytest.mark.parametrize(("marked", "want"), [(True, {"0": 50, "1": 7}), (False, {"0": 80, "1": 7})])
def test_frontiers_rise_by_marks_or_by_rows(marked: bool, want: dict[str, int]) -> None:
    """A frontier is the last mark's, or the last row's less the lateness where there are no marks; it never falls."""
    table = pa.table(
        {
            "__origin": pa.array([0, 0, 1, 1], pa.int32()),
            "__id": pa.array([None, 5, None, 6], pa.int64()),
            "__stimulus": pa.array([None, 500, 95, 600], pa.int64()),
            "__time": pa.array([50, 90, 3, 9], pa.timestamp("us", "UTC")),
        }
    )
    origins = (Origin("a", marked, 10), Origin("b", marked, 10))
    spec = WriterSpec(Place("/run"), "h1", origins, (), (), (), {}, (), timed=True, knobs=None)
    reached = Reached({"1": 7}, 20).further(reached_by(table, spec))
    assert (reached.frontiers, reached.latest) == (want, 95)


def test_the_slowest_origin_rules() -> None:
    """A stream promises what its slowest origin does, and nothing while one has said nothing."""
    assert slowest((0, 2), {"0": 5, "1": 1, "2": 3}) == 3
    assert slowest((0, 1), {"0": 5}) is None
    assert slowest((), {"0": 5}) is None


def test_a_writer_that_was_sent_to_a_host_knows_what_it_has_done(tmp_path: Path) -> None:
    """Only its first batch asks what one before it has left, also where it runs as it came over the wire."""
    folder = Place(str(tmp_path))
    spec = WriterSpec(folder, "u", (), (), (), (), {}, (), timed=False, knobs=None, generation=take_over(folder, "u"))
    start = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1})
    (spec.checkpoint / "offsets" / "0").replace(f"v1\n{start}\n".encode())
    write = cloudpickle.loads(cloudpickle.dumps(make_writer(spec)))
    frame = SimpleNamespace(toArrow=lambda: pa.table({}), sparkSession=None)
    for batch in range(3):
        # Spark notes each batch before it begins; one of which no note is there cannot be asked for.
        write(frame, batch)
    assert all(manifest_of(folder, "u", batch).exists() for batch in range(3))
