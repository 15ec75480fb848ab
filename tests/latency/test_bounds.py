"""The proved bounds beside the simulator: any number of cores, any policy."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_case

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.latency.bounds import busiest
from penstock.latency.mace import mace
from penstock.latency.pipelined import pipelined
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source
from penstock.network.shapes import chain
from penstock.simulation import Options, simulate
from penstock.workload import Rates

POLICIES = ("stimulus", "fcfs", "round-robin")


def measured(model, cluster, placement, policy):
    """Return the worst latency that the simulator measures (s)."""
    options = Options(policy=policy, drain=True)
    return simulate(model.network, cluster, placement, model.rates, options).latency["max"]


def case(seed):
    """Return a random placed network on hosts of 1 to 16 cores, with links, fan-out and long services."""
    rng = np.random.default_rng(seed)
    joins = bool(rng.random() < 0.3)
    model, placement, cluster = random_case(seed, joins=joins, operators=8, hosts=3, circles=False, peak=1.8)
    scale = float(rng.choice([1.0, 5.0, 40.0]))
    network = model.network
    rows = [
        attrs.evolve(
            operator,
            cost=tuple(c * scale for c in operator.cost),
            selectivity=tuple(
                float(s * rng.choice([1.0, 1.0, 2.5])) if operator.kind != "join" else s for s in operator.selectivity
            ),
        )
        for operator in network.operators.values()
    ]
    if joins:
        placement = Placement(dict.fromkeys(network.operators, "h1"))
    delay = float(rng.choice([0.0, 0.1, rng.uniform(0, 0.02), rng.uniform(0, 0.5)]))
    bandwidth = float(rng.choice([50.0, rng.uniform(30, 90)]))
    if delay * bandwidth > 1:
        bandwidth = round(delay * bandwidth) / delay
    default = cluster.default_link if rng.random() < 1 / 3 else Link(delay, bandwidth)
    hosts = [attrs.evolve(host, cores=int(rng.integers(1, 17))) for host in cluster.hosts.values()]
    made = Network.of("cores", network.sources.values(), rows, network.sinks.values())
    return load_model(made, model.rates.scaled(1 / scale)), placement, Cluster.of(hosts, default)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_bounds_hold(seed):
    """No policy is later than its bound, on 1 to 16 cores; the oldest stimulus first keeps the tighter one."""
    model, placement, cluster = case(seed)
    found = mace(model, placement, cluster).bounds
    assert found["upper"] is not None
    assert found["any"] is not None
    for policy in POLICIES:
        worst = measured(model, cluster, placement, policy)
        assert worst <= found["any"] + 1e-9
        if policy == "stimulus":
            assert worst <= found["upper"] + 1e-9


def test_a_service_takes_one_core():
    """Sixteen cores do not make one tuple faster: three seconds a tuple are three seconds."""
    model = load_model(chain([3.0]), Rates.of(1.0, {"s1": np.full(20, 2.0)}))
    cluster = Cluster.of([Host(name="h1", capacity=16.0, cores=16)])
    placement = Placement({"o1.1": "h1"})
    worst = measured(model, cluster, placement, "stimulus")
    assert worst == pytest.approx(3.0)
    assert mace(model, placement, cluster).bounds["upper"] >= worst
    assert pipelined(model, placement, cluster).bounds["upper"] >= worst


@settings(max_examples=40)
@given(st.lists(st.floats(0, 3), min_size=1, max_size=12), st.floats(0, 2), st.floats(0, 2))
def test_longest_busy_time_is_that_of_every_span(load, lump, late):
    """The longest busy time is at least that of every pair of moments whose work suffices, found by trying them."""
    series, step = np.array(load), 0.125
    bound = busiest(series, 1.0, 1.0, lump, late)
    moments = np.arange(0, len(load) + step, step)
    total = np.concatenate([[0.0], np.cumsum(np.repeat(series, 8) * step)])
    for i in range(len(total)):
        early = max(0, i - int(late / step))
        for j in range(i, len(total)):
            span = moments[j] - moments[i]
            if total[j] - total[early] + lump >= span:
                assert bound >= span - 1e-9
        # Beyond the input only what has come is left.
        rest = total[-1] - total[early] + lump
        if rest > moments[-1] - moments[i]:
            assert bound >= rest - 1e-9


def test_no_proof_where_loads_are_means():
    """Chance in arrivals, services or emission, and windows of time, leave no bound proved."""
    base = Operator(name="o", kind="filter", inputs=("s",), cost=(0.01,), selectivity=(0.5,))
    kinds = [
        (Source(name="s", arrivals="poisson"), base),
        (Source(name="s"), attrs.evolve(base, service="exponential")),
        (Source(name="s"), attrs.evolve(base, emit="chance")),
        (Source(name="s"), attrs.evolve(base, kind="aggregate", window=1.0)),
    ]
    for source, operator in kinds:
        network = Network.of("n", [source], [operator], [Sink(name="t", input="o")])
        found = mace(load_model(network, Rates.of(1.0, {"s": [10.0]})), Placement({"o": "h1"}), Cluster.uniform(1))
        assert found.bounds["upper"] is None
        assert found.bounds["any"] is None


@pytest.mark.parametrize(("delay", "proved"), [(0.0, True), (0.01, True), (0.04, True), (0.05, False)])
def test_no_proof_where_a_link_carries_less_than_its_bandwidth(delay, proved):
    """Where only whole tuples, fewer than bandwidth times delay, are on the way at a time, they may be later."""
    model = load_model(chain([0.001, 0.001]), Rates.of(1.0, {"s1": np.full(20, 50.0)}))
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(delay, 50.0))
    placement = Placement({"o1.1": "h1", "o1.2": "h2"})
    found = mace(model, placement, cluster).bounds
    assert (found["upper"] is not None, found["any"] is not None) == (proved, proved)
    assert not proved or measured(model, cluster, placement, "fcfs") <= found["any"]
