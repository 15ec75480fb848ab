"""Hosts that the Spark tests share."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine

ROOT = Path(__file__).resolve().parents[2]

# Tests of this room share hosts_kit.py and kafka_kit.py, and start the servers that scripts do.
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "scripts")]

from kafka_kit import settings  # noqa: E402

# One of them has two slots: there tasks read and write rows.
HOSTS = [Host(name="h1"), Host(name="h2", cores=2), Host(name="h3")]
CLUSTER = Cluster.of(HOSTS, spark=SparkSettings(trigger=0.3))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Three embedded hosts with a session each, of which the second does two tasks at a time."""
    with start_hosts(CLUSTER) as hosts:
        yield Engine(CLUSTER, hosts)


@pytest.fixture(scope="session")
def scripts() -> Any:
    """The module that fetches and runs Kafka."""
    return importlib.import_module("kafka")


@pytest.fixture(scope="session")
def broker(scripts: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Kafka broker on loopback."""
    if shutil.which("mvn") is None:
        pytest.skip("no mvn to fetch Kafka with")
    scripts.fetch()
    with scripts.Broker(tmp_path_factory.mktemp("kafka") / "run") as running:
        yield running


@pytest.fixture(scope="session")
def kafka_hosts(broker: Any, scripts: Any) -> Iterator[tuple[Cluster, Any]]:
    """Three embedded hosts that know a Kafka broker, and their cluster."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("KAFKA_USER", "KAFKA_PASSWORD"):
            patch.setenv(name, broker.known[name])
        jars = (str(scripts.HOME / "connector/*.jar"),)
        cluster = attrs.evolve(CLUSTER, spark=SparkSettings(trigger=0.3, kafka=settings(broker), jars=jars))
        with start_hosts(cluster) as hosts:
            yield cluster, hosts


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
