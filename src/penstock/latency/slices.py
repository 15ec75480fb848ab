"""Slices of stimulus time as they pass a placed network: lays the arrays out for the compiled recursion and calls it.

``python -m penstock.latency.slices`` writes its bitcode anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import Array, Numbers
from penstock.latency.flow_tables import PARTS, RECORD
from penstock.native import Kernel

if TYPE_CHECKING:
    from penstock.latency.pipelined import Stations

KERNEL = Kernel("penstock.latency.flow", "flow", ("flow_tables.py", "../native/views.py"))


def followed(
    stations: Stations, arrivals: Array, after: Array, slack: Array, width: float, steps: int
) -> tuple[Array, Array]:
    """Follow slices of stimulus time through stations, oldest first.

    Parameters
    ----------
    stations
        In the order in which they are passed.
    arrivals
        Array (sources, periods): tuples/s.
    after
        Array (joins, 2, slices): the next slice in which an input of the join has tuples.
    slack
        Array (resources, periods): seconds by which the parts of one slice may be apart without being late.
    width
        Length of a slice and of a step of time (s).
    steps
        How many steps of time there are.

    Returns
    -------
    left, tuples
        Arrays (ends, PARTS, slices): when a span of the slice has left (s; infinite beyond the last step; 0 where there
        are fewer spans), and the tuples that leave with it.
    """
    count, slices, resources = stations.resource.size, after.shape[2], stations.capacity.size
    rows = int(stations.end.max(initial=-1)) + 1
    most = max(1, int(stations.count.max(initial=0)) * PARTS)
    joins = after.shape[0]
    queued = slices * 2 * PARTS + 8 if joins else 1
    left, tuples = np.zeros((rows, PARTS, slices)), np.zeros((rows, PARTS, slices))
    arrays: Mapping[str, Numbers] = {
        "resource": stations.resource, "first": stations.first, "count": stations.count, "join": stations.join,
        "ends": stations.end, "capacity": stations.capacity, "slack": np.ascontiguousarray(slack),
        "writer": stations.writer, "delay": stations.delay, "cost": stations.cost, "share": stations.share,
        "gain": np.ascontiguousarray(stations.gain), "arrivals": np.ascontiguousarray(arrivals),
        "left": left, "tuples": tuples,
        "free": np.repeat((stations.capacity * width)[:, None], steps, axis=1),
        "follow": np.repeat(np.arange(steps + 1)[None], resources, axis=0),
        "here": np.empty((3, most)), "by": np.empty(2 * most + 8, np.int64), "out": np.empty((3, 2 * most + 8)),
        "kept": np.zeros((3 * count, PARTS)), "number": np.zeros(count, np.int64), "after": np.ascontiguousarray(after),
        "late": np.empty((6 * joins, queued)), "queue": np.zeros((2 * joins, 2), np.int64), "come": np.empty(2),
    }  # fmt: skip
    g, periods = np.zeros(1, RECORD), arrivals.shape[1]
    g["width"], g["stations"], g["inputs"], g["sources"] = width, count, stations.writer.size, arrivals.shape[0]
    g["resources"], g["joins"], g["periods"], g["fine"] = resources, joins, periods, slices // periods
    g["steps"], g["rows"], g["most"], g["queued"] = steps, rows, most, queued
    for name, array in arrays.items():
        g[name] = array.ctypes.data
    KERNEL.load()(g)
    return left, tuples


if __name__ == "__main__":
    KERNEL.write()
