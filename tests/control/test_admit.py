"""Queries that somebody asks for: what is attached beside what runs, and what is refused."""

from __future__ import annotations

import json

import attrs
import pytest
from engines import APART, TOGETHER, simulated, stepped, two_queries

from penstock.control.controller import admitted
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.knowledge import Knowledge
from penstock.control.loop import Asked, Control
from penstock.control.policies.admit import admit
from penstock.control.situation import Situation
from penstock.control.state import State
from penstock.errors import InputError, NotReady
from penstock.network import Network, Operator, Sink, Source, network_document
from penstock.sizing.admit import merged
from penstock.steering import Admit
from penstock.workload import Rates


def moment(network, placement, rates, hosts=2, looks=8):
    """Return a moment some seconds after the start."""
    engine, known = simulated(network, placement, rates, hosts), Knowledge()
    for at in range(1, looks + 1):
        engine.wait(float(at))
        seen = engine.observe()
        known = known.updated(seen, network)
    return Situation(seen=seen, known=known, flow=Flow.of(network), goals=Goals())


def query(name, source, cost):
    """Return a query of one operator."""
    return Network.of(
        name, [Source(name=source)],
        [Operator(name=name, kind="map", inputs=(source,), cost=(cost,), selectivity=(1.0,))],
        [Sink(name=f"{name}-out", input=name)],
    )  # fmt: skip


def test_what_is_late_already_is_no_reason_to_refuse():
    """Beside a query that waits too long another is attached where it makes nothing wait longer, and else refused."""
    now = moment(two_queries(0.03), TOGETHER, stepped((20, 60.0)))
    assert now.worst() > now.goals.bound
    small = admit(now, Admit(query("small", "s1", 0.002)))
    assert dict(small.plan.placement or {}) == {"small": "h2"}
    assert "nothing waits longer" in small.why
    large = admit(now, Admit(query("large", "s1", 0.5)))
    assert large.plan.empty
    assert "large is refused: no host has room for 'large'" in large.why
    assert "most room is on h2" in large.why


def test_a_query_that_runs_already_is_said_to():
    """Who asks for a query again is told that it runs; another one under its name, in which network the name is."""
    grown = merged(attrs.evolve(two_queries(), file="two.toml"), query("more", "s1", 0.002))
    now = moment(grown, {**TOGETHER, "more": "h2"}, stepped((20, 60.0)))
    with pytest.raises(InputError, match="'more' runs already"):
        admit(now, Admit(query("more", "s1", 0.002)))
    with pytest.raises(InputError, match=f"'more' is also in '{grown.name}'"):
        admit(now, Admit(query("more", "s2", 0.002)))


@pytest.mark.parametrize("slow", [1.0, 0.8])
def test_no_host_gets_more_than_it_can_work_off(slow):
    """A query is attached just below what its host can work off and refused just above, however slowly that shows."""
    now = moment(two_queries(), TOGETHER, stepped((20, 60.0)), 1)
    row = attrs.evolve(now.seen.hosts["h1"], speed=slow)
    now = attrs.evolve(now, seen=attrs.evolve(now.seen, hosts={"h1": row}))
    room = float(now.usable[0] - now.host_load(now.where()).mean())
    for share, fits in ((0.98, True), (1.02, False)):
        found = admit(now, Admit(query("new", "s1", share * room / 60)))
        assert found.plan.empty is not fits
        assert ("fits" if fits else "most room is on h1") in found.why


def test_a_burst_of_late_is_expected_again_until_the_horizon():
    """A query that waits too long only if the last seconds come over and over is refused, though the mean load fits."""
    now = moment(two_queries(), APART, stepped((2, 100.0), (5, 10.0), (2, 100.0)), looks=9)
    for bound, fits in ((1.5, False), (2.5, True)):
        found = admit(attrs.evolve(now, goals=Goals(bound=bound)), Admit(query("new", "s1", 0.011)))
        assert found.plan.empty is not fits
        assert ("within" if fits else "would wait 2.16 s, more than 1.5 s") in found.why


