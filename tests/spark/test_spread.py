"""Hosts with several slots: tasks write what leaves a query and read logs, and every answer stays what it is."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.errors import PySparkNotImplementedError
from sinks_kit import read_json, read_parquet

from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import compiler
from penstock.spark.hop import START
from penstock.spark.hop.directory import DirectoryLog
from penstock.spark.run import Engine
from penstock.spark.run.outcome import read_latency
from penstock.spark.shipped.deliver import Aside, Delivery, deliver
from penstock.spark.shipped.gate import Fenced, committing, take_over
from penstock.spark.shipped.nexmark import NexmarkReader, NexmarkSource, SpreadNexmarkReader
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.settle import intend, intent_of, settle
from penstock.spark.shipped.share import brought, count, logged, reached_by
from penstock.spark.shipped.sources import LogReader, LogSource, SpreadLogReader, shared
from penstock.spark.shipped.spec import LogExit, Origin, SinkExit, WriterSpec
from penstock.spark.shipped.tasks import gather, make_task
from penstock.spark.shipped.told import manifest_of
from penstock.spark.shipped.turn import ANNOUNCED

CLOCK = pa.timestamp("us", "UTC")
SHAPE = pa.schema([("n", pa.int64()), ("__id", pa.int64()), ("__stimulus", pa.int64()), ("__time", CLOCK)])


def spec_of(folder: Path, generation: int = 1) -> WriterSpec:
    """Return what a query's tasks are told: a log of what is even, a sink of what the stream keeps."""
    return WriterSpec(
        Place(str(folder)),
        "q",
        (Origin("s", marked=False, lateness=5),),
        (LogExit("even", "_e0", (("c0", "n"),), (0,), stateful=False, numbered=False),),
        (SinkExit("out", (0, 0), (("c0", "n"),), None, {}, "label"),),
        (("s->a", "s->b"),),
        {},
        (),
        timed=True,
        knobs=None,
        generation=generation,
        spread=True,
    )


def rows_of(numbers: list[int], seed: int) -> pa.Table:
    """Return rows as a query brings them, in which equal numbers have equal identities."""
    rng = np.random.default_rng(seed)
    came = rng.random((len(numbers), 2)) < 0.7
    dropped = came & (rng.random((len(numbers), 2)) < 0.3)
    bits = (came[:, 0] * 1 + dropped[:, 0] * 2 + came[:, 1] * 4 + dropped[:, 1] * 8).astype(np.int32)
    return pa.table(
        {
            "__stimulus": pa.array(numbers, pa.int64()), "__time": pa.array(numbers, CLOCK),
            "__origin": pa.array([0] * len(numbers), pa.int32()), "__id": pa.array(numbers, pa.int64()),
            "_seen0_0": pa.array(bits), "_e0": pa.array([n % 2 == 0 for n in numbers], pa.bool_()),
            "c0": pa.array(numbers, pa.int64()),
        }
    )  # fmt: skip


class Frame:
    """Stands in for a batch whose partitions are computed one after the other."""

    def __init__(self, parts: list[pa.Table]) -> None:
        self.parts = parts

    def mapInArrow(self, function: Any, _schema: str) -> Any:  # noqa: N802
        """Let every task do its share."""
        self.told = [batch for part in self.parts for batch in function(iter(part.to_batches()))]
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        """Return what the tasks have told."""
        kinds = pa.schema([("said", pa.string()), ("blobs", pa.list_(pa.binary()))])
        return pa.Table.from_batches(self.told, None if self.told else kinds)


