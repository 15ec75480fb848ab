"""Compiled loops of the latency models; each is beside the same in plain Python."""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.arrays import Array, Floats, Ints


@njit(cache=True)
def gather(rows: Floats, where: Ints, hosts: int) -> Floats:
    """Return the sums of the rows on each host; see `penstock.latency.waits.gathered`."""
    total = np.zeros((hosts, rows.shape[1]), rows.dtype)
    for r in range(rows.shape[0]):
        mine = total[where[r]]
        row = rows[r]
        for k in range(row.size):
            mine[k] += row[k]
    return total


@njit(cache=True, fastmath={"nnan", "nsz"})
def worst_side_by_side(load: Floats, capacity: Floats, period: float) -> Floats:
    """Return each column's largest cumulative excess over capacity, array (periods, hosts) given."""
    periods, hosts = load.shape
    excess = np.zeros(hosts, load.dtype)
    most = np.zeros(hosts, load.dtype)
    for p in range(periods):
        row = load[p]
        for h in range(hosts):
            value = excess[h] + (row[h] - capacity[h])
            value = max(value, value * 0)
            excess[h] = value
            most[h] = value if value > most[h] else most[h]
    for h in range(hosts):
        most[h] = most[h] * period / capacity[h]
    return most


@njit(cache=True)
def worst(load: Array, capacity: Array, period: float) -> Array:
    """Return each row's largest cumulative excess over capacity; see `penstock.latency.waits.worst_waits_plain`."""
    rows, periods = load.shape
    found = np.zeros(rows)
    # Floats side by side: each row is a chain of dependent steps, eight chains fill the processor.
    for first in range(0, rows, 8):
        last = min(first + 8, rows)
        excess = np.zeros(8)
        most = np.zeros(8)
        for p in range(periods):
            for r in range(first, last):
                value = max(0.0, excess[r - first] + (load[r, p] - capacity[r]) * period)
                excess[r - first] = value
                most[r - first] = max(most[r - first], value)
        for r in range(first, last):
            found[r] = most[r - first] / capacity[r]
    return found
