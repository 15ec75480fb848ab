"""The decisions of a controller, as its history file tells them: one JSON line each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KEYS = ("time", "seen", "decided", "why", "expected", "came")
"""What a line says: when (s), what was seen, what was decided and why, what was expected and what came of it."""


class HistoryReader:
    """Reads a history file, and at each look only the lines that are new and whole.

    A line may be written again when it is known what came of its decision; the later one, of equal ``time`` and
    ``decided``, counts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def look(self) -> list[dict[str, Any]]:
        """Return the decisions that are new; all of them where the file was begun anew."""
        try:
            size = self.path.stat().st_size
            if size < self._read:
                self._read = 0
            if size == self._read:
                return []
            with self.path.open("rb") as file:
                file.seek(self._read)
                raw = file.read()
        except FileNotFoundError:
            return []
        whole = raw.rpartition(b"\n")[0]
        self._read += len(whole) + 1 if whole else 0
        return [row for line in whole.splitlines() if (row := _decision(line)) is not None]


def _decision(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("time"), int | float):
        return None
    return {key: row.get(key) for key in KEYS}


def merged(known: list[dict[str, Any]], fresh: list[dict[str, Any]], most: int = 5_000) -> list[dict[str, Any]]:
    """Return decisions in the order of their times, a later line in place of an earlier one about the same."""
    rows = {(row["time"], json.dumps(row["decided"], sort_keys=True)): row for row in (*known, *fresh)}
    return sorted(rows.values(), key=lambda row: float(row["time"]))[-most:]
