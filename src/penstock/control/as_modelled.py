"""Runs in the simulator the way a latency model sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cluster import Cluster
from penstock.latency.batches import BatchHosts
from penstock.load.setting import Setting
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.simulation import SimulationResult


def simulated(setting: Setting, rates: Rates, model: str = "microbatch", seed: int = 0) -> SimulationResult:
    """Simulate a run the way a latency model sees it: in micro-batches with the statistics' overheads, or tuple-wise.

    Parameters
    ----------
    setting
        What is deployed; its own rates and keep fractions do not count.
    model
        Of `penstock.latency.models`; all but ``microbatch`` serve single tuples, the oldest stimulus first.
    """
    from penstock.simulation import MicroBatch, Options, simulate

    cluster, placement, batches = setting.cluster, setting.placement, None
    if model == "microbatch":
        hosts = BatchHosts.of(setting.statistics, cluster)
        batches = MicroBatch(trigger=hosts.trigger, overhead=hosts.fixed(placement), progressive=hosts.progressive)
        cluster = hosts.paced(cluster)
    options = Options(policy="stimulus", drain=True, microbatch=batches, seed=seed)
    return simulate(setting.network, cluster, placement, rates, options)


def unlike(cluster: Cluster, model: str = "microbatch") -> list[str]:
    """Return a note for what `simulated` takes otherwise than the model does."""
    shared = BatchHosts.of(None, cluster).machines if model == "microbatch" else {}
    names = [name for name, (members, cores) in shared.items() if len(members) > cores]
    if not names:
        return []
    return [f"the simulator gives the hosts of {' and '.join(names)} cores of their own; in the model they share these"]


def worst_simulated(setting: Setting, rates: Rates, model: str, seed: int) -> float:
    """Return the worst latency (s) that `simulated` measures; 0 where nothing comes out."""
    latency = simulated(setting, rates, model, seed).latency
    return float(latency["max"]) if latency["count"] else 0.0
