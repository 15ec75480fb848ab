"""The worst latencies of many placements, beside the estimates of each."""

from __future__ import annotations

import attrs
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_case

from penstock.cluster import Cluster
from penstock.cluster.model import SparkSettings
from penstock.latency.batches import microbatch_estimate
from penstock.latency.many import Many
from penstock.load import load_model
from penstock.load.statistics import HostStatistics, Statistics


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_the_worst_of_many_placements_is_that_of_their_estimates(seed: int) -> None:
    """Whatever hosts share, with windows as without, each placement is as late as its own estimate says, to the bit."""
    rng = np.random.default_rng(seed)
    model, placement, cluster = random_case(seed, hosts=6, operators=8, links=False)
    window = {"kind": "aggregate", "by": ("k",), "window": 2.0, "select": "count(*) as n"}
    made = [
        attrs.evolve(o, **window) if o.kind == "map" and rng.random() < 0.5 else o
        for o in model.network.operators.values()
    ]
    model = load_model(model.network.having(made), model.rates)
    hosts = [attrs.evolve(h, machine="m") if rng.random() < 0.3 else h for h in cluster.hosts.values()]
    cluster = Cluster.of(hosts, machines={"m": 1}, spark=SparkSettings(trigger=1.0))
    known = Statistics(hosts={name: HostStatistics(overhead=float(rng.uniform(0, 0.2))) for name in cluster.hosts})
    many = Many(model, cluster, known)
    for _ in range(3):
        found, wanted = many.worst(placement), microbatch_estimate(model, placement, cluster, known)
        assert (found.total, found.sinks) == (wanted.total.worst, {n: row.worst for n, row in wanted.sinks.items()})
        placement = {**placement, str(rng.choice(list(placement))): str(rng.choice(list(cluster.hosts)))}
