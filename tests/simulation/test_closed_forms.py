"""The simulator against queueing theory and recursions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from penstock.cluster import Cluster, Host, Link
from penstock.network import Network, Operator, Sink, Source, chain
from penstock.simulation import Arrivals, Options, Recording, simulate
from penstock.workload import Rates

TUPLES = 1_000_000


def station(service, *, cost=1.0, arrivals="poisson"):
    operator = Operator(name="a", kind="map", inputs=("s",), cost=(cost,), service=service)
    return Network.of("station", [Source(name="s", arrivals=arrivals)], [operator], [Sink(name="t", input="a")])


def tandem(services, costs):
    operators, before = [], "s"
    for k, (service, cost) in enumerate(zip(services, costs, strict=True)):
        operators.append(Operator(name=f"o{k}", kind="map", inputs=(before,), cost=(cost,), service=service))
        before = f"o{k}"
    return Network.of("tandem", [Source(name="s", arrivals="poisson")], operators, [Sink(name="t", input=before)])


def waits(service, load, seed, **options):
    rates = Rates.constant({"s": load}, TUPLES / load / 4, period=1e3)
    return simulate(station(service), Cluster.uniform(1), {"a": "h1"}, rates, Options(**options, seed=seed))


@pytest.mark.parametrize(
    ("service", "square"),
    [
        ("exponential", 2.0),
        ("constant", 1.0),
        ("gamma:2", 1.5),
        ("gamma:0.5", 3.0),
        ("two-point:10:0.1", (0.9 + 0.1 * 100) / (0.9 + 0.1 * 10) ** 2),
    ],
)
def test_pollaczek_khinchine(service, square):
    """One server with Poisson arrivals waits lambda E[S^2] / (2 (1 - rho)) on average, for every service law."""
    load = 0.7
    found = [waits(service, load, seed, warmup=1000.0).operators["a"]["wait"] for seed in range(4)]
    expected = load * square / (2 * (1 - load))
    error = np.std(found, ddof=1) / 2
    assert abs(np.mean(found) - expected) < max(0.02 * expected, 3 * error)


@pytest.mark.parametrize("places", [0, 1, 4])
def test_loss_of_bounded_queue(places):
    """A full queue of N loses what M/M/1/N+1 says."""
    rho = 0.9
    result = waits("exponential", rho, 1, queue=places)
    lost = result.totals["dropped"] / result.streams["s->a"]["arrived"]
    assert lost == pytest.approx((1 - rho) * rho ** (places + 1) / (1 - rho ** (places + 2)), rel=0.02)


def test_several_cores_are_erlang_c():
    """A host of three cores waits as M/M/3."""
    load, cores = 2.4, 3
    cluster = Cluster.of([Host(name="h1", capacity=3.0, cores=cores)])
    rates = Rates.constant({"s": load}, TUPLES / load, period=1e3)
    result = simulate(station("exponential"), cluster, {"a": "h1"}, rates)
    terms = [load**k / math.factorial(k) for k in range(cores)]
    last = load**cores / math.factorial(cores) / (1 - load / cores)
    assert result.operators["a"]["wait"] == pytest.approx(last / (sum(terms) + last) / (cores - load), rel=0.03)


def test_jackson_network():
    """Exponential stations with feed-forward routing behave as independent M/M/1 queues."""

    def op(name, given, **extra):
        return Operator(name=name, kind="map", inputs=given, cost=(1.0,) * len(given), service="exponential", **extra)

    network = Network.of(
        "jackson",
        [Source(name="s", arrivals="poisson")],
        [
            op("a", ("s",), route={"b": 0.3, "c": 0.7}),
            op("b", ("a",)),
            Operator(name="c", kind="union", inputs=("a", "b"), cost=(1.0, 1.0), service="exponential"),
        ],
        [Sink(name="t", input="c")],
    )
    rates = Rates.constant({"s": 0.6}, TUPLES, period=1e3)
    result = simulate(network, Cluster.uniform(3), {"a": "h1", "b": "h2", "c": "h3"}, rates, Options(seed=3))
    for name, load in {"a": 0.6, "b": 0.18, "c": 0.6}.items():
        assert result.operators[name]["wait"] == pytest.approx(load / (1 - load), rel=0.03)


@pytest.mark.parametrize("policy", ["fcfs", "round-robin", "stimulus", "longest-queue"])
def test_kleinrock_conservation(policy):
    """Whatever the policy, the waiting times weighted by load add up to the same."""
    costs, rates = {"a": 0.5, "b": 1.0, "c": 2.0}, {"a": 0.4, "b": 0.25, "c": 0.15}
    network = Network.of(
        "shared",
        [Source(name=f"s{n}", arrivals="poisson") for n in costs],
        [Operator(name=n, kind="map", inputs=(f"s{n}",), cost=(c,)) for n, c in costs.items()],
        [Sink(name=f"t{n}", input=n) for n in costs],
    )
    given = Rates.constant({f"s{n}": r for n, r in rates.items()}, 800_000, period=1e3)
    result = simulate(network, Cluster.uniform(1), dict.fromkeys(costs, "h1"), given, Options(policy=policy, seed=5))
    load = sum(rates[n] * costs[n] for n in costs)
    residual = sum(rates[n] * costs[n] ** 2 for n in costs) / 2
    found = sum(rates[n] * costs[n] * result.operators[n]["wait"] for n in costs)
    assert found == pytest.approx(load * residual / (1 - load), rel=0.03)


def test_chain_under_stimulus_is_one_server():
    """A chain on one host under stimulus is M/D/1 with the summed cost."""
    network = tandem(["constant"] * 4, [0.1, 0.2, 0.3, 0.4])
    rates = Rates.constant({"s": 0.8}, TUPLES / 2, period=1e3)
    result = simulate(
        network, Cluster.uniform(1), dict.fromkeys(network.operators, "h1"), rates, Options(policy="stimulus")
    )
    assert result.latency["mean"] == pytest.approx(1 + 0.8 / (2 * 0.2), rel=0.02)


def test_order_of_deterministic_stages_does_not_matter():
    """The latency of every tuple of a tandem of deterministic hosts is the same for all orders of its stages."""
    rng = np.random.default_rng(2)
    arrivals = Arrivals.of(np.cumsum(rng.exponential(1.0, 2000)), "s")
    latencies = []
    for costs in itertools.permutations([0.3, 0.95, 0.6]):
        network = tandem(["constant"] * 3, costs)
        placement = {f"o{k}": f"h{k + 1}" for k in range(3)}
        trace = simulate(
            network, Cluster.uniform(3), placement, arrivals, Options(drain=True), record=Recording(trace=True)
        ).trace
        latencies.append(trace["egress"] - trace["stimulus"])
    for other in latencies[1:]:
        np.testing.assert_allclose(other, latencies[0], atol=1e-9)


@pytest.mark.parametrize("rough", [False, True])
def test_lindley(rough):
    """Each tuple of a trace waits as Lindley's recursion says, to a nanosecond, also with a work per tuple."""
    rng = np.random.default_rng(7)
    # Bursty: exponential gaps under a rate that changes tenfold.
    gaps = rng.exponential(1.0, 50_000) * np.repeat(rng.choice([0.2, 2.0], 500), 100)
    times, work = np.cumsum(gaps), rng.gamma(2.0, 0.5, 50_000) if rough else np.ones(50_000)
    trace = simulate(
        station("constant", cost=0.9),
        Cluster.uniform(1),
        {"a": "h1"},
        Arrivals.of(times, "s", work),
        Options(drain=True),
        record=Recording(trace=True),
    ).trace
    free, egress = 0.0, []
    for time, factor in zip(times.tolist(), work.tolist(), strict=True):
        free = max(free, time) + 0.9 * factor
        egress.append(free)
    np.testing.assert_allclose(trace["egress"], egress, rtol=0, atol=1e-9)


