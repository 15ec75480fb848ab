"""Copies of a unit agree on what a batch takes, and one of them delivers, without Spark."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from penstock.cluster import SparkSettings
from penstock.errors import EngineError, InputError
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import Deployment, check_placement
from penstock.spark.left import claimed, hosts_of, placement_of
from penstock.spark.run.copies import catch_up, furthest, heir, inherit, latest, planned_ahead
from penstock.spark.run.folder import claim
from penstock.spark.run.reports import recount
from penstock.spark.run.units import Unit
from penstock.spark.shipped import lockstep
from penstock.spark.shipped.checkpoint import begun_and_ended, branch, offsets
from penstock.spark.shipped.gate import Fenced, check, committing, follow, lead, leave, owner_of, take_over
from penstock.spark.shipped.lockstep import Copy, appeared, first_begun, told_end
from penstock.spark.shipped.parts import Parts
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.settle import settle
from penstock.spark.shipped.spec import WriterSpec
from penstock.spark.shipped.told import manifest_of, report_of


def network(**source: Any) -> Network:
    """Return a filter and two operators behind it; the source is scheduled unless more is said of it."""
    operators = {
        "kept": {"kind": "filter", "input": "events", "where": "true"},
        "busy": {"kind": "aggregate", "input": "kept", "window": "10 seconds", "by": "auction"},
        "dear": {"kind": "filter", "input": "kept", "where": "price > 1"},
    }
    return parse_network(
        {
            "name": "n", "sources": {"events": {"format": "nexmark", **source}}, "operators": operators,
            "sinks": {"out": {"input": "busy"}, "rest": {"input": "dear"}},
        }
    )  # fmt: skip


PLACED = {"kept": "h1", "kept#2": "h2", "busy": "h1", "busy#2": "h2", "dear": "h3"}
SETTINGS = SparkSettings()


def plan(folder: Place, copy: str, batch: int, line: dict[str, Any], *, ended: bool = True) -> None:
    """Leave what Spark leaves of a batch in a copy's checkpoint."""
    checkpoint = folder / "checkpoints" / copy
    lines = ["v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1000 + batch}), json.dumps(line)]
    (checkpoint / "metadata").replace(json.dumps({"id": copy}).encode())
    (checkpoint / "offsets" / str(batch)).replace("\n".join(lines).encode())
    if ended:
        (checkpoint / "commits" / str(batch)).replace(b"v1\n{}")


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    """A run's folder in which ``u`` leads and ``u#2`` follows, both behind batch 0."""
    place = Place(str(tmp_path))
    take_over(place, "u", copy="u")
    for copy in ("u", "u#2"):
        plan(place, copy, 0, {"log": "w", "batch": 1, "starts": 0})
    follow(place, "u", "u#2")
    return place


START = {"log": "w", "batch": 1, "starts": 0}


def test_a_copy_that_follows_takes_what_the_other_takes(folder: Place) -> None:
    """It waits until the one that leads has planned the batch, counts its own start once, and never says itself."""
    found: list[Any] = []
    copy, parts = Copy(folder, "u", "u#2"), Parts()
    reader = threading.Thread(target=lambda: found.append(told_end(copy, parts, ("log", "batch"), START)))
    reader.start()
    reader.join(0.1)
    assert not found
    plan(folder, "u", 1, {"log": "w", "batch": 5, "starts": 3}, ended=False)
    reader.join(5)
    assert found == [{"log": "w", "batch": 5, "starts": 1}]
    plan(folder, "u#2", 1, found[0])
    plan(folder, "u", 2, {"log": "w", "batch": 5, "starts": 3})
    # A batch without rows is none for Spark unless offsets tell; later starts are not counted.
    assert told_end(copy, parts, ("log", "batch"), found[0]) == found[0]
    assert parts.most() is None


def test_a_copy_that_comes_to_lead_does_what_was_planned(folder: Place) -> None:
    """It takes the batch that the one before had planned, and says itself what the next one takes."""
    copy = Copy(folder, "u", "u#2")
    plan(folder, "u", 1, {"log": "w", "batch": 5, "starts": 0}, ended=False)
    assert lead(folder, "u", "u#2") == 2
    assert copy.end("log", START) == {"log": "w", "batch": 5, "starts": 0}
    plan(folder, "u#2", 1, {"log": "w", "batch": 5, "starts": 1})
    assert copy.end("log", START) is None
    with pytest.raises(Fenced):
        Copy(folder, "u", "u").end("log", START)


def test_the_copy_that_leads_waits_once_for_one_that_had_kept_up(
    folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is being started is not waited for, one that has kept up and falls behind is, once and by one source."""
    monkeypatch.setattr(lockstep, "PATIENCE", 0.3)
    copy = Copy(folder, "u", "u")
    assert copy.end("log", START) is None
    for number in (1, 2, 3):
        plan(folder, "u", number, START)
    since = time.monotonic()
    assert copy.end("log", START) is None
    assert time.monotonic() - since < 0.2
    for number in (1, 2, 3):
        plan(folder, "u#2", number, START)
    assert copy.end("log", START) is None
    assert copy.kept == {2}
    for number in (4, 5):
        plan(folder, "u", number, START)
    assert not Copy.of({"copy": Copy(folder, "u", "u", waits=False).option})._late({"u#2": 2}, 6)
    since = time.monotonic()
    assert copy.end("log", START) is None
    assert time.monotonic() - since > 0.2
    assert copy.kept == set()


def copies(folder: Place) -> Unit:
    """Return the unit of two copies on hosts of their own; the first leads."""
    unit = claim(Deployment(network(), PLACED, folder.path)).units[0]
    return Unit(attrs.evolve(unit.fragment, name="u"), "u", copies={"u": "h1", "u#2": "h2"})


@pytest.mark.parametrize("copy", ["u", "u#2"])
def test_a_unit_goes_on_from_the_copy_that_came_furthest(folder: Place, copy: str) -> None:
    """What an earlier leader had planned and shown stays, whichever copy is there again first."""
    plan(folder, "u", 1, {"log": "w", "batch": 9, "starts": 0}, ended=False)
    lead(folder, "u", "u#2")
    unit = latest(folder, copies(folder))
    assert (unit.saved, furthest(folder, unit), heir(folder, unit, ["u#2"])) == ("u#2", "u", "u#2")
    take_over(folder, "u", deliver=False)
    assert not planned_ahead(folder, unit, "u")
    catch_up(folder, unit.led_by(copy))
    assert begun_and_ended(folder / "checkpoints" / copy) == (1, 0)
    assert offsets(folder / "checkpoints" / copy, 1)[1]["batch"] == 9


def test_batches_that_were_shown_are_not_forgotten(folder: Place) -> None:
    """A checkpoint that does not know a batch that was shown is an error; a border that was not used is removed."""
    spec = WriterSpec(folder, "u", (), (), (), (), {}, (), timed=False, knobs=None, saved="u")
    query: Any = SimpleNamespace(name="u", spec=spec)
    manifest_of(folder, "u", 3).replace(b'{"rows": {}}')
    recount(query)
    assert not manifest_of(folder, "u", 3).exists()
    manifest_of(folder, "u", 3).replace(b'{"speed": []}')
    with pytest.raises(EngineError, match="ends with batch 0, and 'u' has shown batch 3"):
        recount(query)


def test_what_another_copy_has_computed_stays(folder: Place) -> None:
    """A copy that comes to lead removes what others have left, but nothing of those that follow."""
    third = follow(folder, "u", "u#3")
    fourth = follow(folder, "u", "u#4")
    spec = WriterSpec(folder, "u", (), (), (), (), {}, (), timed=False, knobs=None, spread=True)
    rows = [dataclasses.replace(spec, generation=number).aside / "rows" for number in (1, third, fourth)]
    for file in rows:
        file.replace(b"x")
    lead(folder, "u", "u#4")
    settle(dataclasses.replace(spec, generation=fourth), 7, folder / "none", computed=True)
    assert [file.exists() for file in rows] == [False, True, True]


def test_a_copy_that_is_too_far_behind_says_so(folder: Place) -> None:
    """Where Spark has removed what the one that leads took, a copy fails, and is begun anew."""
    for number in range(150, 250):
        plan(folder, "u", number, START)
    (folder / "checkpoints/u/offsets/0").remove()
    with pytest.raises(RuntimeError, match="too far behind: batch 1 of u is gone"):
        Copy(folder, "u", "u#2").end("log", START)


def test_one_copy_delivers(folder: Place) -> None:
    """Batches may be begun by those that lead or follow, and committed by the one that leads; others are refused."""
    assert check(folder, "u", 1) is True
    assert check(folder, "u", 2) is False
    with pytest.raises(Fenced), committing(folder, "u", 2):
        pass
    assert lead(folder, "u", "u#2") == 2
    with committing(folder, "u", 2):
        pass
    with pytest.raises(Fenced):
        check(folder, "u", 1)
    assert owner_of(folder, "u")["led"] == ["u#2", "u"]
    assert follow(folder, "u", "u") == 3
    assert owner_of(folder, "u")["led"] == ["u#2"]
    leave(folder, "u", "u")
    with pytest.raises(Fenced):
        check(folder, "u", 3)
    assert take_over(folder, "u", copy="u#2") == 4
    assert owner_of(folder, "u")["following"] == {}


def test_a_computed_batch_waits_until_it_is_shown_or_its_copy_leads(folder: Place) -> None:
    """A copy that follows is done with a batch once that is shown; if it comes to lead it shows it itself."""
    spec = WriterSpec(folder, "u", (), (), (), (), {}, (), timed=False, knobs=None, generation=2, saved="u#2")
    found: list[bool] = []
    manifest = folder / "batches" / "u" / "000000000000.json"
    waiter = threading.Thread(target=lambda: found.append(appeared(spec, manifest)))
    waiter.start()
    waiter.join(0.1)
    assert not found
    manifest.replace(b"{}")
    waiter.join(5)
    lead(folder, "u", "u#2")
    assert [*found, appeared(spec, folder / "none")] == [True, False]
    plan(folder, "u#2", 1, START)
    (folder / "checkpoints/u#2/offsets/1").replace(b'v1\n{"batchTimestampMs": 7777}\n{}')
    plan(folder, "u", 1, START)
    assert first_begun(spec, 1) == 1001


def test_a_checkpoint_goes_on_as_another_one(folder: Place) -> None:
    """Of what one query has begun and not ended the other knows nothing, and it is another query for Spark."""
    plan(folder, "u", 1, START)
    plan(folder, "u", 2, START, ended=False)
    (folder / "checkpoints/u/state/0/0/1.delta").replace(b"state")
    whole, target = folder / "checkpoints/u", folder / "checkpoints/u#2"
    (target / "offsets/9").replace(b"old")
    branch(whole, target, 1)
    assert begun_and_ended(target) == (1, 1)
    assert offsets(target, 1) == offsets(whole, 1)
    assert (target / "state/0/0/1.delta").read() == b"state"
    assert (target / "metadata").read() != (whole / "metadata").read()
    branch(whole, target, -1)
    assert not target.exists()


def test_a_copy_begins_where_the_other_has_been_counted(folder: Place) -> None:
    """The last batch of which Spark's report is there is where a copy begins, so that it can count all later ones."""
    unit = Unit.placed(claim(Deployment(network(), PLACED, folder.path)).units[0].fragment, PLACED)
    unit = Unit(unit.fragment, "u", copies={"u": "h1", "u#2": "h2"})
    plan(folder, "u", 1, START)
    inherit(folder, unit, "u#2")
    assert begun_and_ended(folder / "checkpoints/u#2") == (0, 0)
    report_of(folder, unit.name, 1).replace(b"{}")
    inherit(folder, unit, "u#2")
    assert begun_and_ended(folder / "checkpoints/u#2") == (1, 1)


def test_operators_whose_copies_share_hosts_share_a_query(tmp_path: Path) -> None:
    """Units are made by the hosts of all copies; a folder keeps them, and which copy leads."""
    deployment = Deployment(network(), PLACED, str(tmp_path))
    units = claim(deployment).units
    assert [(unit.name, unit.fragment.operators, dict(unit.copies)) for unit in units] == [
        ("kept", ("kept", "busy"), {"kept": "h1", "kept#2": "h2"}), ("dear", ("dear",), {}),
    ]  # fmt: skip
    assert claim(deployment).units == units
    document = claimed(str(tmp_path))
    assert document is not None
    assert dict(placement_of(document)) == PLACED
    assert hosts_of(document) == {"h1", "h2", "h3"}
    first = units[0]
    assert first.placement == {"kept": "h1", "busy": "h1", "kept#2": "h2", "busy#2": "h2"}
    led = first.led_by("kept#2")
    assert (led.host, led.saved, led.others) == ("h2", "kept#2", ("kept",))
    assert led.having("kept", "h3").placement == {**first.placement, "kept": "h3", "busy": "h3"}
    place = deployment.place
    assert latest(place, first) == first
    take_over(place, "kept", copy="kept")
    follow(place, "kept", "kept#2")
    lead(place, "kept", "kept#2")
    assert latest(place, first) == led


@pytest.mark.parametrize(
    ("source", "settings", "placed", "message"),
    [
        ({}, SETTINGS, {**PLACED, "kept#2": "h1"}, "placement.kept#2: another copy runs on 'h1'"),
        ({}, SETTINGS, {"kept": "h1", "kept#3": "h2"}, "expected 'kept#2', got 'kept#3'"),
        ({}, SparkSettings(hop="kafka"), PLACED, "do not follow each other with topics between hosts"),
        ({}, SparkSettings(mode="real-time"), PLACED, "do not follow each other with real-time mode"),
        (
            {"format": "json", "schema": "auction int, price int, at timestamp", "time": "at"}, SETTINGS, PLACED,
            "it reads 'events', of which Spark itself says how much a batch takes",
        ),
    ],
    ids=["same host", "gap", "topics", "real time", "Spark's source"],
)  # fmt: skip
def test_copies_that_cannot_agree_are_refused(
    source: dict[str, Any], settings: SparkSettings, placed: dict[str, str], message: str
) -> None:
    """What makes copies impossible is one message before anything starts."""
    with pytest.raises(InputError, match=message):
        check_placement(network(**source), placed, settings)
    check_placement(network(), PLACED, SETTINGS)


@pytest.mark.parametrize(
    "clock", ["now()", "current_timestamp", "CURRENT_DATE()", "unix_timestamp()", "localtimestamp", "curdate()"]
)
def test_copies_do_not_look_at_the_clock(clock: str) -> None:
    """The time at which a batch is computed is refused where an operator has copies, and not where it has none."""
    text = {"kind": "filter", "input": "events", "where": f"at < {clock} AND unix_timestamp(at) > 1"}
    made = parse_network(
        {
            "name": "n", "sources": {"events": {"format": "nexmark"}}, "operators": {"kept": text},
            "sinks": {"out": {"input": "kept"}},
        }
    )  # fmt: skip
    with pytest.raises(InputError, match=r"operators\.kept\.where: \w+\(\) differs between the copies"):
        check_placement(made, {"kept": "h1", "kept#2": "h2"}, SETTINGS)
    check_placement(made, {"kept": "h1"}, SETTINGS)