def test_a_query_is_admitted_while_only_a_copy_is_alive():
    """A query is decided about where of an operator that runs only the second copy is left."""
    network = Network.of(
        "k",
        [Source(name="s", format="nexmark")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(0.002,), selectivity=(1.0,))],
        [Sink(name="z", input="a")],
    )
    now = moment(network, {"a": "h1", "a#2": "h2"}, stepped((20, 50.0), sources=("s",)), 2)
    added = Network.of(
        "new",
        [Source(name="s", format="nexmark")],
        [Operator(name="b", kind="map", inputs=("s",), cost=(0.001,), selectivity=(1.0,))],
        [Sink(name="y", input="b")],
    )
    found = admit(attrs.evolve(now, seen=attrs.evolve(now.seen, down=frozenset({"h1"}))), Admit(added))
    assert dict(found.plan.placement or {}).get("b") == "h2"


@pytest.mark.parametrize(
    ("asked", "whose"),
    [
        ({}, "5 s"),
        ({"latency": 0.5}, "0.5 s, as asked for"),
        ({"latency": 8.0}, "5 s, the controller's bound"),
        ({"latency": 8.0, "sinks": {"new-out": 0.5}}, "new-out within 0.5 s"),
    ],
)
def test_the_stricter_bound_counts(asked, whose):
    """A query is judged by the stricter of the bounds of who asks and of the controller, and the answer says which."""
    now = moment(two_queries(), APART, stepped((2, 100.0), (5, 10.0), (2, 100.0)), looks=9)
    for cost, fits in ((0.005, True), (0.011, "0.5" not in whose)):
        new = network_document(query("new", "s1", cost))
        found = admitted({"network": new, **asked})(now)
        assert found.plan.empty is not fits
        assert (whose if fits else "would wait 2.16 s, more than 0.5 s") in found.why


def test_nothing_new_goes_to_a_host_that_does_not_answer():
    """A query goes where room is among the hosts that answer, and waits while what runs is on one that does not."""
    now = moment(two_queries(), APART, stepped((20, 60.0)), 3)
    for silent, goes in (("h3", {"h1", "h2"}), ("h2", None)):
        seen = attrs.evolve(now.seen, silent=frozenset({silent}))
        if goes is None:
            with pytest.raises(NotReady, match="does not answer"):
                admit(attrs.evolve(now, seen=seen), Admit(query("new", "s1", 0.001)))
        else:
            assert admit(attrs.evolve(now, seen=seen), Admit(query("new", "s1", 0.001))).plan.placement["new"] in goes


@pytest.mark.parametrize(("gap", "late"), [(1, 0), (2, 0), (30, 0), (4, 8)])
def test_a_query_admitted_a_moment_ago_counts(gap, late):
    """What was promised of a new query counts until enough was seen of it, also after a restart: no second one fits."""
    quiet = [0.0] * (15 + late)
    rates = Rates.of(
        1.0, {"s1": [10.0] * 60, "s2": [10.0] * 60, "sa": quiet + [150.0] * (60 - len(quiet)), "sb": [100.0] * 60}
    )
    engine, control = simulated(two_queries(0.001), TOGETHER, rates, 1), Control(policies=(), act=True)
    state, flow, lines = State(), None, []
    for at in range(1, 17 + gap):
        engine.wait(float(at))
        wanted = {15: ("a", 150.0), 15 + gap: ("b", 100.0)}.get(at)
        asked = []
        if wanted:
            new = Admit(query(wanted[0], f"s{wanted[0]}", 0.005), most={f"s{wanted[0]}": wanted[1]})
            asked = [Asked(None, lambda now, new=new: admit(now, new))]
        turned = control.turn(engine, state, flow, asked)
        state, flow = State.read(json.loads(json.dumps(turned.state.document()))), turned.flow
        lines += [each.line for each in turned.state.open if each.line["time"] == at]
    assert [line["acted"] for line in lines] == [True, False]
    assert "most room is on h1, 0.228 of 1" in lines[1]["why"]
