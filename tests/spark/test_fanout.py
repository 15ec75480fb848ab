"""Simulations spread over a Spark job."""

from __future__ import annotations

import pytest

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import Job, repeat
from penstock.workload import Rates

pytestmark = pytest.mark.spark


def test_runs_on_spark_give_the_same_numbers():
    """Runs on Spark, however many partitions, give exactly the documents of runs in this process."""
    from penstock.spark.fanout import fan_out
    from penstock.spark.hosts import EmbeddedHost

    network = Network.of(
        "station",
        [Source(name="s", arrivals="poisson")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(0.01,), service="exponential")],
        [Sink(name="t", input="a")],
    )
    job = Job(network, Cluster.uniform(1), {"a": "h1"}, Rates.constant({"s": 80}, 20))
    seeds = [3, 1, 2]
    expected = [result.document() for result in repeat(job, seeds, workers=1)]
    with EmbeddedHost("simulations", cores=2) as host:
        found = [result.document() for result in fan_out(host.session(), job, seeds)]
        alone = [result.document() for result in fan_out(host.session(), job, seeds[:1])]
    assert found == expected
    assert alone == expected[:1]
