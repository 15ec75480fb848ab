"""Hosts that the Spark tests share."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
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
def scripts() -> Any:
    """The module that fetches and runs Kafka."""
    return importlib.import_module("kafka")


@pytest.fixture(scope="session")
def shared(scripts: Any) -> Iterator[tuple[Cluster, Any]]:
    """Three embedded hosts, of which the second does two tasks at a time, and their cluster.

    They know Kafka's connector, if it has been fetched.
    """
    cluster = knowing(scripts.connector()) if scripts.fetched() else CLUSTER
    with start_hosts(cluster) as hosts:
        yield cluster, hosts


def knowing(jars: str, **kafka: str) -> Cluster:
    """Return the cluster with jars, and with a broker."""
    return attrs.evolve(CLUSTER, spark=attrs.evolve(CLUSTER.spark, jars=(jars,), kafka=kafka))


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
        if not cluster.spark.jars:
            hosts = own.enter_context(start_hosts(knowing(scripts.connector())))
        yield knowing(scripts.connector(), **settings(broker)), hosts


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
