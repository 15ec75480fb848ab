"""What a controller writes down: it comes back as it was, and a killed one goes on from it."""

from __future__ import annotations

import json
import math

import attrs
import pytest
from engines import APART, TOGETHER, simulated, stepped, two_queries
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host
from penstock.control.controller import Controller, admitted
from penstock.control.folder import Folder
from penstock.control.goals import Goals
from penstock.control.loop import Asked, Control
from penstock.control.policies import policies
from penstock.control.policies.base import Proposal
from penstock.control.request import identity_of
from penstock.control.state import State, plan_document, read_plan
from penstock.errors import InputError
from penstock.files import to_json
from penstock.network import Network, Operator, Sink, Source, network_document
from penstock.network.model import Growth
from penstock.steering import Plan

numbers = st.floats(0, allow_nan=False, allow_infinity=False)
names = st.text(max_size=3)
by_name = st.dictionaries(names, numbers, max_size=2)
words = st.none() | names

host_fields = {
    "name": names, "capacity": numbers, "quota": numbers, "cores": st.integers(1), "spark": words, "token_env": words,
    "price": numbers, "memory": numbers | st.just(math.inf), "machine": words,
}  # fmt: skip
plan_fields = {
    "placement": st.dictionaries(names, names, max_size=2), "keep": st.none() | by_name,
    "tables": st.none() | st.dictionaries(names, st.dictionaries(names, st.lists(numbers, max_size=2), max_size=2)),
    "limits": st.dictionaries(names, st.none() | numbers, max_size=2), "triggers": by_name,
    "network": st.none() | st.just(two_queries()),
    "add": st.lists(st.builds(Host, **host_fields), max_size=2).map(tuple),
    "retire": st.lists(names, max_size=2).map(tuple),
}  # fmt: skip


def filed(document):
    """Return a document as the state file has it."""
    return json.loads(to_json(document))


def fields_of(plan):
    """Return what makes two plans the same."""
    found = {field.name: getattr(plan, field.name) for field in attrs.fields(Plan)}
    return {**found, "network": None if plan.network is None else network_document(plan.network)}


@settings(max_examples=100, deadline=None)
@given(plan=st.builds(Plan, **plan_fields))
def test_every_field_of_a_plan_comes_back(plan):
    """A plan read from the state file is the one that was written, with hosts whose memory has no limit."""
    assert set(plan_fields) == {field.name for field in attrs.fields(Plan)}
    assert set(host_fields) == {field.name for field in attrs.fields(Host)}
    assert fields_of(read_plan(filed(plan_document(plan)))) == fields_of(plan)


def test_a_host_without_memory_in_the_file_has_no_limit():
    """Where a state file has null for a host's memory, it is not limited."""
    document = filed(plan_document(Plan()))
    document["add"] = [{"name": "h3", "capacity": 2.0, "spark": None, "memory": None}]
    assert read_plan(document).add == (Host(name="h3", capacity=2.0),)


def test_advice_of_an_earlier_version_is_known():
    """A state file that has only the last advice of a policy, with its time, is read."""
    document = {**filed(State().document()), "advised": {"shed": ["abc", 3.0]}}
    assert State.read(document).advised == {"shed": {"abc": 3.0}}


def test_an_open_decision_of_an_earlier_version_is_known():
    """A state that does not tell which operators have come to where they moved goes on without that."""
    line = {"time": 3.0, "policy": "move", "decided": {"moves": [{"operator": "a", "from": "h1", "to": "h2"}]}}
    document = State().document() | {"open": [[line, 0.5], [line, None, ["a"]]]}
    first, second = State.read(json.loads(json.dumps(document))).open
    assert (first.worst, first.there, second.worst, second.there) == (0.5, frozenset(), None, {"a"})


def test_what_is_asked_for_is_as_a_file_has_it():
    """The identity of a controller's work is equal to what is read from a file, also with hosts to spare."""
    control = Control(policies=(), goals=Goals(spare=Cluster.uniform(2).spares(2)))
    identity = identity_of(control, two_queries(), stepped((10, 60.0)))
    assert filed(identity) == identity
    fewer = attrs.evolve(control, goals=Goals(spare=Cluster.uniform(2).spares(1)))
    assert identity_of(fewer, two_queries(), stepped((10, 60.0))) != identity
    moved = two_queries().having(attrs.evolve(each, folder="/b") for each in two_queries().operators.values())
    assert identity_of(control, moved, stepped((10, 60.0))) == identity


class Killed(Exception):
    """The controller dies."""


