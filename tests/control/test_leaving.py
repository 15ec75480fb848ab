"""Hosts that become empty and leave: when they may, what a refused drain leaves, and what is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from engines import APART, TOGETHER, simulated, stepped, two_queries

from penstock.cluster import Cluster, Host
from penstock.control.controller import Controller, drained, moved
from penstock.control.folder import Folder
from penstock.control.goals import Goals
from penstock.control.loop import Asked, Control, chosen
from penstock.control.policies import policies
from penstock.control.policies.base import Proposal
from penstock.control.state import State
from penstock.steering import Kill, Plan

COPIED = {**APART, "dear2": "h1", "dear2#2": "h2"}
"""What runs on h1 cannot go to h2, where its copy is."""


def test_no_host_leaves_to_which_units_move() -> None:
    """A spare host to which a dead host's operators go is not retired in the same look, and none runs on a stranger."""
    spare = Cluster.of([Host(name=name) for name in ("h1", "h2", "h3")])
    engine = simulated(two_queries(), APART, stepped((60, 20.0)), spare)
    goals = Goals(spare=(spare.hosts["h3"],))
    control = Control(policies=policies("replicate,provision"), goals=goals, act=True)
    state, flow = State(), None
    # `provision` retires a spare host for the first time when its patience ends.
    for look in range(1, 45):
        engine.wait(float(look))
        if look == 29:
            engine.happen(Kill("h2"))
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
        used = set(turned.seen.placement.values())
        assert used <= set(turned.seen.cluster.hosts), look
    policies_at_30 = [line["policy"] for line in (each.line for each in state.open) if line["time"] == 30]
    assert policies_at_30 == ["replicate"]
    assert used == {"h1"}


def test_simulator_refuses_to_retire_a_host_to_which_units_move() -> None:
    """A move that begins when time goes on counts already."""
    engine = simulated(two_queries(), APART, stepped((20, 20.0)), 3)
    engine.wait(1.0)
    assert engine.apply(Plan(placement={"dear2": "h3"})).begun
    refused = engine.apply(Plan(retire=("h3",))).refused
    assert [each.why for each in refused] == ["'dear2' is on its way to host 'h3'"]
    engine.wait(5.0)
    assert engine.report()["placement"]["dear2"] == "h3"


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ({"plan": Plan(placement={"dear2": "h3"})}, {"plan": Plan(retire=("h3",))}, False),
        ({"plan": Plan(retire=("h3",))}, {"plan": Plan(placement={"dear2": "h3"})}, False),
        ({"plan": Plan(placement={"dear2": "h2"})}, {"plan": Plan(retire=("h3",))}, True),
        ({"plan": Plan(add=(Host(name="h3"),))}, {"plan": Plan(retire=("h3",))}, False),
        ({"plan": Plan(keep={}), "drain": ("h3",)}, {"plan": Plan(add=(Host(name="h3"),))}, False),
        ({"plan": Plan(retire=("h2",))}, {"plan": Plan(retire=("h3",))}, True),
        ({"plan": Plan(add=(Host(name="h4"),))}, {"plan": Plan(add=(Host(name="h4"), Host(name="h5")))}, False),
        ({"plan": Plan(add=(Host(name="h4"),))}, {"plan": Plan(add=(Host(name="h5"),))}, True),
        ({"plan": Plan(limits={"s1": 5.0})}, {"plan": Plan(limits={"s1": None})}, False),
        ({"plan": Plan(triggers={"h1": 1.0})}, {"plan": Plan(triggers={"h1": 2.0}, keep={})}, False),
        ({"plan": Plan(triggers={"h1": 1.0})}, {"plan": Plan(triggers={"h2": 2.0}, limits={"s1": 5.0})}, True),
    ],
)
def test_what_one_policy_changes_no_other_does(first: Any, second: Any, both: bool) -> None:
    """Of two proposals about one host that joins or leaves, or one limit or trigger, only the first counts."""
    engine = simulated(two_queries(), APART, stepped((20, 20.0)), 3)
    engine.wait(1.0)
    now, _ = Control(policies=()).situation(State(), engine.observe(), None)  # type: ignore[arg-type]
    made = [Proposal(policy=name, why="", **given) for name, given in (("one", first), ("two", second))]
    rng: Any = None
    found = chosen(now, [lambda _now, _rng, each=each: each for each in made], rng)
    assert found == (made if both else made[:1])


