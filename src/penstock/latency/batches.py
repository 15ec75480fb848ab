"""What hosts make of batches, in one place, and the micro-batch recursion summarised as an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, base_name
from penstock.errors import InputError
from penstock.latency.estimate import Estimate, Quantiles
from penstock.latency.fragments import fragments
from penstock.latency.mace import cumulative_excess, described, error_bar
from penstock.latency.microbatch import MicrobatchResult, microbatch
from penstock.latency.steady import steady_state
from penstock.load import LoadModel, Statistics
from penstock.load.statistics import HostStatistics

Array = NDArray[np.float64]

NOTES = (
    "assumes batches that start at multiples of the trigger from the beginning of the rates",
    "leaves out links, and how batches of one size differ from each other",
)


@attrs.frozen(eq=False, kw_only=True)
class BatchHosts:
    """What the hosts of a cluster make of batches; every prediction, simulation and error bar of batches reads it.

    Attributes
    ----------
    trigger
        Interval of the micro-batches (s).
    overhead, idle
        By host: seconds per batch, and per batch without input where that differs.
    factor
        By host: seconds that a benchmark-core second of load takes, its in-place factor over its capacity.
    progressive
        Whether output appears evenly during a batch (Kafka) rather than at its end (directory).
    machines
        By name: hosts that share a machine, and on how many cores.
    """

    trigger: float
    overhead: Mapping[str, float]
    idle: Mapping[str, float]
    factor: Mapping[str, float]
    progressive: bool = False
    machines: Mapping[str, tuple[tuple[str, ...], int]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, statistics: Statistics | None, cluster: Cluster) -> BatchHosts:
        """Join what a cluster file says of its hosts with what was measured on them."""
        known = {} if statistics is None else statistics.hosts
        rows = {name: known.get(name, HostStatistics()) for name in cluster.hosts}
        return cls(
            trigger=cluster.spark.trigger,
            overhead={name: row.overhead for name, row in rows.items()},
            idle={name: row.idle for name, row in rows.items() if row.idle is not None},
            factor={name: rows[name].factor / host.capacity for name, host in cluster.hosts.items()},
            progressive=cluster.spark.hop == "kafka",
            machines={
                name: (tuple(host.name for host in cluster.hosts.values() if host.machine == name), cores)
                for name, cores in cluster.machines.items()
            },
        )

    def paced(self, cluster: Cluster) -> Cluster:
        """Return the cluster with capacities such that load over capacity is the time that it takes."""
        hosts = {name: attrs.evolve(host, capacity=1 / self.factor[name]) for name, host in cluster.hosts.items()}
        return attrs.evolve(cluster, hosts=hosts)

    def run(
        self, model: LoadModel, placement: Mapping[str, str], keep: Mapping[str, float | Array] | None = None
    ) -> MicrobatchResult:
        """Predict the batches of a placed network; ``keep`` holds keep fractions as of `microbatch`."""
        return microbatch(
            model,
            fragments(model.network, placement),
            trigger=self.trigger,
            overhead=self.overhead,
            factor=self.factor,
            idle=self.idle,
            progressive=self.progressive,
            keep=keep,
            machines=self.machines,
        )


def microbatch_estimate(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None = None
) -> Estimate:
    """Estimate latency by the recursion over Spark's micro-batches.

    Trigger and hop come from ``cluster.spark``, overhead and factor of each host from the statistics.

    Raises
    ------
    InputError
        If the placement has replicas, which Spark does not run.
    """
    for name in placement:
        if base_name(name) != name:
            raise InputError(f"{name!r} is a replica", at="placement", hint="use --model mace for replicas")
    hosts = BatchHosts.of(statistics, cluster)
    result = hosts.run(model, placement)
    stimulus, latency, weight = result.whole()
    series = np.zeros(model.rates.periods)
    there = weight > 0
    place = np.clip((stimulus[there] / model.period + 1e-9).astype(np.int64), 0, series.size - 1)
    np.maximum.at(series, place, latency[there])
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    scale = np.array([hosts.factor[name] for name in cluster.hosts]) * capacity
    excess = cumulative_excess(model.host_load(placement, cluster) * scale[:, None], capacity, model.period)
    bar = error_bar(model, placement, hosts.paced(cluster), statistics)
    known = any(hosts.overhead.values())
    return Estimate(
        model="microbatch",
        period=model.period,
        total=Quantiles.of(latency, weight),
        series=series,
        bottleneck=bar.host,
        excess=dict(zip(cluster.hosts, excess, strict=True)),
        sinks={name: Quantiles.of(row[1], row[2]) for name, row in result.sinks.items()},
        error=bar,
        notes=NOTES if known else (*NOTES, "no statistics: the fixed cost of a batch is taken as 0 s"),
        statistics=described(statistics),
        steady=_steady(model, placement, hosts),
    )


def _steady(model: LoadModel, placement: Mapping[str, str], hosts: BatchHosts) -> dict[str, Any] | None:
    if hosts.progressive or any(len(members) > cores for members, cores in hosts.machines.values()):
        return None
    queries = fragments(model.network, placement)
    found = steady_state(model, queries, trigger=hosts.trigger, overhead=hosts.overhead, factor=hosts.factor)
    return None if found is None else found.document()