@given(
    numbers=st.lists(st.integers(0, 9), max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_tasks_bring_what_one_process_would(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], cuts: list[int], seed: int
) -> None:
    """Counts, event time, rows of a log and of a sink do not depend on how a batch is dealt out to tasks."""
    spec = spec_of(tmp_path_factory.mktemp("run"))
    # Equal rows are in one task: they are of one part of a file.
    table = rows_of(sorted(numbers), seed)
    ends = sorted({0, len(numbers), *(sorted(numbers).index(n) for n in cuts if n in numbers)})
    parts = [table.slice(first, last - first) for first, last in itertools.pairwise(ends)]
    task = cloudpickle.dumps(make_task(spec))
    with pytest.MonkeyPatch.context() as patch:
        # As in another process: else what is loaded would replace the methods of this one's classes.
        patch.setattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID", WeakValueDictionary())
        written = gather(spec, task, Frame(parts), 3, store=True)  # type: ignore[arg-type]
    assert written.counts == count(table, spec.passes)
    assert written.reached == reached_by(table, spec)
    stored, rows = written.logs[0]
    whole = logged(spec.logs[0], table, None)
    assert rows == whole.num_rows
    log = DirectoryLog(spec.folder / "logs" / "even", SHAPE)
    assert log.append(0, stored, (1, 2))
    read = [row for batch in log.read(START, None)[0] for row in batch.to_pylist() if row["__id"] is not None]
    assert sorted((row["n"], row["__id"]) for row in read) == sorted(
        zip(whole.column("n").to_pylist(), whole.column("__id").to_pylist(), strict=True)
    )
    names, stimuli = written.sinks[0]
    wanted = brought(spec.sinks[0], table)
    found = [n for name in names for n in pq.read_table((spec.aside / name).path).column("n").to_pylist()]
    assert sorted(found) == sorted(wanted.rows.column("n").to_pylist())
    assert sorted(np.frombuffer(b"".join(stimuli), np.int64)) == sorted(wanted.stimulus.to_pylist())


@given(
    sizes=st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=6),
    slots=st.integers(2, 4),
    limit=st.integers(1, 9),
    piece=st.integers(1, 4),
)
@settings(max_examples=25)
def test_tasks_read_what_one_process_would(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[list[int]], slots: int, limit: int, piece: int
) -> None:
    """Readers of a log by one process and by several tasks take the same rows and marks; what no head names is none."""
    log = DirectoryLog(Place(str(tmp_path_factory.mktemp("log"))), SHAPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.spark.hop.pieces.PIECE_ROWS", piece)
        number = 0
        for batch, parts in enumerate(sizes):
            stored = []
            for size in parts:
                values = list(range(number, number + size))
                table = pa.Table.from_pydict(dict.fromkeys(SHAPE.names, values), schema=SHAPE)
                if len(parts) == 1:
                    log.write(batch, table, (batch, batch))
                elif size:
                    log.store(batch, table)
                    stored.append(log.store(batch, table))
                number += size
            log.append(batch, stored, (batch, batch))
    reader = SpreadLogReader(log, 0, slots)
    reader.until = log.length()
    position, rows = reader.initialOffset(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.spark.shipped.sources.READ_ROWS", limit)
        while (end := reader.latestOffset(position, None)) != position:  # type: ignore[arg-type]
            parts = reader.partitions(position, end)
            again = SpreadLogReader(log, 0, slots).partitions(position, end)
            assert [part.value for part in parts] == [part.value for part in again]
            taken = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
            simple = [row for batch in LogReader(log).readBetweenOffsets(position, end) for row in batch.to_pylist()]
            assert sorted(map(str, taken)) == sorted(map(str, simple))
            if end["piece"]:
                assert end["rows"] == sum(piece[-1] for piece in log.pieces(log.at(end["batch"]), end))
            rows += [row["n"] for row in taken if row["__id"] is not None]
            position = end
    assert sorted(rows) == list(range(number))
    assert position["batch"] == log.settled()


def test_pieces_are_dealt_out_by_rows() -> None:
    """No task has much more to read than another, and none has nothing."""
    pieces = [(0, "", number, rows) for number, rows in enumerate([5, 1, 1, 1, 1, 1, 5, 5])]
    dealt = shared(pieces, 4)
    assert [piece for share in dealt for piece in share] == pieces
    assert [sum(piece[-1] for piece in share) for share in dealt] == [5, 5, 5, 5]
    assert shared([], 3) == []


@pytest.mark.parametrize("slots", [2, 3])
def test_tasks_make_the_events_of_one_process(tmp_path: Path, slots: int) -> None:
    """Events on a schedule are the same by one process and by several tasks, with one mark behind them."""
    gate = tmp_path / "epoch"
    options = {
        "rates": json.dumps({"values": [30.0, 5.0], "period": 1.0}),
        "lateness": "7",
        "gate": str(gate),
        "name": "s",
    }
    alone, spread = NexmarkReader(options), SpreadNexmarkReader({**options, "slots": str(slots)})
    position = spread.initialOffset()
    assert spread.latestOffset(position, None) == position
    gate.write_text("1790000000000000")
    for end in ({**position, "event": 4}, {**position, "event": 35}):
        shares = spread.partitions(position, end)
        # Each task has a reader of its own.
        taken = [row for share in shares for row in SpreadNexmarkReader({**options, "slots": "2"}).read(share)]
        assert taken == list(alone.readBetweenOffsets(position, end))
        assert len(shares) == slots + 1
        position = end
    assert [row for share in spread.partitions(position, position) for row in spread.read(share)] == []


def test_a_host_with_one_slot_reads_without_tasks() -> None:
    """Spark asks for the simple reader where there is one slot."""
    with pytest.raises(PySparkNotImplementedError):
        LogSource({"slots": "1"}).streamReader(None)
    with pytest.raises(PySparkNotImplementedError):
        NexmarkSource({"slots": "1"}).streamReader(None)


def deliveries(spec: WriterSpec, batch: int) -> Iterator[Delivery]:
    """Prepare two files of a sink."""
    files = []
    for number in range(2):
        files.append(spec.aside / f"{batch:012d}-{number}.parquet")
        files[-1].replace(str(number).encode())
    way = spec.sinks[0]
    yield deliver(spec, way, batch, Aside(way, files, np.array([7, 8])), None, None)


def test_files_of_a_batch_are_shown_all_or_none(tmp_path: Path) -> None:
    """A batch that was cut off between two files is finished by the next query, whatever slots its host has."""
    generation = take_over(Place(str(tmp_path)), "q")
    spec = spec_of(tmp_path, generation)
    out, manifest = tmp_path / "sinks" / "out", manifest_of(spec.folder, "q", 4)
    list(deliveries(spec, 4))
    settle(spec, 4, manifest)
    assert not out.exists()
    assert spec.aside.names() == []
    (prepared,) = deliveries(spec, 4)
    # Killed between two files: what follows the first is never done.
    begun = intend(spec, 4, [prepared], {"batch": 4, "rows": {}})
    begun.__enter__()
    file, target = prepared.moves[0]
    file.move(target)
    assert intent_of(spec.folder, "q", 4).exists()
    settle(spec, 4, manifest)
    assert sorted(path.name for path in out.iterdir()) == ["q-000000000004-1.parquet", "q-000000000004.parquet"]
    assert json.loads(manifest.read())["batch"] == 4
    assert read_latency(prepared.note)[1].tolist() == [7e-6, 8e-6]
    assert not intent_of(spec.folder, "q", 4).exists()
    settle(spec, 5, manifest_of(spec.folder, "q", 5))
    assert len([*out.iterdir()]) == 2


def test_only_the_newest_generation_settles(tmp_path: Path) -> None:
    """A query that another one has taken over from removes nothing that is going to be shown, however late it looks."""
    folder = Place(str(tmp_path))
    old = spec_of(tmp_path, take_over(folder, "q"))
    new = dataclasses.replace(old, generation=take_over(folder, "q"))
    list(deliveries(old, 4))
    prepared = list(deliveries(new, 4))
    with pytest.raises(Fenced):
        settle(old, 4, manifest_of(folder, "q", 4))
    with committing(folder, "q", new.generation), intend(new, 4, prepared, {"batch": 4, "rows": {}}):
        for delivery in prepared:
            delivery.show(begun=True)
    assert len([*(tmp_path / "sinks/out").iterdir()]) == 2
    settle(new, 5, manifest_of(folder, "q", 5))
    assert new.asides.names() == []


def test_a_lost_file_of_a_batch_is_told(tmp_path: Path) -> None:
    """A batch of which a file is nowhere is not taken for shown, until the file is back."""
    spec = spec_of(tmp_path, take_over(Place(str(tmp_path)), "q"))
    manifest = manifest_of(spec.folder, "q", 4)
    (prepared,) = deliveries(spec, 4)
    # Killed before the first file is shown.
    intend(spec, 4, [prepared], {"batch": 4, "rows": {}}).__enter__()
    file, target = prepared.moves[1]
    file.remove()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"neither .*q-000000000004-1\.parquet nor"):
            settle(spec, 4, manifest)
        assert not manifest.exists()
    target.replace(b"1")
    settle(spec, 4, manifest)
    assert manifest.exists()
    assert len([*(tmp_path / "sinks/out").iterdir()]) == 2


def network_over(folder: Path) -> Network:
    """Write rows, some of which are equal, and return a network over them."""
    (folder / "in").mkdir()
    for file in range(2):
        lines = [{"n": n // 2, "at": f"2026-03-01T12:00:{n % 60:02d}Z"} for n in range(300)]
        (folder / f"in/{file}.json").write_text("".join(json.dumps(line) + "\n" for line in lines + lines))
    return parse_network(
        {
            "name": "spread",
            "sources": {
                "lines": {
                    "format": "json", "schema": "n int, at timestamp", "time": "at",
                    "options": {"path": str(folder / "in")},
                }
            },
            "operators": {
                "third": {"kind": "filter", "input": "lines", "where": "n % 3 = 0"},
                "sums": {"kind": "aggregate", "input": "third", "by": "n", "window": 10, "select": "count(*) AS k"},
                "all": {"kind": "map", "input": "third", "select": "*"},
            },
            "sinks": {
                "own": {"input": "third"},
                "out": {"input": "third", "format": "json", "options": {"path": str(folder / "out")}},
                "counts": {"input": "sums"},
                "far": {"input": "all"},
            },
        }
    )  # fmt: skip


PLACEMENT = {"third": "h2", "sums": "h2", "all": "h1"}


@pytest.mark.spark
def test_tasks_write_what_leaves_a_host_with_two_slots(engine: Engine, tmp_path: Path) -> None:
    """Each slot writes its file of a log and of a sink, states have a part for each, and every row is counted once."""
    network, run = network_over(tmp_path), tmp_path / "run"
    outcome = engine.run_once(engine.prepare(network, PLACEMENT, run))
    assert outcome.balanced(network)
    wanted = sorted([n // 2 for n in range(300) if n // 2 % 3 == 0] * 4)
    for found in (read_parquet(run / "sinks/own"), read_json(tmp_path / "out"), read_parquet(run / "sinks/far")):
        assert sorted(row["n"] for row in found) == wanted
    assert len([*(run / "sinks/own").iterdir()]) == len([*(tmp_path / "out").iterdir()]) == 2
    assert len([*(run / "logs/third").glob("*-*.arrow")]) == 2
    assert len([*(run / "checkpoints/third/state/0").glob("[01]")]) == 2
    assert read_parquet(run / "sinks/counts")
    assert not [*(run / "aside").rglob("*.parquet")]


@pytest.mark.spark
def test_keep_fractions_reach_executors(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no JVM is shared, fractions that follow a plan drop the same rows and windows as where one is."""
    network, found = network_over(tmp_path), []
    keep = {"third->all": 0.4, "third->sums": 0.5}
    for far in (False, True):
        if far:
            monkeypatch.setattr(compiler, "shares_jvm", lambda _session: False)
        run = tmp_path / f"run {far}"
        deployment = engine.prepare(network, PLACEMENT, run, live=True)
        Place(str(run / ANNOUNCED)).replace(json.dumps({"keep": keep, "looked": {}}).encode())
        outcome = engine.run_once(deployment)
        assert outcome.balanced(network)
        dropped = {name: counts["dropped"] for name, counts in outcome.streams(network).items() if counts["dropped"]}
        rows = {name: sorted(map(str, read_parquet(run / "sinks" / name))) for name in ("far", "counts")}
        found.append((dropped, rows))
        assert sorted(dropped) == sorted(keep)
        assert (run / "limits").exists() == far
    assert found[0] == found[1]
