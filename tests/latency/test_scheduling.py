"""What the paper says of scheduling policies: theorem 1, and orders that are free inside a period (section VII-A)."""

from __future__ import annotations

import heapq
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Placement
from penstock.latency.mace import mace
from penstock.load import load_model
from penstock.network.shapes import chain, chains
from penstock.simulation import Arrivals, Options, simulate
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


def relaxed_run(counts: list[list[int]], costs: list[list[float]], rng: np.random.Generator) -> float:
    """Return the worst latency of rows of operators, one host an operator, free inside periods and older ones first.

    Each source has evenly spread tuples, ``counts`` by period of 1 s; each passes through all hosts in order. On every
    host any tuple of the oldest period that waits is served next.
    """
    events: list[tuple[float, int, int, int, float]] = []
    number = 0
    for row, per_period in enumerate(counts):
        for period, count in enumerate(per_period):
            for k in range(count):
                entered = period + k / count
                events.append((entered, number, row, 0, entered))
                number += 1
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
        _, mine, stimulus = waiting[host].pop(int(rng.choice(choices)))
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
    worst = max(relaxed_run(counts, costs, rng) for _ in range(3))
    assert worst <= bounds["upper"] + 1e-9
    assert bounds["upper"] <= bounds["relaxed"]
    assert worst <= bounds["any"] + 1e-9


def test_relaxed_order_can_be_later_than_stimulus_order():
    """The allowance is needed: serving the youngest of a period first makes its oldest later than stimulus order."""
    network, rates = chain([0.1]), Rates.of(1.0, {"s1": [20.0]})
    model, placement = load_model(network, rates), Placement({"o1.1": "h1"})
    ordered = simulate(network, Cluster.uniform(1), placement, rates, Options(policy="stimulus", drain=True))
    drawn = max(relaxed_run([[20]], [[0.1]], np.random.default_rng(k)) for k in range(20))
    assert drawn > ordered.latency["max"] + 0.5
    assert drawn <= mace(model, placement, Cluster.uniform(1)).bounds["upper"]
