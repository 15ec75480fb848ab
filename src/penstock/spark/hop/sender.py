"""Sending a log's batches to its topic, each in one transaction. It is shipped to the hosts by value."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from penstock.spark.hop.partition import PATIENCE, Said
from penstock.spark.hop.topics import Topics

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

LONGEST = 900.0
"""How long (s) a transaction may last, and its batch be on its way: brokers allow so much unless told otherwise."""

STILL = 50.0
"""Seconds in which something arrives at a broker that is there."""

Delivered: TypeAlias = "Callable[[KafkaError | None, object], None]"
"""What a producer calls when a message has arrived, or has not."""


class Sender:
    """A producer that has taken over the name of all before it: what these left open is given up.

    Parameters
    ----------
    topics, topic
        Where.
    """

    def __init__(self, topics: Topics, topic: str) -> None:
        from confluent_kafka import Producer

        self.topic, self.partitions = topic, topics.partitions
        settings: dict[str, str | int] = {
            "compression.type": "lz4",
            "linger.ms": 0,
            "message.max.bytes": 64 << 20,
            "transaction.timeout.ms": round(1000 * LONGEST),
            **topics.client,
            "transactional.id": topic,
        }
        self.longest = int(settings["transaction.timeout.ms"]) / 1000
        # The client would wait as long for a single answer.
        settings.setdefault("socket.timeout.ms", round(1000 * min(PATIENCE, self.longest)))
        self.producer = Producer(settings)
        self.producer.init_transactions(PATIENCE)

    def send(self, batch: int, messages: Sequence[tuple[Mapping[str, int], bytes]], said: Said) -> None:
        """Send the pieces of a batch, dealt out to the partitions, and its mark to every partition."""
        failed: list[KafkaError] = []

        def check(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                failed.append(error)

        deadline = time.monotonic() + self.longest
        self.producer.begin_transaction()
        for number, (headers, value) in enumerate(messages):
            self.put(number % self.partitions, value, {"batch": batch, "piece": number, **headers}, check)
        for partition in range(self.partitions):
            self.put(partition, json.dumps(said).encode(), {"batch": batch, "pieces": len(messages)}, check)
        self._commit(deadline)
        if failed:
            raise RuntimeError(f"Kafka did not take a batch of {self.topic}: {failed[0]}")

    def _commit(self, deadline: float) -> None:
        """End the transaction once all has arrived; later than a deadline brokers give it up themselves.

        Whoever wants to stop the query waits meanwhile, so that it is given up as well once nothing arrives any more.
        """
        from confluent_kafka import KafkaException

        moved = time.monotonic()
        while True:
            left = len(self.producer)
            try:
                self.producer.commit_transaction(PATIENCE)
                break
            except KafkaException as error:
                now = time.monotonic()
                moved = now if len(self.producer) < left else moved
                if not error.args[0].retriable() or now > min(deadline, moved + STILL):
                    raise

    def put(self, partition: int, value: bytes, headers: Mapping[str, int], check: Delivered) -> None:
        """Hand a message to the producer, as soon as it has room."""
        named: dict[str, str | bytes | None] = {key: str(number).encode() for key, number in headers.items()}
        while True:
            try:
                self.producer.produce(self.topic, value, partition=partition, headers=named, on_delivery=check)
                break
            except BufferError:
                self.producer.poll(0.1)
        self.producer.poll(0)
