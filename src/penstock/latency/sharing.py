"""Processor sharing: hosts that run several real-time queries, each of which gets an equal share while it has work.

Under real-time mode every streaming query runs threads of its own, which the operating system serves in turn: first in
first out inside a query, an equal share of the host among the queries that have work. A light query beside a heavy one
then hardly waits, and the heavy one waits longer than the host's backlog says. Measured with two queries on one host,
first in first out missed the heavy one's worst latency by 29 % and the light one's sixtyfold; sharing missed the heavy
one's by 14 %.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.cluster import Cluster, base_name
from penstock.errors import InputError
from penstock.latency.estimate import UNTOLD, Estimate, Quantiles, episodes
from penstock.latency.fluid import Fluid
from penstock.latency.mace import cumulative_excess, described, error_bar
from penstock.load import LoadModel, Statistics

NOTES = (
    "assumes that the connected queries of a host share it equally while they have work, each first in first out",
    "leaves out the service times of single tuples, the bandwidth of links, and what a poll costs beside its tuples",
)


def sharing(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None = None
) -> Estimate:
    """Estimate latency with the queries of each host sharing it.

    A fluid in steps: what enters in a slice of stimulus time passes through the hosts on its way, in each of which it
    waits for what came to its query before. A query is the part of a connected query that runs on one host.

    Returns
    -------
    Estimate
        The total is over all tuples, also those that end in an operator; those of the sinks are over their tuples.

    Raises
    ------
    InputError
        If the placement has replicas, or the backlog is too long to be followed.
    """
    for name in placement:
        if base_name(name) != name:
            raise InputError(f"{name!r} is a replica", at="placement", hint="use --model mace for replicas")
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    excess = cumulative_excess(model.host_load(placement, cluster), capacity, model.period)
    fluid = Fluid(model, placement, cluster)
    fluid.run()
    shown = np.zeros(fluid.slices)
    late = []
    for rows in (*fluid.found.values(), fluid.ended):
        table = np.array(rows, float).reshape(-1, 3)
        late.append((np.maximum(table[:, 1], 0.0), table[:, 2]))
        np.maximum.at(shown, table[:, 0].astype(np.int64), late[-1][0])
    at_sinks, total = dict(zip(fluid.found, late, strict=False)), Quantiles.over(late)
    series = shown.reshape(model.rates.periods, -1).max(axis=1)
    bar = error_bar(model, placement, cluster, statistics)
    row = list(cluster.hosts).index(bar.host)
    return Estimate(
        model="sharing",
        period=model.period,
        total=total,
        tuples=Quantiles.over(at_sinks.values()),
        series=series,
        bottleneck=bar.host,
        excess=dict(zip(cluster.hosts, excess, strict=True)),
        sinks={name: Quantiles.of(*row) for name, row in at_sinks.items()},
        error=bar,
        notes=NOTES if total.weight else (*NOTES, UNTOLD),
        statistics=described(statistics),
        episodes=episodes(bar.host, excess[row] / capacity[row], model.period),
    )
