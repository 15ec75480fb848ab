"""What placements promise, seen in the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.cluster import Cluster, Host, Link
from penstock.experiments.balancing import Setting, system
from penstock.load import load_model
from penstock.native.jit import compiling
from penstock.network.shapes import chains, tree
from penstock.placement import Problem, place
from penstock.simulation import Failure, Options, Recording, simulate
from penstock.workload import Rates


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.8, 0.9])
def test_order_of_latencies(level):
    """On fluctuating load correlation is faster than largest-first, and that than random, on nine of ten seeds."""
    ordered = 0
    with compiling():
        for seed in range(10):
            given = system(Setting(level=level), 60.0, np.random.default_rng(seed))
            placed = [
                given.decided(name, 10.0, np.random.default_rng(seed))
                for name in ("correlation", "largest-first", "random")
            ]
            ratio = [given.ratio(given.run(placement, None, 10.0, 60.0, seed)) for placement in placed]
            ordered += ratio[0] < ratio[1] < ratio[2]
    assert ordered >= 9


def _results(network, cluster, placement, rates, *failures):
    run = simulate(
        network, cluster, placement, rates, Options(failures=failures, drain=True), record=Recording(trace=True)
    )
    assert run.balanced
    return {(int(row["sink"]), round(float(row["stimulus"]), 9)) for row in run.trace}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["economical-replicated", "economical-replicated-minimal"])
@pytest.mark.parametrize("copies", [2, 3])
def test_no_result_is_lost(name, copies):
    """Whichever host dies, and whenever, replicas that are apart deliver every result that would have come."""
    rng = np.random.default_rng(copies)
    networks = [
        chains([[4e-3] * 3], [[0.5] * 3]),
        chains(rng.uniform(1e-3, 3e-3, (3, 4)).tolist(), rng.uniform(0.5, 1.0, (3, 4)).tolist()),
        tree(3, 2, 2e-3, 0.7),
    ]
    for network in networks:
        rates = Rates.constant(dict.fromkeys(network.sources, 80.0), 8.0)
        cluster = Cluster.of([Host(name=f"h{k}", capacity=2.0) for k in range(8)], Link(0.01, 1e4))
        problem = Problem(load_model(network, rates), cluster, replicas=copies)
        placement = place(problem, name, np.random.default_rng(0)).placement
        whole = _results(network, cluster, placement, rates)
        assert len(whole) > 50
        for host in sorted(set(placement.values())):
            at = float(rng.uniform(1.0, 7.0))
            assert _results(network, cluster, placement, rates, Failure(host, at)) == whole, (host, at)
