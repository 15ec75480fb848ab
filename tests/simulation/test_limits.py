"""What is read of a source under a limit: how much, when, in which order, and what waits."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import (
    Arrivals,
    Failure,
    MicroBatch,
    Move,
    Options,
    Recording,
    Recovery,
    Simulation,
    SimulationEngine,
    simulate,
)
from penstock.steering import Plan
from penstock.workload import Rates

spec = importlib.util.spec_from_file_location("simulation_networks", Path(__file__).with_name("networks.py"))
networks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)

TIMES = st.lists(st.floats(0, 4), min_size=1, max_size=60).map(sorted)
LIMITS = st.sampled_from([0.7, 3.0, 10.0, 37.5])


def one(cost=0.0):
    """Return one operator behind one source."""
    operator = Operator(name="o", kind="map", inputs=("s",), cost=(cost,), selectivity=(1.0,))
    return Network.of("one", [Source(name="s")], [operator], [Sink(name="t", input="o")])


def started(times, cost=0.0, **options):
    """Return a run of one operator on one host that goes on until all is out."""
    options = Options(drain=True, **options)
    return Simulation(
        one(cost), Cluster.uniform(1), {"o": "h1"}, Arrivals.of(times, "s"), options, record=Recording(trace=True)
    )


def rows(simulation):
    """Run to the end; return the stimulus and egress times of the sink tuples, in the order in which they came."""
    simulation.go()
    trace = simulation.result().trace
    return trace["stimulus"].tolist(), trace["egress"].tolist()


def let_in(times, phases):
    """Return when tuples are read under limits (tuples/s or None) that each hold from a time on."""
    found, last, before = [], -math.inf, 0
    for time in times:
        at = max([time, *found[-1:]])
        while True:
            phase = max(k for k, (begin, _) in enumerate(phases) if begin <= at)
            limit = phases[phase][1]
            if any(other is None for _, other in phases[before : phase + 1]):
                last = -math.inf
            before = phase
            due = at if limit is None else max(at, last + 1 / limit)
            end = phases[phase + 1][0] if phase + 1 < len(phases) else math.inf
            if due < end:
                break
            at = end
        found.append(due)
        last = due if limit is not None else last
    return found


@settings(max_examples=60, deadline=None)
@given(times=TIMES, limit=LIMITS, cost=st.sampled_from([0.0, 0.05, 0.3]))
def test_latency_is_waiting_at_the_source_and_service(times, limit, cost):
    """A tuple is read as soon as the one before is 1 / limit away, in order; then it queues for its service."""
    stimulus, egress = rows(started(times, cost, limits={"s": limit}))
    read = let_in(times, [(0.0, limit)])
    ends = []
    for at in read:
        ends.append(max([at, *ends[-1:]]) + cost)
    assert stimulus == times
    assert egress == pytest.approx(ends, abs=1e-9)
    for size in range(1, len(read)):
        assert (np.array(read[size:]) - read[:-size] >= size / limit - 1e-9).all()


@settings(max_examples=80, deadline=None)
@given(
    times=TIMES,
    changes=st.lists(st.tuples(st.floats(0.01, 6), st.one_of(st.none(), LIMITS)), max_size=4, unique_by=lambda c: c[0]),
    first=st.one_of(st.none(), LIMITS),
)
def test_limits_change_on_the_way(times, changes, first):
    """A new limit counts from the last tuple read under the one before; without one, all that waits is read at once."""
    run = started(times, limits={} if first is None else {"s": first})
    for at, limit in sorted(changes, key=lambda change: change[0]):
        if run.go(at):
            run.limit("s", limit)
    stimulus, egress = rows(run)
    assert stimulus == times
    assert egress == pytest.approx(let_in(times, [(0.0, first), *sorted(changes, key=lambda c: c[0])]), abs=1e-9)


@settings(max_examples=80, deadline=None)
@given(
    times=TIMES,
    limit=LIMITS,
    trigger=st.sampled_from([0.0, 0.25, 0.6]),
    overhead=st.sampled_from([0.01, 0.2]),
    cost=st.sampled_from([0.0, 0.03]),
)
def test_batches_read_no_more_than_fits_their_trigger(times, limit, trigger, overhead, cost):
    """Each batch takes the oldest tuples, at most the limit over its trigger; what is left comes with the next ones."""
    batch = MicroBatch(trigger=trigger, overhead=overhead)
    stimulus, egress = rows(started(times, cost, limits={"s": limit}, microbatch=batch))
    most = max(1, round(limit * (trigger or 1.0)))
    begun, until, ends = -1.0, -1.0, []
    while len(ends) < len(times):
        ready = max(times[len(ends)], until)
        start = max(until, (math.floor(begun / trigger + 1e-9) + 1) * trigger) if trigger else ready
        if start < ready:
            start = max(ready, math.ceil(ready / trigger - 1e-9) * trigger)
        count = min(most, sum(time <= start for time in times) - len(ends))
        begun, until = start, start + overhead + count * cost
        ends += [until] * count
    assert stimulus == times
    assert egress == pytest.approx(ends, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), batches=st.booleans())
def test_limits_that_nothing_reaches_change_nothing(seed, batches):
    """Under a limit that is never reached every count, latency and waiting time is what it is without one."""
    network, cluster, placement, arrivals, options = networks.random_case(seed, features=False)
    sources = [attrs.evolve(source, host=None) for source in network.sources.values()]
    network = Network.of(network.name, sources, network.operators.values(), network.sinks.values())
    if batches:
        options = attrs.evolve(options, microbatch=MicroBatch(trigger=0.3, overhead=0.05, progressive=seed % 2 == 0))
    free, limited = (
        simulate(
            network,
            cluster,
            placement,
            arrivals,
            attrs.evolve(options, limits=limits, seed=seed),
            record=Recording(trace=True),
        )
        for limits in ({}, dict.fromkeys(network.sources, 1e300))
    )
    # What comes at time 0 waits for 1e-300 s: an event more, and nothing that can be told apart.
    assert {**limited.document(), "events": 0} == {**free.document(), "events": 0}
    assert np.array_equal(limited.trace, free.trace)


@pytest.mark.parametrize("batch", [None, MicroBatch(trigger=0.2, overhead=0.01)])
def test_what_waits_at_the_source_is_told(batch):
    """Tuples that a limit holds back are counted as waiting and queued, with the age of the oldest; none is dropped."""
    engine = SimulationEngine(
        one(0.001), Cluster.uniform(1), {"o": "h1"}, Rates.constant({"s": 100.0}, 10.0),
        Options(drain=True, microbatch=batch, queue=60),
    )  # fmt: skip
    engine.wait(1.0)
    assert engine.observe().limits == {}
    engine.apply(Plan(limits={"s": 25.0}))
    engine.wait(5.0)
    seen = engine.observe()
    assert seen.limits == {"s": 25.0}
    assert seen.entered[0] == 400
    assert seen.waiting[0] == pytest.approx(4 * 75, abs=25)
    assert seen.behind[0] == pytest.approx(3.0, abs=0.3)
    stream = engine.report()["streams"]["s->o"]
    assert stream["arrived"] == 500
    assert stream["queued"] == pytest.approx(300, abs=25)
    engine.wait(8.0)
    engine.apply(Plan(limits={"s": 60.0}))
    while engine.wait(engine.now + 5.0):
        pass
    stream = engine.report()["streams"]["s->o"]
    assert (stream["consumed"], stream["dropped"], stream["queued"]) == (1000, 0, 0)
    assert engine.report()["latency"]["max"] == pytest.approx(10.1, abs=0.6)


@pytest.mark.parametrize("batch", [None, MicroBatch(trigger=0.2, overhead=0.01)])
def test_nothing_is_read_while_its_reader_is_away(batch):
    """What comes while a reader's host is down, or the reader moves, waits at a limited source and comes afterwards."""
    options = Options(
        drain=True, limits={"s": 150.0}, failures=(Failure("h1", 2.0),), recoveries=(Recovery("h1", 4.0),),
        moves=(Move("o", "h2", 6.0),), move_time=1.0, microbatch=batch,
    )  # fmt: skip
    rates = Rates.constant({"s": 100.0}, 10.0)
    result = simulate(one(0.001), Cluster.uniform(2), {"o": "h1"}, rates, options, record=Recording(trace=True))
    stream = result.streams["s->o"]
    assert stream["lost"] <= (1 if batch is None else 21)
    assert stream["consumed"] + stream["lost"] == stream["arrived"] == 1000
    assert not ((result.trace["egress"] > 2.3) & (result.trace["egress"] < 4.0)).any()
    assert not ((result.trace["egress"] > 6.3) & (result.trace["egress"] < 7.0)).any()
    assert (np.diff(result.trace["stimulus"]) > 0).all()