def test_link_throughput():
    """A link passes at most bandwidth times delay tuples per delay, in order, and the rest waits."""
    network = chain([0.0, 0.0])
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.5, 20.0))
    rates = Rates.constant({"s1": 100}, 60)
    result = simulate(network, cluster, {"o1.1": "h1", "o1.2": "h2"}, rates, record=Recording(trace=True))
    delivered = result.latency["count"]
    assert 60 / 0.5 * 10 - 10 < delivered <= 60 / 0.5 * 10
    assert result.links["h1->h2"] == {"sent": delivered + 10, "queued": 6000 - delivered}
    assert (np.diff(result.trace["stimulus"]) >= 0).all()


def test_scheme_one_goldens():
    """The placements of scheme 1 have the latencies of an independent exact simulation."""
    cluster = Cluster.of([Host(name=f"h{k}") for k in range(3)], Link(0.1, 1e5))
    rates = Rates.constant({"s1": 10}, 6)

    def latency(cost, hosts):
        network = chain([cost] * 9)
        placement = {o: f"h{k}" for o, k in zip(network.operators, hosts, strict=True)}
        return simulate(network, cluster, placement, rates, Options(drain=True)).latency["mean"]

    assert latency(0.02, (0,) * 5 + (1,) * 4) == pytest.approx(0.280)
    assert latency(0.02, (0, 0, 0, 1, 1, 1, 2, 2, 2)) == pytest.approx(0.380)
    assert latency(0.02, (0, 1, 2) * 3) == pytest.approx(0.980)
    rng = np.random.default_rng(0)
    for hosts in rng.integers(3, size=(300, 9)).tolist():
        crossings = sum(a != b for a, b in itertools.pairwise(hosts))
        assert latency(0.01, hosts) == pytest.approx(0.090 + 0.1 * crossings)
        assert latency(0.001, hosts) == pytest.approx(0.009 + 0.1 * crossings)