@pytest.mark.parametrize(("moves", "decisions"), [(None, 0), ({**dict.fromkeys(COPIED, "h2")}, 1)])
def test_refused_drain_is_not_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: dict[str, str] | None, decisions: int
) -> None:
    """Who asks for a drain that cannot be made is told so, nothing changes, and nothing is written afterwards.

    It does not matter whether it is seen at once or by the verifier.
    """
    if moves is not None:
        monkeypatch.setattr("penstock.control.controller.evacuated", lambda _now, _hosts: moves)
    folder = Folder(tmp_path)

    def ask(_what: str, share: float) -> None:
        if round(share * 30) == 3:
            request = {"kind": "drain", "host": "h1", "token": folder._token()}
            (folder.path / "requests" / "one.json").write_text(json.dumps(request))

    engine = simulated(two_queries(), COPIED, stepped((30, 20.0)))
    controller = Controller(
        engine=engine, control=Control(policies=(), act=True), folder=folder, until=30.0, tell=ask
    )  # fmt: skip
    with folder.held():
        report = controller.run()
    answer = json.loads((folder.path / "replies" / "one.json").read_text())
    assert answer["done"] is False
    assert any("cop" in reason for reason in (*answer.get("refused", ()), answer["why"]))
    assert controller.state.draining == frozenset()
    assert report["decisions"] == decisions
    assert report["placement"] == COPIED


def test_nothing_is_moved_to_a_host_that_is_to_become_empty() -> None:
    """Who asks for it is told so: the next look would send it away again."""
    engine = simulated(two_queries(), APART, stepped((20, 20.0)), 3)
    control, state = Control(policies=(), act=True), attrs.evolve(State(), draining=frozenset({"h3"}))
    engine.wait(1.0)
    turned = control.turn(engine, state, None, [Asked("me", moved({"operator": "dear2", "host": "h3"}))])
    assert turned.answers["me"]["done"] is False
    assert "'h3' is to become empty" in turned.answers["me"]["why"]


def test_drain_that_gets_no_further_is_told_of_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a drain in force proposes at every look, and is refused, is written like any advice."""
    monkeypatch.setattr("penstock.control.policies.drain.evacuated", lambda _now, _hosts: {"dear2": "h2"})
    engine = simulated(two_queries(), COPIED, stepped((30, 20.0)))
    control, state, flow = Control(policies=(), act=True, goals=Goals(cool_down=3.0)), State(), None
    state = attrs.evolve(state, draining=frozenset({"h1"}))
    told = []
    for look in range(1, 20):
        engine.wait(float(look))
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
        told += [line["time"] for line in (each.line for each in state.open) if line["time"] == look]
    assert told == [1.0, 10.0, 19.0]
    assert state.draining == {"h1"}


def test_empty_host_leaves_when_asked() -> None:
    """A drain of a host on which nothing runs is done, and the host is gone a look later."""
    engine = simulated(two_queries(), TOGETHER, stepped((20, 20.0)))
    control, state, flow = Control(policies=()), State(), None
    for look in range(1, 5):
        engine.wait(float(look))
        turned = control.turn(engine, state, flow, [Asked("me", drained({"host": "h2"}))] if look == 2 else [])
        state, flow = turned.state, turned.flow
        if look == 2:
            assert turned.answers["me"]["done"] is True
            assert state.draining == {"h2"}
    assert set(turned.seen.cluster.hosts) == {"h1"}
    assert state.draining == frozenset()
