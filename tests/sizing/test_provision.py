"""Provisioning: the fewest hosts by brute force on small networks, the certificate, prices, and the command."""

from __future__ import annotations

import itertools

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_network

from penstock.cluster import Cluster, Host, Link, Placement, SparkSettings
from penstock.errors import Infeasible, InputError
from penstock.latency.mace import mace
from penstock.latency.pipelined import pipelined
from penstock.load import load_model
from penstock.load.statistics import HostStatistics, Statistics
from penstock.network import Network, Operator, Sink, Source, chains
from penstock.sizing.fleet import Fleet
from penstock.sizing.packing import Packing
from penstock.sizing.provision import placing, provision
from penstock.sizing.trials import Trials
from penstock.workload import Rates


def random_provision(seed, most=6, joins=True):
    """Return the load model of a small network whose bursts overload a single host."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, int(rng.integers(1, most + 1)), 2, joins=joins)
    rates = Rates.of(1.0, {f"s{k}": rng.choice([20.0, 300.0, 800.0], 10) for k in range(2)})
    return load_model(network, rates), float(rng.uniform(0.0, 1.5))


def worst_by_hosts(model, like, evaluate):
    """Return the least worst latency on up to n hosts, for each n, by trying every placement."""
    names, best = list(model.network.operators), {}
    count = len(names)
    cluster = Cluster.of(attrs.evolve(like, name=f"h{k + 1}") for k in range(count))
    for where in itertools.product(range(count), repeat=count):
        # Hosts are alike: of those that are used, none is skipped.
        if any(h > max(where[:i], default=-1) + 1 for i, h in enumerate(where)):
            continue
        placement = Placement({n: f"h{h + 1}" for n, h in zip(names, where, strict=True)})
        value = evaluate(model, placement, cluster).total.worst
        for n in range(max(where) + 1, count + 1):
            best[n] = min(best.get(n, np.inf), value)
    return best


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_fewest_hosts_by_brute_force(seed: int) -> None:
    """On small networks the number is the least possible, and the certificate is never above it."""
    model, bound = random_provision(seed, most=5)
    like = Host(name="h1", capacity=0.8)
    best = worst_by_hosts(model, like, mace)
    enough = [n for n, value in sorted(best.items()) if value <= bound + 1e-9]
    if not enough:
        with pytest.raises(Infeasible):
            provision(model, Fleet.of(model, Cluster.of([like]), ["h1"]), bound)
        return
    found = provision(model, Fleet.of(model, Cluster.of([like]), ["h1"]), bound)
    assert found.hosts == enough[0]
    assert found.lower_bound == enough[0]
    assert found.estimate.total.worst <= bound + 1e-9
    assert sorted(set(found.placement.values())) == [f"h{k + 1}" for k in range(found.hosts)]


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1))
def test_fewest_hosts_by_pipelined(seed: int) -> None:
    """By the slower model the number is at most one above the least possible, the certificate never above it."""
    model, bound = random_provision(seed, most=4, joins=False)
    like = Host(name="h1", capacity=0.8)
    best = worst_by_hosts(model, like, pipelined)
    enough = [n for n, value in sorted(best.items()) if value <= bound + 1e-9]
    try:
        found = provision(model, Fleet.of(model, Cluster.of([like]), ["h1"]), bound, name="pipelined")
    except Infeasible:
        assert not enough
        return
    assert found.lower_bound <= enough[0] <= found.hosts <= enough[0] + 1


def test_large_network_meets_its_bound_near_the_certificate() -> None:
    """A network of two hundred operators gets hosts that meet the bound, few more than any placement needs."""
    rng = np.random.default_rng(5)
    network = chains(rng.uniform(0.2e-3, 2e-3, (40, 5)).tolist())
    rates = Rates.of(1.0, {name: rng.choice([30.0, 100.0], 20) for name in network.sources})
    model = load_model(network, rates)
    found = provision(model, Fleet.of(model, Cluster.uniform(1), ["h1"]), 0.3)
    assert found.estimate.total.worst <= 0.3 + 1e-9
    assert found.lower_bound <= found.hosts <= found.lower_bound + 3


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 12))])
def test_cheapest_mix_by_brute_force(seed: int) -> None:
    """With several types of hosts no mix of the same operators is cheaper."""
    types = [Host(name="small", capacity=0.5, price=1.0), Host(name="large", capacity=2.0, price=2.7)]
    cluster = Cluster.of(types)
    model, bound = random_provision(seed, most=4)
    names = list(model.network.operators)
    cheapest = np.inf
    for where in itertools.product(range(len(names)), repeat=len(names)):
        used = sorted(set(where))
        for kinds in itertools.product(types, repeat=len(used)):
            made = Cluster.of(attrs.evolve(k, name=f"h{h}") for h, k in zip(used, kinds, strict=True))
            placement = Placement({n: f"h{h}" for n, h in zip(names, where, strict=True)})
            price = sum(kind.price for kind in kinds)
            if price < cheapest and mace(model, placement, made).total.worst <= bound + 1e-9:
                cheapest = price
    if not np.isfinite(cheapest):
        with pytest.raises(Infeasible):
            provision(model, Fleet.of(model, cluster, ["small", "large"]), bound)
        return
    found = provision(model, Fleet.of(model, cluster, ["small", "large"]), bound)
    assert found.price == pytest.approx(cheapest)
    assert found.lower_price <= cheapest + 1e-9
    assert found.estimate.total.worst <= bound + 1e-9
    assert sum(found.mix.values()) == found.hosts
    assert found.lower_bound <= found.hosts


def test_hosts_are_named_after_the_one_they_are_like() -> None:
    """Hosts of the cluster that equal the given one are taken first, then new names that nobody has."""
    network = chains([[0.009], [0.009], [0.009], [0.009]])
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 100.0), 10))
    cluster = Cluster.of([Host(name="h1"), Host(name="h2", capacity=0.1), Host(name="h4")])
    found = provision(model, Fleet.of(model, cluster, ["h1"]), 0.1)
    assert sorted(set(found.placement.values())) == ["h1", "h3", "h4", "h5"]


@pytest.mark.parametrize("like", [["h1"], ["h1", "h2"]])
def test_without_operators_no_host_is_needed(like: list[str]) -> None:
    """A network whose sink reads a source needs no host, whatever the types."""
    network = Network.of("n", [Source(name="a")], [], [Sink(name="t", input="a")])
    model = load_model(network, Rates.constant({"a": 10.0}, 10.0))
    found = provision(model, Fleet.of(model, Cluster.uniform(2), like), 1.0)
    assert (found.hosts, found.lower_bound, found.estimate.total.worst) == (0, 0, 0.0)


def test_hosts_of_several_types_share_no_name() -> None:
    """A mix has hosts of the types that it was found for, also where their names end in numbers that follow."""
    network = chains([[0.03], [0.03], [0.03]])
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 100.0), 10))
    cluster = Cluster.of([Host(name="h1"), Host(name="h2", capacity=4.0)])
    found = provision(model, Fleet.of(model, cluster, ["h1", "h2"]), 0.1)
    assert (found.mix, found.price, found.estimate.total.worst) == ({"h2": 3}, 3.0, 0.0)
    assert {host.capacity for host in found.cluster.hosts.values()} == {4.0}


def test_hosts_that_are_equal_in_place_only_are_answered_as_given() -> None:
    """A host that statistics make equal to the type may be taken, and keeps what the cluster says of it."""
    network = chains([[0.009], [0.009]])
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 100.0), 10))
    cluster = Cluster.of([Host(name="h1"), Host(name="h2", capacity=2.0)])
    known = Statistics(hosts={"h1": HostStatistics(), "h2": HostStatistics(factor=2.0)})
    found = provision(model, Fleet.of(model, cluster, ["h1"], known), 0.1)
    assert {name: host.capacity for name, host in found.cluster.hosts.items()} == {"h1": 1.0, "h2": 2.0}


def test_hosts_whose_backlog_is_too_long_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a model refuses to follow the backlog on few hosts, more are tried."""
    monkeypatch.setattr("penstock.latency.fluid.LIMIT", 600)
    network = chains([[0.008]] * 4)
    loads = load_model(network, Rates.constant(dict.fromkeys(network.sources, 100.0), 10.0))
    fleet = Fleet.of(loads, Cluster.uniform(1), ["h1"])
    assert provision(loads, fleet, 0.5, name="sharing").hosts == 4


