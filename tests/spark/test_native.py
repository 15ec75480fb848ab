"""Rows that Spark itself writes: what tasks in Python would have written, and told of them."""

from __future__ import annotations

import dataclasses
import datetime
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)
from sinks_kit import read_json, read_parquet

from penstock.network import Sink
from penstock.network.file import parse_network
from penstock.spark.compile import compiler
from penstock.spark.compile.writing import written_by_spark
from penstock.spark.run import Engine
from penstock.spark.shipped.gate import take_over
from penstock.spark.shipped.native import RANKS, SKETCH, marked, spread_out, write_by_spark
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.settle import settle
from penstock.spark.shipped.share import brought, count, reached_by
from penstock.spark.shipped.spec import Origin, SinkExit, WriterSpec
from penstock.spark.shipped.told import manifest_of

CLOCK = pa.timestamp("us", "UTC")


def spec_of(folder: Path, *, tells: bool = False, form: str | None = None) -> WriterSpec:
    """Return what the writer of a query is told that has one sink, on the second of three streams."""
    options = {} if form is None else {"path": str(folder / "out")}
    return WriterSpec(
        Place(str(folder / "run")),
        "q",
        (Origin("s", marked=tells, lateness=5), Origin("t", marked=False, lateness=0)),
        (),
        (SinkExit("out", (0, 1), (("c0", "odd `name`"), ("c1", "when")), form, options, "label"),),
        (("s->a", "s->b", "s->c"),),
        {},
        (),
        timed=True,
        knobs=None,
        spread=True,
        native=True,
        dropping=frozenset({"s->a", "s->b"}),
    )


def rows_of(rows: int, seed: int) -> pa.Table:
    """Return rows as a query brings them, some of which are marks."""
    rng = np.random.default_rng(seed)
    came = rng.random((rows, 3)) < 0.7
    dropped = came & (rng.random((rows, 3)) < [0.3, 0.3, 0.0])
    bits = (came * [1, 4, 16] + dropped * [2, 8, 32]).sum(axis=1)
    marks = rng.random(rows) < 0.1
    bits[marks] = 0
    times = rng.integers(0, 10**9, rows)
    return pa.table(
        {
            "__stimulus": rng.integers(0, 10**9, rows), "__time": pa.array(times, CLOCK),
            "__origin": pa.array(rng.integers(0, 2, rows), pa.int32()), "__id": pa.array(np.arange(rows), mask=marks),
            "_seen0_0": pa.array(bits, pa.int32()), "c0": pa.array(np.arange(rows)), "c1": pa.array(times, CLOCK),
        }
    )  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize(("rows", "seed", "tells"), [(0, 0, False), (1, 1, True), (700, 2, True), (700, 3, False)])
def test_spark_tells_what_tasks_in_python_would(
    engine: Engine, tmp_path: Path, rows: int, seed: int, tells: bool
) -> None:
    """Counts, event time, rows and stimulus times are those that our own code finds in the same rows."""
    spec, table = spec_of(tmp_path, tells=tells), rows_of(rows, seed)
    whole = rows_of(max(rows, 1), seed)
    frame = engine.sessions["h2"].createDataFrame(whole).filter(f"c0 < {rows}").repartition(2)
    frame = marked(frame, spec.sinks[0], timed=True)
    for store in (True, False):
        written = write_by_spark(spec, frame, 3, store=store)
        assert written.counts == count(table, spec.passes)
        assert written.reached == reached_by(table, spec)
        if not store or written.rows is None:
            continue
        wanted = brought(spec.sinks[0], table)
        assert np.repeat(*written.rows.stimulus).tolist() == sorted(wanted.stimulus.to_pylist())
        found = [row for file in written.rows.files for row in pq.read_table(file.path).to_pylist()]
        assert sorted(map(str, found)) == sorted(map(str, wanted.rows.to_pylist()))
        if seed == 2:
            kinds = pq.read_table(written.rows.files[0].path).schema
            assert kinds.field("when").type == CLOCK
    assert written.rows is None
    assert bool(spec.aside.names()) == (brought(spec.sinks[0], table).rows.num_rows > 0)


@pytest.mark.spark
def test_stimulus_times_of_many_rows_keep_their_ranks(engine: Engine, tmp_path: Path) -> None:
    """Of more rows than Spark keeps, each is told a time whose rank is within half a hundredth of its own."""
    spec, table = spec_of(tmp_path), rows_of(60_000, 5)
    frame = marked(engine.sessions["h2"].createDataFrame(table), spec.sinks[0], timed=True)
    laid = write_by_spark(spec, frame, 0, store=True).rows
    assert laid is not None
    exact = np.sort(brought(spec.sinks[0], table).stimulus.to_numpy())
    found = np.repeat(*laid.stimulus)
    assert exact.size > SKETCH
    assert found.size == exact.size
    assert (found[0], found[-1]) == (exact[0], exact[-1])
    ranks = np.searchsorted(exact, found) / exact.size
    assert np.abs(ranks - np.arange(exact.size) / exact.size).max() < 0.005


