"""The backlog of hosts for searches: what a host's worst wait would be if it also ran this or that.

The worst wait of a host grows with every operator put on it, so what already misses a bound can be cut off, and
min over hosts bounds every placement from below.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array, Floats, Ints
from penstock.cluster import Cluster
from penstock.load import LoadModel

COMPILED = 200_000
"""Loads (hosts times periods) from which on the compiled loop is used: below, loading it takes longer."""


def worst_waits(load: Array, capacity: Array, period: float) -> Array:
    """Return the largest cumulative excess over capacity of each row (Chandramouli et al., definitions 8 and 9).

    Parameters
    ----------
    load
        Array (rows, periods) in benchmark-core seconds per second.
    capacity
        Array (rows,), benchmark cores.
    period
        Length of a period (s).

    Returns
    -------
    ndarray, shape (rows,)
        Seconds.
    """
    if load.size >= COMPILED:
        from penstock.latency.kernel import worst

        found: Array = worst(load, capacity, period)
        return found
    return worst_waits_plain(load, capacity, period)


def worst_waits_plain(load: Array, capacity: Array, period: float) -> Array:
    """Return the same by the reflected sum: CE_p = S_p − min(0, min of S up to p) with S the sum of (L − C)·w."""
    flow = np.cumsum((load - capacity[:, None]) * period, axis=1)
    excess = flow - np.minimum(np.minimum.accumulate(flow, axis=1), 0.0)
    worst: Array = excess.max(axis=1, initial=0.0) / capacity
    return worst


def host_loads(model: LoadModel, where: Ints, hosts: int) -> Array:
    """Return the load of hosts, array (hosts, periods), with operators (rows of the model) on host numbers.

    A linear network's loads are few coefficients times the rates of its sources, so that thousands of operators cost
    no more than their coefficients.
    """
    rows = model.coefficients if linear(model) else model.load
    total = gathered(rows, where, hosts)
    loads: Array = total @ model.rates.values if linear(model) else total
    return loads


def gathered(rows: Array, where: Ints, hosts: int) -> Array:
    """Return the sums of the rows on each host, array (hosts, columns)."""
    if rows.size >= COMPILED:
        from penstock.latency.kernel import gather

        return gather(rows, where, hosts).astype(np.float64, copy=False)
    total = np.zeros((hosts, rows.shape[1]), rows.dtype)
    np.add.at(total, where, rows)
    return total


def placed_waits(
    rows: Floats,
    where: Ints,
    capacity: Floats,
    period: float,
    sources: Floats | None = None,
) -> Floats:
    """Return the worst wait of each host for a placement, of networks too large to be objects.

    Compiled. Single precision halves the memory that is read, and is right to about one part in a million.

    Parameters
    ----------
    rows
        Array (operators, periods) of loads, or (operators, sources) of loads per unit of source rate.
    where
        Array (operators,) of host numbers.
    capacity
        Array (hosts,), benchmark cores.
    period
        Length of a period (s).
    sources
        Array (sources, periods) of rates, where ``rows`` are coefficients.

    Returns
    -------
    ndarray, shape (hosts,)
        Seconds.
    """
    from penstock.latency.kernel import gather, worst_side_by_side

    total = gather(rows, where, capacity.size)
    # Periods by hosts, so that the recursion goes over all hosts at once.
    columns = np.ascontiguousarray(total.T) if sources is None else sources.T @ total.T
    found: Floats = worst_side_by_side(columns, capacity, period)
    return found


def linear(model: LoadModel) -> bool:
    """Whether every load is linear in the rates of the sources: no join with a time window, and no growth.

    Elsewhere the coefficients of a model are only the slopes at its mean rates.
    """
    operators = model.network.operators.values()
    return all(operator.within is None and operator.growth is None for operator in operators)


def capacities(cluster: Cluster) -> Array:
    """Return the benchmark cores of each host, array (hosts,)."""
    return np.array([host.capacity for host in cluster.hosts.values()])


def shares(cluster: Cluster) -> Array:
    """Return the mean load (benchmark cores) up to which each host may be used, array (hosts,).

    A quota below 1 belongs to others; at 1 only the latency bound decides, since a backlog may be worked off later.
    """
    return np.array([host.usable if host.quota < 1 else np.inf for host in cluster.hosts.values()])
