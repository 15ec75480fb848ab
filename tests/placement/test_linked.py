"""Latency where links are not free: what `place` answers is what `estimate` says, and the least there is."""

from __future__ import annotations

import importlib.util
from collections import Counter
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.errors import Infeasible
from penstock.latency.mace import mace
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source
from penstock.network.shapes import chains
from penstock.placement import ALGORITHMS, Problem, Terms, place
from penstock.placement.linked import EVERY
from penstock.workload import Rates

_spec = importlib.util.spec_from_file_location("placement_problems", Path(__file__).with_name("problems.py"))
problems = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)

SINGLE = [name for name, row in ALGORITHMS.items() if row.replicas != "apart"]


def linked(seed: int, operators: int = 5, hosts: int = 3):
    """Return a random problem whose links have delays, and bandwidths of which some are short."""
    base = problems.drawn(seed, operators=operators, hosts=hosts, level=0.5)
    rng = np.random.default_rng(seed)
    rate = float(base.model.arrivals.mean(axis=1).max())
    names = list(base.cluster.hosts)
    links = {
        (a, b): Link(float(rng.choice([0.0, 0.01, 0.3])), float(rate * rng.choice([1.1, 1.5, 100.0])))
        for a, b in product(names, names)
        if a != b
    }
    return attrs.evolve(base, cluster=Cluster.of(base.cluster.hosts.values(), links=links))


def worst(problem, placement):
    """Return the worst latency with links (s)."""
    return mace(problem.model, Placement(placement), problem.cluster).total.worst


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", SINGLE)
def test_latency_counts_links(name, seed):
    """The value of the objective latency is the worst of the model mace, with links."""
    problem = linked(seed)
    try:
        answer = place(problem, name, np.random.default_rng(seed), Terms(measure="latency"))
    except Infeasible as error:  # a heuristic may find no placement within the links
        pytest.skip(str(error))
    assert answer.value == pytest.approx(worst(problem, dict(answer.placement)))
    assert answer.bound is None or answer.bound <= answer.value * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_exact_is_the_least_of_all_with_links(seed):
    """No placement of a small network within quotas and links has less latency than the one that exact answers."""
    problem = linked(seed)
    answer = place(problem, "exact", np.random.default_rng(0))
    names, hosts = list(problem.model.network.operators), list(problem.cluster.hosts)
    assert len(hosts) ** len(names) <= EVERY
    least = np.inf
    for where in product(hosts, repeat=len(names)):
        placement = dict(zip(names, where, strict=True))
        if allowed(problem, placement):
            least = min(least, worst(problem, placement))
    assert answer.value == pytest.approx(least)


@pytest.mark.parametrize("measure", ["latency", "balance", "hosts"])
def test_exact_names_the_link_that_is_short(measure):
    """Where hosts have room and a link has not, the answer no names the link."""
    steps = [Operator(name="f", kind="map", inputs=("a",), cost=(0.001,))]
    network = Network.of("n", [Source(name="a", host="h2")], steps, [Sink(name="s", input="f")])
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.5, 10.0))
    problem = Problem(load_model(network, Rates.constant({"a": 20.0})), cluster, None, {"f": "h1"})
    with pytest.raises(Infeasible, match=r"^link h2->h1 carries 20 of 10 tuples/s: short by 10$"):
        place(problem, "exact", np.random.default_rng(0), Terms(measure=measure))


