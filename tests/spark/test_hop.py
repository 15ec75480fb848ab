"""A log gives its readers every row once, in order, with the frontier behind the rows that it covers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st
from kafka_kit import client

from penstock.spark.hop import START, Hop, directory, kafka, pieces, sender
from penstock.spark.hop.directory import DirectoryLog
from penstock.spark.hop.kafka import KafkaLog
from penstock.spark.hop.topics import Topics
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.sources import LogReader

SHAPE = pa.schema(
    [("n", pa.int64()), ("__id", pa.int64()), ("__stimulus", pa.int64()), ("__time", pa.timestamp("us", "UTC"))]
)


def rows(first: int, count: int) -> pa.Table:
    """Return rows with consecutive numbers."""
    numbers = list(range(first, first + count))
    return pa.Table.from_pydict({"n": numbers, "__id": numbers, "__stimulus": numbers, "__time": numbers}, schema=SHAPE)


def taken(batches: list[Any]) -> list[tuple[int | None, int | None]]:
    """Return number and frontier of each row: one of the two is None."""
    found = []
    for batch in batches:
        for row in batch.to_pylist():
            frontier = None if row["__id"] is not None else row["__time"]
            found.append((row["n"], None if frontier is None else round(frontier.timestamp() * 1e6)))
    return found


Make = Callable[[], Hop]
"""Makes a new log without rows."""


def limited(patch: pytest.MonkeyPatch, rows: int, piece: int) -> None:
    """Let readers take fewer rows at once, and pieces have fewer."""
    for module in (directory, kafka):
        patch.setattr(module, "READ_ROWS", rows)
    patch.setattr(pieces, "PIECE_ROWS", piece)


@pytest.fixture(params=["directory", *(pytest.param(f"kafka {n}", marks=pytest.mark.kafka) for n in (1, 3))])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """How a log of each kind is made; of Kafka's with one partition and with several."""
    name, _, partitions = request.param.partition(" ")
    if name == "directory":
        return lambda: DirectoryLog(Place(str(tmp_path / uuid.uuid4().hex)), SHAPE)
    settings = client(request.getfixturevalue("broker"))
    admin = AdminClient(settings)

    def made() -> Hop:
        topics = Topics(settings, f"test-{uuid.uuid4().hex[:8]}", int(partitions))
        for future in admin.create_topics([NewTopic(topics.name("an öp_"), int(partitions), 1)]).values():
            future.result(30)
        return KafkaLog(topics, "an öp_", SHAPE)

    return made


def steps(log: Hop) -> list[tuple[list[Any], Any]]:
    """Return what each step of a reader brings, until nothing comes, and where it is then."""
    found, position = [], START
    until = log.length()
    while True:
        batches, end = log.read(position, until)
        if end == position:
            return found
        assert taken(batches) == taken(log.between(position, end))
        found.append((batches, end))
        position = end


def must_bring_every_row(log: Hop, sizes: list[int], limit: int, piece: int) -> None:
    """Write batches and read them in bounded steps."""
    total = 0
    for batch, size in enumerate(sizes):
        assert log.write(batch, rows(total, size), (100 * (batch + 1), None))
        total += size
    numbers, frontiers = [], []
    read = steps(log)
    for batches, _ in read:
        here = taken(batches)
        assert sum(n is not None for n, _ in here) < limit + piece
        numbers += [n for n, _ in here if n is not None]
        frontiers += [f for _, f in here if f is not None]
    assert numbers == list(range(total))
    assert frontiers == sorted(frontiers)
    assert (frontiers[-1:] == [100 * len(sizes)]) == bool(sizes)
    end = read[-1][1] if read else START
    assert end["batch"] == log.settled() == log.length() == len(sizes)