@pytest.mark.parametrize("die_at", [3, 8])
def test_a_killed_controller_with_hosts_to_spare_goes_on(tmp_path, die_at):
    """Killed before or after a host has joined, it ends with the report of one that was not killed."""
    network, rates = two_queries(), stepped((20, 250.0))

    def make(name, die_at=math.inf):
        folder = Folder(tmp_path / name)

        def tell(_what, share):
            if share * rates.duration >= die_at:
                raise Killed

        goals = Goals(spare=Cluster.uniform(2).spares(1))
        control = Control(policies=policies("provision,rebalance"), goals=goals, act=True, journaled=True)
        return folder, Controller(
            engine=simulated(network, TOGETHER, rates), control=control, folder=folder, until=rates.duration,
            identity=identity_of(control, network, rates), tell=tell,
        )  # fmt: skip

    folder, whole = make("whole")
    with folder.held():
        report = whole.run()
    assert any(move["to"] == "h3" for move in report["moves"])
    folder, dies = make("killed", die_at)
    with pytest.raises(Killed), folder.held():
        dies.run()
    folder, again = make("killed")
    with folder.held():
        assert again.run() == report


def test_a_query_that_grows_is_attached():
    """A query is attached as it was asked for, with how its output grows."""
    grows = Operator(
        name="sums", kind="aggregate", inputs=("s9",), by=("x",), window=1.0, select="count(*) as n", cost=(1e-3,),
        selectivity=(0.1,), growth=Growth(0.5, 100.0),
    )  # fmt: skip
    network = Network.of("new", [Source(name="s9")], [grows], [Sink(name="t9", input="sums")])
    engine, control = simulated(two_queries(), APART, stepped((20, 50.0))), Control(policies=(), act=True)
    state, flow = State(), None
    for at in range(1, 6):
        engine.wait(float(at))
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
    engine.wait(6.0)
    asked = Asked("x", admitted(filed({"network": network_document(network), "rates": {"s9": 50.0}})))
    assert control.turn(engine, state, flow, [asked]).answers["x"]["done"]
    assert engine.observe().network.operators["sums"] == grows


def changing(_now, rng):
    """Return a proposal that keeps another share at every look."""
    return Proposal(policy="half", plan=Plan(keep={"s1->cheap1": float(rng.uniform(0.2, 0.9))}), why="half")


def decided(path, seconds, tell=None):
    """Return the report of a controller that drops another share at every look, and moves what it may."""
    folder, chosen = Folder(path), (changing, *policies("provision,rebalance"))
    goals = Goals(spare=Cluster.uniform(2).spares(1))
    controller = Controller(
        engine=simulated(two_queries(), TOGETHER, stepped((seconds, 250.0))),
        control=Control(policies=chosen, act=True, journaled=True, goals=goals),
        folder=folder, until=float(seconds), tell=tell,
    )  # fmt: skip
    with folder.held():
        return controller.run()


def test_the_state_does_not_grow_with_the_decisions(tmp_path):
    """However much was decided, the file that is written each time is as long."""
    sizes = []
    for seconds in (40, 80):
        assert decided(tmp_path / str(seconds), seconds)["decisions"] >= seconds - 3
        sizes.append((tmp_path / str(seconds) / "control" / "state.json").stat().st_size)
    assert sizes[1] < 1.05 * sizes[0]


@pytest.mark.parametrize("what", ["written", "cut off", "earlier version"])
def test_a_controller_goes_on_from_what_it_has_applied(tmp_path, monkeypatch, what):
    """Killed before the state knows of a plan, or within its line, or in a version that kept plans in the state."""
    report = decided(tmp_path / "whole", 30)
    assert report["moves"]
    write, killed = Folder.write, tmp_path / "killed"

    def die(folder, document):
        if document["state"]["at"] >= 20:
            raise Killed
        write(folder, document)

    monkeypatch.setattr(Folder, "write", die)
    with pytest.raises(Killed):
        decided(killed, 30)
    monkeypatch.undo()
    journal, state = Folder(killed).path / "journal.jsonl", Folder(killed).read()
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) == state["state"]["written"] + 1
    if what == "cut off":
        journal.write_text("".join(lines)[:-10])
    if what == "earlier version":
        rows = [json.loads(line) for line in lines[:-1]]
        state["state"]["journal"] = [[row["time"], row["plan"]] for row in rows]
        state["state"]["moves"] = [move for row in rows for move in row["moves"]]
        del state["state"]["written"]
        write(Folder(killed), state)
        journal.unlink()
    assert decided(killed, 30) == report
    assert len(Folder(killed).history("journal.jsonl")) == Folder(killed).read()["state"]["written"]


def test_a_journal_that_has_lost_lines_is_damaged(tmp_path):
    """Where less is left than the state knows of, nothing can be done again, and the file is named."""

    def die(_what, share):
        if share > 0.5:
            raise Killed

    with pytest.raises(Killed):
        decided(tmp_path, 20, die)
    (tmp_path / "control" / "journal.jsonl").unlink()
    with pytest.raises(InputError, match=r"is damaged: .*journal\.jsonl.*--fresh"):
        decided(tmp_path, 20)
