"""Keep fractions that change while a query runs, without Spark."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.compile.drops import Drops
from penstock.spark.shipped import turn as turning
from penstock.spark.shipped.gate import follow, take_over
from penstock.spark.shipped.local import Local
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import Knobs, Windows, WriterSpec
from penstock.spark.shipped.turn import BUCKETS, LISTED, SINCE, kept_by, knob, make_turn

DAY = 86_400_000_000
EVER = -(2**63)


class Frame:
    """Stands in for a batch: notes the properties that are set."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.sparkSession = self

    def sql(self, text: str) -> Frame:
        """Take a query that sets properties."""
        self.properties |= dict(re.findall(r"'setProperty', '([^']+)', '([^']+)'", text))
        return self

    def collect(self) -> None:
        """Do nothing."""


def announce(folder: Path, keep: dict[str, float], looked: dict[str, int] | None = None) -> None:
    written = folder / "keep.json.new"
    written.write_text(json.dumps({"keep": keep, "looked": looked or {}}))
    written.replace(folder / "keep.json")


def turn_of(given: WriterSpec) -> Any:
    """Return what a writer calls before each batch."""
    return make_turn(given, Local(given))


def spec(folder: Path, query: str = "h1", **wanted: Any) -> WriterSpec:
    knobs = Knobs(**{"limits": (), "windows": {}, "others": {}, **wanted})
    return WriterSpec(Place(str(folder)), query, (), (), (), (), {}, (), timed=True, knobs=knobs)