@pytest.mark.parametrize("seed", range(12))
def test_sources_of_one_host_cross_each_on_its_own(seed):
    """What sources on the same host send over a link adds up, and what readers of one of them share crosses once."""
    rng = np.random.default_rng(seed)
    sources = [Source(name=f"s{k}", host=str(rng.choice(["h1", "h2"]))) for k in range(3)]
    steps = [
        Operator(name=f"o{k}", kind="map", inputs=(str(rng.choice(["s0", "s1", "s2"])),), cost=(0.001,))
        for k in range(4)
    ]
    network = Network.of("n", sources, steps, [Sink(name=f"t{k}", input=f"o{k}") for k in range(4)])
    rates = {source.name: float(rng.integers(1, 6)) for source in sources}
    cluster = Cluster.of([Host(name=f"h{k}") for k in (1, 2, 3)], Link(0.0, 4.0))
    problem = Problem(load_model(network, Rates.constant(rates)), cluster, None, {})

    def fits(where: dict[str, str]) -> bool:
        sent = {(step.inputs[0], network.sources[step.inputs[0]].host, where[step.name]) for step in steps}
        loads = Counter()
        for source, start, end in sent:
            loads[start, end] += rates[source] if start != end else 0.0
        return max(loads.values()) <= 4.0

    able = {
        hosts
        for hosts in product(("h1", "h2", "h3"), repeat=4)
        if fits(dict(zip(network.operators, hosts, strict=True)))
    }
    for hosts in product(("h1", "h2", "h3"), repeat=4):
        pinned = attrs.evolve(problem, pins=dict(zip(network.operators, hosts, strict=True)))
        try:
            found = place(pinned, "exact", np.random.default_rng(0), Terms(measure="hosts")).over == ()
        except Infeasible:
            found = False
        assert found == (hosts in able), hosts


@pytest.mark.parametrize("name", ["correlation", "largest-first", "random", "potential-greedy", "resilient"])
def test_queries_stay_whole_where_links_leave_no_other_way(name):
    """A heuristic that knows nothing of bandwidths answers with whole queries where its placement crosses too much."""
    network = chains([[0.001, 0.001], [0.002, 0.002]])
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 100.0)))
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.0, 50.0))
    answer = place(Problem(model, cluster, None, {}), name, np.random.default_rng(0))
    assert answer.over == ()
    for query in ("1", "2"):
        assert len({answer.placement[f"o{query}.{k}"] for k in (1, 2)}) == 1


def test_a_time_limit_is_kept_with_links(monkeypatch):
    """Single moves are tried until the time is up, and the best so far is the answer."""
    problem = linked(3, operators=14, hosts=4)
    steps = iter(np.arange(0.0, 1e6, 0.01))
    monkeypatch.setattr("penstock.placement.linked.time", SimpleNamespace(monotonic=lambda: next(steps)))
    answer = place(problem, "mace-climb", np.random.default_rng(0), Terms(measure="latency"), seconds=0.5)
    assert answer.value == pytest.approx(worst(problem, dict(answer.placement)))
    assert next(steps) < 2.0


def allowed(problem, placement) -> bool:
    """Whether mean loads are within quotas and mean traffic within bandwidths; a tuple crosses to a host once."""
    model, cluster = problem.model, problem.cluster
    load = dict.fromkeys(cluster.hosts, 0.0)
    for name, mean in zip(model.network.operators, model.mean_load, strict=True):
        load[placement[name]] += float(mean)
    if any(load[name] > host.usable * (1 + 1e-9) for name, host in cluster.hosts.items()):
        return False
    traffic: dict[tuple[str, str], float] = {}
    crossed = set()
    for stream in model.network.streams:
        if stream.writer in placement and stream.reader in placement:
            a, b = placement[stream.writer], placement[stream.reader]
            if a != b and (stream.writer, b) not in crossed:
                crossed.add((stream.writer, b))
                rate = float(model.arrivals[model.stream_index[stream.name]].mean())
                traffic[a, b] = traffic.get((a, b), 0.0) + rate
    return all(rate <= cluster.link(*pair).bandwidth * (1 + 1e-9) for pair, rate in traffic.items())


def test_climbing_keeps_what_links_would_cut():
    """A chain that fits one host is not cut by mace-climb where every crossing costs a second."""
    costs = [[1e-4] * 4 for _ in range(12)]
    network = chains(costs, [[1.0] * 4] * 12)
    steady = {f"s{k + 1}": np.full(20, 100.0) for k in range(12)}
    model = load_model(network, problems.rates(steady))
    cluster = Cluster.of(Cluster.uniform(3).hosts.values(), Link(1.0, 1e6))
    problem = attrs.evolve(problems.antiphase(3), model=model, cluster=cluster)
    answer = place(problem, "mace-climb", np.random.default_rng(0))
    assert answer.value < 1.0
