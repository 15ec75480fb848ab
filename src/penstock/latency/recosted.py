"""Mace again and again with other costs: what does not depend on them is worked out once."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster
from penstock.latency.estimate import Quantiles
from penstock.latency.mace import cumulative_excess, late_at, link_excess, waits_of
from penstock.latency.ways import Ways
from penstock.load import LoadModel


def recosted(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, factors: Array, units: str
) -> tuple[Array, dict[str, Array], Array]:
    """Return what `penstock.latency.spread.spread_of` takes of Mace with costs times factors.

    Parameters
    ----------
    factors
        Array (draws, operators).
    units
        What the total is over, as of `Estimate`.
    """
    links, ways = link_excess(model, placement, cluster), Ways.of(model, placement, cluster)
    shortest, prompt = ways.shortest(), ways.unhindered()
    operators = [(np.array(o.cost), model.inflow(o.name)) for o in model.network.operators.values()]
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    rows, series, sinks = [], [], {name: list[Array]() for name in model.network.sinks}
    for row in factors.tolist():
        load = [(cost * factor) @ inflow for (cost, inflow), factor in zip(operators, row, strict=True)]
        dear = attrs.evolve(model, load=np.array(load).reshape(model.load.shape))
        total = dear.host_load(placement, cluster)
        waits = waits_of(cluster, cumulative_excess(total, capacity, model.period), links)
        lower = (wait + shortest.get(name, 0.0) for name, wait in waits.items())
        series.append(np.max([*lower, *prompt], axis=0))
        at_sinks = {name: late_at(ways, name, waits) for name in sinks}
        whole = Quantiles.of(series[-1]) if units == "periods" else Quantiles.over(at_sinks.values())
        rows.append(_summary(whole))
        for name, late in at_sinks.items():
            sinks[name].append(_summary(Quantiles.of(*late)))
    return np.array(rows), {name: np.array(each) for name, each in sinks.items()}, np.array(series)


def _summary(quantiles: Quantiles) -> Array:
    return np.array([*quantiles.by_key().values()])
