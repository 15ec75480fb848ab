from collections.abc import Iterator
from itertools import pairwise

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_case, slack

from penstock.arrays import Array
from penstock.cluster import Cluster, Host, Link, Placement
from penstock.latency.bounds import service_times
from penstock.latency.estimate import Quantiles
from penstock.latency.mace import cumulative_excess, mace, mace_series, relative_errors
from penstock.load import LoadModel, OperatorStatistics, Statistics, load_model
from penstock.load.statistics import HostStatistics
from penstock.network import Network, Operator, Sink, Source, chain
from penstock.simulation import Options, simulate
from penstock.workload import Rates

# A reconstruction of the paper's Fig. 3 that has all values which the text gives.
FIGURE_3 = np.array([[2, 4, 1, 1, 2], [3, 6, 0, 1, 1], [2, 5, 1, 0, 6]]) / 2


def test_figure_3() -> None:
    """Excess and Mace are those of the paper's Fig. 3."""
    excess = cumulative_excess(FIGURE_3, np.ones(3), 2.0)
    assert excess.tolist() == [[0, 2, 1, 0, 0], [1, 5, 3, 2, 1], [0, 3, 2, 0, 4]]
    assert mace_series(FIGURE_3, np.ones(3), 2.0).tolist() == [1, 5, 3, 2, 4]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.floats(0, 5), min_size=7, max_size=7), min_size=1, max_size=4), st.floats(0.1, 3))
def test_excess_is_the_recursion(load: list[list[float]], capacity: float) -> None:
    """The excess of every host is the recursion of definition 8, period by period."""
    found = cumulative_excess(load, np.full(len(load), capacity), 0.5)
    for row, series in zip(found, load, strict=True):
        excess = 0.0
        for value, rate in zip(row, series, strict=True):
            excess = max(0.0, excess + (rate - capacity) * 0.5)
            assert value == pytest.approx(excess, abs=1e-12)


def test_tandem_counterexample_is_five() -> None:
    """Mace of the tandem whose true latency is 10 is 5: what the model leaves out stays visible."""
    load = np.array([[6.0, 0.5], [0.0, 6.0]])
    assert mace_series(load, np.ones(2), 1.0).max() == 5.0


def test_error_bar_amplifies_the_cost() -> None:
    """An error e of the bottleneck's cost is e·ρ/(ρ−1) in the error bar, and right to first order."""
    network = chain([0.01])
    model = load_model(network, Rates.of(1.0, {"s1": [125.0, 125.0, 0.0, 0.0]}))
    known = Statistics(operators={"o1.1": OperatorStatistics(cost=(0.01,), error=0.02)})
    found = mace(model, Placement({"o1.1": "h1"}), Cluster.uniform(1), known)
    assert found.error.amplification == pytest.approx(5.0)
    assert found.error.relative == pytest.approx(0.1)
    worse = mace(load_model(chain([0.0102]), model.rates), Placement({"o1.1": "h1"}), Cluster.uniform(1))
    assert worse.total.worst / found.total.worst == pytest.approx(1.1)


def test_links_are_hosts_and_delays_add() -> None:
    """A link's excess counts tuples over its bandwidth, and a path's delay adds to the value of its hosts."""
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.1, 50.0))
    model = load_model(chain([0.001, 0.001]), Rates.of(1.0, {"s1": [100.0, 0.0]}))
    found = mace(model, Placement({"o1.1": "h1", "o1.2": "h2"}), cluster)
    assert found.links["h1->h2"].tolist() == [50.0, 0.0]
    assert found.bottleneck == "h1->h2"
    assert found.total.worst == pytest.approx(1.1)
    assert found.bounds["lower"] <= found.bounds["upper"]


def paths(model: LoadModel) -> Iterator[tuple[list[str], str]]:
    """Yield every way from a source to an end, by names: to a sink, or to an operator that nobody reads."""
    network = model.network

    def further(way: list[str]) -> Iterator[tuple[list[str], str]]:
        readers = [stream.reader for stream in network.outputs(way[-1])]
        if not readers:
            yield way, way[-1]
        for reader in readers:
            if reader in network.operators:
                yield from further([*way, reader])
            else:
                yield way, reader

    for source in network.sources:
        yield from further([source])