def test_a_replay_drops_the_same(tmp_path: Path) -> None:
    """A batch that is done again, also by another process, has the limits that it had; the next one has new ones."""
    frame, given = Frame(), spec(tmp_path, limits=("a->b",))
    name = knob(Place(str(tmp_path)), "a->b")
    announce(tmp_path, {"a->b": 0.25})
    turn_of(given)(frame, 0, {}, None)
    announce(tmp_path, {"a->b": 0.75})
    again = turn_of(given)
    again(frame, 0, {}, None)
    assert frame.properties[name] == str(BUCKETS // 4)
    again(frame, 1, {}, None)
    assert frame.properties[name] == str(3 * BUCKETS // 4)
    announce(tmp_path, {})
    again(frame, 2, {}, None)
    assert frame.properties[name] == str(BUCKETS)


def test_windows_change_after_what_was_seen(tmp_path: Path) -> None:
    """A new fraction holds for windows after all rows seen, once no row comes to windows before the last change."""
    frame, turn = Frame(), turn_of(spec(tmp_path, windows={"a->b": Windows(2, 10_000_000, (0,))}))
    name = knob(Place(str(tmp_path)), "a->b")

    def shown() -> tuple[int, int, int, str]:
        packed = int(frame.properties[name])
        return packed >> 20, packed & (2**20 - 1), int(frame.properties[name + SINCE]), frame.properties[name + LISTED]

    turn(frame, 0, {}, None)
    assert shown() == (BUCKETS, BUCKETS, EVER, f"{EVER}:{BUCKETS}")
    announce(tmp_path, {"a->b": 0.625})
    turn(frame, 1, {"0": 5}, 7)
    # Half of the rows are in windows of two pairs, and pass with either: of them three quarters do.
    half = BUCKETS // 2
    assert shown() == (half, BUCKETS, 8, f"{EVER}:{BUCKETS},8:{half}")
    announce(tmp_path, {})
    turn(frame, 2, {"0": 10_000_007}, 10_000_009)
    assert shown()[:3] == (half, BUCKETS, 8)
    turn(frame, 3, {"0": DAY}, DAY)
    assert shown() == (BUCKETS, half, DAY + 1, f"8:{half},{DAY + 1}:{BUCKETS}")


def test_windows_change_after_the_slowest_input(tmp_path: Path) -> None:
    """A change waits for rows that one input still owes to windows before the last change, however far others are."""
    turn = turn_of(spec(tmp_path, windows={"a->b": Windows(2, 4_000_000, (0, 1))}))
    decided = tmp_path / "knobs" / "h1"

    def entries(keep: float, water: dict[str, int], batch: int) -> Any:
        announce(tmp_path, {"a->b": keep})
        turn(Frame(), batch, water, max(water.values()))
        return json.loads((decided / f"{batch:012d}.json").read_text())["windows"]["a->b"]

    first = entries(0.5, {"0": 1_000_000, "1": 700_000}, 0)
    assert [since for since, _ in first] == [EVER, 1_000_001]
    assert entries(1.0, {"0": 9_000_000, "1": 5_000_000, "2": 9_000_000}, 1) == first
    assert entries(1.0, {"0": 9_000_000, "2": 9_000_000}, 2) == first
    last = entries(1.0, {"0": 9_000_000, "1": 5_000_001, "2": 9_500_000}, 3)
    assert [since for since, _ in last][-2:] == [1_000_001, 9_500_001]


def test_others_decide_for_windows_here(tmp_path: Path) -> None:
    """The windows of a stream that drops on another host are those that it has decided of last."""
    announce(tmp_path, {"a->b": 0.5})
    theirs = spec(tmp_path, "h2", windows={"a->b": Windows(1, 10, (0,))})
    turn_of(theirs)(Frame(), 0, {"0": 41}, 41)
    frame = Frame()
    turn_of(spec(tmp_path, others={"h2": ("a->b",)}))(frame, 0, {}, None)
    assert frame.properties == {knob(Place(str(tmp_path)), "a->b") + LISTED: f"{EVER}:{BUCKETS},42:{BUCKETS // 2}"}


def test_a_batch_waits_for_its_own_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch waits for penstock's look at it, and not for ever."""
    frame, turn = Frame(), turn_of(spec(tmp_path, limits=("a->b",), prompt=True))
    name = knob(Place(str(tmp_path)), "a->b")
    later = threading.Timer(0.05, announce, (tmp_path, {"a->b": 0.5}, {"h1": 0}))
    later.start()
    turn(frame, 0, {}, None)
    later.join()
    assert frame.properties[name] == str(BUCKETS // 2)
    monkeypatch.setattr(turning, "PATIENCE", 0.05)
    begin = time.monotonic()
    turn(frame, 1, {}, None)
    assert 0.05 <= time.monotonic() - begin < 1.0


def test_fixed_fractions_are_numbers() -> None:
    """What does not follow a plan is a number in the query, and nothing where nothing drops."""
    drops = Drops({"a->b": 0.3, "b->c": 1.0}, frozenset({"c->d"}), Place("/run"))
    assert (drops.limit("a->b"), drops.limit("b->c"), drops.limit("x->y")) == ("300000", None, None)
    assert drops.drops("c->d")
    assert "getProperty" in str(drops.limit("c->d"))


def test_a_copy_that_follows_drops_more_by_properties_of_its_own(tmp_path: Path) -> None:
    """It keeps what is its own of what the one that leads keeps, and no other query on its host does so."""
    place = Place(str(tmp_path))
    take_over(place, "q", copy="q")
    follow(place, "q", "q#2")
    announce(tmp_path, {"a->b": 0.6, "a->b#2": 0.2})
    found = {}
    for generation, copy in ((1, "q"), (2, "q#2")):
        knobs = Knobs(("a->b",), {}, {}, copy=copy)
        given = WriterSpec(
            place, "q", (), (), (), (), {}, (), timed=False, knobs=knobs, generation=generation, saved=copy
        )
        frame: Any = Frame()
        turn_of(given)(frame, 0, {}, None)
        found[copy] = frame.properties
    assert found == {
        copy: {knob(place, "a->b", copy): str(round(share * BUCKETS))} for copy, share in (("q", 0.6), ("q#2", 0.2))
    }
    assert kept_by({"a->b": 0.4, "a->b#2": 1.0}, "a->b", "") == 1
    assert kept_by({"a->b": 0.4}, "a->b", "2") == 0.4
