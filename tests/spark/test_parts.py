"""What a reader takes at once of what has piled up while its query was stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.hop.directory import DirectoryLog
from penstock.spark.shipped import parts
from penstock.spark.shipped.nexmark import NexmarkReader, SpreadNexmarkReader
from penstock.spark.shipped.parts import FIRST, GROWTH, PART, Parts
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.sources import LogReader, SpreadLogReader


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that parts see (s)."""
    now = [100.0]
    monkeypatch.setattr(parts.time, "monotonic", lambda: now[0])
    return now


@given(there=st.integers(0, 100_000), cost=st.floats(1e-5, 0.1), overhead=st.floats(0.01, 1))
def test_parts_come_to_take_as_long_as_they_may(there: int, cost: float, overhead: float) -> None:
    """Whatever rows cost, all are taken, and no part but the first is much longer than it may be."""
    now = [100.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts.time, "monotonic", lambda: now[0])
        some, first = Parts(), True
        assert some.begin(middle=True)
        while (most := some.most()) is not None:
            rows = min(there, most)
            some.took(rows, caught_up=rows == there)
            there -= rows
            took = overhead + cost * rows
            assert first or took <= 2 * (PART + overhead)
            now[0] += took
            first = False
    assert there == 0
    assert not some.begin(middle=True)
    whole = Parts()
    assert not whole.begin(middle=False)
    assert whole.most() is None


def test_what_is_cheap_is_soon_caught_up_with(clock: list[float]) -> None:
    """Parts grow by as much as they may where rows cost nothing."""
    some = Parts()
    some.begin(middle=True)
    for number in range(4):
        assert some.most() == FIRST * GROWTH**number
        some.took(round(FIRST * GROWTH**number), caught_up=False)
        clock[0] += 0.1
    some.took(5, caught_up=True)
    assert some.most() is None


def events(folder: Path, **more: str) -> dict[str, str]:
    """Return the options of a source of which 5,000 events are due."""
    (folder / "epoch").write_text(str(round((time.time() - 3600) * 1e6)))
    rates = json.dumps({"values": [5000.0], "period": 1.0})
    return {"rates": rates, "lateness": "0", "gate": str(folder / "epoch"), "name": "s", **more}


def log_of_many(folder: Path) -> DirectoryLog:
    """Return a log of 40 batches with 100 rows each."""
    import pyarrow as pa

    times = pa.timestamp("us", "UTC")
    shape = pa.schema([("n", pa.int64()), ("__id", pa.int64()), ("__stimulus", pa.int64()), ("__time", times)])
    log = DirectoryLog(Place(str(folder)), shape)
    for batch in range(40):
        numbers = range(100 * batch, 100 * (batch + 1))
        values = {"n": numbers, "__id": numbers, "__stimulus": numbers, "__time": numbers}
        rows = pa.table([pa.array(values[field.name], pa.int64()).cast(field.type) for field in shape], schema=shape)
        log.write(batch, rows, (100 * batch, 100 * batch))
    return log


def alone(reader: Any, position: Any) -> Any:
    """Return what follows a position, by a reader that Spark calls once a batch."""
    return reader.read(position)[1]


def spread(reader: Any, position: Any) -> Any:
    """Return what follows a position, by a reader whose tasks read."""
    return reader.latestOffset(position, None)


@pytest.mark.parametrize(("slots", "step"), [("1", alone), ("2", spread)], ids=["alone", "spread"])
@pytest.mark.parametrize("kind", ["nexmark", "log"])
def test_readers_that_go_on_take_parts(
    tmp_path: Path, clock: list[float], kind: str, slots: str, step: Callable[[Any, Any], Any]
) -> None:
    """From the beginning a source is read at once; a reader that begins in the middle takes a part, then more."""
    if kind == "nexmark":
        options, key = events(tmp_path, slots=slots), "event"

        def reader() -> Any:
            return NexmarkReader(options) if slots == "1" else SpreadNexmarkReader(options)
    else:
        log, key = log_of_many(tmp_path), "batch"

        def reader() -> Any:
            return LogReader(log) if slots == "1" else SpreadLogReader(log, 0, int(slots))

    begin = reader().initialOffset()
    end = step(reader(), begin)
    assert end[key] == (5000 if kind == "nexmark" else 40)
    size = 1 if kind == "nexmark" else 100
    going_on, position = reader(), {**begin, **({key: 100 // size} if kind == "nexmark" else log.at(1))}
    taken = [position[key]]
    while (after := step(going_on, position))[key] != position[key]:
        position = after
        taken.append(position[key])
        clock[0] += 0.5
    assert taken[-1] == end[key]
    sizes = [(b - a) * size for a, b in pairwise(taken)]
    assert sizes[0] == FIRST
    assert sizes == sorted(sizes[:-1]) + sizes[-1:]
    assert len(sizes) > 3
    asked, all_at_once = reader(), {**begin, **({key: 100} if kind == "nexmark" else log.at(1))}
    asked.prepareForTriggerAvailableNow()
    assert step(asked, all_at_once)[key] == end[key]
