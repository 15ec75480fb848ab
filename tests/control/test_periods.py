"""Periods that a controller keeps for faces."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import numpy as np
from test_rebalance import APART, TWO, seen_of

from penstock.cluster import Placement
from penstock.control.periods import BEFORE, NAME, Periods


def rows(path: Path) -> list[dict]:
    """Return the periods in a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def look(at: int, placement: Placement = APART):
    """Return what is seen at a time: on one stream rows came and some were dropped."""
    seen = seen_of(TWO, at, dict.fromkeys(TWO.sources, 7), placement)
    streams = tuple(stream.name for stream in TWO.streams)
    came = np.arange(len(streams))
    waiting = np.array([3.0, np.nan, 0.0, 0.5])
    return attrs.evolve(seen, streams=streams, arrived=came, dropped=came // 2, waiting=waiting)


def test_a_period_says_what_there_was(tmp_path: Path) -> None:
    """Counts are there where there are any, and placements where they have changed."""
    moved = Placement({**APART, "o1.1": "h2"})
    kept = Periods(tmp_path)
    for at, placement in ((1, APART), (2, APART), (3, moved)):
        kept.add(look(at, placement))
    first, second, third = rows(tmp_path / NAME)
    assert (first["since"], first["time"]) == (0, 1)
    assert first["waiting"] == {TWO.operators["o1.1"].name: 3.0, "o2.2": 0.5}
    assert sorted(first["arrived"].values()) == list(range(1, len(TWO.streams)))
    assert sorted(first["dropped"].values()) == [n // 2 for n in range(2, len(TWO.streams))]
    assert first["placement"] == dict(APART)
    assert "placement" not in second
    assert third["placement"] == dict(moved)


def test_only_the_last_periods_are_kept(tmp_path: Path) -> None:
    """However long a run is, two files of bounded size hold its last periods, each told where operators are."""
    kept = Periods(tmp_path, most=2_000)
    for at in range(1, 101):
        kept.add(look(at))
    before, now = rows(tmp_path / BEFORE), rows(tmp_path / NAME)
    times = [row["time"] for row in (*before, *now)]
    assert times == list(range(int(times[0]), 101))
    assert all("placement" in each[0] for each in (before, now))
    assert all((tmp_path / name).stat().st_size < 3_000 for name in (BEFORE, NAME))
    kept.begin()
    assert not any(tmp_path.iterdir())
