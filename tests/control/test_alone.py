"""Hosts that decide alone: the policy that gives them tables, and what comes of a burst without a controller."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
from engines import APART, simulated, stepped, two_queries
from steered import steered

from penstock.cluster import Cluster
from penstock.control.basis import Basis
from penstock.control.controller import Controller
from penstock.control.folder import Folder
from penstock.control.goals import Goals
from penstock.control.loop import Control
from penstock.control.policies import policies
from penstock.control.policies.alone import Alone
from penstock.control.situation import Situation
from penstock.control.state import State, plan_document, read_plan
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import HostTable, build_program, make_tables
from penstock.shedding.doors import decided
from penstock.steering import Plan, Slow

CHAINED = {"cheap1": "h1", "dear1": "h2", "cheap2": "h1", "dear2": "h2"}


def controlled(tmp_path, placement, rates, until):
    """Run the policy on the simulator up to a time; return the engine, which goes on, and the history."""
    engine = simulated(two_queries(), placement, rates)
    folder = Folder(tmp_path)
    controller = Controller(
        engine=engine, control=Control(policies=(Alone(),), act=True, journaled=True), folder=folder, until=until
    )
    with folder.held():
        controller.run()
    return engine, folder.history()


def test_hosts_go_on_when_the_controller_is_dead(tmp_path):
    """A burst after the controller's last look is shed by each host from its own table, to what it can work off."""
    rates = stepped((10, 60.0), (30, 300.0), (10, 60.0))
    engine, lines = controlled(tmp_path, CHAINED, rates, until=8.0)
    assert [line["policy"] for line in lines] == ["d-fit"]
    while engine.wait(engine.now + 10.0):
        pass
    report = engine.report()
    assert report["latency"]["max"] < 1.0
    assert report["balanced"]
    # h2 can do 1 / 0.004 tuples/s of the burst; the table leaves a few per cent, and keeps all before and after.
    assert report["latency"]["count"] >= 2 * 20 * 60 + 0.92 * 30 / 0.004


def test_tables_are_made_anew_when_the_placement_changes(tmp_path):
    """A table belongs to a placement: after a move hosts get others, and while nothing changes they keep theirs."""
    engine, lines = controlled(tmp_path, APART, stepped((30, 60.0)), until=10.0)
    assert len(lines) == 1
    assert sorted(lines[0]["decided"]["tables"]) == ["h1", "h2"]
    engine.apply(Plan(placement={"dear2": "h1"}))
    folder = Folder(tmp_path / "again")
    controller = Controller(engine=engine, control=Control(policies=(Alone(),), act=True), folder=folder, until=20.0)
    with folder.held():
        controller.run()
    assert len(folder.history()) == 1


def test_hosts_that_form_no_tree_are_told_so(tmp_path):
    """Where a host reads from two others no tables are made, and the reason is written down once."""
    network = Network.of(
        "merged", [Source(name="s1"), Source(name="s2")],
        [
            *(Operator(name=f"a{k}", kind="map", inputs=(f"s{k}",), cost=(0.001,), selectivity=(1.0,)) for k in (1, 2)),
            Operator(name="both", kind="union", inputs=("a1", "a2"), cost=(0.001, 0.001), selectivity=(1.0, 1.0)),
        ],
        [Sink(name="t", input="both")],
    )  # fmt: skip
    engine = simulated(network, {"a1": "h1", "a2": "h2", "both": "h3"}, stepped((10, 50.0)), 3)
    folder = Folder(tmp_path)
    controller = Controller(engine=engine, control=Control(policies=(Alone(),), act=True), folder=folder, until=8.0)
    with folder.held():
        controller.run()
    (line,) = folder.history()
    assert "two hosts" in line["why"]


def looked(engine, seconds, state):
    """Look every second with a controller that has just begun; return its state at the end, and the last moment."""
    control, flow, now = Control(policies=(Alone(),), act=True), None, None
    for at in range(1 + int(engine.now), seconds):
        engine.wait(float(at))
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
        now = Situation(seen=turned.seen, known=state.known, flow=flow, goals=Goals())
    return state, now


def test_chance_makes_no_new_tables():
    """While costs vary by chance alone hosts keep their tables, also where another controller goes on."""
    base = two_queries()
    steps = [attrs.evolve(operator, service="exponential") for operator in base.operators.values()]
    network = Network.of("noisy", base.sources.values(), steps, base.sinks.values())
    engine = simulated(network, APART, stepped((120, 30.0)))
    state, _ = looked(engine, 60, State())
    assert state.decisions <= 5
    again, _ = looked(engine, 110, State.read(json.loads(json.dumps(attrs.evolve(state, fresh=()).document()))))
    assert again.decisions <= state.decisions + 1
    assert again.noted.keys() == {"d-fit"}


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"cost": 1.03}, True),
        ({"cost": 1.1}, False),
        ({"selectivity": 0.9}, False),
        ({"room": 1.01}, True),
        ({"room": 0.95}, False),
        ({"upto": 4.0}, False),
        ({"upto": 0.25}, True),
    ],
)
def test_tables_hold_until_something_has_changed(change, holds):
    """Costs may be a few per cent off, and rates lower, but not higher, than those for which tables were made."""
    _, now = looked(simulated(two_queries(), APART, stepped((60, 200.0))), 40, State())
    fresh = Basis.of(now, now.usable)
    changed = attrs.evolve(fresh, **{name: getattr(fresh, name) * factor for name, factor in change.items()})
    assert fresh.holds(changed) == holds


