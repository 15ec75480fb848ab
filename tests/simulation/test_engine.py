"""The simulator as an engine: stops, changes and growth leave everything else as it was."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.network.shapes import chains
from penstock.simulation import (
    Failure,
    MicroBatch,
    Options,
    Recording,
    Recovery,
    Simulation,
    SimulationEngine,
    simulate,
)
from penstock.simulation.splice import spliced
from penstock.sizing.admit import merged
from penstock.steering import Kill, NewRates, Plan, Recover, Slow
from penstock.workload import Rates

spec = importlib.util.spec_from_file_location("simulation_networks", Path(__file__).with_name("networks.py"))
networks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), batches=st.booleans(), stops=st.integers(1, 7))
def test_stops_and_rebuilding_change_nothing(seed, batches, stops):
    """A run that is stopped, looked at and carried over into arrays of the same content is the run without stops."""
    network, cluster, placement, arrivals, options = networks.random_case(seed)
    assume(isinstance(arrivals, Rates))
    if batches:
        options = attrs.evolve(options, microbatch=MicroBatch(trigger=0.3, overhead=0.05, progressive=seed % 2 == 0))
    if options.policy == "round-robin":
        options = attrs.evolve(options, policy="fcfs")  # whose turn it is begins anew
    options = attrs.evolve(options, moves=())
    whole = simulate(
        network, cluster, placement, arrivals, attrs.evolve(options, seed=seed), record=Recording(trace=True)
    )
    run = Simulation(
        network,
        cluster,
        placement,
        arrivals,
        attrs.evolve(options, seed=seed, changing=True),
        record=Recording(trace=True),
    )
    for k in range(stops):
        if run.go((k + 0.37) * whole.end / stops):
            run.observe(1.0)
            run.become(network, cluster, {}, arrivals)
    run.go()
    again = run.result()
    assert (again.streams, again.events, again.end) == (whole.streams, whole.events, whole.end)
    assert np.array_equal(again.trace, whole.trace)


def small():
    """Return two chains of two operators, their rates, and two hosts."""
    network = chains([[0.002, 0.002], [0.002, 0.002]], [[1.0, 1.0], [1.0, 1.0]])
    rates = Rates.constant(dict.fromkeys(network.sources, 50.0), 20.0)
    placement = {name: f"h{1 + k % 2}" for k, name in enumerate(network.operators)}
    return network, Cluster.uniform(2), placement, rates


def extra(name="extra", source=None):
    """Return a network of one operator that reads a source of its own, or one that runs already."""
    given = source or Source(name=f"{name}-in")
    operator = Operator(name=f"{name}-op", kind="map", inputs=(given.name,), cost=(0.001,), selectivity=(1.0,))
    return Network.of(name, [given], [operator], [Sink(name=f"{name}-out", input=operator.name)])


def run_out(engine, period=1.0):
    """Run an engine to the end of its input, and return its observations."""
    found, step = [], 0
    while engine.wait((step := step + 1) * period):
        found.append(engine.observe())
    return found


def test_attached_query_reads_from_then_on():
    """A query attached in a run gets every tuple that enters afterwards, and the others go on undisturbed."""
    network, cluster, placement, rates = small()
    first = next(iter(network.sources.values()))
    engine = SimulationEngine(network, cluster, placement, rates)
    engine.wait(10.0)
    engine.observe()
    applied = engine.apply(Plan(network=merged(network, extra(source=first)), placement={"extra-op": "h2"}))
    assert [change.kind for change in applied.begun] == ["attach"]
    run_out(engine)
    report = engine.report()
    assert report["streams"][f"{first.name}->extra-op"]["arrived"] == 500
    assert report["balanced"]
    alone = simulate(network, cluster, placement, rates).document()
    for name, row in alone["streams"].items():
        assert report["streams"][name]["arrived"] == row["arrived"]


@pytest.mark.parametrize(("target", "home"), [("h1", "h2"), ("h2", "h2"), ("h1", "h1")])
def test_attached_query_reads_what_ends_where_its_writer_was(target, home):
    """What an operator has begun before it moves reaches a reader attached meanwhile over the link from there."""
    operators = [
        Operator(name=name, kind="map", inputs=(given,), cost=(cost,), selectivity=(1.0,))
        for name, given, cost in (("a", "s", 2.0), ("b", "a", 0.001))
    ]
    network = Network.of("n", [Source(name="s")], operators[:1], [Sink(name="a-out", input="a")])
    more = network.having(operators, [*network.sinks.values(), Sink(name="b-out", input="b")])
    links = {("h3", "h2"): Link(0.5, 100.0), ("h3", "h1"): Link(0.5, 100.0), ("h1", "h2"): Link(0.25, 100.0)}
    cluster = Cluster.of([Host(name=f"h{k}") for k in (1, 2, 3)], links=links)
    engine = SimulationEngine(network, cluster, {"a": "h3"}, Rates.of(1.0, {"s": [0.2] * 20}))
    engine.wait(1.0)
    engine.apply(Plan(placement={"a": target}))
    engine.wait(1.9)
    engine.apply(Plan(network=more, placement={"b": home}))
    run_out(engine)
    report = engine.report()
    assert report["links"][f"h3->{home}"] == {"sent": 1, "queued": 0}
    assert report["sinks"]["b-out"]["latency"]["max"] == pytest.approx(2.501)
    assert report["balanced"]


def test_attached_source_begins_at_its_rate():
    """A source that comes with an attached query enters at the rates it was given, from the moment it is attached."""
    network, cluster, placement, rates = small()
    more = Rates.of(1.0, {**{n: rates.of_source(n) for n in network.sources}, "extra-in": [20.0] * 20})
    engine = SimulationEngine(network, cluster, placement, more)
    engine.wait(5.0)
    engine.apply(Plan(network=merged(network, extra()), placement={"extra-op": "h1"}))
    run_out(engine)
    assert engine.report()["streams"]["extra-in->extra-op"]["arrived"] == 15 * 20


def test_host_that_joins_can_be_moved_to():
    """A host added in a run takes operators, one that is empty can leave, and one in use cannot."""
    network, cluster, placement, rates = small()
    engine = SimulationEngine(network, cluster, placement, rates)
    engine.wait(3.0)
    name = next(iter(network.operators))
    first = engine.apply(Plan(add=(Host(name="h3", capacity=2.0),), placement={name: "h3"}, retire=("h1",)))
    assert [change.kind for change in first.begun] == ["add", "move"]
    assert "still runs" in first.refused[0].why
    engine.wait(4.0)
    assert engine.observe().placement[name] == "h3"
    others = {n: "h3" for n, host in placement.items() if host == "h1"}
    engine.apply(Plan(placement=others))
    engine.wait(5.0)
    last = engine.apply(Plan(retire=("h1",)))
    assert [change.kind for change in last.begun] == ["retire"]
    assert sorted(engine.observe().cluster.hosts) == ["h2", "h3"]
    assert engine.apply(Plan(placement={name: "h1"})).refused
    run_out(engine)
    assert engine.report()["balanced"]


def test_a_host_that_has_left_is_not_down():
    """A host that died before it left is told by nothing any more, also not as one that is down."""
    network, cluster, placement, rates = small()
    engine = SimulationEngine(network, cluster, dict.fromkeys(placement, "h1"), rates)
    engine.happen(Kill("h2"))
    engine.wait(1.0)
    assert engine.observe().down == {"h2"}
    engine.apply(Plan(retire=("h2",)))
    assert engine.observe().down == frozenset()


def test_events_are_those_of_options():
    """A host killed and recovered by events is the host failed and recovered by options, tuple by tuple."""
    network, cluster, placement, rates = small()
    options = Options(failures=(Failure("h1", 5.0),), recoveries=(Recovery("h1", 9.0),))
    told = simulate(network, cluster, placement, rates, options).document()
    engine = SimulationEngine(network, cluster, placement, rates)
    engine.wait(5.0)
    engine.happen(Kill("h1"))
    engine.wait(6.0)
    assert engine.observe().down == {"h1"}
    engine.wait(9.0)
    engine.happen(Recover("h1"))
    run_out(engine)
    report = engine.report()
    assert {key: report[key] for key in told} == told


def test_kills_leave_no_events_behind():
    """However often a host dies while it serves, the events to come have room, and counts are those of `simulate`."""
    network = Network.of(
        "long",
        [Source(name="s")],
        [Operator(name="o", kind="map", inputs=("s",), cost=(1000.0,), selectivity=(1.0,))],
        [Sink(name="t", input="o")],
    )
    cluster, rates = Cluster.of([Host(name="h1", capacity=8.0, cores=8)]), Rates.constant({"s": 10.0}, 101.0)
    times = range(0, 100, 2)
    options = Options(
        failures=tuple(Failure("h1", at + 1.0) for at in times),
        recoveries=tuple(Recovery("h1", at + 2.0) for at in times),
    )
    told = simulate(network, cluster, {"o": "h1"}, rates, options).document()
    engine = SimulationEngine(network, cluster, {"o": "h1"}, rates)
    state = engine._sim.run.state
    for at in times:
        engine.wait(at + 1.0)
        engine.happen(Kill("h1"))
        engine.wait(at + 2.0)
        engine.happen(Recover("h1"))
        assert state.g["heaped"][0] <= 10 <= state.heap.size
    run_out(engine)
    report = engine.report()
    assert {key: report[key] for key in told} == told


def test_a_report_has_what_happens_at_the_end():
    """What completes at the very end counts, as in `simulate`."""
    network, cluster, placement, _ = small()
    rates = Rates.constant(dict.fromkeys(network.sources, 10.0), 5.0)
    end = simulate(network, cluster, placement, rates, Options(drain=True)).end
    told = simulate(network, cluster, placement, rates, Options(duration=end)).document()
    engine = SimulationEngine(network, cluster, placement, rates, Options(duration=end))
    engine.wait(end)
    report = engine.report()
    assert {key: report[key] for key in told} == told


def test_slow_host_takes_longer():
    """A host at half its speed serves at half its rate, and the observation says so."""
    network, cluster, placement, rates = small()
    engine = SimulationEngine(network, cluster, placement, rates)
    engine.happen(Slow("h1", 0.5))
    engine.wait(10.0)
    seen = engine.observe()
    assert seen.hosts["h1"].speed == 0.5
    assert seen.hosts["h1"].busy == pytest.approx(2 * seen.hosts["h2"].busy, rel=0.05)


def test_new_rates_begin_where_they_are_given():
    """Rates that change in a run let in what the old ones say before and the new ones after, whatever the periods.

    The last of the new ones hold to the end.
    """
    network, cluster, placement, rates = small()
    one, other = sorted(network.sources)
    engine = SimulationEngine(network, cluster, placement, rates)
    engine.wait(7.5)
    engine.happen(NewRates(Rates.of(2.0, {one: [10.0, 20.0, 0.0, 40.0]})))
    run_out(engine)
    streams = engine.report()["streams"]
    arrived = {name.partition("->")[0]: row["arrived"] for name, row in streams.items()}
    assert arrived[one] == pytest.approx(7.5 * 50 + 20 + 40 + 4.5 * 40 + 80, abs=1)
    assert arrived[other] == 1000


def test_splicing_refuses_what_fits_no_millisecond():
    """Rates whose periods have no common step of a millisecond are refused before anything changes."""
    rates = Rates.constant({"s": 1.0}, 10.0)
    with pytest.raises(InputError, match="milliseconds"):
        spliced(rates, Rates.of(1 / 3, {"s": [1.0, 2.0]}), 2.0, 10.0)


def test_refusals_leave_everything_as_it_was():
    """Strangers, hosts that are down, pins and changed operators are refused one by one, and the rest is made."""
    network, _, placement, rates = small()
    names = list(network.operators)
    pinned = Network.of(
        network.name, network.sources.values(),
        [attrs.evolve(o, pin="h1") if o.name == names[0] else o for o in network.operators.values()],
        network.sinks.values(),
    )  # fmt: skip
    engine = SimulationEngine(pinned, Cluster.uniform(3), {**placement, names[0]: "h1"}, rates)
    engine.happen(Kill("h3"))
    engine.wait(1.0)
    plan = Plan(
        placement={names[0]: "h2", names[1]: "h3", names[2]: "h9", "nobody": "h1", names[3]: "h1"},
        keep={"nobody->x": 0.5}, limits={"stranger": 3.0}, triggers={"h1": 1.0}, retire=("h2",),
    )  # fmt: skip
    applied = engine.apply(plan)
    assert [change.name for change in applied.begun] == [names[3]]
    assert len(applied.refused) == 8
    changed = chains([[0.5, 0.002], [0.002, 0.002]], [[1.0, 1.0], [1.0, 1.0]])
    assert engine.apply(Plan(network=changed)).refused


def test_observation_counts_what_waits():
    """What waits and how long it has been behind is told by operator, and latency by sink and period."""
    network = Network.of(
        "one", [Source(name="s")],
        [Operator(name="o", kind="map", inputs=("s",), cost=(0.02,), selectivity=(1.0,))],
        [Sink(name="t", input="o")],
    )  # fmt: skip
    engine = SimulationEngine(network, Cluster.uniform(1), {"o": "h1"}, Rates.constant({"s": 100.0}, 4.0))
    seen = run_out(engine)
    assert [look.waiting[0] for look in seen] == pytest.approx([49, 99, 149, 199], abs=1)
    assert seen[1].behind[0] == pytest.approx(1.0, abs=0.03)
    assert [look.latency["t"].count for look in seen] == pytest.approx([50] * 4, abs=1)
    assert seen[3].latency["t"].worst == pytest.approx(2.0, abs=0.05)


def test_what_a_batch_has_put_out_counts_with_what_it_has_taken():
    """Within a batch its tuples count as served and put out, though the next host sees none before its end."""
    network, rates = chains([[0.001, 0.002, 0.001]]), Rates.constant({"s1": 200.0}, 10.0)
    placement = dict(zip(network.operators, ("h1", "h1", "h2"), strict=True))
    options = Options(microbatch=MicroBatch(trigger=0.7, overhead=0.1))
    engine = SimulationEngine(network, Cluster.uniform(2), placement, rates, options)
    hidden = 0.0
    for k in range(1, 80):
        engine.wait(k / 10)
        seen = engine.observe()
        assert seen.emitted.tolist() == seen.served.tolist() == seen.tried.tolist()
        hidden = max(hidden, seen.coming[2])
        assert seen.coming[:2].tolist() == [0.0, 0.0]
    assert hidden > 50


def test_links_of_added_hosts_are_those_of_the_cluster():
    """An operator moved to a host that was added reads over the cluster's default link."""
    network, _, _, rates = small()
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.5))
    engine = SimulationEngine(network, cluster, Placement(dict.fromkeys(network.operators, "h1")), rates)
    engine.wait(5.0)
    last = next(sink.input for sink in network.sinks.values())
    engine.apply(Plan(add=(Host(name="h3"),), placement={last: "h3"}))
    engine.wait(10.0)
    engine.observe()
    engine.wait(11.0)
    assert max(row.worst for row in engine.observe().latency.values()) == pytest.approx(0.5, abs=0.05)
    run_out(engine)
    assert engine.report()["links"]["h1->h3"]["sent"] > 0