def test_pins_and_links_count() -> None:
    """A pinned operator stays where it is pinned, and a link's delay counts."""
    network = chains([[0.001, 0.001]])
    pinned = [attrs.evolve(o, pin="edge" if n == "o1.1" else None) for n, o in network.operators.items()]
    made = Network.of("pinned", network.sources.values(), pinned, network.sinks.values())
    model = load_model(made, Rates.constant({"s1": 600.0}, 10))
    cluster = Cluster.of([Host(name="edge"), Host(name="h1")], Link(0.2))
    near = provision(model, Fleet.of(model, cluster, ["h1"]), 3.0)
    assert near.placement["o1.1"] == "edge"
    assert near.hosts == 1
    far = provision(model, Fleet.of(model, cluster, ["h1"]), 0.5)
    assert dict(far.placement) == {"o1.1": "edge", "o1.2": "h1"}
    with pytest.raises(Infeasible):
        provision(model, Fleet.of(model, cluster, ["h1"]), 0.1)


def test_a_named_host_may_be_enough_where_those_of_the_type_are_not() -> None:
    """What is too much for a host of the type may run on a larger one that a pin names; else both are said."""
    network = chains([[0.0001, 0.02]])
    pinned = [attrs.evolve(o, pin="big" if n == "o1.1" else None) for n, o in network.operators.items()]
    made = Network.of("pinned", network.sources.values(), pinned, network.sinks.values())
    cluster = Cluster.of([Host(name="big", capacity=4.0), Host(name="small")])
    model = load_model(made, Rates.constant({"s1": 100.0}, 10))
    found = provision(model, Fleet.of(model, cluster, ["small"]), 0.1)
    assert (found.hosts, dict(found.placement)) == (1, {"o1.1": "big", "o1.2": "big"})
    more = load_model(made, Rates.constant({"s1": 300.0}, 10))
    with pytest.raises(Infeasible, match=r"alone on a host like 'small' is .*; 'o1.2' alone on a host 'big' is"):
        provision(more, Fleet.of(more, cluster, ["small"]), 0.1)


