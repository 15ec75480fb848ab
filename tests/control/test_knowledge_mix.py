"""What is learned of operators whose inputs differ in cost or selectivity, while the mix of what comes changes."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
from engines import simulated
from hypothesis import given, settings
from hypothesis import strategies as st
from steered import steered

from penstock.cluster import Cluster
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.knowledge import Knowledge
from penstock.control.situation import Situation
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding.optimum import Solver
from penstock.shedding.program import build_program
from penstock.steering import UnitSeen
from penstock.workload import Rates


def union(cost, selectivity=None):
    """Return an operator that merges as many sources as it has costs."""
    names = tuple(f"s{k}" for k in range(len(cost)))
    step = Operator(name="u", kind="union", inputs=names, cost=tuple(cost), selectivity=selectivity)
    return Network.of("union", [Source(name=name) for name in names], [step], [Sink(name="k", input="u")])


def situations(network, rates, looks, **options):
    """Yield the situation after each look at a simulated run on one host."""
    engine, known, flow = simulated(network, {"u": "h1"}, rates, 1, **options), Knowledge(), Flow.of(network)
    for k in range(looks):
        engine.wait(k + 1.0)
        seen = engine.observe()
        known = known.updated(seen, seen.network)
        yield Situation(seen=seen, known=known, flow=flow, goals=Goals())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), inputs=st.integers(2, 4), overload=st.booleans())
def test_the_load_is_that_of_each_input_however_the_mix_changes(seed, inputs, overload):
    """With random costs by input, the load that is believed is the sum of rates and costs at each mix, also queued."""
    rng = np.random.default_rng(seed)
    cost = rng.uniform(0.0005, 0.01, inputs)
    shares = rng.dirichlet(np.ones(inputs), 8) * (1.6 if overload else 0.8)
    rates = Rates.of(4.0, {f"s{k}": (shares[:, k] / cost[k]).tolist() for k in range(inputs)})
    for now in situations(union(cost), rates, 32):
        if now.ready:
            came = rates.values[:, int((now.now - 0.5) // 4)]
            load = now.host_load(now.where(), rates=came)[0, 0]
            assert load == pytest.approx(came @ cost, rel=0.02)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), factor=st.floats(0.3, 3.0), whole=st.booleans())
def test_costs_that_are_off_as_a_whole_are_scaled(seed, factor, whole):
    """Where all costs by input are too high or too low alike, each is learned, from what units work as well."""
    rng = np.random.default_rng(seed)
    cost = rng.uniform(0.0005, 0.01, 3)
    real, said = union(cost), union(cost * factor)
    shares = rng.dirichlet(np.ones(3), 6) * 0.8
    rates = Rates.of(4.0, {f"s{k}": (shares[:, k] / cost[k]).tolist() for k in range(3)})
    engine, known = simulated(real, {"u": "h1"}, rates, 1), Knowledge()
    for k in range(24):
        engine.wait(k + 1.0)
        seen = engine.observe()
        if whole:
            unit = UnitSeen(name="u", operators=("u",), host="h1", work=float(seen.work.sum()))
            seen = attrs.evolve(seen, work=np.full(1, np.nan), units=(unit,))
        known = known.updated(seen, said)
    assert known.costs(Flow.of(said))[0] == pytest.approx(cost, rel=0.02)


def test_selectivities_by_input_are_scaled_as_well():
    """What inputs put out stays apart while the mix changes, and a network that is wrong by a factor is corrected."""
    cost, share = (0.001, 0.001), (0.9, 0.3)
    rates = Rates.of(10.0, {"s0": [300.0, 20.0, 150.0], "s1": [20.0, 300.0, 150.0]})
    engine, said, known = simulated(union(cost, share), {"u": "h1"}, rates, 1), union(cost, (0.6, 0.2)), Knowledge()
    for k in range(30):
        engine.wait(k + 1.0)
        known = known.updated(engine.observe(), said)
        if k >= 2:
            assert known.costs(Flow.of(said))[1] == pytest.approx(share, rel=0.1)


def test_a_join_keeps_its_selectivities_apart():
    """Both sides of a join over time try as many pairs, whichever of them comes more often."""
    join = Operator(
        name="u", kind="join", inputs=("s0", "s1"), within=1.0, cost=(0.002, 0.0005), selectivity=(0.02, 0.005)
    )
    network = Network.of("join", [Source(name="s0"), Source(name="s1")], [join], [Sink(name="k", input="u")])
    rates = Rates.of(10.0, {"s0": [100.0, 20.0], "s1": [20.0, 100.0]})
    *_, now = situations(network, rates, 20)
    assert now.costs[0] == pytest.approx(join.cost, rel=0.02)
    assert now.costs[1].sum() == pytest.approx(0.025, rel=0.2)
    assert now.costs[1][0] / now.costs[1][1] == pytest.approx(4.0)


@pytest.mark.parametrize("shown", [True, False])
def test_inputs_alike_cost_what_was_seen_of_all(shown):
    """One cost for all inputs, and one for each where streams are not counted, is what a tuple took on average."""
    network = union((0.002, 0.002) if shown else (0.001, 0.004))
    engine, known = simulated(network, {"u": "h1"}, Rates.constant({"s0": 100.0, "s1": 100.0}, 10.0), 1), Knowledge()
    for k in range(8):
        engine.wait(k + 1.0)
        seen = engine.observe()
        seen = seen if shown else attrs.evolve(seen, streams=(), arrived=None, dropped=None)
        known = known.updated(seen, network)
    served, work = known.sums[0, :2]
    assert known.costs(Flow.of(network))[0].tolist() == [work / served] * 2


def test_an_input_that_is_given_no_cost_says_nothing_of_the_others():
    """While only tuples come that are said to cost nothing, the cost of the other input stays as it is given."""
    network = union((0.0, 0.01))
    *_, now = situations(network, Rates.constant({"s0": 100.0, "s1": 0.0}, 8.0), 6)
    assert now.costs[0].tolist() == [0.0, 0.01]


def test_what_is_known_of_a_mix_is_kept():
    """A controller that is restarted knows of a queue which inputs its tuples came from."""
    network = union((0.002, 0.01))
    *_, now = situations(network, Rates.constant({"s0": 400.0, "s1": 100.0}, 20.0), 12)
    assert sum(map(sum, now.known.mixes["u"].queue)) == pytest.approx(now.seen.waiting[0])
    again = Knowledge.read(json.loads(json.dumps(now.known.document())))
    assert again.document() == now.known.document()
    assert again.costs(now.flow)[0].tolist() == now.known.costs(now.flow)[0].tolist()


def test_statistics_hold_the_costs_of_each_input():
    """What is priced by statistics counts each input with its own cost; what is shown is that of a tuple."""
    network = union((0.002, 0.01))
    *_, now = situations(network, Rates.constant({"s0": 300.0, "s1": 20.0}, 20.0), 12)
    assert now.priced().operators["u"].cost == pytest.approx(network.operators["u"].cost, rel=0.01)
    assert now.known.statistics(network).operators["u"].cost == pytest.approx([0.8 / 320], rel=0.02)


def test_a_queue_of_many_looks_is_held_in_few():
    """However long a queue gets, what is kept of it has an end, and is as many tuples."""
    network = union((0.002, 0.01))
    *_, now = situations(network, Rates.constant({"s0": 400.0, "s1": 150.0}, 400.0), 390)
    queue = now.known.mixes["u"].queue
    assert len(queue) <= 129
    assert sum(map(sum, queue)) == pytest.approx(now.seen.waiting[0])
    assert now.costs[0] == pytest.approx([0.002, 0.01], rel=0.02)


@pytest.mark.parametrize("arrivals", ["even", "poisson"])
def test_the_dear_input_is_dropped_and_nearly_the_optimum_is_kept(arrivals):
    """An overload by tuples that cost more than the others drops these, and delivers what the program says."""
    plain = union((0.002, 0.01))
    sources = [attrs.evolve(source, arrivals=arrivals) for source in plain.sources.values()]
    network = Network.of("union", sources, plain.operators.values(), plain.sinks.values())
    rates = Rates.constant({"s0": 400.0, "s1": 100.0}, 120.0)
    engine = simulated(network, {"u": "h1"}, rates, 1)
    lines, looks = steered(engine, "shed", 120)
    program = build_program(network, Cluster.uniform(1), {"u": "h1"})
    best = program.score(Solver(program).solve(np.array([400.0, 100.0])))
    assert sum(seen.latency["k"].count for seen in looks) >= 0.97 * 120 * best
    assert len(lines) <= 20


def test_nothing_is_dropped_where_only_the_mix_changes():
    """Many cheap tuples after some dear ones are no overload."""
    rates = Rates.of(30.0, {"s0": [50.0, 400.0], "s1": [75.0, 0.0]})
    lines, _ = steered(simulated(union((0.002, 0.01)), {"u": "h1"}, rates, 1), "shed", 60)
    assert not lines
