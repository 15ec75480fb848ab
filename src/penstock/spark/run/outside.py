"""The user's topics: those that are not there are named before a run begins."""

from __future__ import annotations

import contextlib
import importlib.util
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import InputError, locating
from penstock.files import suggest
from penstock.network import Network
from penstock.spark.compile import Query
from penstock.spark.compile.sources import asked_here, on_cluster, topics_named
from penstock.spark.connection import Connection
from penstock.spark.run.reports import short

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

PATIENCE = 5.0
"""How long (s) brokers may take to answer; of those that do not, Spark tells."""

MADE = 2.0
"""How long (s) brokers that make topics by themselves may take to do so."""

OWN = ("__", "penstock-")
"""What topics are called that are no user's."""

NO_TOPIC = "UnknownTopicOrPartition"
"""What Spark says of a topic that is not there."""


def check_topics(network: Network, kafka: Connection | None) -> None:
    """Refuse settings that penstock's own client cannot take, and topics that are not there.

    These are the topics of sources and sinks that are named and on the cluster's brokers.

    Brokers are asked where a client is installed: for a sink's topic as its writer will ask, so that those that make
    topics by themselves make it now. Spark never lets them make one that it reads.

    Raises
    ------
    InputError
        Naming the setting, or the topic and where it is named.
    """
    sources = [each for each in network.sources.values() if each.format == "kafka" and asked_here(each)]
    sinks = [each for each in network.sinks.values() if each.format == "kafka" and on_cluster(each.options)]
    read = {topic: f"sources.{each.name}.options.subscribe" for each in sources for topic in topics_named(each)}
    written = {each.options["topic"]: f"sinks.{each.name}.options.topic" for each in sinks if "topic" in each.options}
    if kafka is None or not can_ask():
        return
    from confluent_kafka import KafkaException

    consumer, producer = _clients(kafka)
    with locating(network.file), contextlib.suppress(KafkaException), contextlib.closing(consumer):
        _check(consumer, {topic: at for topic, at in read.items() if topic not in written}, 0.0)
        _check(producer, written, MADE)


def _clients(kafka: Connection) -> tuple[Consumer, Producer]:
    """Return what reads and what writes, once librdkafka has taken the settings; nothing was asked yet."""
    from confluent_kafka import Consumer, KafkaException, Producer

    client = {**kafka.native, "log_level": 0}
    try:
        return Consumer({**client, "group.id": f"penstock-{uuid.uuid4().hex[:8]}"}), Producer(client)
    except KafkaException as error:
        raise InputError(
            f"penstock's own client refuses its settings: {error.args[0].str()}",
            at="spark.kafka",
            hint="it takes those of Java's client that librdkafka has, too",
        ) from None


def blamed(query: Query, error: object) -> str:
    """Return an error that Spark ended a query with; it does not say itself which topic is not there."""
    text = short(error)
    if NO_TOPIC not in text or not query.topics:
        return text
    return f"{text} (topics read: {'; '.join(f'{source}: {said}' for source, said in query.topics.items())})"


def can_ask() -> bool:
    """Whether brokers can be asked from here."""
    return importlib.util.find_spec("confluent_kafka") is not None


def _check(client: Consumer | Producer, topics: Mapping[str, str], patience: float) -> None:
    """Refuse the first topic that is not there, and does not come within some time (s)."""
    deadline = time.monotonic() + patience
    for topic, at in topics.items():
        while not _there(client, topic):
            if time.monotonic() >= deadline:
                names = sorted(name for name in client.list_topics(timeout=PATIENCE).topics if not name.startswith(OWN))
                hint = f"make it first; {suggest(topic, names, 'topics')}"
                raise InputError(f"there is no topic {topic!r}", at=at, hint=hint)
            time.sleep(0.1)


def _there(client: Consumer | Producer, topic: str) -> bool:
    """Whether brokers know a topic, or do not say."""
    from confluent_kafka import KafkaError

    found = client.list_topics(topic, timeout=PATIENCE).topics[topic]
    refused = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION)
    return found.error is None or found.error.code() not in refused
