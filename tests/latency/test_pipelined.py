import tracemalloc
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_case
from reference_flow import flow

from penstock.arrays import Array
from penstock.cluster import Cluster, Host, Link, Placement
from penstock.errors import InputError
from penstock.latency.mace import mace
from penstock.latency.pipelined import pipelined
from penstock.latency.second_opinion import second_opinion
from penstock.latency.sharing import sharing
from penstock.latency.slices import followed
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source, hybrid
from penstock.simulation import Options, simulate
from penstock.workload import Rates


def tandem(hosts: int) -> tuple[Network, Rates, Placement]:
    """Return chains over all hosts, of which chain k loads host k alone, with six seconds' work in period k alone."""
    sources, operators, sinks, placement = [], [], [], {}
    for k in range(hosts):
        before = f"s{k}"
        sources.append(Source(name=before))
        for j in range(hosts):
            name = f"o{k}.{j}"
            cost = 6e-3 if j == k else 1e-9
            operators.append(Operator(name=name, kind="map", inputs=(before,), cost=(cost,)))
            placement[name], before = f"h{j + 1}", name
        sinks.append(Sink(name=f"t{k}", input=before))
    rates = Rates.of(1.0, {f"s{k}": [1000.0 * (p == k) for p in range(hosts)] for k in range(hosts)})
    return Network.of("tandem", sources, operators, sinks), rates, Placement(placement)


