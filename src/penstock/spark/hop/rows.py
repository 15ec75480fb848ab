"""Single rows in topics, as queries in real-time mode write them, and what a topic holds of them already.

Spark delivers them at least once: what a query had written since its last batch ended, it writes again when it goes on.
Each message says the lane of its row and the row's position there (see `penstock.spark.shipped.PLACE`). In a partition
the rows of a lane are in order, so that the last one there tells which are missing, and a row that is not beyond the
last one is there twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

import attrs

from penstock.errors import EngineError
from penstock.spark.hop.partition import PATIENCE, Consumed
from penstock.spark.shipped.messages import HEADER

STIMULUS = f"{HEADER}-stimulus"
"""Name of the header with a row's stimulus time (µs since 1970)."""

Answer = TypeVar("Answer")

LASTS = 10.0
"""Seconds for which the number of a topic's partitions is taken to be what it was."""

AT_ONCE = 10_000
"""Messages that are asked for at a time."""


@attrs.frozen
class Row:
    """A row in a topic, without its content.

    Attributes
    ----------
    partition, offset
        Where it is.
    lane, position
        Which row it is.
    visible, stimulus
        When the topic had it (ms), and its stimulus time (µs), since 1970.
    """

    partition: int
    offset: int
    lane: int
    position: int
    visible: int
    stimulus: int


@attrs.frozen
class Held:
    """What a topic holds of a lane.

    All rows up to ``low`` are there, none beyond ``high``, and of those between the ``known``: words of 64 positions by
    number, with a bit for each that is there.
    """

    low: int
    high: int
    known: Mapping[int, int] = attrs.field(factory=dict, hash=False)


def row_of(message: Consumed, label: str) -> Row | None:
    """Return the row that a message holds if its mark begins with a label, else None.

    The mark is the header of that name, or where there is none the key.
    """
    headers = dict(message.headers() or ())
    mark, mine = headers.get(HEADER, message.key()), label.encode() + b":"
    if mark is None or not mark.startswith(mine):
        return None
    lane, position, _ = mark[len(mine) :].split(b":")
    stimulus = int(headers.get(STIMULUS, b"0"))
    return Row(message.partition(), message.offset(), int(lane), int(position), message.timestamp()[1], stimulus)


def held(rows: Iterator[Row], partitions: int, *, exactly: bool = False) -> dict[int, Held]:
    """Return what a topic holds of each lane, from its latest rows.

    Rows of a lane in a partition come in order, so that the last one tells of those before, unless the broker refused
    some of them: ``exactly`` what was seen is there then.
    """
    last: dict[int, dict[int, int]] = {}
    known: dict[int, dict[int, int]] = {}
    for row in rows:
        ends = last.setdefault(row.lane, {})
        ends[row.partition] = max(ends.get(row.partition, -1), row.position)
        words = known.setdefault(row.lane, {})
        words[row.position >> 6] = words.get(row.position >> 6, 0) | 1 << (row.position & 63)
    found = {}
    for lane, ends in last.items():
        # A lane stays in one partition unless the user's keys spread it.
        low = max(ends.values()) if partitions == 1 else min(ends.get(number, -1) for number in range(partitions))
        high = max(ends.values())
        low = -1 if exactly else low
        between = known[lane] if low < high else {}
        found[lane] = Held(low, high, {word: bits for word, bits in between.items() if word >= low >> 6})
    return found


class RowTopic:
    """A topic with rows of one writer or sink.

    Parameters
    ----------
    client
        Settings of librdkafka.
    topic
        Its name.
    label
        What the marks of the rows in question begin with.
    """

    def __init__(self, client: Mapping[str, str], topic: str, label: str) -> None:
        from confluent_kafka import Consumer

        self.topic, self.label = topic, label
        settings = {"group.id": f"penstock-{uuid.uuid4().hex[:8]}", "enable.auto.commit": False, "log_level": 0}
        settings |= {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 100}
        # What ends a topic may be no message: a mark of somebody's transaction, or one that was removed. Ours are in
        # none, and those of others that are under way hide nothing.
        settings |= {"enable.partition.eof": True, "isolation.level": "read_uncommitted"}
        self._consumer = Consumer({**client, **settings})
        self._counted = (0, 0.0)

    def __enter__(self) -> RowTopic:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def partitions(self) -> int:
        """How many partitions the topic has.

        Raises
        ------
        EngineError
            If there is no such topic.
        """
        count, until = self._counted
        if time.monotonic() > until:
            found = _again(lambda: self._consumer.list_topics(self.topic, timeout=5.0)).topics.get(self.topic)
            if found is None or found.error is not None:
                raise EngineError(f"there is no topic {self.topic!r}: make it first")
            count = len(found.partitions)
            self._counted = count, time.monotonic() + LASTS
        return count

    def ends(self) -> dict[int, int]:
        """Return the offset behind the last message of each partition."""
        return {number: self._bounds(number)[1] for number in range(self.partitions)}

    def begins(self) -> dict[int, int]:
        """Return the offset of the first message of each partition that is still there."""
        return {number: self._bounds(number)[0] for number in range(self.partitions)}

    def since(self, moment: int) -> dict[int, int]:
        """Return the first offset of each partition that is not older than a moment (ms since 1970)."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(self.topic, number, moment) for number in range(self.partitions)]
        found = _again(lambda: self._consumer.offsets_for_times(asked, timeout=5.0))
        ends = self.ends()
        return {each.partition: each.offset if each.offset >= 0 else ends[each.partition] for each in found}

    def rows(self, begin: Mapping[int, int], end: Mapping[int, int] | None = None) -> Iterator[Row]:
        """Return the rows between offsets, by default up to what is there now."""
        from confluent_kafka import KafkaError, TopicPartition

        end = self.ends() if end is None else end
        # What users remove early is gone.
        here = {number: max(offset, self._bounds(number)[0]) for number, offset in begin.items()}
        waiting = {number for number, offset in here.items() if offset < end[number]}
        if not waiting:
            return
        self._consumer.assign([TopicPartition(self.topic, number, here[number]) for number in sorted(waiting)])
        heard = time.monotonic()
        while waiting:
            # It waits until there are so many.
            left = sum(end[number] - here[number] for number in waiting)
            consumed = cast("list[Consumed]", self._consumer.consume(min(AT_ONCE, left), 0.5))
            for message in consumed:
                number, offset, error = message.partition(), message.offset(), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    continue
                heard = time.monotonic()
                here[number] = offset if error is not None else offset + 1
                if here[number] >= end[number]:
                    waiting.discard(number)
                if error is None and offset < end[number] and (row := row_of(message, self.label)) is not None:
                    yield row
            if waiting and time.monotonic() - heard > PATIENCE:
                raise EngineError(f"the broker says nothing of the topic {self.topic!r}")
        self._consumer.unassign()

    def _bounds(self, number: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        low, high = _again(
            lambda: self._consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=5.0)
        )
        return int(low), int(high)


def _again(ask: Callable[[], Answer]) -> Answer:
    """Return what a broker answers; it may be away for a moment."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + PATIENCE / 2
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise EngineError(f"Kafka does not answer: {error.args[0].str()}") from None
            time.sleep(0.2)
