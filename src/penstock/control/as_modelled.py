"""Runs in the simulator the way a latency model sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.cluster import Cluster, Placement
from penstock.latency.batches import BatchHosts
from penstock.load import Statistics
from penstock.network import Network
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.simulation import SimulationResult


def simulated(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    rates: Rates,
    statistics: Statistics,
    model: str = "microbatch",
    seed: int = 0,
) -> SimulationResult:
    """Simulate a run the way a latency model sees it: in micro-batches with the statistics' overheads, or tuple-wise.

    Parameters
    ----------
    model
        Of `penstock.latency.models`; all but ``microbatch`` serve single tuples, the oldest stimulus first.
    """
    from penstock.simulation import MicroBatch, Options, simulate

    batches = None
    if model == "microbatch":
        hosts = BatchHosts.of(statistics, cluster)
        batches = MicroBatch(trigger=hosts.trigger, overhead=hosts.fixed(placement), progressive=hosts.progressive)
        cluster = hosts.paced(cluster)
    options = Options(policy="stimulus", drain=True, microbatch=batches)
    return simulate(network, cluster, Placement(dict(placement)), rates, options, seed=seed)


def worst_simulated(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    rates: Rates,
    statistics: Statistics,
    model: str,
    seed: int,
) -> float:
    """Return the worst latency (s) that `simulated` measures; 0 where nothing comes out."""
    latency = simulated(network, cluster, placement, rates, statistics, model, seed).latency
    return float(latency["max"]) if latency["count"] else 0.0
