"""For how long units and hosts have worked, and what a failure cuts off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Ints
from penstock.simulation.compile import Compiled


def busy(run: Compiled, at: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for how long (s) units and hosts have worked; services and batches in hand count as far as they are."""
    s = run.state
    units, hosts = s.units["busy"].copy(), s.hosts["busy"].copy()
    for core in s.cores[s.cores["node"] >= 0]:
        share = (at - float(core["start"])) / int(s.hosts["cores"][core["host"]])
        hosts[core["host"]] += share
        units[s.inputs["unit"][s.nodes["input"][core["node"]]]] += share
    hosts -= np.maximum(0.0, s.hosts["until"] - at) * (s.hosts["batch"] > 0)
    units -= s.units["cut"]
    for h in np.flatnonzero(s.hosts["until"] > at).tolist():
        mine, left = unfinished(run, h, at)
        units[mine] -= left
    return units, hosts


def unfinished(run: Compiled, h: int, at: float) -> tuple[Ints, NDArray[np.float64]]:
    """Return the units in a host's batch, and the work (s) on each that is left: it is spread evenly over the batch."""
    s, host = run.state, run.state.hosts[h]
    first = int(host["members"])
    members = s.members[first : first + int(host["size"])]
    members = members[members["began"] == host["began"]]
    share = (float(host["until"]) - at) / float(host["until"] - host["began"])
    return members["unit"], members["work"] * share
