"""A log in a Kafka topic. It is shipped to the hosts by value; they need the package confluent-kafka.

A batch is one transaction: its pieces, Arrow record batches dealt out to the partitions in turn, and behind them in
every partition a mark. So a batch is there whole or not at all, and a writer that was cut off, or goes on although a
newer one has begun, can show nothing: the newer one has taken its name over. Headers say of each message which piece of
which batch it is, how many rows it has, and between which stimulus times these lie.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.spark.hop import READ_ROWS, SILENT, START, Mark, Piece, Position, Stored, mark_row, room, shaped
from penstock.spark.hop.partition import PATIENCE, Message, Partition, Said
from penstock.spark.hop.pieces import PIECE_BYTES, packed, pieces, stimuli
from penstock.spark.hop.sender import Sender
from penstock.spark.hop.topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import AdminClient

    from penstock.files import Document

NOTHING: Said = {"batch": 0, "mark": SILENT, "settled": 0}
"""What a log says that holds no batch yet."""

MOMENT = 3.0
"""How long (s) at most to wait for a broker that removes rows."""

LINGER = 2.0
"""How long (s) at most to wait for a transaction to end when asked how far a log is."""


class KafkaLog:
    """A log in a topic.

    Positions hold, beside batch and piece, the next offset of each partition, the rows of the batch that were read, and
    the offset of the last mark in the first partition.

    Parameters
    ----------
    topics, writer
        Where, and whose log.
    shape
        Arrow schema in which readers want the rows, with envelope; writers need none.
    """

    def __init__(self, topics: Topics, writer: str, shape: pa.Schema | None = None) -> None:
        self.topics, self.writer, self.shape = topics, writer, shape
        self.topic = topics.name(writer)
        self._sender: Sender | None = None
        self._written = NOTHING
        self._readers: dict[int, Partition] = {}
        self._quiet: tuple[tuple[int, int], Position] | None = None
        self._admin: AdminClient | None = None

    def __getstate__(self) -> Document:
        return {**self.__dict__, "_sender": None, "_written": NOTHING, "_readers": {}, "_admin": None}

    # Writing

    def write(self, batch: int, rows: pa.Table, mark: Mark) -> bool:
        """Append a batch; return False if it is there already (a replay)."""
        return self.append(batch, [self.store(batch, rows)], mark)

    def store(self, batch: int, rows: pa.Table) -> Stored:
        """Return a task's share of a batch as messages: one producer sends them all, in one transaction."""
        parts = pieces(rows, PIECE_BYTES)
        return {"pieces": [{"rows": part.num_rows, **stimuli(part)} for part in parts]}, [*map(packed, parts)]

    def append(self, batch: int, stored: Sequence[Stored], mark: Mark) -> bool:
        """Append a batch; return False if it is there already (a replay)."""
        if self._sender is None:
            self._sender = Sender(self.topics, self.topic)
            # Of what an earlier producer left, this one shows nothing more: the last mark is the last.
            self._written = self._last()
        if batch < self._written["batch"]:
            return False
        messages = [pair for said, values in stored for pair in zip(said["pieces"], values, strict=True)]
        news = bool(messages) or mark[0] != self._written["mark"][0]
        said: Said = {
            "batch": batch + 1,
            "mark": mark,
            "settled": batch + 1 if news else self._written["settled"],
        }
        try:
            self._sender.send(batch, messages, said)
        except BaseException:
            # What is left of the transaction is given up when the next one takes the name over.
            self._sender = None
            raise
        self._written = said
        return True

    # Reading

    def read(
        self, start: Position, until: int | None, most: int | None = None
    ) -> tuple[list[pa.RecordBatch], Position]:
        """Return what follows a position, about ``most`` rows; trailing batches that say nothing are left.

        What lies before batch ``until`` is there for sure, and is waited for.
        """
        found, end = self._walk(start, until, min(most or READ_ROWS, READ_ROWS))
        rows = [shaped(message.rows, self.shape) for message in found]
        return rows + (self.mark(end) if end["batch"] > start["batch"] else []), end

    def plan(self, start: Position, until: int | None, most: int) -> tuple[list[Piece], Position]:
        """Return the pieces that follow a position, about ``most`` rows, and the position behind."""
        found, end = self._walk(start, until, most)
        return [_place(message) for message in found], end

    def _walk(self, start: Position, until: int | None, left: int) -> tuple[list[Message], Position]:
        found: list[Message] = []
        space, place = room(left), (start["batch"], start["piece"])
        # Batches that say nothing are left, but not looked at again.
        here = dict(self._quiet[1] if self._quiet and self._quiet[0] == place else start)
        end, frontier = start, _frontier(self.mark(start))
        while here["batch"] != until:
            message = self._at(here["piece"] % self.topics.partitions, here, sure=until is not None)
            if message is None or (left <= 0 and "piece" in message.headers):
                break
            if "piece" in message.headers:
                if message.headers["batch"] != here["batch"] or message.headers["piece"] != here["piece"]:
                    raise RuntimeError(f"{self.topic} has {message.headers} where {here} comes next")
                found.append(message)
                space -= len(message.value)
                left = left - message.headers["rows"] if space > 0 else 0
                _passed(here, message)
                here |= {"piece": here["piece"] + 1, "rows": here.get("rows", 0) + message.headers["rows"]}
                end = dict(here)
                continue
            said = message.said["mark"]
            news = here["piece"] > 0 or said[0] != frontier
            if not self._pass_marks(here, sure=until is not None):
                break
            if news:
                end, frontier = dict(here), said[0]
            elif end is start:
                self._quiet = place, dict(here)
            if left <= 0:
                break
        return found, end

    def _pass_marks(self, here: Position, *, sure: bool) -> bool:
        """Step over the marks of a batch, in all partitions; they came in one transaction."""
        for partition in range(self.topics.partitions):
            message = self._at(partition, here, sure=sure)
            if message is None:
                return False
            if partition == 0:
                here["mark"] = message.offset
            _passed(here, message)
        here |= {"batch": here["batch"] + 1, "piece": 0, "rows": 0}
        return True

    def between(self, start: Position, end: Position) -> list[pa.RecordBatch]:
        """Return what lies between two positions: rows, and the mark of the last whole batch."""
        rows = [shaped(message.rows, self.shape) for message in self._between(start, end)]
        return rows + (self.mark(end) if end["batch"] > start["batch"] else [])

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """Return the pieces between two positions."""
        return [*map(_place, self._between(start, end))]

    def fetch(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Read pieces as record batches in the readers' types."""
        for partition, offset, _ in pieces:
            yield shaped(self._reader(partition).sure(offset).rows, self.shape)

    def _between(self, start: Position, end: Position) -> list[Message]:
        found: list[Message] = []
        here = dict(start)
        while (here["batch"], here["piece"]) < (end["batch"], end["piece"]):
            partition = here["piece"] % self.topics.partitions
            message = self._reader(partition).sure(self._from(partition, here))
            if "piece" in message.headers:
                found.append(message)
                _passed(here, message)
                here["piece"] += 1
            else:
                self._pass_marks(here, sure=True)
        return found

    def at(self, batch: int) -> Position:
        """Return the position in front of a batch that is there, or comes next."""
        here: Position = {**START, "batch": batch}
        if batch == 0:
            return here
        self._await_ends()
        for partition in range(self.topics.partitions):
            reader = self._reader(partition)
            offset = reader.low
            # Every partition has a mark of every batch, until all readers have passed it.
            while (found := reader.message(offset, sure=False)) is not None and found.headers["batch"] < batch:
                offset = found.behind
                if "piece" in found.headers:
                    continue
                if partition == 0:
                    here["mark"] = found.offset
                if found.headers["batch"] == batch - 1:
                    break
            here[f"from{partition}"] = offset
        return here

    def mark(self, position: Position) -> list[pa.RecordBatch]:
        """Return the mark of the last whole batch before a position, or nothing."""
        if position["batch"] == 0 or "mark" not in position:
            return []
        found = self._reader(0).message(position["mark"])
        frontier, latest = SILENT if found is None else found.said["mark"]
        return [] if (frontier, latest) == SILENT else [mark_row((frontier, latest), self.shape)]

    def _at(self, partition: int, here: Position, *, sure: bool) -> Message | None:
        """Return the message of a partition that comes next at a position, None if it is not there yet."""
        return self._reader(partition).message(self._from(partition, here), sure=sure)

    def _from(self, partition: int, here: Position) -> int:
        offset = here.get(f"from{partition}")
        return self._reader(partition).low if offset is None else offset

    def _reader(self, partition: int) -> Partition:
        if partition not in self._readers:
            self._readers[partition] = Partition(self.topics.client, self.topic, partition)
        return self._readers[partition]

    def length(self) -> int:
        """Return the number of the batch that comes next."""
        return self._last()["batch"]

    def settled(self) -> int:
        """Return how far a reader would come now: behind the last batch with rows or a new frontier."""
        return self._last()["settled"]

    def _last(self) -> Said:
        """Return what the last mark says."""
        self._await_ends()
        message = self._reader(0).last_mark()
        return NOTHING if message is None else message.said

    def _await_ends(self) -> None:
        """Wait for transactions that have ended to be shown, which brokers do a moment later."""
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        admin = self._administrator()
        asked = {TopicPartition(self.topic, number): OffsetSpec.latest() for number in range(self.topics.partitions)}

        def ends(level: IsolationLevel) -> list[int]:
            found = admin.list_offsets(asked, isolation_level=level, request_timeout=PATIENCE)
            return [future.result(PATIENCE).offset for future in found.values()]

        def shown() -> bool:
            try:
                return ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED)
            except KafkaException:
                # The partitions of a topic that has just been made may have no leader yet.
                return False

        deadline = time.monotonic() + LINGER
        # A writer that was cut off may have left one open.
        while not shown() and time.monotonic() < deadline:
            time.sleep(0.005)

    def clean(self, passed: list[Position]) -> str:
        """Remove what all readers have passed; the last mark before stays, since it carries the frontier."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        if not passed or any("mark" not in position for position in passed):
            return ""
        ends = [min(position["mark"] for position in passed)]
        ends += [min(position[f"from{number}"] for position in passed) for number in range(1, self.topics.partitions)]
        places = [TopicPartition(self.topic, number, end) for number, end in enumerate(ends)]
        deadline = time.monotonic() + MOMENT
        try:
            for future in self._administrator().delete_records(places, request_timeout=MOMENT).values():
                future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return ""
        except KafkaException as error:
            # All else passes: a broker is away, or another one leads now.
            lasting = (
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
                KafkaError.CLUSTER_AUTHORIZATION_FAILED,
                KafkaError.POLICY_VIOLATION,
                KafkaError.UNSUPPORTED_VERSION,
            )
            return str(error.args[0].str()) if error.args[0].code() in lasting else ""
        return ""

    def _administrator(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient({"log_level": "0", **self.topics.client})
        return self._admin

    def close(self) -> None:
        """Let the topic go."""
        for reader in self._readers.values():
            reader.close()
        self._readers, self._sender, self._admin = {}, None, None


def _place(message: Message) -> Piece:
    return message.partition, message.offset, message.headers["rows"]


def _passed(here: Position, message: Message) -> None:
    here[f"from{message.partition}"] = message.behind


def _frontier(marks: list[pa.RecordBatch]) -> int | None:
    """Return the frontier of a mark as a record batch."""
    import pyarrow as pa

    return marks[0].column("__time").cast(pa.int64())[0].as_py() if marks else None