def test_what_takes_long_to_refuse_is_tried_once(tmp_path, monkeypatch):
    """A table that would be too large is not made at every look, however costs vary, but again after a minute."""
    tries = []

    def refuse(*_):
        tries.append(1)
        raise InputError("the table would be too large")

    monkeypatch.setattr("penstock.control.policies.alone.make_tables", refuse)
    _, lines = controlled(tmp_path, CHAINED, stepped((100, 60.0)), until=90.0)
    assert [line["why"] for line in lines] == ["hosts cannot decide alone: the table would be too large"]
    assert len(tries) == 2


def test_a_network_too_large_for_tables_is_told_once(tmp_path, monkeypatch):
    """Where tables would take too long to make, the history says so once, however long that is so."""
    monkeypatch.setattr("penstock.control.policies.alone.MOST", 1)
    _, lines = controlled(tmp_path, CHAINED, stepped((80, 60.0)), until=75.0)
    assert [line["why"] for line in lines] == [
        "hosts cannot decide alone: tables for 6 streams take too long to make (at most 1)"
    ]


@pytest.mark.parametrize("rate", [50.0, 300.0, 900.0])
def test_second_host_sees_what_the_first_lets_through(rate):
    """Along a chain of hosts both fractions hold, and together they leave every host with what it can work off."""
    network = two_queries()
    program = build_program(network, Cluster.uniform(2), CHAINED)
    tables = make_tables(program, np.full(2, 1000.0), 0.05).hosts
    entered = {"s1": rate, "s2": rate}
    arrived = dict.fromkeys((stream.name for stream in network.streams), rate)
    keep = decided(network, tables, entered, arrived)
    assert program.feasible(program.flow(np.full(2, rate), keep))
    assert bool(keep) == (rate > 125)


def test_tables_survive_the_state_file():
    """A plan with tables written down and read again gives hosts the same tables."""
    tables = make_tables(build_program(two_queries(), Cluster.uniform(2), APART), np.full(2, 500.0), 0.1).hosts
    plan = Plan(tables={host: table.document() for host, table in tables.items()})
    again = read_plan(json.loads(json.dumps(plan_document(plan))))
    assert {host: HostTable.of(document).version for host, document in (again.tables or {}).items()} == {
        host: table.version for host, table in tables.items()
    }
    assert attrs.evolve(again, tables=None).empty


def test_two_who_say_what_to_keep_are_refused():
    """Hosts that decide alone and a policy that tells them what to keep are not asked for together."""
    with pytest.raises(InputError, match="d-fit leaves it to the hosts"):
        policies("d-fit,shed")


def test_a_new_table_lifts_nothing_before_it_is_looked_up():
    """What hosts keep stays in force while they get another table, also for a window that begins then."""
    engine = simulated(two_queries(), CHAINED, stepped((30, 300.0)))
    program = build_program(two_queries(), Cluster.uniform(2), CHAINED)
    tables = [make_tables(program, np.full(2, 1000.0), error).hosts for error in (0.02, 0.05)]
    kept = []
    for at, table in ((1.0, tables[0]), (9.0, tables[1])):
        engine.wait(at)
        before = engine.observe().keep
        engine.apply(Plan(tables={host: each.document() for host, each in table.items()}))
        kept.append((before, engine.observe().keep))
    assert kept[0] == ({}, {})
    assert kept[1][0] == kept[1][1] != {}
    engine.apply(Plan(tables={}))
    assert not engine.observe().keep


def test_hosts_that_decide_alone_drop_windows():
    """In front of a window as in front of a filter, a burst is dropped to what fits, from a table or two."""
    network = Network.of(
        "sums",
        [Source(name="s1")],
        [
            Operator(name="seen", kind="map", inputs=("s1",), cost=(0.001,), selectivity=(1.0,)),
            Operator(
                name="sum", kind="aggregate", inputs=("seen",), by=("u",), window=5.0, cost=(0.004,), selectivity=(0.2,)
            ),
        ],
        [Sink(name="t", input="sum")],
    )  # fmt: skip
    rates = stepped((20, 60.0), (60, 500.0), (30, 60.0), sources=("s1",))
    engine = simulated(network, {"seen": "h1", "sum": "h2"}, rates)
    lines, _ = steered(engine, "d-fit", 110)
    report = engine.report()
    # The first window of the burst had begun before it; what comes of it waits through the burst.
    assert report["latency"]["max"] < 10.0
    assert sum(stream["dropped"] for stream in report["streams"].values()) > 10_000
    assert len(lines) < 6


def test_a_host_that_is_faster_than_its_capacity_says_keeps_what_it_can():
    """Nothing is dropped at a host that has more to do than its capacity and works twice as fast."""
    engine = simulated(two_queries(), dict.fromkeys(two_queries().operators, "h1"), stepped((15, 190.0)))
    _, looks = steered(engine, "d-fit", 13, happen={1: [Slow("h1", 2.0)]})
    assert looks[-1].hosts["h1"].speed == pytest.approx(2.0, rel=0.01)
    assert sum(int(seen.dropped.sum()) for seen in looks[3:]) == 0
