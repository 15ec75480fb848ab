"""Random rows for the sources of a random network."""

from __future__ import annotations

import datetime
from typing import Any

import attrs
import numpy as np
from case import File, Row

TYPES = {
    "k": "bigint",
    "v": "bigint",
    "s": "string",
    "größe": "decimal(12,2)",
    "a day": "date",
    "flag": "boolean",
    "x": "double",
    "seen": "timestamp",
    "list": "array<bigint>",
    "tags": "map<string,bigint>",
    "pair": "struct<a:bigint,b:string>",
}
"""Columns that sources have; a name has one type in all of them."""

NESTED = ("list", "tags", "pair")
WORDS = ("a", "b", "ab", "größer", "数", "Ω, “x”", "it's", "-1", "two words")
BEGIN = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)


@attrs.frozen
class Clock:
    """How the event times of a source go: all in µs.

    ``step``: mean distance of rows; ``grain``: what times are multiples of; ``lateness``: the source's; ``begin``:
    of its first row after `BEGIN`; ``late``: share of rows beyond the lateness; ``null``: share without time.
    """

    step: int
    grain: int
    lateness: int
    begin: int
    late: float
    null: float


def stamp(micros: int) -> str:
    """Return a time as µs since `BEGIN` in ISO 8601."""
    return (BEGIN + datetime.timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def random_files(
    rng: np.random.Generator, names: list[str], sizes: list[int], clock: Clock, nulls: float
) -> tuple[File, ...]:
    """Return files of rows, with disorder, ties, duplicates and gaps; the first of ``names`` is the time."""
    files, now, latest, late_yet = [], clock.begin, None, False
    for size in sizes:
        # Rows that may be repeated, with their times.
        recent: list[tuple[int | None, Row]] = []
        rows: list[Row] = []
        if rng.random() < 0.15:
            now += int(rng.integers(5, 40)) * 1_000_000
        for _ in range(size):
            allowed = None if latest is None else latest - clock.lateness
            again = recent[int(rng.integers(len(recent)))] if recent and rng.random() < 0.1 else None
            if again is not None and (again[0] is None or allowed is None or again[0] >= allowed):
                rows.append(again[1])
                continue
            now += int(rng.exponential(clock.step))
            at = _time(rng, now, clock, allowed)
            if allowed is not None and latest is not None and rng.random() < clock.late:
                at = (allowed - int(rng.integers(1_000, 15_000_000))) // clock.grain * clock.grain
                late_yet = True
            latest = at if latest is None else max(latest, at)
            shown = None if rng.random() < clock.null else stamp(at)
            row = (shown, *(random_value(rng, name, nulls) for name in names[1:]))
            rows.append(row)
            if shown is not None and not late_yet:
                recent = [*recent[-5:], (at, row)]
        files.append(tuple(rows))
    return tuple(files)


def _time(rng: np.random.Generator, now: int, clock: Clock, allowed: int | None) -> int:
    """Return an event time at most the lateness before the latest one, quite often exactly that."""
    if allowed is not None and rng.random() < 0.05:
        return max(allowed, -(-allowed // clock.grain) * clock.grain)
    back = int(rng.uniform(0, clock.lateness)) if rng.random() < 0.5 else 0
    at = (now - back) // clock.grain * clock.grain
    return at if allowed is None or at >= allowed else -(-allowed // clock.grain) * clock.grain


def random_value(rng: np.random.Generator, name: str, nulls: float) -> Any:
    """Return a value of a column as a case has it."""
    if rng.random() < nulls:
        return None
    number = int(rng.integers(0, 60))
    match TYPES[name]:
        case "bigint":
            return int(rng.integers(0, 6)) if name == "k" else number
        case "string":
            return WORDS[int(rng.integers(len(WORDS)))]
        case "decimal(12,2)":
            return f"{number}.{int(rng.integers(100)):02d}"
        case "date":
            return f"2026-02-{1 + number % 28:02d}"
        case "boolean":
            return bool(number % 2)
        case "double":
            return number / 2
        case "timestamp":
            return stamp(number * 1_001_000)
        case "array<bigint>":
            return [int(item) for item in rng.integers(0, 9, number % 4)]
        case "map<string,bigint>":
            return {WORDS[item]: int(item) for item in sorted({*rng.integers(0, 5, number % 4).tolist()})}
    return {"a": number, "b": WORDS[number % len(WORDS)]}
