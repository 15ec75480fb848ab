"""Links of limited bandwidth: no policy moves an operator to where a link cannot bring its tuples."""

from __future__ import annotations

from collections import defaultdict

import attrs
import numpy as np
import pytest
from engines import simulated
from steered import steered

from penstock.cluster import Cluster, Host, Link, base_name
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.knowledge import Knowledge
from penstock.control.policies.base import evacuated
from penstock.control.policies.rebalance import paying, prices
from penstock.control.situation import Situation
from penstock.control.verify import Links, wrong
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source
from penstock.steering import Plan
from penstock.workload import Rates

MOVING = ["rebalance", "rebalance-two-way", "rebalance-exchange", "rebalance-potential", "cheapest", "shed,rebalance"]


def crossing(network, cluster, placement, rates):
    """Return what each link with a bandwidth carries (tuples/s), written down stream by stream."""
    model = load_model(network, rates)
    found, sent = defaultdict(float), set()
    for stream in network.streams:
        rate = float(model.arrivals[model.stream_index[stream.name]].mean())
        for reader in (name for name in placement if base_name(name) == stream.reader):
            end = placement[reader]
            for writer in (name for name in placement if base_name(name) == stream.writer):
                start = placement[writer]
                if start == end or (stream.share == 1 and (writer, end) in sent):
                    continue
                sent.add((writer, end))
                if np.isfinite(cluster.link(start, end).bandwidth):
                    found[start, end] += rate
    return found


def drawn(seed, copies=False):
    """Return a random overloaded network on four hosts with links, some of them narrow, and its rates."""
    rng = np.random.default_rng(seed)
    operators, names = [], ["s0", "s1"]
    for k in range(8):
        given = names[k] if k < 2 else str(rng.choice(names[2:]))
        operators.append(
            Operator(
                name=f"o{k}", kind="map", inputs=(given,), cost=(float(rng.uniform(5e-4, 1.2e-2)),),
                selectivity=(float(rng.choice([0.5, 1.0, 2.0])),),
            )
        )  # fmt: skip
        names.append(f"o{k}")
    read = {operator.inputs[0] for operator in operators}
    sinks = [Sink(name=f"t{name}", input=name) for name in names[2:] if name not in read]
    network = Network.of("drawn", [Source(name="s0"), Source(name="s1")], operators, sinks)
    hosts = [Host(name=f"h{k}") for k in range(4)]
    links = {
        (a.name, b.name): Link(float(rng.choice([0.0, 0.01])), float(rng.choice([40.0, 120.0, np.inf])))
        for a in hosts
        for b in hosts
        if a is not b
    }
    placement = {name: str(rng.choice(["h0", "h1", "h2", "h3"])) for name in network.operators}
    if copies:
        following = {"h0": "h1", "h1": "h2", "h2": "h3", "h3": "h0"}
        placement |= {f"{name}#2": following[placement[name]] for name in [*placement] if rng.random() < 0.4}
    return network, Cluster.of(hosts, links=links), placement, Rates.constant({"s0": 60.0, "s1": 50.0}, 60.0)


def after(looks, network, placement, rates, cluster):
    """Return the situation after some looks, one a second."""
    engine, known = simulated(network, placement, rates, cluster), Knowledge()
    for k in range(looks):
        engine.wait(k + 1.0)
        seen = engine.observe()
        known = known.updated(seen, seen.network)
    return Situation(seen=seen, known=known, flow=Flow.of(network), goals=Goals(moves=50))


def overloaded(before, then, cluster):
    """Return the links that are asked for more than they can carry and for more than before, some noise apart."""
    return {pair for pair, rate in then.items() if rate > 1.05 * max(cluster.link(*pair).bandwidth, before[pair])}


@pytest.mark.parametrize("policy", MOVING)
@pytest.mark.parametrize("seed", [0, 4, 6, 7, 12, 19, 20, 21, 22, 23])
def test_no_policy_overloads_a_link(policy, seed):
    """After each look of each policy no link is asked for more than it can carry that was not asked for it before."""
    network, cluster, placement, rates = drawn(seed)
    _, looks = steered(simulated(network, placement, rates, cluster), policy, 30)
    before = crossing(network, cluster, placement, rates)
    for seen in looks:
        then = crossing(network, cluster, seen.placement, rates)
        assert not overloaded(before, then, cluster), seen.at
        before = then


