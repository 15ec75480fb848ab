"""Processor sharing, beside a plain simulation of first-in first-out queues that share a host tuple by tuple."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_chain

from penstock.cluster import Cluster, Placement
from penstock.errors import InputError, TooLong
from penstock.latency.estimate import Estimate
from penstock.latency.intervals import with_interval
from penstock.latency.mace import mace
from penstock.latency.models import model_of
from penstock.latency.sharing import sharing
from penstock.load import load_model
from penstock.load.statistics import OperatorStatistics, Statistics
from penstock.network import Network, Operator, Sink, Source, chain, chains
from penstock.workload import Rates


def shared_host(arrivals: list[np.ndarray], costs: list[float]) -> list[np.ndarray]:
    """Return the latencies of each queue's tuples on one host of capacity 1 that all busy queues share equally."""
    left = [list(times) for times in arrivals]
    late: list[list[float]] = [[] for _ in arrivals]
    work, now = list(costs), 0.0
    while any(left):
        busy = [k for k, queue in enumerate(left) if queue and queue[0] <= now + 1e-12]
        later = [queue[0] for k, queue in enumerate(left) if queue and k not in busy]
        if not busy:
            now = min(later)
            continue
        step = min(work[k] for k in busy) * len(busy)
        if later and now + step > min(later):
            step = min(later) - now
        now += step
        for k in busy:
            work[k] -= step / len(busy)
            if work[k] <= 1e-12:
                late[k].append(now - left[k].pop(0))
                work[k] = costs[k]
    return [np.array(row) for row in late]


def test_sharing_of_two_queries() -> None:
    """A light query beside an overloaded one hardly waits, and the heavy one waits as tuple by tuple."""
    rates = Rates.of(1.0, {"s1": [1700.0] * 8 + [350.0] * 12, "s2": [500.0] * 20})
    network = chains([[0.69e-3], [0.35e-3]])
    model, placement = load_model(network, rates), Placement(dict.fromkeys(network.operators, "h1"))
    found = sharing(model, placement, Cluster.uniform(1))
    times = []
    for name in rates.sources:
        counts = np.concatenate([[0.0], np.cumsum(rates.of_source(name))])
        times.append(np.interp(np.arange(counts[-1]), counts, np.arange(21.0)))
    heavy, light = shared_host(times, [0.69e-3, 0.35e-3])
    assert found.sinks["t1"].worst == pytest.approx(heavy.max(), rel=0.02)
    assert found.sinks["t1"].mean == pytest.approx(heavy.mean(), abs=0.1)
    assert light.max() < 0.01
    assert found.sinks["t2"].worst < 0.05
    assert mace(model, placement, Cluster.uniform(1)).sinks["t2"].worst > 2


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_one_query_is_mace(seed: int) -> None:
    """One query on one host waits as long as Mace says."""
    model, placement = random_chain(seed, 10)
    found = sharing(model, placement, Cluster.uniform(1))
    assert found.total.worst == pytest.approx(mace(model, placement, Cluster.uniform(1)).total.worst, abs=1e-6)


def test_rows_and_circles_of_hosts() -> None:
    """On hosts in a row as in a circle every tuple leaves, and no sooner than the backlog lets it."""
    network = chain([0.004, 0.002, 0.004], [0.8, 0.5, 1.0])
    model = load_model(network, Rates.of(1.0, {"s1": [100.0, 300.0, 20.0]}))
    for hosts in (["h1", "h2", "h3"], ["h1", "h2", "h1"]):
        placement = Placement(dict(zip(network.operators, hosts, strict=True)))
        found = model_of("sharing")(model, placement, Cluster.uniform(3), None)
        assert found.total.worst >= mace(model, placement, Cluster.uniform(3)).total.worst - 0.1
        assert np.isfinite(found.series).all()


def test_rates_that_are_too_long_are_no_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not the backlog but the time of the rates is too long to be followed, the message says that."""
    monkeypatch.setattr("penstock.latency.fluid.LIMIT", 600)
    model = load_model(chain([0.001]), Rates.constant({"s1": 1.0}, 100.0))
    with pytest.raises(InputError, match=r"rates over 100 s, .* are too long") as refused:
        sharing(model, dict.fromkeys(model.network.operators, "h1"), Cluster.uniform(1))
    assert not isinstance(refused.value, TooLong)


def test_an_interval_whose_draws_cannot_be_followed_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate that was made stays the answer where costs may be too high to follow, and a note says so."""
    monkeypatch.setattr("penstock.latency.fluid.LIMIT", 600)
    model = load_model(chain([0.01]), Rates.of(1.0, {"s1": [100.0] * 50}))
    (name,) = model.network.operators
    known = Statistics(operators={name: OperatorStatistics(cost=(0.01,), error=0.2)})
    case = model, {name: "h1"}, Cluster.uniform(1), known
    told = with_interval(sharing(*case), *case, np.random.default_rng(0))
    assert told.spread is not None
    assert told.spread.total["worst"] == (told.total.worst,) * 2
    assert any("too long to be followed" in note for note in told.notes)


def test_ways_that_meet_again_are_not_followed_one_by_one() -> None:
    """Filters in twenty pairs that meet again wait as one filter of the same work, and so does a row of a thousand."""
    rows = [Operator(name="u0", kind="filter", inputs=("s1",), cost=(0.0,))]
    for k in range(20):
        pair = [
            Operator(name=f"{a}{k}", kind="filter", inputs=(f"u{k}",), cost=(1e-3,), selectivity=(0.5,)) for a in "ab"
        ]
        rows += [*pair, Operator(name=f"u{k + 1}", kind="union", inputs=(f"a{k}", f"b{k}"), cost=(0.0, 0.0))]
    many = Network.of("pairs", [Source(name="s1")], rows, [Sink(name="t1", input="u20")])
    rates = Rates.of(1.0, {"s1": [53.0, 11.0]})
    wanted = found_of(chain([0.04]), rates)
    for network in (many, chain([4e-5] * 1000)):
        found = found_of(network, rates)
        assert list(found.total.by_key().values()) == pytest.approx(list(wanted.total.by_key().values()))


def found_of(network: Network, rates: Rates) -> Estimate:
    """What the model says of a network on one host."""
    return sharing(load_model(network, rates), dict.fromkeys(network.operators, "h1"), Cluster.uniform(1))