@pytest.mark.slow
def test_scheme_one_has_the_goldens_of_all_placements():
    """All 19,683 placements of scheme 1 have the latencies of an exact simulation, the overloaded ones included."""
    # In units of 1 ms all times are whole numbers, so that no rounding decides what happens first.
    cluster = Cluster.of([Host(name=f"h{k}") for k in range(3)], Link(100.0, 100.0))
    arrivals = Arrivals.of(100.0 * np.arange(60), "s1")

    def latencies(cost, hosts):
        network = chain([cost] * 9)
        placement = {o: f"h{k}" for o, k in zip(network.operators, hosts, strict=True)}
        trace = simulate(network, cluster, placement, arrivals, Options(drain=True), record=Recording(trace=True)).trace
        return trace["egress"] - trace["stimulus"]

    means = []
    # Hosts and links are alike, so that the first operator may be on the first host: the others rename the hosts.
    for others in itertools.product(range(3), repeat=8):
        hosts = (0, *others)
        means.append(latencies(20.0, hosts).mean())
        crossings = sum(a != b for a, b in itertools.pairwise(hosts))
        np.testing.assert_array_equal(latencies(10.0, hosts), 90 + 100 * crossings)
        np.testing.assert_array_equal(latencies(1.0, hosts), 9 + 100 * crossings)
    assert min(means) == 280
    assert 3 * means.count(280.0) == 12
    assert means[0] == pytest.approx(4490.33, abs=0.005)


def test_honest_counterexample_to_mace():
    """Where Mace's bound says 6 s, two sources that load two hosts one after the other take 10.0015 s."""
    n, k = 1000, 5
    operators = [
        Operator(name=name, kind="map", inputs=(given,), cost=(cost / n,))
        for name, given, cost in (("a1", "a", k + 1), ("a2", "a1", 1e-6), ("b1", "b", 0.5), ("b2", "b1", k + 1))
    ]
    network = Network.of(
        "two",
        [Source(name="a"), Source(name="b")],
        operators,
        [Sink(name="ta", input="a2"), Sink(name="tb", input="b2")],
    )
    arrivals = Arrivals.of(np.arange(2 * n) / n, ["a"] * n + ["b"] * n)
    placement = {"a1": "h1", "a2": "h2", "b1": "h1", "b2": "h2"}
    result = simulate(network, Cluster.uniform(2), placement, arrivals, Options(policy="stimulus", drain=True))
    assert result.latency["max"] == pytest.approx(10.0015, abs=1e-6)
