"""What tests with Kafka share: a client with the broker's password, messages in and out."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)


def client(broker: Any, **more: Any) -> dict[str, Any]:
    """Return settings of librdkafka with the broker's password, or with others."""
    known = broker.known
    return {
        "bootstrap.servers": known["KAFKA_BOOTSTRAP"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": known["KAFKA_USER"],
        "sasl.password": known["KAFKA_PASSWORD"],
        "log_level": 0,
        **more,
    }


def settings(broker: Any, **more: Any) -> dict[str, str]:
    """Return the table ``kafka`` of a cluster, whose variables must be set."""
    return {**broker.table, **more}


def user_with(broker: Any, prefix: str, *operations: AclOperation) -> dict[str, Any]:
    """Return settings of a new user, who may do so with topics, and write in transactions, of names that begin so."""
    name, admin = f"user-{uuid.uuid4().hex[:8]}", AdminClient(client(broker))
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    made = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, scram, name.encode())])
    rights = [(ResourceType.TOPIC, each) for each in operations] + [(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)]
    given = [
        AclBinding(kind, prefix, ResourcePatternType.PREFIXED, f"User:{name}", "*", each, AclPermissionType.ALLOW)
        for kind, each in rights
    ]
    for future in [*made.values(), *admin.create_acls(given).values()]:
        future.result(30)
    return client(broker, **{"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": name, "sasl.password": name})


def make_topic(broker: Any, name: str, partitions: int = 1) -> str:
    """Make a topic with a name that begins so; return the whole."""
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client(broker))
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(30)
    return topic


def put(broker: Any, topic: str, values: Iterable[Any], keys: Sequence[str] | None = None) -> None:
    """Put values into a topic as JSON (text and bytes as they are)."""
    producer = Producer(client(broker, **{"linger.ms": 5}))
    for number, value in enumerate(values):
        text = value if isinstance(value, str | bytes) else json.dumps(value)
        producer.produce(topic, text, None if keys is None else keys[number].encode())
        producer.poll(0)
    assert producer.flush(30) == 0


def take(broker: Any, topic: str) -> list[Any]:
    """Return all messages of a topic, partition by partition."""
    consumer = Consumer(client(broker, **{"group.id": "test", "enable.auto.commit": False}))
    try:
        found = []
        for number in sorted(consumer.list_topics(topic, timeout=20).topics[topic].partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)
            if low == high:
                continue
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
            while not found or found[-1].partition() != number or found[-1].offset() < high - 1:
                message = consumer.poll(20)
                assert message is not None, f"{topic} is silent"
                assert message.error() is None, message.error()
                found.append(message)
        return found
    finally:
        consumer.close()


def values(broker: Any, topic: str) -> list[Any]:
    """Return the values of all messages of a topic, read as JSON."""
    return [json.loads(message.value()) for message in take(broker, topic)]


def forget(broker: Any, topic: str, before: int) -> None:
    """Remove the first messages of a topic's only partition."""
    admin = AdminClient(client(broker))
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(30)
