"""How a controller begins in a folder where there was one before, and what it leaves there if it may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engines import APART, simulated, two_queries

from penstock.cli import control as commands
from penstock.cli import engines
from penstock.cluster import Cluster, Placement
from penstock.control.controller import Controller, left_by
from penstock.control.folder import Folder
from penstock.control.loop import Control
from penstock.control.policies import policies
from penstock.control.scenario import Happening
from penstock.control.state import State
from penstock.errors import EngineError, InputError
from penstock.network import read_network
from penstock.simulation import MicroBatch
from penstock.steering import Kill, Plan, Recover
from penstock.workload import Rates


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """The folder of a controller that was killed, after one decision."""
    monkeypatch.chdir(tmp_path)
    folder = Folder("run")
    with folder.held():
        folder.tell([{"time": 1.0, "policy": "first"}])
        folder.write({"identity": {"engine": "simulation"}, "over": False, "told": 1, "state": {}})
    return folder


@pytest.fixture
def words(examples: Path) -> list[object]:
    """A command in that folder."""
    network = examples / "two-chains" / "network.toml"
    return ["control", network, "--hosts", 2, "--directory", "run"]


@pytest.mark.parametrize("more", [[], ["--rates", "clicks=100,buys=20", "--trigger", "-1"]])
def test_a_command_that_is_refused_forgets_nothing(penstock, killed, words, more) -> None:
    """Where a new beginning is asked for and cannot be, all that the killed controller has left is as it was."""
    before = {path: path.read_text() for path in killed.path.rglob("*.*")}
    assert penstock(*words, "--fresh", *more).code == 2  # the simulator needs rates, and times that are not negative
    assert {path: path.read_text() for path in killed.path.rglob("*.*")} == before
    assert killed.history() == [{"time": 1.0, "policy": "first"}]


def test_a_folder_that_was_used_changes_no_decision(penstock, tmp_path: Path) -> None:
    """The same command decides the same in a folder where it ran before, also of a source without a row."""
    network = tmp_path / "n.toml"
    network.write_text(
        'name = "n"\n[sources.rare]\n[sources.other]\n'
        '[operators.big]\nkind = "map"\ninputs = ["rare"]\ncost = 3.0\nselectivity = 1.0\n'
        '[operators.small]\nkind = "map"\ninputs = ["other"]\ncost = 0.001\nselectivity = 1.0\n'
        '[sinks.a]\ninput = "big"\n[sinks.b]\ninput = "small"\n'
    )
    placed = ["--hosts", 2, "--placement", "big=h1,small=h1", "--policy", "shed,rebalance", "--act"]
    rates = ["--rates", "rare=0,other=100", "--for", 20]
    run = ["control", network, *placed, *rates, "--directory", tmp_path / "run", "--json"]
    first, again = penstock(*run), penstock(*run)
    assert first.code == again.code == 0, first.err + again.err
    assert first.document["decisions"] == again.document["decisions"] == 0


def test_other_options_are_refused_before_anything_starts(penstock, killed, words, monkeypatch) -> None:
    """A controller with other options than the one that was killed is refused before there is an engine."""

    def engine(*_: object) -> None:
        raise AssertionError

    monkeypatch.setitem(engines.ENGINES, "simulation", engine)
    done = penstock(*words, "--rates", "clicks=100,buys=20")
    assert done.code == 2
    assert "a controller with other" in done.err


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("events.toml", '[[events]]\nat = 9\nkill = "h2"\n', "events"),
        ("events.toml", "", "events"),
        ("cluster.toml", "[hosts.h1]\n[hosts.h2]\nprice = 2.0\n", "cluster"),
        ("cluster.toml", '[hosts.h1]\n[hosts.h2]\n[links]\n"h1->h2" = { delay = 0.1 }\n', "cluster"),
    ],
)
def test_files_that_say_something_else_are_another_run(
    penstock, words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, what: str
) -> None:
    """A killed run goes on with the same files, and one that says something else is named before anything runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events.toml").write_text('[[events]]\nat = 2\nkill = "h2"\n')
    (tmp_path / "cluster.toml").write_text("[hosts.h1]\n[hosts.h2]\n")
    said = [*(word for word in words if word not in {"--hosts", 2}), "--cluster", "cluster.toml"]
    said += ["--scenario", "events.toml", "--rates", "clicks=100,buys=20", "--for", 5]
    assert penstock(*said).code == 0
    folder = Folder("run")
    with folder.held():
        folder.write({**folder.read(), "over": False})
    before = (tmp_path / file).read_text()
    (tmp_path / file).write_text(text)
    done = penstock(*said)
    assert done.code == 2
    assert f"a controller with other {what}" in done.err
    (tmp_path / file).write_text(before)
    assert penstock(*said).code == 0


def test_event_that_is_no_query_cannot_wait(killed: Folder) -> None:
    """A state in which an event waits that the scenario lacks, or that asks for no query, is damaged."""
    whole = {**(killed.read() or {}), "state": json.loads(json.dumps(State().document()))}
    for number in (-1, 0, 1):
        with killed.held():
            killed.write({**whole, "waiting": [[number, None]]})
        with pytest.raises(InputError, match=r"is damaged: event .* no query"):
            left_by(killed, whole["identity"], (Happening(1.0, Kill("h2")),))


