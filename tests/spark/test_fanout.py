"""Simulations spread over a Spark job."""

from __future__ import annotations

import pytest

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import Job, repeat
from penstock.workload import Rates

pytestmark = pytest.mark.spark


def test_runs_on_spark_give_the_same_numbers(shared):
    """Runs on Spark, however many partitions, give exactly the documents of runs in this process."""
    from penstock.spark.fanout import fan_out

    network = Network.of(
        "station",
        [Source(name="s", arrivals="poisson")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(0.01,), service="exponential")],
        [Sink(name="t", input="a")],
    )
    job = Job(network, Cluster.uniform(1), {"a": "h1"}, Rates.constant({"s": 80}, 20))
    seeds = [3, 1, 2]
    expected = [result.document() for result in repeat(job, seeds, workers=1)]
    session = shared[1]["h2"].session()
    found = [result.document() for result in fan_out(session, job, seeds)]
    alone = [result.document() for result in fan_out(session, job, seeds[:1])]
    assert found == expected
    assert alone == expected[:1]
