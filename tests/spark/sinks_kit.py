"""Reads what runs have left in folders of sinks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def read_json(folder: Path) -> list[dict[str, Any]]:
    """Return the rows that a reader of a JSON folder sees: hidden files are none of them."""
    files = sorted(path for path in folder.iterdir() if not path.name.startswith(("_", ".")))
    assert all(path.suffix == ".json" for path in files), files
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def read_parquet(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a parquet folder."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
