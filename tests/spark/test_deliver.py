"""Rows on their way to sinks of files and topics: their types, what is kept of them, and what files are called."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType
from sinks_kit import read_json

from penstock.network.file import parse_network
from penstock.spark.run import Engine
from penstock.spark.shipped import deliver as delivering
from penstock.spark.shipped.deliver import Aside, Here, deliver
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.share import Brought, put_aside
from penstock.spark.shipped.spec import SinkExit, WriterSpec

KINDS = {
    "ntz": "timestamp_ntz'2024-01-01 00:00:00.123456'",
    "at": "timestamp'2024-01-01 00:00:00.123456+02:00'",
    "old": "timestamp_ntz'0001-01-01 00:00:00'",
    "price": "CAST(1.25 AS decimal(38, 18))",
    "small": "CAST(1.2 AS decimal(5, 1))",
    "raw": "x'00ff'",
    "tiny": "CAST(1 AS tinyint)",
    "deep": "array(named_struct('x y', timestamp_ntz'2024-01-01 00:00:00', 'm', map('k', CAST(1.1 AS decimal(9, 2)))))",
    "span": "interval '1 02:03:04.5' day to second",
    "gone": "CAST(null AS date)",
    "nothing": "null",
    "open": "parse_json('[1]')",
    "GONE": "'by case'",
}
"""A value of each type, in columns two of which differ only in case."""


UNREAD = ("GONE", "nothing", "open")
"""Of these, what nobody reads from parquet files."""


def exits(folder: Path, form: str, shape: str) -> tuple[WriterSpec, SinkExit]:
    """Return what a writer with one sink is told."""
    way = SinkExit("out", (0, 0), (), form, {"path": str(folder / "out")}, "label", shape)
    spec = WriterSpec(
        Place(str(folder / "run")), "q", (), (), (way,), (), {}, (), timed=False, knobs=None, generation=3
    )  # fmt: skip
    return spec, way


@pytest.mark.spark
@pytest.mark.parametrize("large", [0, 1 << 40])
@pytest.mark.parametrize("form", ["json", "kafka"])
def test_rows_keep_their_types(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int, form: str
) -> None:
    """Spark gets a batch's rows as it gave them, sent or in a file, with identities where a sink needs them."""
    monkeypatch.setattr(delivering, "LARGE", large)
    session = engine.sessions["h1"]
    frame = session.range(3).selectExpr(*(f"{sql} AS `{name}`" for name, sql in KINDS.items()))
    rows, ids = frame.toArrow(), pa.array([7, 8, 9]) if form == "kafka" else None
    spec, way = exits(tmp_path, form, frame.schema.json())
    given = Here(way, Brought(rows, pa.chunked_array([[1, 2, 3]]), ids)).aside(spec, 0)
    assert len(given.files) == (0 if large else 1)
    assert given.stimulus.tolist() == [1, 2, 3]
    found, shape = given.frame(session), frame.schema
    assert found.schema.simpleString() == (shape if ids is None else shape.add("__id", LongType())).simpleString()
    wanted = rows if ids is None else rows.append_column("__id", ids)
    assert [list(row.values()) for row in found.toArrow().to_pylist()] == [list(r.values()) for r in wanted.to_pylist()]
    if form == "json":
        folders = []
        for name, each in (("ours", found), ("theirs", frame)):
            # Spark's own text of each value, of columns whose names it takes.
            each.drop("GONE", "gone").coalesce(1).write.json(str(tmp_path / name))
            folders.append(sorted(p.read_text() for p in (tmp_path / name).glob("part-*")))
        assert folders[0] == folders[1]