def plain_delays(
    model: LoadModel, placement: Placement, cluster: Cluster
) -> tuple[dict[str, dict[str, float]], dict[str, float], dict[str, float], dict[str, list[tuple[float, Array]]]]:
    """Return the delays of ways over each host and link, by walking all ways.

    By end the shortest of them, of those that tuples take if the end gets any; of all ends that get tuples the shortest
    of these, or else of all; the longest of any way; and by end the delay and the tuples/s of each way.
    """
    network = model.network
    home = {**{name: source.host for name, source in network.sources.items()}, **placement}
    rows: list[tuple[str, str, float, bool]] = []
    each: dict[str, list[tuple[float, Array]]] = {}
    for way, end in paths(model):
        pairs = [(home[a], home[b]) for a, b in pairwise(way)]
        free = cluster.free_links
        whole = sum(0 if free else cluster.link(a, b).delay for a, b in pairs if a is not None and b is not None)
        over = {home[name] for name in way if name in network.operators}
        over |= {f"{a}->{b}" for a, b in pairs if a is not None and a != b}
        streams = [f"{a}->{b}" for a, b in pairwise([*way, *([end] if end in network.sinks else [])])]
        busy = all(model.arrivals[model.stream_index[name]].any() for name in streams)
        rows += [(end, str(name), whole, busy) for name in over]
        put_out = [network.operators[b].selectivity[network.operators[b].inputs.index(a)] for a, b in pairwise(way)]
        come = model.rates.values[model.rates.sources.index(way[0])] * np.prod(put_out if end in network.sinks else 1.0)
        each.setdefault(end, []).append((whole, come))
    live = {end for end, _, _, busy in rows if busy}
    least: dict[str, dict[str, float]] = {name: {} for name in network.sinks}
    longest: dict[str, float] = {}
    for end, name, whole, busy in rows:
        longest[name] = max(longest.get(name, 0.0), whole)
        if busy or end not in live:
            shortest = least.setdefault(end, {})
            shortest[name] = min(shortest.get(name, np.inf), whole)
    added: dict[str, float] = {}
    for ends in (live, least.keys() - live):
        known = set(added)
        for end in ends:
            for name, whole in least[end].items():
                if name not in known:
                    added[name] = min(added.get(name, np.inf), whole)
    return least, added, longest, each


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_answer_is_that_of_plain_definitions(seed: int) -> None:
    """Every number of an answer is what definitions say, walking all paths of small networks with links."""
    rng = np.random.default_rng(seed)
    model, placement, cluster = random_case(seed, operators=7, joins=False)
    hosts = list(cluster.hosts)
    sources = [attrs.evolve(s, host=str(rng.choice(hosts)) if k % 2 else None)
               for k, s in enumerate(model.network.sources.values())]  # fmt: skip
    network = Network.of("n", sources, model.network.operators.values(), model.network.sinks.values())
    model = load_model(network, Rates.of(0.5, dict(zip(model.rates.sources, model.rates.values, strict=True))))
    links = {(a, b): Link(float(rng.choice([0.0, 0.1, 0.3])), float(rng.choice([np.inf, 150.0])))
             for a in hosts for b in hosts if a != b}  # fmt: skip
    cluster = Cluster.of(cluster.hosts.values(), links=links)
    found = mace(model, placement, cluster)
    least, added, longest, each = plain_delays(model, placement, cluster)
    load, lower, peaks, shares = model.host_load(placement, cluster), {}, {}, {}
    for row, host in zip(load, cluster.hosts.values(), strict=True):
        excess = cumulative_excess(row[None], [host.capacity], 0.5)[0]
        assert found.excess[host.name].tolist() == excess.tolist()
        lower[host.name] = excess / host.capacity
        shares[host.name] = float(row.max()) / host.capacity
    traffic = {
        pair: row for pair, row in model.link_traffic(placement).items() if np.isfinite(cluster.link(*pair).bandwidth)
    }
    assert found.links.keys() == {f"{a}->{b}" for a, b in traffic}
    for (a, b), row in traffic.items():
        excess = cumulative_excess(row[None], [150.0], 0.5)[0]
        assert found.links[f"{a}->{b}"].tolist() == excess.tolist()
        lower[f"{a}->{b}"] = excess / 150.0
    waits = dict(lower)
    for name, row in waits.items():
        peaks[name] = float(row.max())
        lower[name] = row + added.get(name, 0.0)
    alone = [np.where(come > 0, delay, 0.0) for ways in each.values() for delay, come in ways]
    series = np.max([*lower.values(), *alone], axis=0)
    assert found.series == pytest.approx(series)
    assert found.total == Quantiles.of(found.series)
    assert found.bounds["lower"] == pytest.approx(series.max())
    most = max(float(row.max()) for row in lower.values())
    assert lower[found.bottleneck].max() == pytest.approx(most)
    assert all(
        shares.get(name, 0.0) <= shares.get(found.bottleneck, 0.0)
        for name, row in lower.items() if row.max() == lower[found.bottleneck].max()
    )  # fmt: skip
    printed = max(peak + longest.get(name, 0.0) for name, peak in peaks.items())
    assert found.bounds["printed"] == pytest.approx(printed + 0.5 + 2 * service_times(network, placement, cluster))
    for name in network.sinks:
        used = [np.where(waits[place] > 0, waits[place] + delay, 0.0) for place, delay in least[name].items()
                if place in waits]  # fmt: skip
        late = [np.maximum(np.max(used, axis=0), delay) for delay, _ in each[name]]
        answer = Quantiles.of(np.concatenate(late), np.concatenate([come for _, come in each[name]]))
        assert attrs.astuple(found.sinks[name]) == pytest.approx(attrs.astuple(answer))
    assert (found.model, found.period) == ("mace", 0.5)
    assert any("adds up" in note for note in found.notes) == (len(set(placement.values())) > 1)


