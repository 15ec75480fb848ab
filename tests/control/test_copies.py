"""What copies drop, and what is dropped while operators lie on dead hosts."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from engines import APART, simulated, stepped, two_queries

from penstock.control.goals import Goals
from penstock.control.loop import Control
from penstock.control.policies import policies
from penstock.control.state import State
from penstock.network import Network, Operator, Sink, Source
from penstock.network.shapes import chains
from penstock.steering import Kill


def copied() -> Network:
    """Return two operators over one source."""
    costs = {"a": 0.01, "b": 0.006}
    steps = [
        Operator(name=name, kind="filter", where="true", inputs=("s",), cost=(cost,), selectivity=(1.0,))
        for name, cost in costs.items()
    ]
    return Network.of("copied", [Source(name="s")], steps, [Sink(name="t", input="a"), Sink(name="u", input="b")])


def controlled(engine, wanted, seconds, events=()):
    """Run the policies, and return the last turn and the decisions that were acted on, by policy."""
    control, state, flow = Control(policies=policies(wanted), goals=Goals(), act=True), State(), None
    acted = []
    for at in range(1, seconds):
        engine.wait(float(at))
        for moment, what in events:
            if moment == at:
                engine.happen(what)
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
        acted += [
            line["policy"]
            for line in (each.line for each in state.open)
            if line["time"] == engine.now and line["acted"]
        ]
    return turned, acted


@pytest.mark.parametrize("wanted", ["replicate,shed", "shed,replicate"])
def test_shedding_leaves_to_copies_what_they_can_do(wanted):
    """While dropping on one copy makes room enough nothing else is dropped, whatever the order of the policies."""
    rates = stepped((60, 80.0), sources=("s",))
    engine = simulated(copied(), {"a": "h1", "a#2": "h2", "b": "h2"}, rates)
    turned, acted = controlled(engine, wanted, 60)
    assert set(turned.seen.keep) == {"s->a#2"}
    assert "shed" not in acted
    assert len(acted) <= 12
    # What waited before the first decision is worked off as well.
    assert np.nansum(turned.seen.waiting) < 40


@pytest.mark.parametrize("wanted", ["replicate", "replicate,shed"])
def test_copies_drop_nothing_for_good_after_an_overload(wanted):
    """What copies drop is lifted once everything fits, however little it is in the end."""
    rates = stepped((60, 80.0), (40, 30.0), sources=("s",))
    engine = simulated(copied(), {"a": "h1", "a#2": "h2", "b": "h2"}, rates)
    turned, acted = controlled(engine, wanted, 100)
    assert "replicate" in acted
    assert not turned.seen.keep


@pytest.mark.parametrize(("seconds", "drops"), [(3, False), (20, True)])
@pytest.mark.parametrize("wanted", ["replicate", "replicate,shed"])
def test_copies_stay_able_to_take_over_through_a_short_overload(wanted, seconds, drops):
    """What a host cannot work off for a moment makes no copy drop; only where latency is at stake one does."""
    rates = stepped((20, 50.0), (seconds, 80.0), (30, 50.0), sources=("s",))
    engine = simulated(copied(), {"a": "h1", "a#2": "h2", "b": "h2"}, rates)
    _, acted = controlled(engine, wanted, 50)
    assert ("replicate" in acted) == drops
    assert "shed" not in acted


CHAIN = {"o1": "h1", "o1#2": "h3", "o2": "h2", "o2#2": "h1", "o3": "h3", "o3#2": "h2"}


@pytest.mark.parametrize("wanted", ["replicate", "replicate,shed"])
@pytest.mark.parametrize(("rate", "events"), [(240.0, ()), (200.0, [(20, Kill("h2"))])])
def test_copies_stay_intact_where_a_first_copy_sheds(wanted, rate, events):
    """Where a first copy drops its peers drop nothing, so that no result is lost, and `shed` leaves it to them."""
    network = chains([[0.004] * 3], [[0.5] * 3])
    steps = {f"o{k}": name for k, name in enumerate(network.operators, 1)}
    placement = {steps[copy[:2]] + copy[2:]: host for copy, host in CHAIN.items()}
    engine = simulated(network, placement, stepped((60, rate), sources=("s1",)), 5)
    turned, acted = controlled(engine, wanted, 60, events)
    assert "shed" not in acted
    assert turned.seen.keep[f"s1->{steps['o1']}"] < turned.seen.keep[f"s1->{steps['o1']}#2"] == 1
    # Each filter passes half by chance.
    assert engine.report()["delivered"] == pytest.approx(60 * rate / 8, rel=0.08)


def test_selectivities_are_learned_where_copies_drop():
    """What copies put out is counted once, so that a filter's selectivity is learned though one of its copies drops."""
    network = chains([[0.004] * 2], [[0.5] * 2])
    first, second = network.operators
    places = {first: "h1", f"{first}#2": "h2", second: "h1"}
    engine = simulated(
        network, places, stepped((30, 240.0), sources=("s1",)), 2, keep={f"s1->{first}": 0.1, f"s1->{first}#2": 1.0}
    )
    turned, _ = controlled(engine, "replicate", 30)
    assert turned.state.known.costs(turned.flow)[1][0] == pytest.approx(0.5, rel=0.1)