@pytest.mark.parametrize("hosts", [2, 3, 5, 10])
def test_tandem_counterexample(hosts: int) -> None:
    """Where backlog forms on host after host, Mace stays 5 and pipelined Mace reaches the true five times the hosts."""
    network, rates, placement = tandem(hosts)
    cluster, model = Cluster.uniform(hosts), load_model(network, rates)
    measured = simulate(network, cluster, placement, rates, Options(policy="stimulus", drain=True)).latency["max"]
    assert measured == pytest.approx(5 * hosts, abs=6e-3 * hosts)
    found, low = pipelined(model, placement, cluster), mace(model, placement, cluster)
    assert low.total.worst == pytest.approx(5.0, rel=1e-5)
    assert found.total.worst == pytest.approx(5.0 * hosts, abs=1e-4)
    assert low.bounds["upper"] is not None
    assert measured <= low.bounds["upper"]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_one_host_is_mace(seed: int) -> None:
    """On one host the series is that of Mace."""
    rng = np.random.default_rng(seed)
    network = hybrid(6, 2, 1.0, rng)
    model = load_model(network, Rates.of(1.0, {name: rng.uniform(0, 150, 12) for name in network.sources}))
    placement = Placement(dict.fromkeys(network.operators, "h1"))
    cluster = Cluster.uniform(1)
    assert pipelined(model, placement, cluster).series == pytest.approx(
        mace(model, placement, cluster).series, abs=1e-6
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_never_below_the_backlog_of_a_host(seed: int) -> None:
    """No estimate is below the backlog of any host, also where operators put nothing out for some of their inputs."""
    rng = np.random.default_rng(seed)
    model, placement, cluster = random_case(seed, operators=8, joins=False, peak=1.8)
    rows = [
        attrs.evolve(o, selectivity=tuple(0.0 if rng.random() < 0.2 else s for s in o.selectivity or ()))
        for o in model.network.operators.values()
    ]
    model = load_model(model.network.having(rows), model.rates)
    least = mace(model, placement, Cluster.of(cluster.hosts.values())).total.worst
    assert pipelined(model, placement, cluster).total.worst >= least - 1e-6
    # Its steps divide what a host can do a little differently.
    assert sharing(model, placement, cluster).total.worst >= least - 0.1


def test_what_costs_nothing_is_as_late_as_what_costs_hardly_anything() -> None:
    """What costs nothing leaves a busy host in turn, as late as where it costs a nanosecond, and as the bound says."""
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], links={("h2", "h1"): Link(delay=2.0)})
    placement, rates = Placement({"clean": "h1", "score": "h2", "bill": "h1"}), Rates.constant({"a": 150.0}, 20.0)

    def network(free: float) -> Network:
        rows = [("clean", "a", free), ("score", "clean", 2e-3), ("bill", "score", 1e-2)]
        operators = [Operator(name=name, kind="map", inputs=(given,), cost=(cost,)) for name, given, cost in rows]
        return Network.of("free", [Source(name="a")], operators, [Sink(name="s", input="bill")])

    found, near = (pipelined(load_model(network(cost), rates), placement, cluster) for cost in (0.0, 1e-9))
    assert found.total.worst == pytest.approx(near.total.worst, rel=1e-3)
    measured = simulate(network(0.0), cluster, placement, rates, Options(policy="stimulus", drain=True)).latency["max"]
    assert found.bounds["upper"] is not None
    assert found.total.worst - 0.1 <= measured <= found.bounds["upper"]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_no_tuple_of_one_host_is_later_than_the_upper_bound(seed: int) -> None:
    """Served by age on one host, no tuple is later than the bound, however many derive from one, at whatever load."""
    rng = np.random.default_rng(seed)
    writers, operators = ["s"], []
    for k in range(int(rng.integers(1, 6))):
        operators.append(Operator(
            name=f"o{k}", kind="filter", where="true", inputs=(str(rng.choice(writers)),), emit="exact",
            cost=(float(rng.uniform(0.001, 0.05)),), selectivity=(float(rng.uniform(0.3, 3.5)),),
        ))  # fmt: skip
        writers.append(f"o{k}")
    unread = set(writers[1:]) - {operator.inputs[0] for operator in operators}
    network = Network.of("n", [Source(name="s")], operators, [Sink(name=f"t{name}", input=name) for name in unread])
    rates = Rates.of(1.0, {"s": rng.integers(0, 20, 6)})
    cluster, placement = Cluster.uniform(1), Placement(dict.fromkeys(network.operators, "h1"))
    upper = pipelined(load_model(network, rates), placement, cluster).bounds["upper"]
    latency = simulate(network, cluster, placement, rates, Options(policy="stimulus", drain=True)).latency
    assert not latency["count"] or latency["max"] <= upper + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_compiled_is_the_plain_recursion(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled recursion gives, bit by bit, what the plain one gives."""
    asked: list[tuple[Any, ...]] = []
    given: list[tuple[Array, Array]] = []

    def follow(*arguments: Any) -> tuple[Array, Array]:
        asked.append(arguments)
        left, tuples = followed(*arguments)
        given.append((left.copy(), tuples))  # who asked works on the first in place
        return left, tuples

    monkeypatch.setattr("penstock.latency.pipelined.followed", follow)
    pipelined(*random_case(seed, operators=12))
    for (s, arrivals, after, slack, width, steps), found in zip(asked, given, strict=True):
        fine = after.shape[2] // arrivals.shape[1]
        plain = flow(
            s.resource, s.capacity, s.first, s.count, s.writer, s.delay, s.cost, s.share, s.gain, arrivals, s.join,
            after, slack, s.end, width, fine, steps,
        )  # fmt: skip
        assert all(np.array_equal(*pair) for pair in zip(found, plain, strict=True))


def test_late_and_prompt_tuples_of_a_union_are_told_apart() -> None:
    """Where few rows of a union come late over a link, median and mean of its sink are as the simulator says."""
    step = Operator(name="u", kind="union", inputs=("big", "far"), cost=(0.0001, 0.0001))
    network = Network.of("n", [Source(name="big", host="h1"), Source(name="far", host="h2")], [step],
                         [Sink(name="k", input="u")])  # fmt: skip
    cluster, placement = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.5)), Placement({"u": "h1"})
    rates = Rates.of(1.0, {"big": [190.0] * 4, "far": [10.0] * 4})
    found = pipelined(load_model(network, rates), placement, cluster)
    true = simulate(network, cluster, placement, rates, Options(drain=True)).latency
    for row in (found.tuples, found.sinks["k"]):
        assert (row.worst, row.p99) == pytest.approx((true["max"], true["p99"]), abs=1e-3)
        assert (row.p50, row.mean) == pytest.approx((true["p50"], true["mean"]), abs=1e-3)


@pytest.mark.parametrize("busy", [[100.0, 100.0, 100.0], [100.0, 0.0, 100.0]])
def test_ways_that_no_tuple_takes_delay_nothing(busy: list[float]) -> None:
    """A query whose source is silent all the time adds no delay of its links, nor in moments when nothing comes."""
    chain_of = [Operator(name=name, kind="map", inputs=(given,), cost=(1e-3,)) for name, given in ("xa", "yb")]
    sources = [Source(name=name, host="h1") for name in "ab"]
    network = Network.of("n", sources, chain_of, [Sink(name="s", input="x"), Sink(name="t", input="y")])
    links = {("h1", "h2"): Link(delay=0.1), ("h1", "h3"): Link(delay=9.0)}
    cluster = Cluster.of([Host(name=name) for name in ("h1", "h2", "h3")], links=links)
    model = load_model(network, Rates.of(1.0, {"a": busy, "b": [0.0] * 3}))
    for estimate in (mace, pipelined):
        assert estimate(model, {"x": "h2", "y": "h3"}, cluster).total.worst == pytest.approx(0.1)


def test_a_link_is_the_bottleneck_where_most_waits_there() -> None:
    """What waits longest is named, be it a host or a link, with its backlog."""
    operators = [
        Operator(name="f", kind="map", inputs=("a",), cost=(0.001,)),
        Operator(name="g", kind="map", inputs=("f",), cost=(0.001,)),
    ]
    network = Network.of("n", [Source(name="a")], operators, [Sink(name="s", input="g")])
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.5, 10.0))
    model = load_model(network, Rates.of(1.0, {"a": [20.0] * 20}))
    found = pipelined(model, Placement({"f": "h1", "g": "h2"}), cluster)
    assert found.bottleneck == "h1->h2"
    assert found.links["h1->h2"][-1] == pytest.approx(200.0)
    assert (found.episodes[0].host, found.episodes[0].wait) == ("h1->h2", pytest.approx(20.0))


def test_hosts_that_nothing_uses_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates do not follow empty hosts, so that many of them make no backlog too long."""
    monkeypatch.setattr("penstock.latency.pipelined.MOST", 1e4)
    network, rates, placement = tandem(2)
    model = load_model(network, rates)
    many = pipelined(model, placement, Cluster.uniform(100))
    assert many.series.tolist() == pipelined(model, placement, Cluster.uniform(2)).series.tolist()


def test_what_covers_too_much_time_says_so() -> None:
    """Where not the backlog but the time of the rates is too long for slices, the message says that."""
    network, _, placement = tandem(2)
    model = load_model(network, Rates.of(86400.0, {name: [1.0] * 366 for name in network.sources}))
    with pytest.raises(InputError, match=r"rates over 3.16224e\+07 s, in periods of 86400 s, are too long .* slices"):
        pipelined(model, placement, Cluster.uniform(2))


@pytest.mark.parametrize(("period", "asked"), [(1.0, True), (3600.0, False)])
def test_a_second_opinion_is_asked_where_it_costs_little(
    period: float, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long periods have many slices, so that hourly rates of a week are not followed without being asked for."""
    network, rates, placement = tandem(2)
    calls = []

    def second(name: str) -> Any:
        calls.append(name)
        return pipelined

    monkeypatch.setattr("penstock.latency.second_opinion.model_of", second)
    values = np.tile(rates.values, 84 if period > 1 else 1)
    model = load_model(network, Rates.of(period, dict(zip(rates.sources, values, strict=True))))
    cluster = Cluster.uniform(2)
    second_opinion(mace(model, placement, cluster), model, placement, cluster)
    assert bool(calls) == asked


def test_a_second_opinion_that_cannot_be_given_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the other model refuses, the answer of the first stands."""
    network, rates, placement = tandem(2)
    model, cluster = load_model(network, rates), Cluster.uniform(2)
    monkeypatch.setattr("penstock.latency.pipelined.MOST", 1.0)
    assert second_opinion(mace(model, placement, cluster), model, placement, cluster) == []


def test_a_long_run_is_held_once():
    """At its peak a long run takes no more memory than seven arrays as large as that of when spans leave."""
    network = Network.of(
        "n", [Source(name="s")],
        [Operator(name=f"o{k}", kind="map", inputs=("s",), cost=(1e-3,)) for k in range(8)],
        [Sink(name=f"t{k}", input=f"o{k}") for k in range(8)],
    )  # fmt: skip
    model = load_model(network, Rates.constant({"s": 100.0}, 2000))
    where = dict.fromkeys(network.operators, "h1")
    tracemalloc.start()
    pipelined(model, where, Cluster.uniform(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 7.0 * 8 * 3 * 20_000 * 8
