"""Recursions and conservation laws on real arrivals; skipped where the data are not at hand."""

from __future__ import annotations

import csv
import os
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source, chain
from penstock.simulation import Arrivals, Options, Recording, simulate
from penstock.workload import Rates

DATA = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data"))

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="no real traces: set PENSTOCK_DATA to a folder with tweets/ and worldcup98/"
)


def requests(minutes):
    """Requests per minute of the 1998 World Cup site on one day of the finals."""
    with (DATA / "worldcup98" / "requests_per_minute.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["period"].startswith("1998-06-30")]
    return np.array([float(row["count"]) for row in rows[:minutes]])


def tweets(name, seconds):
    """Times at which tweets that name a company entered, a minute of the trace taken as a second."""
    with (DATA / "tweets" / f"{name}.csv").open(newline="") as file:
        rows = [(datetime.fromisoformat(row["timestamp"]), int(row["value"])) for row in csv.DictReader(file)]
    first = rows[0][0]
    times = []
    for when, count in rows:
        start = (when - first).total_seconds() / 60
        if start >= seconds:
            break
        times += [start + 5 * k / count for k in range(count)]
    return np.sort(np.array(times))


def test_lindley():
    """Every tuple of a real trace leaves as Lindley's recursion says, to a nanosecond."""
    counts = requests(600)
    # A hundredth of the requests, as they come within the minute.
    rng = np.random.default_rng(0)
    times = np.sort(np.concatenate([60 * (k + rng.random(int(c / 100))) for k, c in enumerate(counts)]))
    cost = 0.9 / (len(times) / times[-1])
    arrivals = Arrivals.of(times, "s1")
    trace = simulate(
        chain([cost]), Cluster.uniform(1), {"o1.1": "h1"}, arrivals, Options(drain=True), record=Recording(trace=True)
    ).trace
    free, egress = 0.0, []
    for time in times.tolist():
        free = max(free, time) + cost
        egress.append(free)
    assert max(egress - times) > 100 * cost
    np.testing.assert_allclose(trace["egress"], egress, rtol=0, atol=1e-9 * max(1.0, times[-1] * 1e-6))


def test_order_of_stages():
    """On a real trace too, the order of deterministic stages changes no tuple's latency."""
    times = tweets("AAPL", 600)
    found = []
    for costs in ([0.02, 0.045, 0.03], [0.045, 0.03, 0.02]):
        placement = {f"o1.{k}": f"h{k}" for k in (1, 2, 3)}
        arrivals = Arrivals.of(times, "s1")
        trace = simulate(
            chain(costs), Cluster.uniform(3), placement, arrivals, Options(drain=True), record=Recording(trace=True)
        ).trace
        found.append(trace["egress"] - trace["stimulus"])
    assert found[0].max() > 1
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


def test_kleinrock():
    """On a real trace the waiting times, weighted by cost, add up to the same under every policy."""
    costs = {"AAPL": 0.004, "AMZN": 0.03, "GOOG": 0.01, "IBM": 0.05}
    times = {name: tweets(name, 2000) for name in costs}
    order = np.argsort(np.concatenate(list(times.values())), kind="stable")
    names = np.repeat(list(times), [len(each) for each in times.values()])[order]
    arrivals = Arrivals.of(np.concatenate(list(times.values()))[order], names.tolist())
    network = Network.of(
        "shared",
        [Source(name=n) for n in costs],
        [Operator(name=f"o{n}", kind="map", inputs=(n,), cost=(c,)) for n, c in costs.items()],
        [Sink(name=f"t{n}", input=f"o{n}") for n in costs],
    )
    placement = dict.fromkeys(network.operators, "h1")
    waits, shares = {}, {}
    for policy in ("fcfs", "round-robin", "stimulus"):
        result = simulate(network, Cluster.uniform(1), placement, arrivals, Options(policy=policy, drain=True))
        rows = {n: result.operators[f"o{n}"] for n in costs}
        waits[policy] = sum(c * rows[n]["wait"] * rows[n]["served"] for n, c in costs.items())
        shares[policy] = rows["AAPL"]["wait"]
    assert waits["round-robin"] == pytest.approx(waits["fcfs"], rel=1e-9)
    assert waits["stimulus"] == pytest.approx(waits["fcfs"], rel=1e-9)
    assert shares["round-robin"] != pytest.approx(shares["fcfs"], rel=0.01)


def test_fluid_limit():
    """Under real rates the longest wait is the greatest backlog of the fluid, within a few services."""
    rates = requests(1440) / 60 / 20
    cost = 1 / (1.3 * rates.mean())
    result = simulate(
        chain([cost]), Cluster.uniform(1), {"o1.1": "h1"}, Rates.of(60.0, {"s1": rates}), Options(drain=True)
    )
    backlog, most = 0.0, 0.0
    for rate in rates.tolist():
        backlog = max(0.0, backlog + 60 * (rate * cost - 1))
        most = max(most, backlog)
    assert most > 60
    assert result.latency["max"] == pytest.approx(most, abs=5 * cost)
