"""Sources of files as Spark reads them: folders that name columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from penstock.network.file import parse_network
from penstock.spark.compile.sources import read_source
from penstock.spark.run import Engine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SCHEMA = "user string, price double"


def read(engine: Engine, folder: Path, form: str = "json", schema: str = SCHEMA, **keys: Any) -> DataFrame:
    """Return the rows of a source of files, as a batch."""
    options = {"path": str(folder), "rowTag": "row", **keys.pop("options", {})}
    source = {"format": form, "schema": schema, "options": options, **keys}
    made = parse_network({"name": "n", "sources": {"s": source}})
    return read_source(engine.sessions["h1"], made.sources["s"], {}, batch=True)


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