def test_links_count_for_the_tuples_that_cross_them() -> None:
    """A sink is as late as the hosts and links on its own ways, from its source's host on; idle ways are none."""

    def case(
        rates: dict[str, float], placement: dict[str, str], link: Link, hosts: dict[str, str | None]
    ) -> dict[str, float]:
        names = sorted(rates)
        steps = [Operator(name=f"{n}{k}", kind="map", inputs=(f"{n}{k - 1}" if k > 1 else n,), cost=(0.001,))
                 for n in names for k in (1, 2)]  # fmt: skip
        network = Network.of("n", [Source(name=n, host=hosts.get(n)) for n in names], steps,
                             [Sink(name=f"s{n}", input=f"{n}2") for n in names])  # fmt: skip
        model = load_model(network, Rates.of(1.0, {n: [rates[n]] * 20 for n in names}))
        found = mace(model, Placement(placement), Cluster.of([Host(name="h1"), Host(name="h2")], link))
        return {"all": found.total.worst} | {name: row.worst for name, row in found.sinks.items()}

    full, slow = Link(0.5, 10.0), Link(0.5)
    home = {"a1": "h1", "a2": "h1"}
    # From the host of the source ten tuples too many come each second.
    assert case({"a": 20.0}, home, full, {"a": "h2"}) == {"all": 20.5, "sa": 20.5}
    # Both cross between the same hosts, and only one of them by the link that is full.
    crossed = {"a1": "h1", "a2": "h2", "b1": "h2", "b2": "h1"}
    assert case({"a": 5.0, "b": 20.0}, crossed, full, {}) == {"all": 20.5, "sa": 0.5, "sb": 20.5}
    # A query beside it, idle or not, does not take a delay away.
    for rate in (0.0, 1.0):
        beside = case({"a": 20.0, "b": rate}, {**home, "b1": "h1", "b2": "h1"}, slow, {"a": "h2"})
        assert beside == {"all": 0.5, "sa": 0.5, "sb": 0.0}


def union(rates: dict[str, list[float]]) -> tuple[LoadModel, Placement, Cluster]:
    """Return a union on h1 of what enters there and, half a second away, on h2."""
    step = Operator(name="u", kind="union", inputs=("big", "far"), cost=(0.0001, 0.0001))
    network = Network.of("n", [Source(name="big", host="h1"), Source(name="far", host="h2")], [step],
                         [Sink(name="k", input="u")])  # fmt: skip
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.5))
    return load_model(network, Rates.of(1.0, rates)), Placement({"u": "h1"}), cluster


def test_prompt_tuples_hide_no_late_ones() -> None:
    """Of a union each tuple is as late as its own way: the worst by the slowest way, and the others by their share."""
    found = mace(*union({"big": [190.0, 190.0, 0.0], "far": [10.0, 0.0, 10.0]}))
    assert found.series.tolist() == [0.5, 0.0, 0.5]
    assert found.total.worst == found.bounds["lower"] == found.sinks["k"].worst == found.sinks["k"].p99 == 0.5
    assert (found.sinks["k"].p50, found.tuples.mean) == (0.0, pytest.approx(0.5 * 20 / 400))


