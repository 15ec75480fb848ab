"""Hosts that the Spark tests share."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from penstock.cluster import Cluster, SparkSettings
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine

CLUSTER = attrs.evolve(Cluster.uniform(3), spark=SparkSettings(trigger=0.3))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Three embedded hosts with a session each."""
    with start_hosts(CLUSTER) as hosts:
        yield Engine(CLUSTER, hosts)
