"""Runs in the simulator the way a latency model sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from penstock.cluster import Cluster
from penstock.latency.batches import BatchHosts, in_time
from penstock.latency.fragments import fragments
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.load import Statistics
    from penstock.simulation import MicroBatch, SimulationResult


def in_batches(
    batches: MicroBatch | None, cluster: Cluster, placement: Mapping[str, str], statistics: Statistics | None
) -> tuple[MicroBatch | None, Cluster]:
    """Return micro-batches with the statistics' fixed times where they have none, and hosts as fast as these say."""
    if batches is not None and batches.overhead is None:
        batches = attrs.evolve(batches, overhead=BatchHosts.of(statistics, cluster).fixed(placement))
    return batches, in_time(cluster, statistics)[0]


def simulated(setting: Setting, rates: Rates, model: str = "microbatch", seed: int = 0) -> SimulationResult:
    """Simulate a run the way a latency model sees it: in micro-batches with the statistics' overheads, or tuple-wise.

    Hosts are as fast as the statistics say that they are in place, whatever the model.

    Parameters
    ----------
    setting
        What is deployed; its own rates and keep fractions do not count.
    model
        Of `penstock.latency.models`; all but ``microbatch`` serve single tuples, the oldest stimulus first.
    """
    from penstock.simulation import MicroBatch, Options, simulate

    trigger = BatchHosts.of(setting.statistics, setting.cluster).trigger
    batches = MicroBatch(trigger=trigger) if model == "microbatch" else None
    batches, cluster = in_batches(batches, setting.cluster, setting.placement, setting.statistics)
    options = Options(policy="stimulus", drain=True, microbatch=batches, seed=seed)
    return simulate(setting.network, cluster, setting.placement, rates, options)


def unlike(network: Network, cluster: Cluster, placement: Mapping[str, str], model: str = "microbatch") -> list[str]:
    """Return a note for each thing that `simulated` takes otherwise than the model does."""
    if model != "microbatch":
        return []
    machines = BatchHosts.of(None, cluster).machines.items()
    queries = fragments(network, placement)
    per_host = Counter(query.host for query in queries)
    notes = {
        "the simulator gives the hosts of {} cores of their own; in the model they share these": [
            name for name, (members, cores) in machines if len(members) > cores
        ],
        "the simulator ends the windows of {} on time; in the model, as on Spark, their rows come a batch later": [
            name for name, operator in network.operators.items() if operator.window is not None
        ],
        "the simulator pairs the rows of {} one by one; the model counts pairs by the rates": [
            name for name, operator in network.operators.items() if operator.within is not None
        ],
        "the simulator runs all of {} in one batch; in the model, as on Spark, several queries there have their own": [
            host for host, count in per_host.items() if count > 1
        ],
        "the simulator hands on the rows of {} within a batch; in the model, as on Spark, the next batch reads them": [
            name for query in queries for name in sorted(query.cuts)
        ],
    }
    return [note.format(" and ".join(names)) for note, names in notes.items() if names]


def worst_simulated(setting: Setting, rates: Rates, model: str, seed: int) -> float:
    """Return the worst latency (s) that `simulated` measures; 0 where nothing comes out."""
    return max(worst_by_sink(setting, rates, model, seed).values(), default=0.0)


def worst_by_sink(setting: Setting, rates: Rates, model: str, seed: int) -> dict[str, float]:
    """Return the worst latency (s) that `simulated` measures at each sink where anything comes out."""
    sinks = simulated(setting, rates, model, seed).sinks
    return {name: float(row["max"]) for name, row in sinks.items() if row["count"]}