def test_pairs_are_as_late_as_the_prompt_half() -> None:
    """A pair has the stimulus of its later half, so that a join is no later than its faster input."""
    model, placement, cluster = union({"big": [20.0], "far": [20.0]})
    pairs = attrs.evolve(model.network.operators["u"], kind="join", selectivity=(0.5, 0.5), counts=(1, 1))
    assert mace(load_model(model.network.having([pairs]), model.rates), placement, cluster).total.worst == 0.0


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_no_run_is_faster_than_its_links(seed: int) -> None:
    """Of random unions over links, on idle hosts and on late ones, the worst is between the estimate and its bound."""
    rng = np.random.default_rng(seed)
    model, placement, cluster = random_case(seed, operators=8, joins=False, circles=False, peak=1.5)
    hosts = list(cluster.hosts)
    sources = [attrs.evolve(s, host=str(rng.choice(hosts)) if rng.random() < 0.7 else None)
               for s in model.network.sources.values()]  # fmt: skip
    scale = float(rng.choice([0.1, 1.0]))
    # Which tuples a filter drops is not known, so that none are dropped.
    steps = [attrs.evolve(o, kind="map" if o.kind == "filter" else o.kind, selectivity=(1.0,) * len(o.inputs),
                          cost=tuple(cost * scale for cost in o.cost or ()))
             for o in model.network.operators.values()]  # fmt: skip
    network = Network.of("n", sources, steps, model.network.sinks.values())
    links = {(a, b): Link(float(rng.choice([0.0, 0.1, 0.3, 1.0]))) for a in hosts for b in hosts if a != b}
    cluster = Cluster.of(cluster.hosts.values(), links=links)
    model = load_model(network, model.rates)
    found = mace(model, placement, cluster)
    options = Options(policy="stimulus", drain=True)
    worst = simulate(network, cluster, placement, model.rates, options).latency["max"]
    # What waits does so until the end of a period, and the last tuple of one came a little before.
    waits = any(series.any() for series in found.excess.values())
    before = 1.0 / model.rates.values.min() + slack(model, cluster) if waits else 1e-9
    assert worst >= found.total.worst - before
    assert found.bounds["upper"] is None or worst <= found.bounds["upper"]


@pytest.mark.parametrize("policy", ["fcfs", "stimulus", "round-robin"])
@pytest.mark.parametrize("far", [[10, 10, 0, 0], [10, 10, 10, 10]])
def test_a_delay_is_not_added_to_the_wait_of_others(policy: str, far: list[float]) -> None:
    """No simulated run is faster than the lower bound where one query comes from afar and another one waits."""
    operators = [Operator(name="first", kind="map", inputs=("far",), cost=(0.001,)),
                 Operator(name="second", kind="map", inputs=("first",), cost=(0.001,)),
                 Operator(name="heavy", kind="map", inputs=("near",), cost=(0.1,))]  # fmt: skip
    sinks = [Sink(name="a", input="second"), Sink(name="b", input="heavy")]
    network = Network.of("n", [Source(name="far"), Source(name="near")], operators, sinks)
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], links={("h2", "h1"): Link(5.0)})
    placement = Placement({"first": "h2", "second": "h1", "heavy": "h1"})
    rates = Rates.of(1.0, {"far": far, "near": [60.0, 60.0, 0.0, 0.0]})
    found = mace(load_model(network, rates), placement, cluster)
    assert found.bounds["lower"] == found.total.worst == pytest.approx(10.02)
    run = simulate(network, cluster, placement, rates, Options(policy=policy, drain=True))
    assert run.latency["max"] >= found.bounds["lower"]


def test_of_equal_hosts_one_is_the_bottleneck_everywhere() -> None:
    """Where two hosts are alike the error bar is of the one that the estimate names."""
    network = Network.of(
        "twins",
        [Source(name="a"), Source(name="b")],
        [Operator(name=f"o{s}", kind="map", inputs=(s,), cost=(0.012,), selectivity=(1.0,)) for s in "ab"],
        [Sink(name=f"t{s}", input=f"o{s}") for s in "ab"],
    )
    model = load_model(network, Rates.of(1.0, {"a": [100.0] * 9, "b": [100.0] * 9}))
    found = mace(model, Placement({"oa": "h1", "ob": "h2"}), Cluster.uniform(2))
    assert found.error.host == found.bottleneck == "h1"


