"""Hosts that the Spark tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from penstock.cluster import Cluster, SparkSettings
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine

# Tests of this room share hosts_kit.py.
sys.path.insert(0, str(Path(__file__).parent))

CLUSTER = attrs.evolve(Cluster.uniform(3), spark=SparkSettings(trigger=0.3))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Three embedded hosts with a session each."""
    with start_hosts(CLUSTER) as hosts:
        yield Engine(CLUSTER, hosts)
