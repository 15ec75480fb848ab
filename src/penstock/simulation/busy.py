"""For how long units and hosts have worked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    return units, hosts