@pytest.mark.spark
def test_what_is_equal_is_counted_once(engine: Engine, tmp_path: Path) -> None:
    """Streams on which the same rows arrive share a count, and tell the same."""
    alike = dataclasses.replace(spec_of(tmp_path), alike=((0, 1, 0, 3, 4, 5),))
    table = rows_of(500, 4)
    bits = table.column("_seen0_0").to_numpy()
    same = pa.array(np.where(bits & 1, bits | 4, bits & ~4), pa.int32())
    table = table.set_column(table.schema.get_field_index("_seen0_0"), "_seen0_0", same)
    frame = marked(engine.sessions["h2"].createDataFrame(table), alike.sinks[0], timed=True)
    told = write_by_spark(alike, frame, 0, store=True).counts
    assert told == count(table, alike.passes)
    assert told["s->a"][0] == told["s->b"][0] > 0


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=3000))
def test_stimulus_times_are_told_at_a_thousand_ranks(times: list[int]) -> None:
    """Below a thousand rows every stimulus time is exact; of more, ranks are, to half a thousandth, and both ends."""
    exact = np.sort(times)
    ranks = np.arange(RANKS + 1) / RANKS
    told = exact[np.maximum(np.ceil(np.round(ranks * len(times), 9)).astype(int) - 1, 0)]
    found = np.repeat(*spread_out(told.tolist(), len(times)))
    assert len(found) == len(times)
    if len(times) < RANKS:
        assert found.tolist() == exact.tolist()
    assert (found[0], found[-1]) == (exact[0], exact[-1])
    near = np.ceil(len(times) / RANKS).astype(int)
    places = np.arange(len(times))
    assert (exact[np.maximum(places - near, 0)] <= found).all()
    assert (found <= exact[np.minimum(places + near, len(times) - 1)]).all()


DEEP = ArrayType(StructType().add("b", MapType(StringType(), DateType())))
SPAN = DayTimeIntervalType()


@pytest.mark.parametrize(
    ("kinds", "form", "wanted"),
    [
        ({"a": IntegerType(), "b": StringType(), "c": TimestampType(), "d": DecimalType(9, 2)}, None, True),
        ({"a": DEEP}, None, True),
        ({"a": SPAN}, None, False),
        ({"a": ArrayType(SPAN)}, None, False),
        ({"a": IntegerType(), "A": IntegerType()}, None, False),
        ({"a": SPAN}, "json", True),
        ({"a": IntegerType()}, "kafka", False),
        ({"a": IntegerType()}, "noop", False),
    ],
)
def test_spark_writes_what_everybody_reads(kinds: dict[str, DataType], form: str | None, wanted: bool) -> None:
    """Types whose parquet differs between Spark and Arrow, and what are no files, are left to tasks in Python."""
    shape = StructType()
    for name, kind in kinds.items():
        shape.add(name, kind)
    options = {"path": "out"} if form == "json" else {}
    assert written_by_spark(Sink(name="out", input="a", format=form, options=options), shape) is wanted


def test_what_a_cut_off_batch_has_left_is_removed(tmp_path: Path) -> None:
    """A query that begins removes folders in which it or an earlier one wrote, and no other's."""
    spec = spec_of(tmp_path, form="json")
    for _ in range(2):
        spec = dataclasses.replace(spec, generation=take_over(spec.folder, "q"))
    others = ["_SUCCESS", "_penstock-label-000000000003-3", "_penstock-label-more-000000000003-1"]
    for name in ("_penstock-label-000000000003-1", "_penstock-label-000000000003-2", *others):
        (tmp_path / "out" / name).mkdir(parents=True)
    for generation in (1, 2, 3):
        place = dataclasses.replace(spec, generation=generation).aside
        (place / "000000000003" / "part-0.parquet").replace(b"half")
    settle(spec, 3, manifest_of(spec.folder, "q", 3))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == others
    assert spec.asides.names() == ["3"]


@pytest.mark.spark
@pytest.mark.parametrize("form", [None, "parquet", "json", "csv", "orc"])
def test_files_of_every_format_are_written_by_spark(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str | None
) -> None:
    """A unit whose only exit is a sink of files leaves each row once, under names of its own, and its latencies."""
    monkeypatch.setattr(compiler, "shares_jvm", lambda _session: False)
    (tmp_path / "in").mkdir()
    for file in range(3):
        lines = [{"n": n, "at": f"2026-03-01T12:00:{n % 60:02d}Z", "price": n / 8} for n in range(file, 300, 3)]
        (tmp_path / f"in/{file}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    sink = {"input": "odd"} | ({"format": form, "options": {"path": str(tmp_path / "out")}} if form else {})
    network = parse_network(
        {
            "name": "native",
            "sources": {
                "lines": {
                    "format": "json", "schema": "n int, at timestamp, price decimal(9,3)", "time": "at",
                    "options": {"path": str(tmp_path / "in"), "maxFilesPerTrigger": "2"},
                }
            },
            "operators": {"odd": {"kind": "filter", "input": "lines", "where": "n % 2 = 1"}},
            "sinks": {"out": sink},
        }
    )  # fmt: skip
    deployment = engine.prepare(network, {"odd": "h2"}, tmp_path / "run")
    outcome = engine.run_once(deployment)
    assert outcome.balanced(network)
    counts = {name: each["arrived"] for name, each in outcome.streams(network).items()}
    assert counts == {"lines->odd": 300, "odd->out": 150}
    times, weights = outcome.latencies("out")
    assert weights.sum() == 150
    assert (times > 0).all()
    folder = tmp_path / ("out" if form else "run/sinks/out")
    assert not [path for path in folder.iterdir() if path.name.startswith("_")]
    if form in (None, "parquet"):
        rows = read_parquet(folder)
        assert sorted(row["n"] for row in rows) == list(range(1, 300, 2))
        first = min(rows, key=lambda row: row["n"])
        when = datetime.datetime(2026, 3, 1, 12, 0, 1, tzinfo=datetime.UTC)
        assert first == {"n": 1, "at": when, "price": Decimal("0.125")}
    elif form == "json":
        assert sorted(row["n"] for row in read_json(folder)) == list(range(1, 300, 2))
    else:
        session = engine.sessions["h1"]
        frame = session.read.format(form).schema("n int, at timestamp, price decimal(9,3)").load(str(folder))
        assert sorted(row.n for row in frame.collect()) == list(range(1, 300, 2))
