"""What the paper says of scheduling policies: theorem 1, and orders that are free inside a period (section VII-A)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Placement
from penstock.errors import InputError
from penstock.latency.mace import mace
from penstock.load import load_model
from penstock.network.shapes import chain, chains
from penstock.simulation import Arrivals, Options, Recording, simulate
from penstock.workload import Rates


def least_worst_latency(tuples: list[tuple[float, tuple[float, ...]]]) -> float:
    """Return the least worst latency over all orders of service on one host, idle times included, by trying them.

    ``tuples`` are moments of arrival and the costs of the operators that each passes through one after another.
    """

    @cache
    def best(now: float, done: tuple[int, ...]) -> float:
        left = [k for k, (_, costs) in enumerate(tuples) if done[k] < len(costs)]
        worst = 0.0 if not left else np.inf
        for k in left:
            entered, costs = tuples[k]
            end = max(now, entered) + costs[done[k]]
            after = (*done[:k], done[k] + 1, *done[k + 1 :])
            latency = end - entered if after[k] == len(costs) else 0.0
            worst = min(worst, max(latency, best(end, after)))
        return worst

    return best(0.0, (0,) * len(tuples))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 2), st.integers(0, 1), st.floats(0.1, 3)), min_size=1, max_size=5),
    st.lists(st.floats(0.05, 1), min_size=2, max_size=2),
    st.floats(0.05, 1),
)
def test_oldest_stimulus_first_is_optimal_on_one_host(entries, first, second):
    """Theorem 1: no order of service has a smaller worst latency, whatever the costs and steps of the tuples."""
    rows = sorted(entries)
    network = chains([list(first), [second]])
    arrivals = Arrivals.of([t for t, _, _ in rows], [("s1", "s2")[k] for _, k, _ in rows], [w for _, _, w in rows])
    placement = dict.fromkeys(network.operators, "h1")
    found = {
        policy: simulate(network, Cluster.uniform(1), placement, arrivals, Options(policy=policy, drain=True))
        for policy in ("stimulus", "fcfs", "round-robin")
    }
    least = least_worst_latency([(t, tuple(c * w for c in (first, [second])[k])) for t, k, w in rows])
    assert found["stimulus"].latency["max"] == pytest.approx(least)
    assert all(result.latency["max"] >= least - 1e-9 for result in found.values())


def evenly(counts: list[list[int]]) -> list[tuple[float, int]]:
    """Return when tuples enter, and by which source: spread evenly over periods of 1 s, ``counts`` by period."""
    return [
        (period + k / count, row)
        for row, per_period in enumerate(counts)
        for period, count in enumerate(per_period)
        for k in range(count)
    ]


def relaxed_run(entries: list[tuple[float, int]], costs: list[list[float]], pick: Callable[[list[int]], int]) -> float:
    """Return the worst latency of rows of operators, one host an operator, free inside periods and older ones first.

    Each tuple passes through all hosts in order. On every host ``pick`` chooses among the tuples of the oldest period
    of 1 s that wait, given in the order in which they came.
    """
    events = [(entered, number, row, 0, entered) for number, (entered, row) in enumerate(entries)]
    number = len(events)
    heapq.heapify(events)
    hosts = len(costs[0])
    waiting: list[list[tuple[int, int, float]]] = [[] for _ in range(hosts)]
    free = [0.0] * hosts
    worst = 0.0
    while events:
        now, _, row, host, entered = heapq.heappop(events)
        if row >= 0:
            waiting[host].append((int(entered), row, entered))
        if free[host] > now + 1e-12 or not waiting[host]:
            continue
        oldest = min(period for period, _, _ in waiting[host])
        choices = [k for k, (period, _, _) in enumerate(waiting[host]) if period == oldest]
        _, mine, stimulus = waiting[host].pop(pick(choices))
        end = now + costs[mine][host]
        free[host] = end
        number += 2
        if host + 1 < hosts:
            heapq.heappush(events, (end, number, mine, host + 1, stimulus))
        else:
            worst = max(worst, end - stimulus)
        heapq.heappush(events, (end, number + 1, -1, host, 0.0))
    return worst


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_order_inside_a_period_keeps_the_bounds(seed):
    """Section VII-A: older periods first and any order inside one keep the relaxed bound, and the tighter one too."""
    rng = np.random.default_rng(seed)
    rows, hosts, periods = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(2, 6))
    counts = rng.integers(1, 60, (rows, periods)).tolist()
    costs = (rng.uniform(0.2, 3.0, (rows, hosts)) / 60).tolist()
    network = chains(costs)
    model = load_model(network, Rates.of(1.0, {f"s{r + 1}": np.array(counts[r], float) for r in range(rows)}))
    placement = Placement({f"o{r + 1}.{h + 1}": f"h{h + 1}" for r in range(rows) for h in range(hosts)})
    bounds = mace(model, placement, Cluster.uniform(hosts)).bounds
    worst = max(relaxed_run(evenly(counts), costs, rng.choice) for _ in range(3))
    assert worst <= bounds["upper"] + 1e-9
    assert bounds["upper"] <= bounds["relaxed"]
    assert worst <= bounds["any"] + 1e-9


def test_relaxed_order_can_be_later_than_stimulus_order():
    """The allowance is needed: serving the youngest of a period first makes its oldest later than stimulus order."""
    network, rates = chain([0.1]), Rates.of(1.0, {"s1": [20.0]})
    model, placement = load_model(network, rates), Placement({"o1.1": "h1"})
    ordered = simulate(network, Cluster.uniform(1), placement, rates, Options(policy="stimulus", drain=True))
    drawn = max(relaxed_run(evenly([[20]]), [[0.1]], np.random.default_rng(k).choice) for k in range(20))
    assert drawn > ordered.latency["max"] + 0.5
    assert drawn <= mace(model, placement, Cluster.uniform(1)).bounds["upper"]


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_simulator_serves_older_subintervals_first_and_each_as_it_comes(seed):
    """Section VII-A as a policy: the worst latency is that of a plain loop over the queues, and keeps the bounds."""
    rng = np.random.default_rng(seed)
    rows, hosts, periods = int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(2, 6))
    costs = (rng.uniform(0.2, 4.0, (rows, hosts)) / 20).tolist()
    entries = sorted((float(rng.uniform(0, periods)), int(rng.integers(rows))) for _ in range(20 * periods))
    network = chains(costs)
    placement = Placement({f"o{r + 1}.{h + 1}": f"h{h + 1}" for r in range(rows) for h in range(hosts)})
    arrivals = Arrivals.of([time for time, _ in entries], [f"s{row + 1}" for _, row in entries])
    options = Options(policy="stimulus", subinterval=1.0, drain=True)
    found = simulate(network, Cluster.uniform(hosts), placement, arrivals, options).latency["max"]
    assert found == pytest.approx(relaxed_run(entries, costs, lambda waiting: waiting[0]))
    counts = np.zeros((rows, periods))
    np.add.at(counts, ([row for _, row in entries], [int(time) for time, _ in entries]), 1)
    model = load_model(network, Rates.of(1.0, {f"s{r + 1}": counts[r] for r in range(rows)}))
    bounds = mace(model, placement, Cluster.uniform(hosts)).bounds
    assert found <= bounds["any"] + 1e-9


def test_one_long_subinterval_is_first_come_first_served_and_a_short_one_stimulus_order():
    """The length of a subinterval leads from one policy to the other, and what lies between is a third order."""
    network, cluster = chains([[0.3, 0.1], [0.05, 0.4]]), Cluster.uniform(1)
    arrivals = Arrivals.of([0.07 * k for k in range(60)], ["s1" if k % 3 else "s2" for k in range(60)])
    placement = dict.fromkeys(network.operators, "h1")

    def traced(policy: str, subinterval: float = 0.0) -> list[float]:
        options = Options(policy=policy, subinterval=subinterval, drain=True)
        return (
            simulate(network, cluster, placement, arrivals, options, record=Recording(trace=True))
            .trace["egress"]
            .tolist()
        )

    assert traced("stimulus", 1e6) == traced("fcfs")
    assert traced("stimulus", 1e-6) == traced("stimulus")
    assert len({tuple(traced("stimulus", width)) for width in (0.0, 1.0, 1e6)}) == 3


def test_subintervals_belong_to_stimulus_order():
    """Another policy, or a length below 0, is refused."""
    for policy, width in (("fcfs", 1.0), ("stimulus", -1.0)):
        with pytest.raises(InputError, match="subinterval"):
            Options(policy=policy, subinterval=width)