def test_strangers_are_refused() -> None:
    """A host that the cluster does not have is bad input, and so is one given twice."""
    model, _ = random_provision(1)
    for like in (["h9"], ["h1", "h1"], []):
        with pytest.raises(InputError):
            provision(model, Fleet.of(model, Cluster.uniform(1), like), 1.0)


def test_command(penstock, examples, tmp_path) -> None:
    """The document has the keys of the contract, the plot is a picture, and what no number meets is exit 1."""
    two = examples / "two-chains"
    words = ["provision", two / "network.toml", "--rates", two / "rates.csv", "--host-like", "h1", "--json"]
    done = penstock(*words, "--latency", 0.5, "--plot", tmp_path / "curve.png", "--check-with", "simulation")
    assert done.code == 0, done.err
    assert done.document["hosts"] == 2
    assert done.document["lower_bound"] == 2
    assert done.document["worst"] <= 0.5
    assert done.document["checked"]["holds"] is True
    counts = [row["hosts"] for row in done.document["curve"] if row["hosts"] is not None]
    assert counts == sorted(counts, reverse=True)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    no = penstock(*words, "--latency", 0.1)
    assert no.code == 1
    assert no.document["feasible"] is False
    assert "scored" in no.document["reason"]
    by = penstock(*words, "--latency", 0.5, "--algorithm", "largest-first")
    assert by.document["hosts"] == 2
    for wrong in (["--latency", "x"], ["--latency", "-1"], ["--latency", "1", "--algorithm", "magic"]):
        assert penstock(*words, *wrong).code == 2


def kept(*sizes: float) -> Network:
    """Return operators over one source that keep so many bytes of state each."""
    steps = [
        Operator(name=f"o{k}", kind="map", inputs=("s",), cost=(0.001,), state=size) for k, size in enumerate(sizes)
    ]
    return Network.of("kept", [Source(name="s")], steps, [Sink(name=f"t{k}", input=f"o{k}") for k in range(len(sizes))])


@pytest.mark.parametrize(("sizes", "fewest", "bound"), [([600.0] * 2, 2, 2), ([400.0] * 70, 35, 28)])
def test_hosts_have_memory_for_what_operators_keep(sizes: list[float], fewest: int, bound: int) -> None:
    """No host gets more state than it has memory for: the number is the least for it, by search and by packing."""
    model = load_model(kept(*sizes), Rates.constant({"s": 1.0}, 10.0))
    like = Host(name="h1", memory=1000.0)
    found = provision(model, Fleet.of(model, Cluster.of([like]), ["h1"]), 1.0)
    assert (found.hosts, found.lower_bound) == (fewest, bound)
    there = [sum(sizes[int(name[1:])] for name in found.placement.on(host)) for host in set(found.placement.values())]
    assert max(there) <= 1000.0


def test_an_operator_that_keeps_too_much_is_said() -> None:
    """Where an operator keeps more state than a host has memory for, no number of hosts is enough."""
    model = load_model(kept(600.0), Rates.constant({"s": 1.0}, 10.0))
    with pytest.raises(Infeasible, match="keeps 600 B of state"):
        provision(model, Fleet.of(model, Cluster.of([Host(name="h1", memory=500.0)]), ["h1"]), 1.0)


