"""Periods that a controller keeps for faces."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import numpy as np
import pytest
from engines import APART as ALONE
from engines import simulated, stepped, two_queries
from test_rebalance import APART, TWO, seen_of

from penstock.cluster import Placement
from penstock.control.controller import Controller
from penstock.control.folder import Folder
from penstock.control.loop import Control
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


@pytest.mark.parametrize("at", [2, 30])
def test_periods_are_cut_to_a_time(tmp_path: Path, at: int) -> None:
    """Of both files what was seen until a time stays, without a line that was cut off, and it goes on from there."""
    kept = Periods(tmp_path, most=2_000)
    for time in range(1, 31):
        kept.add(look(time))
    before, now = ([row["time"] for row in rows(tmp_path / name)] for name in (BEFORE, NAME))
    with open(tmp_path / NAME, "a", encoding="utf-8") as file:
        file.write('{"time": 1, "sin')
    at += before[0] - 1 if at < 30 else 0
    kept = Periods(tmp_path)
    kept.cut(at)
    kept.add(look(at + 1))
    found = [[row["time"] for row in rows(tmp_path / name)] for name in (BEFORE, NAME)]
    assert found == [[time for time in before if time <= at], [*(time for time in now if time <= at), at + 1]]
    assert "placement" in rows(tmp_path / NAME)[-1]


class Killed(BaseException):
    """The controller dies."""


def test_each_period_of_a_killed_run_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that was killed long after it wrote its state leaves no period twice when it goes on."""
    folder, dies = Folder(tmp_path), True

    def tell(_what: str, share: float) -> None:
        monkeypatch.setattr("penstock.control.controller.SAVED", 1e9)  # the first look was written down
        if dies and share >= 0.6:
            raise Killed

    def run() -> None:
        engine = simulated(two_queries(), ALONE, stepped((40, 50.0)))
        control = Control(policies=(), journaled=True)
        with folder.held():
            Controller(engine=engine, control=control, folder=folder, until=40.0, tell=tell).run()

    with pytest.raises(Killed):
        run()
    assert len(rows(folder.path / NAME)) == 24
    monkeypatch.undo()
    dies = False
    run()
    assert [row["time"] for row in rows(folder.path / NAME)] == list(range(1, 41))
