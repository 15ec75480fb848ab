"""A log gives its readers every row once, in order, with the frontier behind the rows that it covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.hop import directory
from penstock.spark.hop.directory import START, DirectoryLog
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.sources import LogReader

SHAPE = pa.schema(
    [("n", pa.int64()), ("_id", pa.int64()), ("_stimulus", pa.int64()), ("_time", pa.timestamp("us", "UTC"))]
)


def rows(first: int, count: int) -> pa.Table:
    """Return rows with consecutive numbers."""
    numbers = list(range(first, first + count))
    return pa.Table.from_pydict({"n": numbers, "_id": numbers, "_stimulus": numbers, "_time": numbers}, schema=SHAPE)


def taken(batches: list[Any]) -> list[tuple[int | None, int | None]]:
    """Return number and frontier of each row: one of the two is None."""
    found = []
    for batch in batches:
        for row in batch.to_pylist():
            frontier = None if row["_id"] is not None else row["_time"]
            found.append((row["n"], None if frontier is None else round(frontier.timestamp() * 1e6)))
    return found


@given(sizes=st.lists(st.integers(0, 9), max_size=8), limit=st.integers(1, 12), piece=st.integers(1, 4))
def test_readers_get_every_row_in_bounded_steps(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int, piece: int
) -> None:
    """Whatever the batches, each row comes once and in order, no step exceeds its bound by more than a piece."""
    patch = pytest.MonkeyPatch()
    patch.setattr(directory, "READ_ROWS", limit)
    patch.setattr(directory, "PIECE_ROWS", piece)
    with patch.context():
        log = DirectoryLog(Place(str(tmp_path_factory.mktemp("log"))), SHAPE)
        total = 0
        for batch, size in enumerate(sizes):
            assert log.write(batch, rows(total, size), (100 * (batch + 1), None))
            total += size
        position, numbers, frontiers = START, [], []
        while True:
            batches, end = log.read(position, None)
            if end == position:
                break
            again = taken(log.between(position, end))
            assert taken(batches) == again
            assert sum(n is not None for n, _ in again) < limit + piece
            numbers += [n for n, _ in again if n is not None]
            frontiers += [f for _, f in again if f is not None]
            position = end
        assert numbers == list(range(total))
        assert frontiers == sorted(frontiers)
        assert (frontiers[-1:] == [100 * len(sizes)]) == bool(sizes)
        assert position["batch"] == log.settled() == log.length() == len(sizes)
    patch.undo()


def test_a_replayed_batch_is_not_written_twice(tmp_path: Path) -> None:
    """The first version of a batch stays."""
    log = DirectoryLog(Place(str(tmp_path / "log")), SHAPE)
    assert log.write(0, rows(0, 3), (None, None))
    assert not log.write(0, rows(5, 1), (None, None))
    assert [n for n, _ in taken(log.read(START, None)[0])] == [0, 1, 2]


def test_trailing_batches_that_say_nothing_are_left(tmp_path: Path) -> None:
    """A query that reads its own output comes to rest: batches without rows and with an old frontier wait."""
    log = DirectoryLog(Place(str(tmp_path)), SHAPE)
    log.write(0, rows(0, 1), (7, 9))
    log.write(1, rows(0, 0), (7, 9))
    assert log.read(START, None)[1] == {"batch": 1, "piece": 0}
    assert log.settled() == 1
    log.write(2, rows(0, 0), (8, 9))
    assert log.read(START, None)[1] == {"batch": 3, "piece": 0}
    assert log.settled() == 3


def test_a_step_within_a_batch_has_the_mark_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that stops within a batch says what the batch before it said, and a replay says the same."""
    monkeypatch.setattr(directory, "READ_ROWS", 2)
    monkeypatch.setattr(directory, "PIECE_ROWS", 1)
    log = DirectoryLog(Place(str(tmp_path)), SHAPE)
    log.write(0, rows(0, 1), (7, 7))
    log.write(1, rows(0, 0), (7, 9))
    log.write(2, rows(1, 3), (8, 9))
    batches, end = log.read(START, None)
    assert end == {"batch": 2, "piece": 1}
    assert [batch.to_pylist() for batch in batches] == [batch.to_pylist() for batch in log.between(START, end)]
    assert batches[-1].column("_stimulus").to_pylist() == [9]


def test_a_new_reader_repeats_the_last_mark(tmp_path: Path) -> None:
    """A reader that goes on in the middle of a log says the frontier again, and a replay says it at the same place."""
    log = DirectoryLog(Place(str(tmp_path)), SHAPE)
    log.write(0, rows(0, 2), (7, 9))
    start = LogReader(log).initialOffset()
    batches, end = LogReader(log).read(start)
    assert taken(list(batches)) == [(0, None), (1, None), (None, 7)]
    later = LogReader(log)
    batches, again = later.read(end)
    assert taken(list(batches)) == [(None, 7)]
    assert taken(list(LogReader(log).readBetweenOffsets(end, again))) == [(None, 7)]
    batches, still = later.read(again)
    assert (list(batches), still) == ([], again)


def test_what_readers_have_passed_is_removed(tmp_path: Path) -> None:
    """Cleaning leaves the batch that carries the frontier, and readers behind it go on."""
    log = DirectoryLog(Place(str(tmp_path)), SHAPE)
    for batch in range(10):
        log.write(batch, rows(batch, 1), (batch + 1, None))
    log.clean(7)
    assert Place(str(tmp_path)).names()[0] == f"{6:012d}.arrow"
    assert taken(log.mark({"batch": 7, "piece": 0})) == [(None, 7)]
    assert [n for n, _ in taken(log.read({"batch": 7, "piece": 0}, None)[0])] == [7, 8, 9, None]
    assert log.settled() == 10


def test_maps_and_nested_values_cross(tmp_path: Path) -> None:
    """Maps, arrays and structs come out as they went in."""
    inner = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    shape = pa.schema([("m", pa.map_(pa.string(), inner)), *SHAPE])
    table = pa.Table.from_pylist(
        [{"m": [("x", {"a": 1, "b": ["y", None]})], "n": 1, "_id": 1, "_stimulus": 1, "_time": 1}], shape
    )
    log = DirectoryLog(Place(str(tmp_path)), shape)
    log.write(0, table, (1, 1))
    assert log.read(START, None)[0][0].to_pylist() == table.to_pylist()
