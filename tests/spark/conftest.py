"""Sessions of the hosts that all tests share, and a Kafka broker."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest

from penstock.cluster import Cluster
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine

# Tests of this room share hosts_kit.py and kafka_kit.py.
sys.path.insert(0, str(Path(__file__).parent))

from kafka_kit import settings


@pytest.fixture(scope="session")
def engine(shared: tuple[Cluster, Any]) -> Engine:
    """The three hosts with a session each."""
    return Engine(*shared)


@pytest.fixture(scope="session")
def broker(scripts: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Kafka broker on loopback."""
    if shutil.which("mvn") is None:
        pytest.skip("no mvn to fetch Kafka with")
    scripts.fetch()
    with scripts.Broker(tmp_path_factory.mktemp("kafka") / "run") as running:
        yield running


@pytest.fixture(scope="session")
def kafka_hosts(broker: Any, shared: tuple[Cluster, Any], scripts: Any) -> Iterator[tuple[Cluster, Any]]:
    """The three hosts, and their cluster with a Kafka broker."""
    cluster, hosts = shared
    with pytest.MonkeyPatch.context() as patch, ExitStack() as own:
        for name in ("KAFKA_USER", "KAFKA_PASSWORD"):
            patch.setenv(name, broker.known[name])
        spark = attrs.evolve(cluster.spark, jars=(scripts.connector(),))
        if not cluster.spark.jars:
            hosts = own.enter_context(start_hosts(attrs.evolve(cluster, spark=spark)))
        yield attrs.evolve(cluster, spark=attrs.evolve(spark, kafka=settings(broker))), hosts


@pytest.fixture(scope="session")
def kafka_engine(kafka_hosts: tuple[Cluster, Any]) -> Engine:
    """Sessions on hosts that know Kafka; rows between them go by folders."""
    return Engine(*kafka_hosts)


@pytest.fixture(scope="session")
def topic_engine(kafka_hosts: tuple[Cluster, Any]) -> Engine:
    """Sessions on hosts that know Kafka; rows between them go by topics of two partitions."""
    cluster, hosts = kafka_hosts
    spark = attrs.evolve(cluster.spark, hop="kafka", kafka={**cluster.spark.kafka, "partitions": "2"})
    return Engine(attrs.evolve(cluster, spark=spark), hosts)
