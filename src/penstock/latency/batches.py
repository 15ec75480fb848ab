"""The micro-batch recursion, summarised as an estimate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.cluster import Cluster, base_name
from penstock.errors import InputError
from penstock.latency.estimate import Estimate, Quantiles
from penstock.latency.fragments import fragments
from penstock.latency.mace import cumulative_excess, described, error_bar
from penstock.latency.microbatch import microbatch
from penstock.latency.steady import steady_state
from penstock.load import LoadModel, Statistics

NOTES = (
    "assumes batches that start at multiples of the trigger from the beginning of the rates",
    "leaves out links, and how batches of one size differ from each other",
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
    known = statistics or Statistics()
    overhead = {name: known.hosts[name].overhead for name in cluster.hosts if name in known.hosts}
    idle = {name: row.idle for name, row in known.hosts.items() if row.idle is not None}
    # The recursion counts seconds of one benchmark core; a faster host needs less of them.
    factor = {
        name: (known.hosts[name].factor if name in known.hosts else 1.0) / host.capacity
        for name, host in cluster.hosts.items()
    }
    queries = fragments(model.network, placement)
    progressive = cluster.spark.hop == "kafka"
    steady = (
        None
        if progressive
        else steady_state(model, queries, trigger=cluster.spark.trigger, overhead=overhead, factor=factor)
    )
    result = microbatch(
        model,
        queries,
        trigger=cluster.spark.trigger,
        overhead=overhead,
        factor=factor,
        idle=idle,
        progressive=progressive,
    )
    stimulus, latency, weight = result.whole()
    series = np.zeros(model.rates.periods)
    there = weight > 0
    place = np.clip((stimulus[there] / model.period + 1e-9).astype(np.int64), 0, series.size - 1)
    np.maximum.at(series, place, latency[there])
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    scale = np.array([factor[name] for name in cluster.hosts]) * capacity
    excess = cumulative_excess(model.host_load(placement, cluster) * scale[:, None], capacity, model.period)
    bar = error_bar(model, placement, cluster, statistics)
    notes = NOTES if overhead else (*NOTES, "no statistics: the fixed cost of a batch is taken as 0 s")
    return Estimate(
        model="microbatch",
        period=model.period,
        total=Quantiles.of(latency, weight),
        series=series,
        bottleneck=bar.host,
        excess=dict(zip(cluster.hosts, excess, strict=True)),
        sinks={name: Quantiles.of(row[1], row[2]) for name, row in result.sinks.items()},
        error=bar,
        notes=notes,
        statistics=described(statistics),
        steady=None if steady is None else steady.document(),
    )