def test_why_no_mix_is_enough_is_said() -> None:
    """The reason is that of the operator that is too much: its state, its wait on every type, or a slow pin."""
    types = [Host(name="a", memory=500.0), Host(name="b", capacity=2.0, memory=400.0)]
    cluster, rates = Cluster.of([*types, Host(name="slow", capacity=1e-6)]), Rates.constant({"s": 1.0}, 10.0)

    def reason(network: Network, bound: float = 1.0) -> str:
        model = load_model(network, rates)
        with pytest.raises(Infeasible) as refused:
            provision(model, Fleet.of(model, cluster, ["a", "b"]), bound)
        return str(refused.value)

    large = reason(kept(10.0, 600.0))
    assert "'o1' keeps 600 B of state, and a host like 'a' has memory for 500 B" in large
    assert "a host like 'b' has memory for 400 B" in large
    busy = kept(10.0, 10.0)
    there = [attrs.evolve(o, pin="slow" if n == "o1" else None) for n, o in busy.operators.items()]
    assert "'o1' alone on a host 'slow' is" in reason(busy.having(there))
    both = [attrs.evolve(o, pin="slow", cost=(1.1e-6,)) for o in busy.operators.values()]
    assert reason(busy.having(both), 5.0) == "no mix of hosts like a, b is enough for 5 s"


def test_further_hosts_are_like_the_first_as_measured() -> None:
    """A host of the cluster that was measured otherwise is not taken for one more like the first."""
    model = load_model(kept(1.0), Rates.constant({"s": 1.0}, 10.0))
    cluster = Cluster.of(Host(name=f"h{k}") for k in (1, 2, 3))
    hosts = {f"h{k}": HostStatistics(overhead=3.0 if k == 2 else 0.1) for k in (1, 2, 3)}
    assert Fleet.of(model, cluster, ["h1"], Statistics(hosts=hosts)).names("h1", 3) == ["h1", "h3", "h4"]
    assert Fleet.of(model, cluster, ["h1"], Statistics(hosts={"h1": hosts["h1"]})).names("h1", 3) == ["h1", "h2", "h3"]


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.6]))
def test_hosts_do_what_was_measured_in_place(seed: int, factor: float) -> None:
    """A host on which rows take longer or shorter than alone is one of another capacity; what was given of it stays."""
    model, bound = random_provision(seed, most=5)
    known, like = Statistics(hosts={"h1": HostStatistics(factor=factor)}), Host(name="h1", capacity=0.8)
    fleets = [
        Fleet.of(model, Cluster.of([like]), ["h1"], known),
        Fleet.of(model, Cluster.of([attrs.evolve(like, capacity=1 / (factor / 0.8))]), ["h1"]),
    ]
    try:
        expected = provision(model, fleets[1], bound)
    except Infeasible:
        with pytest.raises(Infeasible):
            provision(model, fleets[0], bound)
        return
    found = provision(model, fleets[0], bound)
    assert (found.hosts, found.lower_bound, found.placement) == (
        expected.hosts,
        expected.lower_bound,
        expected.placement,
    )
    assert found.estimate.total == expected.estimate.total
    assert {host.capacity for host in found.cluster.hosts.values()} == {0.8}
    assert set(found.cluster.hosts) == set(expected.cluster.hosts)


@pytest.mark.parametrize(("count", "load", "bound"), [(61, 1.5, 3.0), (20, 1.8, 3.0)])
def test_slower_models_find_even_placements(count: int, load: float, bound: float) -> None:
    """Many equal filters of one source go on two hosts that both keep up, also where they are too many to search."""
    rate = 250.0
    operators = [
        Operator(name=f"o{k}", kind="filter", inputs=("s",), cost=(load / count / rate,), selectivity=(1.0,))
        for k in range(count)
    ]
    sinks = [Sink(name=f"k{k}", input=f"o{k}") for k in range(count)]
    network = Network.of("fan", [Source(name="s")], operators, sinks)
    model = load_model(network, Rates.constant({"s": rate}, 20.0))
    cluster = attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=1.0))

    def improve(made: Cluster) -> Placement:
        return placing(model, "mace-climb", 0)(made)

    found = provision(model, Fleet.of(model, cluster, ["h1"]), bound, name="microbatch", improve=improve)
    assert found.hosts == 2
    assert found.estimate.total.worst <= bound


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_slower_models_try_every_placement_of_a_few_operators(seed: int) -> None:
    """Of up to five operators on two or three hosts every division is tried once, whatever comes first."""
    model, bound = random_provision(seed, most=5)
    fleet = Fleet.of(model, Cluster.uniform(1), ["h1"])
    trials = Trials(work=Packing(model, fleet, bound), exact=False, backlog=False)
    names = list(model.network.operators)
    for count in (2, 3):
        found = [
            frozenset(frozenset(n for n in names if trial[n] == host) for host in set(trial.values()))
            for trial in trials.on(fleet.hosts({"h1": count}), count)
        ]
        every = {
            frozenset(frozenset(n for n, h in zip(names, where, strict=True) if h == host) for host in set(where))
            for where in itertools.product(range(count), repeat=len(names))
        }
        assert len(found) == len(set(found)) == len(every)