@pytest.mark.spark
@pytest.mark.parametrize("tasks", [False, True])
def test_spark_reads_a_runs_own_files_as_it_gave_them(engine: Engine, tmp_path: Path, tasks: bool) -> None:
    """Files of a sink without a format have Spark's types, spans of time among them, whoever has written them."""
    session = engine.sessions["h1"]
    frame = session.range(3).selectExpr(*(f"{sql} AS `{name}`" for name, sql in KINDS.items() if name not in UNREAD))
    spec, way = exits(tmp_path, "json", frame.schema.json())
    way = dataclasses.replace(way, format=None)
    brought = Brought(frame.toArrow(), pa.chunked_array([[1, 2, 3]]))
    rows = Aside(way, [put_aside(spec, way, 0, brought)], brought.stimulus.to_numpy()) if tasks else Here(way, brought)
    delivery = deliver(spec, way, 0, rows, session, None)
    delivery.send()
    delivery.show(begun=False)
    found = session.read.parquet(str(tmp_path / "run" / "sinks" / "out"))
    assert found.schema.simpleString() == frame.schema.simpleString()
    assert found.toArrow().to_pylist() == frame.toArrow().to_pylist()


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["struct()", "named_struct('a', 1, 'A', 2)"])
def test_rows_that_no_file_holds_are_sent(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Types that Spark does not read from parquet reach a sink as well, however many rows there are."""
    monkeypatch.setattr(delivering, "LARGE", 0)
    session = engine.sessions["h1"]
    frame = session.range(2).selectExpr(f"array({kind}) AS n")
    spec, way = exits(tmp_path, "json", frame.schema.json())
    given = Here(way, Brought(frame.toArrow(), pa.chunked_array([[1, 2]]))).aside(spec, 0)
    assert not given.files
    assert given.frame(session).toArrow().to_pylist() == frame.toArrow().to_pylist()


@pytest.mark.spark
def test_a_session_keeps_no_rows_of_a_batch(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows go by a file that is removed: those that are sent Spark would keep as long as the query lives."""
    session = engine.sessions["h1"]

    def keep(*_: object) -> None:
        raise AssertionError("kept with the session")

    monkeypatch.setattr(type(session), "_cache_local_relation", keep)
    rows = pa.table({"n": np.arange(3 << 17)})
    spec, way = exits(tmp_path, "json", session.createDataFrame(rows.slice(0, 1)).schema.json())
    (tmp_path / "out").mkdir()
    delivery = deliver(spec, way, 0, Here(way, Brought(rows, pa.chunked_array([np.arange(3 << 17)]))), session, None)
    assert spec.aside.names()
    delivery.show(begun=False)
    delivery.clear()
    assert not spec.aside.names()
    assert sorted(row["n"] for row in read_json(tmp_path / "out")) == list(range(3 << 17))


@pytest.mark.spark
def test_files_of_units_and_sinks_are_told_apart(engine: Engine, tmp_path: Path) -> None:
    """Names with the same parts, cut in other places, stand for other files; so does a format in capitals."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(20)))
    options = {"path": str(tmp_path / "out")}

    def sink(given: str) -> dict[str, Any]:
        return {"input": given, "format": "JSON", "options": options}

    source = {"format": "Json", "schema": "n int", "options": {"path": str(tmp_path / "in")}}
    network = parse_network(
        {
            "name": "names",
            "sources": {"lines": source},
            "operators": {
                "clicks": {"kind": "filter", "input": "lines", "where": "n < 10"},
                "clicks-eu": {"kind": "filter", "input": "lines", "where": "n >= 10"},
            },
            "sinks": {"eu-out": sink("clicks"), "out": sink("clicks-eu")},
        }
    )
    outcome = engine.run_once(engine.prepare(network, {"clicks": "h1", "clicks-eu": "h2"}, tmp_path / "run"))
    assert outcome.balanced(network)
    assert sorted(row["n"] for row in read_json(tmp_path / "out")) == list(range(20))
    names = [path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith((".", "_"))]
    heads = {re.fullmatch(r"part-[^-]+-(.+)-\d{12}-\d+\.json", name)[1] for name in names}  # type: ignore[index]
    assert heads == {"clicks+eu-out", "clicks-eu+out"}
    session = engine.sessions["h1"]
    assert session.read.schema("n int").json(options["path"]).count() == 20
    streamed = session.readStream.schema("n int").json(options["path"])
    query = streamed.writeStream.format("json").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "ck")).start(str(tmp_path / "again")).awaitTermination(60)
    assert session.read.schema("n int").json(str(tmp_path / "again")).count() == 20