@given(sizes=st.lists(st.integers(0, 9), max_size=8), limit=st.integers(1, 12), piece=st.integers(1, 4))
def test_readers_get_every_row_in_bounded_steps(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int, piece: int
) -> None:
    """Whatever the batches, each row comes once and in order, no step exceeds its bound by more than a piece."""
    with pytest.MonkeyPatch.context() as patch:
        limited(patch, limit, piece)
        log = DirectoryLog(Place(str(tmp_path_factory.mktemp("log"))), SHAPE)
        must_bring_every_row(log, sizes, limit, piece)


@pytest.mark.parametrize("seed", range(6))
def test_readers_of_every_kind_get_every_row(make: Make, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the hop and its partitions, each row comes once and in order, in bounded steps."""
    rng = np.random.default_rng(seed)
    limit, piece = int(rng.integers(1, 13)), int(rng.integers(1, 5))
    limited(monkeypatch, limit, piece)
    log = make()
    must_bring_every_row(log, rng.integers(0, 10, rng.integers(0, 9)).tolist(), limit, piece)
    log.close()


def test_wide_rows_are_read_in_bounded_steps(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with much in them count by their bytes, whether a batch is larger than a step or many are smaller."""
    monkeypatch.setattr("penstock.spark.hop.READ_BYTES", 100_000)
    for module in (directory, kafka):
        monkeypatch.setattr(module, "PIECE_BYTES", 25_000)
    log = make()
    log.shape = SHAPE.append(pa.field("text", pa.string()))
    sizes = [200, 1, *[20] * 10]
    for batch, size in enumerate(sizes):
        wide = rows(sum(sizes[:batch]), size).append_column("text", pa.array(["x" * 1000] * size))
        log.write(batch, wide, (batch + 1, None))
    numbers = [[n for n, _ in taken(batches) if n is not None] for batches, _ in steps(log)]
    assert [n for step in numbers for n in step] == list(range(sum(sizes)))
    assert max(map(len, numbers)) <= 125
    log.close()


def test_a_replayed_batch_is_not_written_twice(make: Make) -> None:
    """The first version of a batch stays."""
    log = make()
    assert log.write(0, rows(0, 3), (None, None))
    assert not log.write(0, rows(5, 1), (None, None))
    assert [n for n, _ in taken(log.read(START, log.length())[0])] == [0, 1, 2]


def test_trailing_batches_that_say_nothing_are_left(make: Make) -> None:
    """A query that reads its own output comes to rest: batches without rows and with an old frontier wait."""
    log = make()
    log.write(0, rows(0, 1), (7, 9))
    log.write(1, rows(0, 0), (7, 9))
    assert place(log.read(START, log.length())[1]) == (1, 0)
    assert log.settled() == 1
    quiet = log.read(START, log.length())[1]
    for batch in range(2, 6):
        log.write(batch, rows(0, 0), (7, 9))
        assert log.read(quiet, log.length()) == ([], quiet)
    assert log.settled() == 1
    log.write(6, rows(0, 0), (8, 9))
    assert place(log.read(START, log.length())[1]) == (7, 0)
    assert taken(log.read(quiet, log.length())[0]) == [(None, 8)]
    assert log.settled() == 7


def test_a_step_within_a_batch_has_the_mark_before_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that stops within a batch says what the batch before it said, and a replay says the same."""
    limited(monkeypatch, 2, 1)
    log = make()
    log.write(0, rows(0, 1), (7, 7))
    log.write(1, rows(0, 0), (7, 9))
    log.write(2, rows(1, 3), (8, 9))
    batches, end = log.read(START, log.length())
    assert place(end) == (2, 1)
    assert [batch.to_pylist() for batch in batches] == [batch.to_pylist() for batch in log.between(START, end)]
    assert batches[-1].column("__stimulus").to_pylist() == [9]


def test_a_new_reader_repeats_the_last_mark(make: Make) -> None:
    """A reader that goes on in the middle of a log says the frontier again, and a replay says it at the same place."""
    log = make()
    log.write(0, rows(0, 2), (7, 9))
    # A reader that waits for nothing may come before the broker shows what was written.
    assert log.length() == 1
    start = LogReader(log).initialOffset()
    batches, end = LogReader(log).read(start)
    assert taken(list(batches)) == [(0, None), (1, None), (None, 7)]
    later = LogReader(log)
    batches, again = later.read(end)
    assert taken(list(batches)) == [(None, 7)]
    assert {start["log"], end["log"], again["log"]} == {log.writer}
    assert taken(list(LogReader(log).readBetweenOffsets(end, again))) == [(None, 7)]
    batches, still = later.read(again)
    assert (list(batches), still) == ([], again)


def test_what_readers_have_passed_is_removed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleaning goes by the slowest reader and leaves the batch that carries the frontier; readers behind it go on."""
    limited(monkeypatch, 1, 1)
    log = make()
    for batch in range(10):
        log.write(batch, rows(batch, 1), (batch + 1, None))
    places = [end for _, end in steps(log) if end["piece"] == 0]
    assert [end["batch"] for end in places] == list(range(1, 11))
    log.clean([places[8], places[6], places[9]])
    limited(monkeypatch, 100, 1)
    assert taken(log.mark(places[6])) == [(None, 7)]
    assert [n for n, _ in taken(log.read(places[6], log.length())[0])] == [7, 8, 9, None]
    assert log.settled() == 10
    assert first_kept(log) == 6


def test_a_reader_may_begin_in_the_middle(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a position before a batch a reader gets what follows, with the mark before it, also after cleaning."""
    limited(monkeypatch, 100, 2)
    log = make()
    assert log.at(0) == START
    for batch in range(6):
        log.write(batch, rows(3 * batch, 3), (batch + 1, None))
    places = [log.at(batch) for batch in (2, 4, 6)]
    for cleaned in (False, True):
        for batch, begin in zip((2, 4, 6), places, strict=True):
            assert place(begin) == (batch, 0)
            assert taken(log.mark(begin)) == [(None, batch)]
            brought, _ = log.read(begin, log.length())
            assert [n for n, _ in taken(brought) if n is not None] == list(range(3 * batch, 18))
        if not cleaned:
            log.clean([places[0]])
    assert log.at(6) == places[2]


def first_kept(log: Any) -> int:
    """Return the number of the first batch of which anything is left."""
    if isinstance(log, DirectoryLog):
        return log.folder.numbers()[0]
    other = KafkaLog(log.topics, log.writer, SHAPE)
    return int(other._reader(0).message(other._reader(0).low).headers["batch"])


def place(position: Any) -> tuple[int, int]:
    """Return batch and piece of a position."""
    return position["batch"], position["piece"]


@pytest.mark.parametrize("moment", ["rows", "marks", "never"])
def test_of_two_writers_only_the_newer_shows_anything(make: Make, moment: str) -> None:
    """A batch that was cut off shows nothing; the one who writes it again shows it once, whoever comes back later."""
    log = make()
    if isinstance(log, DirectoryLog):
        pytest.skip("the run's fence keeps writers of folders apart")
    old = KafkaLog(log.topics, log.writer, SHAPE)
    old.write(0, rows(0, 3), (1, 1))
    old._sender.producer.begin_transaction()
    if moment != "never":
        old._sender.put(0, b"cut off", {"batch": 1, "piece": 0, "rows": 1}, lambda *_: None)
        old._sender.producer.flush(10)
    assert place(log.read(START, log.length())[1]) == (1, 0)
    newer = KafkaLog(log.topics, log.writer, SHAPE)
    assert not newer.write(0, rows(0, 3), (1, 1))
    assert newer.write(1, rows(3, 2), (2, 2))
    with pytest.raises(KafkaException):  # noqa: PT012 - at any of these moments
        if moment != "marks":
            old._sender.put(0, b"late", {"batch": 1, "piece": 1, "rows": 1}, lambda *_: None)
            old._sender.producer.flush(10)
        old._sender.producer.commit_transaction(10)
    assert [n for batches, _ in steps(log) for n, _ in taken(batches) if n is not None] == [0, 1, 2, 3, 4]
    assert newer.length() == 2


@pytest.mark.kafka
def test_a_batch_may_be_long_on_its_way(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker does not take at once is waited for, up to the transaction's time limit, which users may set."""
    topics, admin = Topics(client(broker), f"test-{uuid.uuid4().hex[:8]}", 1), AdminClient(client(broker))
    for future in admin.create_topics([NewTopic(topics.name("slow"), 1, 1)]).values():
        future.result(30)
    log = KafkaLog(topics, "slow", SHAPE)
    assert log.write(0, rows(0, 3), (None, None))
    monkeypatch.setattr(sender, "PATIENCE", 0.001)
    assert log.write(1, rows(3, 3), (None, None))
    assert [n for n, _ in taken(log.read(START, log.length())[0])] == [*range(6)]
    monkeypatch.undo()
    longer = Topics(client(broker, **{"transaction.timeout.ms": "900001"}), topics.prefix, 1)
    with pytest.raises(KafkaException, match="larger than the maximum"):
        KafkaLog(longer, "slow", SHAPE).write(2, rows(3, 1), (None, None))
    log.close()


@pytest.mark.kafka
def test_large_rows_are_dealt_out(broker: Any) -> None:
    """Batches larger than a broker's usual message pass, in pieces, over all partitions."""
    settings = client(broker)
    topics = Topics(settings, f"large-{uuid.uuid4().hex[:8]}", 2)
    config = {"max.message.bytes": str(64 << 20)}
    admin = AdminClient(settings)
    for future in admin.create_topics([NewTopic(topics.name("w"), 2, 1, config=config)]).values():
        future.result(30)
    shape = pa.schema([("text", pa.string()), *SHAPE])
    rng = np.random.default_rng(0)
    texts = [rng.bytes(150_000).hex() for _ in range(9)] + [rng.bytes(1_500_000).hex()]
    table = pa.Table.from_arrays([pa.array(texts), *rows(0, 10).columns], schema=shape)
    log = KafkaLog(topics, "w", shape)
    assert log.write(0, table, (1, 1))
    found, end = log.read(START, log.length())
    assert pa.Table.from_batches(found[:-1]) == table
    assert len(found) > 5
    assert end["from1"] > 3
    log.close()


def test_pieces_are_no_larger_than_brokers_take() -> None:
    """A few large rows among many small ones are in pieces of their own, and all rows follow in order."""
    rng = np.random.default_rng(3)
    texts = ["x" * int(size) for size in rng.choice([10, 300_000, 1_500_000], 600, p=[0.96, 0.03, 0.01])]
    texts[100:104] = ["y" * 300_000] * 4
    table = pa.table({"text": texts, "n": range(len(texts))})
    found = pieces.pieces(table, pieces.PIECE_BYTES)
    assert pa.Table.from_batches(found) == table
    for piece in found:
        assert piece.num_rows == 1 or len(pieces.packed(piece)) <= pieces.PIECE_BYTES + 64
    assert len(pieces.pieces(table.slice(0, 90).select(["n"]), pieces.PIECE_BYTES)) == 1


def test_maps_and_nested_values_cross(make: Make) -> None:
    """Maps, arrays and structs come out as they went in."""
    inner = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    shape = pa.schema([("m", pa.map_(pa.string(), inner)), *SHAPE])
    table = pa.Table.from_pylist(
        [{"m": [("x", {"a": 1, "b": ["y", None]})], "n": 1, "__id": 1, "__stimulus": 1, "__time": 1}], shape
    )
    log: Any = make()
    log.shape = shape
    log.write(0, table, (1, 1))
    assert log.read(START, log.length())[0][0].to_pylist() == table.to_pylist()