@pytest.mark.parametrize("looks", [False, True])
def test_a_drained_run_ends_though_a_reader_is_gone(looks):
    """What waits for a reader whose host has died for good stays where it is when nothing else is left to happen."""
    options = Options(limits={"s": 5.0}, drain=True, failures=(Failure("h1", 1.0),))
    arguments = one(0.01), Cluster.uniform(1), {"o": "h1"}, Rates.constant({"s": 10.0}, 3.0), options
    run = Simulation(*arguments, record=Recording(sample=0.5))
    stops = 0
    while looks and run.go(stops + 1.0):
        stops += 1
        assert stops < 9
    run.go()
    found = run.result()
    assert found.end == 2.9
    assert found.streams["s->o"]["queued"] == 25
    assert found.balanced


@attrs.frozen
class Late:
    """Moves what is on a host that has failed when its patience ends."""

    patience: float
    tick: float = 1.0

    def begin(self, network, cluster, seed):
        return lambda seen: [("o", "h2")] if seen.at >= self.patience and seen.placement["o"] == "h1" else []


@pytest.mark.parametrize(("patience", "left"), [(5.0, 0), (1e9, 25)])
def test_who_steers_may_still_move_what_waits_for_a_failed_host(patience, left):
    """A drained run waits for whoever steers it, and not for ever."""
    options = Options(limits={"s": 5.0}, drain=True, failures=(Failure("h1", 1.0),), steer=Late(patience))
    found = simulate(one(0.01), Cluster.uniform(2), {"o": "h1"}, Rates.constant({"s": 10.0}, 3.0), options)
    assert found.streams["s->o"]["queued"] == left
    assert found.balanced