def test_copies_that_cannot_make_room_drop_like_all_others():
    """Where hosts have too much to do even with one copy of each, `shed` drops for all, and `replicate` waits."""
    rates = stepped((40, 200.0), sources=("s",))
    engine = simulated(copied(), {"a": "h1", "a#2": "h2", "b": "h2"}, rates)
    turned, acted = controlled(engine, "replicate,shed", 40)
    assert turned.seen.keep
    assert not any("#" in name for name in turned.seen.keep)
    assert "shed" in acted


@pytest.mark.parametrize(("rate", "copies"), [(30.0, False), (80.0, True)])
def test_what_was_dropped_in_a_burst_is_lifted_once_copies_can_make_room(rate, copies):
    """After a burst in which copies could not make room, only copies drop, and nothing where everything fits."""
    rates = stepped((10, 60.0), (10, 200.0), (40, rate), sources=("s",))
    engine = simulated(copied(), {"a": "h1", "a#2": "h2", "b": "h2"}, rates)
    turned, acted = controlled(engine, "replicate,shed", 60)
    assert "shed" in acted
    assert set(turned.seen.keep) == ({"s->a#2"} if copies else set())


def test_what_is_dropped_at_the_limit_of_copies_does_not_come_and_go():
    """Where copies can make room in one moment and not in the next, `shed` goes on instead of lifting its drops."""
    rates = stepped((20, 60.0), *[(1, 106.0), (1, 95.0)] * 20, sources=("s",))
    engine = simulated(copied(), {"a": "h1", "a#2": "h2", "b": "h2"}, rates)
    turned, acted = controlled(engine, "replicate,shed", 60)
    assert turned.seen.keep
    assert len(acted) < 12


@pytest.mark.parametrize("pinned", [True, False])
def test_what_lies_on_a_dead_host_does_not_keep_others_from_shedding(pinned):
    """An operator that nobody can start elsewhere waits for its host; the others shed when a burst comes."""
    base = two_queries()
    steps = [attrs.evolve(o, pin="h2") if pinned and o.name == "dear2" else o for o in base.operators.values()]
    network = Network.of("two", base.sources.values(), steps, base.sinks.values())
    engine = simulated(network, APART, stepped((20, 60.0), (60, 400.0)))
    turned, _ = controlled(engine, "replicate,shed", 78, [(10, Kill("h2"))])
    assert (turned.seen.placement["dear2"] == "h2") == pinned
    assert "s1->cheap1" in turned.seen.keep
    waiting = dict(zip(turned.seen.operators, turned.seen.waiting.tolist(), strict=True))
    assert waiting["cheap1"] + waiting["dear1"] < 5 * 400


def test_a_first_copy_that_drops_leaves_the_others_whole():
    """What a first copy drops holds for itself only: the policy names what the other copies of the operator keep."""
    rates = stepped((40, 80.0), sources=("s",))
    engine = simulated(copied(), {"a": "h2", "a#2": "h1", "b": "h2"}, rates)
    turned, _ = controlled(engine, "replicate,shed", 40)
    keep = turned.seen.keep
    assert keep.get("s->a", 1.0) < 1
    assert keep["s->a#2"] == 1