def test_a_scenario_begins_with_its_controller(tmp_path: Path) -> None:
    """Events count from where a new run begins, also on what runs since long before, and after a kill as they did."""
    happened: list[tuple[str, float]] = []
    rates = Rates.constant(dict.fromkeys(two_queries().sources, 10.0), 200.0)

    def controller(folder: Folder, until: float) -> Controller:
        engine = simulated(two_queries(), APART, rates, 2)
        engine.wait(100.0)
        happen = engine.happen
        engine.happen = lambda event: (happened.append((type(event).__name__, engine.now)), happen(event))[1]
        scenario = (Happening(5.0, Kill("h2")), Happening(20.0, Recover("h2")))
        return Controller(
            engine=engine, control=Control(policies=policies("")), folder=folder, scenario=scenario, until=until
        )

    folder = Folder(tmp_path)
    folder.path.mkdir()
    with folder.held():
        folder.write({"identity": {}, "over": True})
        first = controller(folder, 110.0)
        first.run()
        assert happened == [("Kill", pytest.approx(105.0))]
        document = folder.read()
        assert document is not None
        folder.write({**document, "over": False})
        controller(folder, 130.0).run()
    assert happened[1:] == [("Recover", pytest.approx(120.0))]


def test_what_an_earlier_controller_dropped_is_kept_again(tmp_path: Path) -> None:
    """A controller that begins anew lifts the keep fractions that the one before has left in force."""
    rates = Rates.constant(dict.fromkeys(two_queries().sources, 10.0), 20.0)
    engine = simulated(two_queries(), APART, rates, 2)
    engine.apply(Plan(keep={stream.name: 0.0 for stream in two_queries().streams}))
    folder = Folder(tmp_path)
    folder.path.mkdir()
    with folder.held():
        folder.write({"identity": {}, "over": True})
        report = Controller(engine=engine, control=Control(policies=policies("")), folder=folder, until=20.0).run()
    assert sum(row["dropped"] for row in report["streams"].values()) == 0


@pytest.mark.parametrize(("policy", "stays"), [("", False), ("throttle", True)])
def test_what_an_earlier_controller_limited_is_free_again(penstock, tmp_path: Path, policy: str, stays: bool) -> None:
    """Limits and triggers are lifted as keep fractions are, unless `throttle` goes on from them; status tells them."""
    rates = Rates.constant(dict.fromkeys(two_queries().sources, 10.0), 20.0)
    engine = simulated(two_queries(), APART, rates, 2, microbatch=MicroBatch(trigger=0.5, overhead=0.05))
    engine.apply(Plan(limits={"s1": 25.0}, triggers={"h1": 2.5}))
    folder = Folder(tmp_path)
    folder.path.mkdir()
    with folder.held():
        folder.write({"identity": {}, "over": True})
        Controller(engine=engine, control=Control(policies=policies(policy)), folder=folder, until=1.0).run()
    known = penstock("status", tmp_path, "--json").document
    assert known["limits"] == ({"s1": 25.0} if stays else {})
    assert (known["trigger"], known["triggers"]) == (0.5, {"h1": 2.5 if stays else 0.5, "h2": 0.5})
    told = penstock("status", tmp_path).err
    assert ("; read at most 25/s of s1; batches every 2.5 s on h1, else 0.5 s;" in told) == stays


def test_a_run_that_goes_on_says_that_it_stays_where_it_is(capsys, examples: Path) -> None:
    """Of a run that goes on a placement is checked all the same, and said not to count where it is another one."""
    network, cluster = read_network(examples / "two-chains" / "network.toml"), Cluster.uniform(2)
    there = Placement({"views": "h1", "scored": "h1", "paid": "h2", "billed": "h2"})

    def going_on(given: str | None) -> Placement | None:
        return commands._going_on(there, given, None, network=network, cluster=cluster)

    assert going_on(None) == going_on("views=h1,scored=h1,paid=h2,billed=h2") == there
    assert not capsys.readouterr().err
    assert going_on("views=h2,scored=h1,paid=h2,billed=h2") == there
    assert "where the run has left them" in capsys.readouterr().err
    with pytest.raises(InputError, match="nonsense"):
        going_on("nonsense=h7")


def test_what_was_not_answered_is_not_done_later(tmp_path: Path) -> None:
    """A request that nobody has taken in time is taken back."""
    folder = Folder(tmp_path)
    with folder.held():
        with pytest.raises(EngineError, match=r"is still starting \(nothing was changed\)"):
            Folder(tmp_path).ask("stop", {}, patience=0.05)
        folder.ready()
        with pytest.raises(EngineError, match=r"did not answer within 0.05 s \(nothing was changed\)"):
            Folder(tmp_path).ask("stop", {}, patience=0.05)
        assert folder.requests() == []
    with Folder(tmp_path).held():
        assert folder.starting


def test_a_history_is_kept_or_not(killed: Folder) -> None:
    """What begins anew puts the history aside, under a name that is free, unless it is to be forgotten."""
    (killed.path / "history-1.jsonl").write_text("")
    aside = killed.begin(keep=True)
    assert aside == killed.path / "history-2.jsonl"
    assert json.loads(aside.read_text()) == {"time": 1.0, "policy": "first"}
    assert not killed.used
    killed.tell([{"time": 2.0, "policy": "second"}])
    assert killed.begin(keep=False) is None
    assert killed.history() == []