def test_error_bar_of_the_host_that_waits_most() -> None:
    """The bar is that of the latest host, over the periods in which its backlog builds, else of the fullest one."""
    network = Network.of(
        "two",
        [Source(name="s"), Source(name="r")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(0.01,)),
         Operator(name="b", kind="map", inputs=("a",), cost=(0.03,)),
         Operator(name="c", kind="map", inputs=("r",), cost=(0.02,))],
        [Sink(name="t", input="b"), Sink(name="u", input="c")],
    )  # fmt: skip
    cluster = Cluster.of([Host(name="h1", capacity=2.0), Host(name="h2")])
    placement = Placement({"a": "h1", "b": "h1", "c": "h2"})
    known = Statistics(
        operators={"a": OperatorStatistics(error=0.04, selectivity=(0.5,), tuples=100),
                   "b": OperatorStatistics(error=0.08)},
        hosts={"h1": HostStatistics(error=0.03), "h2": HostStatistics(error=0.5)},
    )  # fmt: skip
    # h1 is late twice, longer the second time: of its two cores its load takes 1.25 and 1.5 times what they do.
    rates = Rates.of(1.0, {"s": [75.0, 10.0, 10.0, 62.5, 75.0, 10.0, 10.0], "r": [30.0] * 7})
    bar = mace(load_model(network, rates), placement, cluster, known).error
    assert bar.host == "h1"
    assert bar.load == pytest.approx((2.5 + 3.0) / 2 / 2)
    sampled = float(np.sqrt(0.5 / (0.5 * 100)))
    assert bar.cost_error == pytest.approx(0.25 * 0.04 + 0.75 * (0.08 + sampled) + 0.03)
    assert bar.amplification == pytest.approx(1.375 / 0.375)
    # Nothing waits: the fullest host, and errors count as they are.
    idle = mace(load_model(network, Rates.of(1.0, {"s": [10.0], "r": [20.0]})), placement, cluster, known).error
    assert (idle.host, idle.amplification) == ("h2", 1.0)
    assert idle.load == pytest.approx(0.4)
    assert idle.cost_error == pytest.approx(0.5)
    # No error is known of anything, and nothing comes.
    still = mace(load_model(network, Rates.of(1.0, {"s": [0.0], "r": [0.0]})), placement, cluster).error
    assert (still.cost_error, still.amplification) == (0.0, 1.0)


def test_errors_of_samples_add_up_downstream() -> None:
    """Selectivities measured on samples make the loads behind them uncertain, together by the sum of squares."""
    samples = [((0.5,), 100), ((0.2,), 50), ((1.0,), 9), ((0.5,), 0), (None, 1)]
    rows = [OperatorStatistics(selectivity=share, tuples=count, error=0.01) for share, count in samples]
    known = Statistics(operators={f"o1.{k + 1}": row for k, row in enumerate(rows)})
    found = relative_errors(chain([0.01] * 6), known)
    first, both = np.sqrt(0.5 / 50), np.sqrt(0.5 / 50 + 0.8 / 10)
    assert found == pytest.approx([0.01, 0.01 + first, 0.01 + both, 0.01 + both, 0.01 + both, both])


def test_an_answer_says_what_it_rests_on() -> None:
    """Costs of the network file and of a statistics file are told apart, with the backlogs of the latest host."""
    model = load_model(chain([0.01]), Rates.of(2.0, {"s1": [150.0, 0.0, 50.0]}))
    placement = Placement({"o1.1": "h1"})
    plain = mace(model, placement, Cluster.uniform(1))
    assert plain.statistics == {"costs": "network file"}
    [episode] = plain.episodes
    assert (episode.host, episode.begins, episode.wait) == ("h1", 0.0, pytest.approx(1.0))
    known = Statistics(operators={"o1.1": OperatorStatistics(cost=(0.01,))}, measured={"revision": "r"})
    assert mace(model, placement, Cluster.uniform(1), known).statistics == {
        "costs": "statistics file", "operators": ["o1.1"], "measured": {"revision": "r"},
    }  # fmt: skip
    assert mace(model, placement, Cluster.uniform(1), Statistics()).statistics == {"costs": "network file"}


def test_quantiles_by_hand() -> None:
    """A quantile is the smallest value at or below which that share of the weight lies."""
    assert Quantiles.of([3.0, 1.0, 2.0], [1.0, 2.0, 0.0]) == Quantiles(3.0, 3.0, 1.0, 5 / 3)
    assert Quantiles.of([]) == Quantiles()


def test_a_host_that_nothing_uses_changes_no_bound() -> None:
    """However slow a host is on which nothing runs, the bounds stay as they are."""
    network = chain([0.01, 0.002])
    model = load_model(network, Rates.of(1.0, {"s1": [120.0, 20.0]}))
    placement = Placement(dict.fromkeys(network.operators, "h1"))
    one = mace(model, placement, Cluster.of([Host(name="h1")]))
    two = mace(model, placement, Cluster.of([Host(name="h1"), Host(name="h2", capacity=0.01)]))
    assert one.bounds == two.bounds
