"""Problems for the tests of placement."""

from __future__ import annotations

import numpy as np

from penstock.cluster import Cluster, Host, Link
from penstock.load import load_model
from penstock.network import Network
from penstock.network.shapes import chain, chains, hybrid
from penstock.placement import Problem
from penstock.placement.base import Arrays
from penstock.workload import Rates
from penstock.workload.shapes import fluctuating


def rates(values: dict[str, np.ndarray], period: float = 1.0) -> Rates:
    return Rates.of(period, values)


def antiphase(hosts: int = 2) -> Problem:
    """Two chains of two equal operators whose loads alternate."""
    network = chains([[1e-3, 1e-3], [1e-3, 1e-3]])
    high, low = np.array([300.0, 100.0] * 4), np.array([100.0, 300.0] * 4)
    return Problem(load_model(network, rates({"s1": high, "s2": low})), Cluster.uniform(hosts))


def filters(rho: float, replicas: int = 2, hosts: int = 5) -> Problem:
    """A chain of three filters of selectivity one half, with loads rho, rho/2 and rho/4."""
    model = load_model(chain([1e-3] * 3, 0.5), rates({"s1": np.full(4, rho * 1000)}))
    return Problem(model, Cluster.uniform(hosts), replicas=replicas)


def drawn(seed: int, *, hosts: int = 3, operators: int = 10, level: float = 0.6, links: bool = False) -> Problem:
    """A random network of filters and joins on unequal hosts under fluctuating load."""
    rng = np.random.default_rng(seed)
    network = hybrid(operators, 2, 0.7, rng)
    series = {name: fluctuating(10.0, 20.0, offset=float(rng.uniform(0, 10)), ratio=4.0) for name in network.sources}
    capacity = rng.choice([1.0, 1.0, 2.0], hosts)
    model = load_model(network, rates(series))
    scale = level * capacity.sum() / model.mean_load.sum()
    # Costs, not rates, are scaled: joins stay what they are.
    scaled = Network.of(
        network.name,
        network.sources.values(),
        [_costlier(operator, scale) for operator in network.operators.values()],
        network.sinks.values(),
    )
    machines = [Host(name=f"h{k + 1}", capacity=float(c)) for k, c in enumerate(capacity)]
    default = Link(0.1, 1e6) if links else Link()
    return Problem(load_model(scaled, rates(series)), Cluster.of(machines, default))


def _costlier(operator, scale):
    import attrs

    return attrs.evolve(operator, cost=tuple(c * scale for c in operator.cost))


def fluctuating_chains(hosts: int, seed: int, level: float = 0.8, per_host: int = 10, samples: int = 10) -> Arrays:
    """The correlation paper's setting: chains of ten operators whose phases are evenly spread."""
    rng = np.random.default_rng(seed)
    rows = []
    for c in range(hosts):
        series = fluctuating(1.0, samples, cycle=10, ratio=4, offset=10 * c / hosts) * rng.uniform(0.8, 1.2)
        for _ in range(per_host):
            rows.append(series)
            series = series * rng.uniform(0.8, 1.2)
    load = np.array(rows)
    return Arrays.of(load * (level * hosts / load.mean(axis=1).sum()), np.ones(hosts))
