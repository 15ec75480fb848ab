"""A partition of a log's topic, read message by message. It is shipped to the hosts by value."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypedDict, cast

from penstock.spark.hop import Mark

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import KafkaError

PATIENCE = 60.0
"""How long (s) a broker may be away."""

MEMORY = 8
"""Marks that a reader remembers."""


class Said(TypedDict):
    """What a mark says: the batch that comes next, the mark, and how far a reader would come."""

    batch: int
    mark: Mark
    settled: int


class Consumed(Protocol):
    """A message as the client hands it out; one with an error has no value."""

    def error(self) -> KafkaError | None:
        """What went wrong."""

    def partition(self) -> int:
        """The partition's number."""

    def offset(self) -> int:
        """The place there."""

    def headers(self) -> Sequence[tuple[str, bytes]] | None:
        """Names and values."""

    def key(self) -> bytes | None:
        """The key."""

    def value(self) -> bytes:
        """The value."""

    def timestamp(self) -> tuple[int, int]:
        """Kind, and when the topic had it (ms since 1970)."""


@dataclass(frozen=True)
class Message:
    """A message: where it is, its headers, its value."""

    partition: int
    offset: int
    headers: Mapping[str, int]
    value: bytes

    @property
    def behind(self) -> int:
        """The offset behind it; a mark ends its transaction, for which Kafka takes one more."""
        return self.offset + (1 if "piece" in self.headers else 2)

    @property
    def rows(self) -> pa.RecordBatch:
        """The record batch of a piece."""
        import pyarrow as pa

        with pa.ipc.open_stream(self.value) as reader:
            return reader.read_next_batch()

    @property
    def said(self) -> Said:
        """What a mark says."""
        said: Said = json.loads(self.value)
        return said


class Partition:
    """Reads one partition, message by message, from any offset; knows again what it has read last."""

    def __init__(self, client: Mapping[str, str], topic: str, number: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._place = TopicPartition(topic, number)
        self._consumer = Consumer(
            {
                **client,
                "group.id": f"{topic}-readers",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                # A reader that goes elsewhere waits for what it has asked for before.
                "fetch.wait.max.ms": 50,
                "queued.max.messages.kbytes": 16384,
            }
        )
        self._next: int | None = None
        self._ended = self._high = -1
        self._known: dict[int, Message] = {}

    @property
    def low(self) -> int:
        """The first offset that is left."""
        return self._ends()[0]

    def message(self, offset: int, *, sure: bool = True) -> Message | None:
        """Return the first message from an offset on; None if there is none yet, unless it is ``sure`` to be there."""
        if offset in self._known:
            return self._known[offset]
        if self._next != offset:
            self._seek(offset)
        if not sure and max(offset, self._ended) >= self._high:
            self._high = self._ends()[1]
            if max(offset, self._ended) >= self._high:
                return None
        found = self._poll(None if sure else self._high)
        if found is not None:
            self._next = found.behind
            self._keep(offset, found)
        return found

    def sure(self, offset: int) -> Message:
        """Return the first message from an offset on, which is waited for."""
        found = self.message(offset)
        if found is None:
            raise RuntimeError(f"{self._place.topic} ends before {offset}")
        return found

    def _keep(self, offset: int, found: Message) -> None:
        """Remember what was found: marks are asked for again, pieces at most once."""
        recent = [*self._known.items()][-2 * MEMORY :]
        self._known = {place: known for place, known in recent if "piece" not in known.headers}
        self._known |= {offset: found, found.offset: found}

    def last_mark(self) -> Message | None:
        """Return the last mark, None if there is none; nothing is fetched that comes later."""
        try:
            return self._last_mark()
        finally:
            self._consumer.unassign()
            self._next = None

    def _last_mark(self) -> Message | None:
        low, high = self._ends()
        span = 2
        while high > low:
            begin = max(low, high - span)
            self._seek(begin)
            last, behind = None, begin
            while behind < high and (found := self._poll(high)) is not None:
                last, behind = found if "piece" not in found.headers else last, found.behind
            if last is not None or begin == low:
                return last
            span *= 4
        return None

    def close(self) -> None:
        """Let the broker go."""
        self._consumer.close()

    def _seek(self, offset: int) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(self._place.topic, self._place.partition, offset)])
        self._next, self._ended = offset, -1

    def _poll(self, high: int | None) -> Message | None:
        """Return the next message; None where there is none in front of ``high``."""
        from confluent_kafka import KafkaError

        # The client asks for its group's coordinator although offsets are given, and goes on without.
        away = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError.GROUP_AUTHORIZATION_FAILED)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            message = cast("Consumed | None", self._consumer.poll(0.5))
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._ended = message.offset()
                if high is not None and self._ended >= high:
                    return None
            elif error is not None and not error.retriable() and error.code() not in away:
                raise RuntimeError(f"{self._place.topic}: {error}")
            elif error is None:
                headers = {key: int(value) for key, value in message.headers() or ()}
                return Message(self._place.partition, message.offset(), headers, message.value())
        end, topic = self._ends()[1], self._place.topic
        if self._next is not None and self._next > end:
            raise RuntimeError(f"{topic} ends at {end}, and {self._next} is noted as there: was it removed?")
        raise RuntimeError(f"{topic}: the broker has said nothing for {PATIENCE:g} s")

    def _ends(self) -> tuple[int, int]:
        """Return the first offset, and the one behind the last transaction that has ended."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(self._place, timeout=5.0)
                return int(low), int(high)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