@pytest.mark.parametrize("seed", range(20))
def test_links_carry_what_the_load_model_says(seed):
    """What links carry is the load model's traffic, with copies too, and stays so when moves are made."""
    network, cluster, placement, rates = drawn(seed, copies=seed % 2 == 1)
    now = after(4, network, placement, rates, cluster)
    known = Rates.constant(dict(zip(network.sources, now.rates.mean(axis=1).tolist(), strict=True)))
    links, rng = Links.of(now, now.where()), np.random.default_rng(seed)
    for _ in range(8):
        there = {name: now.hosts[k] for name, k in zip(now.seen.operators, links.where.tolist(), strict=True)}
        told = crossing(now.priced(), cluster, there, known)
        for a, start in enumerate(now.hosts):
            for b, end in enumerate(now.hosts):
                if np.isfinite(cluster.link(start, end).bandwidth) and a != b:
                    assert links.flow[a, b] == pytest.approx(told[start, end], rel=1e-6, abs=1e-6)
        rows = rng.choice(links.where.size, 2, replace=False)
        links.made(rows, rng.integers(4, size=2))


@pytest.mark.parametrize("seed", range(20))
def test_the_verifier_names_links_that_moves_overload(seed):
    """A plan is refused for its links exactly where one is asked for more than it can carry and than before."""
    network, cluster, placement, rates = drawn(seed)
    # Hosts that can do everything leave only links to refuse anything.
    cluster = cluster.having(attrs.evolve(host, capacity=100.0) for host in cluster.hosts.values())
    now = after(4, network, placement, rates, cluster)
    known = Rates.constant(dict(zip(network.sources, now.rates.mean(axis=1).tolist(), strict=True)))
    before, rng = crossing(now.priced(), cluster, placement, known), np.random.default_rng(seed)
    for _ in range(20):
        moves = {str(name): f"h{rng.integers(4)}" for name in rng.choice(list(placement), 2, replace=False)}
        then = crossing(now.priced(), cluster, {**placement, **moves}, known)
        worse = {
            pair for pair, rate in then.items()
            if rate > max(cluster.link(*pair).bandwidth, before[pair]) * (1 + 1e-6)
        }  # fmt: skip
        said = wrong(now, Plan(placement=moves))
        assert {tuple(fault.split()[1].split("->")) for fault in said} == worse, said
        assert not wrong(now, Plan(placement=moves), quotas=False)


def test_what_leaves_a_host_goes_where_links_carry_it():
    """What is to leave a host goes where least is to be done, unless a link there is too narrow for it."""
    network = growing()
    for bandwidth, host in ((1000.0, "h3"), (200.0, "h1")):
        hosts = [Host(name="h1"), Host(name="h2"), Host(name="h3", capacity=4.0)]
        cluster = Cluster.of(hosts, links={("h1", "h3"): Link(0.1, bandwidth), ("h3", "h1"): Link(0.1, bandwidth)})
        now = after(4, network, {"f": "h1", "g": "h1", "x": "h2"}, Rates.constant({"a": 100.0}, 60.0), cluster)
        assert evacuated(now, ["h2"]) == {"x": host}


def linked(bandwidth):
    """Return two hosts with links of a bandwidth."""
    return Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.1, bandwidth))


def growing(costs=(1e-4, 6e-3, 1e-3)):
    """Return a chain whose second operator puts out five tuples for each that it reads."""
    operators = [
        Operator(name=name, kind="map", inputs=(given,), cost=(cost,), selectivity=(gain,))
        for name, given, cost, gain in zip("fgx", "afg", costs, (1.0, 5.0, 1.0), strict=True)
    ]
    return Network.of("growing", [Source(name="a")], operators, [Sink(name="k", input="x")])


@pytest.mark.parametrize("policy", MOVING)
def test_an_overload_is_not_taken_to_a_link(policy):
    """What a link could not carry stays on a host that is a little too full, and no fewer rows come than unmanaged."""
    cluster, start = linked(200.0), {"f": "h1", "g": "h2", "x": "h2"}
    rates = Rates.constant({"a": 100.0}, 60.0)

    def run(name):
        engine = simulated(growing(), start, rates, cluster)
        steered(engine, name, 60) if name else engine.wait(60.0)
        return engine.report()

    alone, managed = run(None), run(policy)
    assert not managed["moves"]
    assert managed["latency"]["count"] >= alone["latency"]["count"]
    assert managed["latency"]["max"] <= alone["latency"]["max"]


def test_moves_that_fit_only_together_are_made():
    """Where a link can carry neither of two neighbours' moves alone, but what crosses after both, both are made."""
    cluster, rates = linked(200.0), Rates.constant({"a": 100.0}, 60.0)
    network = growing((5e-3, 4e-3, 4e-4))
    now = after(6, network, dict.fromkeys(network.operators, "h1"), rates, cluster)
    where = now.where()
    before = prices(now, now.host_load(where), now.host_backlog(where))
    assert paying(now, where, {"g": "h2"}, before) == {}
    assert paying(now, where, {"x": "h2"}, before) == {}
    assert paying(now, where, {"g": "h2", "x": "h2"}, before) == {"g": "h2", "x": "h2"}