def test_each_reader_reads_by_itself():
    """Two readers of one source on hosts with different triggers each get all of it, at their own pace."""
    operators = [Operator(name=f"o{k}", kind="map", inputs=("s",), cost=(0.001,), selectivity=(1.0,)) for k in (1, 2)]
    sinks = [Sink(name=f"t{k}", input=f"o{k}") for k in (1, 2)]
    network = Network.of("two", [Source(name="s")], operators, sinks)
    run = Simulation(
        network,
        Cluster.uniform(2),
        {"o1": "h1", "o2": "h2"},
        Rates.constant({"s": 100.0}, 5.0),
        Options(drain=True, limits={"s": 50.0}, microbatch=MicroBatch(trigger=0.5)),
        record=Recording(trace=True),
    )
    run.trigger("h2", 0.02)
    run.go()
    trace = run.result().trace
    for sink, most in ((0, 25), (1, 1)):
        mine = trace[trace["sink"] == sink]
        assert len(mine) == 500
        assert np.unique(mine["egress"], return_counts=True)[1].max() == most


def test_a_new_limit_counts_what_waits_for_the_next_batch():
    """What waits for the next batch when a limit is set has not been read yet: the batch takes its part of it."""
    run = started(np.linspace(0.01, 0.99, 99), limits={}, microbatch=MicroBatch(trigger=1.0, overhead=0.1))
    run.go(0.995)
    run.limit("s", 30.0)
    _, egress = rows(run)
    assert np.unique(np.round(egress, 6), return_counts=True)[1].tolist() == [30, 30, 30, 9]


@pytest.mark.parametrize("limit", [0.0, -1.0, math.inf, math.nan])
def test_limits_are_checked(limit):
    """A limit is a finite number above 0 of a source that there is."""
    with pytest.raises(InputError, match="> 0"):
        Options(limits={"s": limit})
    with pytest.raises(InputError, match="no source"):
        simulate(one(), Cluster.uniform(1), {"o": "h1"}, Rates.constant({"s": 1.0}, 1.0), Options(limits={"x": 1.0}))
