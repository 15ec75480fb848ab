"""Networks and engines for the tests of the controller."""

from __future__ import annotations

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import Options, Recording, SimulationEngine
from penstock.workload import Rates


def two_queries(cost: float = 0.004) -> Network:
    """Return two chains of two operators: what costs little, then what costs much."""
    operators = [
        Operator(name=f"{kind}{q}", kind="filter", where="true", inputs=(given,), cost=(price,), selectivity=(1.0,))
        for q in (1, 2)
        for kind, given, price in (("cheap", f"s{q}", cost / 10), ("dear", f"cheap{q}", cost))
    ]
    return Network.of(
        "two",
        [Source(name="s1", format="nexmark"), Source(name="s2", format="nexmark")],
        operators,
        [Sink(name=f"t{q}", input=f"dear{q}") for q in (1, 2)],
    )


TOGETHER = {"cheap1": "h1", "dear1": "h1", "cheap2": "h1", "dear2": "h1"}
APART = {"cheap1": "h1", "dear1": "h1", "cheap2": "h2", "dear2": "h2"}


def simulated(
    network: Network, placement: dict[str, str], rates: Rates, hosts: int | Cluster = 2, *, seed: int = 0, trace=None,
    **options,
):  # fmt: skip
    """Return a simulated engine on equal hosts, or on a cluster's."""
    return SimulationEngine(
        network,
        hosts if isinstance(hosts, Cluster) else Cluster.uniform(hosts),
        placement,
        rates,
        Options(move_time=0.2, **options, seed=seed),
        record=Recording(trace=trace),
    )


def stepped(*parts: tuple[float, float], sources: tuple[str, ...] = ("s1", "s2")) -> Rates:
    """Return rates of all sources: (seconds, tuples/s) after each other."""
    series = [rate for seconds, rate in parts for _ in range(int(seconds))]
    return Rates.of(1.0, dict.fromkeys(sources, series))
