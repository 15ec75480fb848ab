"""The demo's network and its bursts: two auction sites."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import resources

import numpy as np

from penstock.cluster import Cluster
from penstock.latency.batches import BatchHosts
from penstock.load import Statistics, load_model
from penstock.network import Network, read_network
from penstock.workload import Rates

QUIET, PEAK = 100.0, 1_500.0
"""Events a second of a site, and in the burst that calibrates."""

BEFORE, LONG, BETWEEN, AFTER = 5, 20, 4, 7
"""Seconds before the first burst, of each burst, between the two, and behind the second."""

MOST = 20_000.0
"""The highest burst (tuples/s): the hosts' sources make their events in Python."""

BUSY = 1.05
"""Share of its time for which the busiest host would work in a burst, placed by penstock, at its calibrated speed.

By the model, queries dealt out in turn then take at least twice as long as these on cores that became a third faster or
a fifth slower, and also on cores that are a tenth slower in the first run and a tenth faster in the second."""


def network() -> Network:
    """Return the network of two auction sites, which is shipped with the package."""
    with resources.as_file(resources.files("penstock") / "running" / "two-sites.toml") as path:
        return read_network(path)


def bursts(peak: float = PEAK) -> Rates:
    """Return 56 s of events at two sites: each has a burst of 20 s, first the west, then the east."""
    west, east = np.full((2, BEFORE + 2 * LONG + BETWEEN + AFTER), QUIET)
    west[BEFORE : BEFORE + LONG] = peak
    east[-AFTER - LONG : -AFTER] = peak
    return Rates.of(1.0, {"west": west, "east": east})


def peak_of(network: Network, cluster: Cluster, placement: Mapping[str, str], statistics: Statistics) -> float:
    """Return the rate of bursts (tuples/s) that keeps the busiest host of a placement at work for `BUSY` of its time.

    So the demo shows the same on fast machines and on slow ones: one placement bears what another cannot.
    """
    hosts = BatchHosts.of(statistics, cluster)
    fixed = hosts.fixed(placement)

    def busy(peak: float) -> float:
        load = load_model(network, bursts(peak)).host_load(placement, cluster).max(axis=1)
        rows = zip(cluster.hosts, load, strict=True)
        return max(fixed[name] / hosts.trigger + hosts.factor[name] * float(most) for name, most in rows)

    low, high = busy(QUIET), busy(PEAK)
    borne = QUIET + (BUSY - low) / (high - low) * (PEAK - QUIET)
    return float(np.clip(50 * math.floor(borne / 50), 2 * QUIET, MOST))
