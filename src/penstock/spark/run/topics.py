"""The topics of a run whose rows pass between queries by Kafka: made before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.errors import EngineError, InputError
from penstock.extras import install
from penstock.spark.compile import Deployment, PromptQuery, Query
from penstock.spark.hop.partition import PATIENCE
from penstock.spark.run.asking import asked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FOREVER = {"retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": str(64 << 20)}
"""Rows go when all readers have passed them, and not before."""


def make_topics(deployment: Deployment, query: Query, host: str, session: SparkSession) -> None:
    """Make the topics of a query's logs that are not there yet.

    Parameters
    ----------
    host, session
        Where the query runs: it must be able to read and write topics.

    Raises
    ------
    InputError
        If a client is missing here or on a host, or a topic has another number of partitions than is asked for.
    EngineError
        If Kafka refuses.
    """
    prompt = isinstance(query, PromptQuery)
    if deployment.kafka is None or (deployment.hop != "kafka" and not prompt):
        return
    what = "real-time mode" if prompt else 'hop = "kafka"'
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
    except ImportError:
        raise InputError(
            f"{what} needs the package confluent-kafka",
            at="spark.mode" if prompt else "spark.hop",
            hint=install("kafka"),
        ) from None
    if isinstance(query, PromptQuery):
        wanted = [way.topic for way in query.messages.ways if not way.sink]
    else:
        _check_client(host, session)
        wanted = [query.spec.topics.name(way.writer) for way in query.spec.logs] if query.spec.topics else []
    if not wanted:
        return
    copies = deployment.kafka.replication
    try:
        admin = AdminClient({"log_level": "0", **deployment.kafka.native})
        there = admin.list_topics(timeout=PATIENCE / 2).topics
        for name in wanted:
            if name in there and len(there[name].partitions) != deployment.kafka.partitions:
                raise InputError(
                    f"the topic {name} has {len(there[name].partitions)} partitions", at="spark.kafka.partitions"
                )
        missing = [name for name in wanted if name not in there]
        made = [NewTopic(name, deployment.kafka.partitions, copies or -1, config=FOREVER) for name in missing]
        for future in admin.create_topics(made).values() if made else ():
            future.result(PATIENCE)
    except KafkaException as error:
        address = deployment.kafka.client["bootstrap.servers"]
        raise EngineError(f"Kafka at {address} does not make the topics of this run: {error.args[0].str()}") from None


def _check_client(name: str, session: SparkSession) -> None:
    """Refuse a host without the package by which queries read and write topics."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.util

        import pyarrow as pa

        for _ in batches:
            there = importlib.util.find_spec("confluent_kafka") is not None
            yield pa.RecordBatch.from_pydict({"there": [there]})

    if not all(row[0] for row in asked(session.range(1).mapInArrow(look, "there boolean").collect)):
        raise InputError(
            'lacks the package confluent-kafka, which hop = "kafka" needs',
            at=f"hosts.{name}",
            hint="pip install confluent-kafka where its driver's Python is",
        )
