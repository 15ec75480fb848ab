"""Sources of files as Spark reads them: rows that it cannot parse, folders that name columns, event times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.errors import InputError
from penstock.network.file import parse_network
from penstock.spark.compile.sources import read_source
from penstock.spark.run import Engine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SCHEMA = "user string, price double"
BAD = {
    "csv": "ann,1\nbob,xx\ncid,3\n",
    "json": '{"user":"ann","price":1}\n{"user":"bob","price":"xx"}\n{"user":"cid","price":3}\n',
    "xml": "<r>" + "".join(f"<row><user>{u}</user><price>{p}</price></row>\n" for u, p in ("a1", "bx", "c3")) + "</r>",
}
"""Rows of which the second has no number as price."""


def read(engine: Engine, folder: Path, form: str = "json", schema: str = SCHEMA, **keys: Any) -> DataFrame:
    """Return the rows of a source of files, as a batch."""
    options = {"path": str(folder), "rowTag": "row", **keys.pop("options", {})}
    source = {"format": form, "schema": schema, "options": options, **keys}
    made = parse_network({"name": "n", "sources": {"s": source}})
    return read_source(engine.sessions["h1"], made.sources["s"], {}, batch=True)


@pytest.fixture(params=sorted(BAD))
def form(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Write a file with a bad row, and return its format."""
    (tmp_path / f"rows.{request.param}").write_text(BAD[request.param])
    return str(request.param)


def test_bad_rows_are_left_out_whatever_is_asked(engine: Engine, tmp_path: Path, form: str) -> None:
    """A row that Spark leaves out as a column cannot be read is left out also if others or none are asked for."""
    rows = read(engine, tmp_path, form, options={"mode": "dropMalformed"})
    assert len(rows.select("user").collect()) == len(rows.selectExpr("1").collect()) == 2


def test_bad_rows_end_a_run_whatever_is_asked(engine: Engine, tmp_path: Path, form: str) -> None:
    """Where a row that cannot be read ends a run, it does so also if other columns, or other rows, are asked for."""
    rows = read(engine, tmp_path, form, options={"mode": "FAILFAST"})
    for asked in (rows.select("user"), rows.filter("user LIKE 'a%'").select("user")):
        with pytest.raises(PySparkException, match="FAILED_READ_FILE"):
            asked.collect()


@pytest.mark.parametrize("name", ["_corrupt_record", "Bad"])
def test_bad_rows_are_shown_whatever_is_asked(engine: Engine, tmp_path: Path, form: str, name: str) -> None:
    """A column of rows that cannot be read has them also if no other is asked for, and the others have none."""
    options = {} if name == "_corrupt_record" else {"columnNameOfCorruptRecord": name}
    rows = read(engine, tmp_path, form, f"{SCHEMA}, {name} string", options=options)
    assert len(rows.filter(f"{name} IS NULL").select("user").collect()) == 2
    assert len([row for row in rows.select(name).collect() if row[0] is not None]) == 1


def test_only_what_is_asked_is_parsed(
    engine: Engine, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a bad value is null and no more, Spark parses no column that nobody asks for."""
    read(engine, tmp_path, form).select("user").explain()
    assert "ReadSchema: struct<user:string>" in capsys.readouterr().out


@pytest.mark.parametrize("schema", [SCHEMA, "user string, day int, price double"])
def test_columns_are_those_that_are_declared(engine: Engine, tmp_path: Path, schema: str) -> None:
    """Folders that name a column add none, and fill one that the schema names, which keeps its place."""
    before = read(engine, tmp_path, schema=schema)
    (tmp_path / "day=7").mkdir()
    (tmp_path / "day=7/rows.json").write_text('{"user":"bob","price":2}\n')
    after = read(engine, tmp_path, schema=schema)
    assert after.schema == before.schema
    (row,) = after.collect()
    assert row.asDict().get("day") == (7 if "day" in schema else None)


@pytest.mark.parametrize("time", ["ts", "ts / 1000"])
def test_a_number_is_no_time(engine: Engine, tmp_path: Path, time: str) -> None:
    """A number counts seconds or milliseconds: which, only the user knows, who is told how to say it."""
    with pytest.raises(InputError, match=r'sources\.s\.time: expected a time, got a number: .*"timestamp_millis\(ts'):
        read(engine, tmp_path, schema="ts bigint", time=time)


@pytest.mark.parametrize("time", ["at", "substring(at, 1)"])
def test_text_that_is_no_time_is_null(engine: Engine, tmp_path: Path, time: str) -> None:
    """A text that is no time, or one of no day, makes its row one without event time, and ends no run."""
    texts = ("2026-03-01 12:00:00", "N/A", "12:30:00", " T1:30")
    (tmp_path / "rows.json").write_text("".join(f'{{"at":"{text}"}}\n' for text in texts))
    rows = read(engine, tmp_path, schema="at string, d date, n timestamp_ntz", time=time)
    assert [row[0] for row in rows.selectExpr("CAST(__time AS STRING)").collect()] == [texts[0], None, None, None]
    for other in ("d", "n"):
        read(engine, tmp_path, schema="at string, d date, n timestamp_ntz", time=other)
