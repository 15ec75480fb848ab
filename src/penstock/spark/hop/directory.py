"""A log in a folder: for each batch a head, an Arrow file named by the batch's number. It is shipped to hosts by value.

A head holds the batch's rows itself, or says in which files beside it tasks have stored them; a file that no head names
is none of the log.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.hop import READ_ROWS, SILENT, START, Mark, Piece, Position, Stored, mark_row, room, shaped
from penstock.spark.hop.pieces import pieces
from penstock.spark.shipped.place import Place

if TYPE_CHECKING:
    import pyarrow as pa

HEAD = b"penstock.head"
FILE = re.compile(r"(\d+)(-\w+)?\.arrow")

Sizes = Sequence[tuple[int, int]]
"""Of each piece in a file its rows and bytes."""

PIECE_BYTES = 8 << 20
"""Bytes of a piece in a file, unless a single row has more."""

MEMORY = 64
"""Heads that a log remembers."""


@dataclass(frozen=True)
class Head:
    """What is known of a batch: its mark, and its files with each piece's rows and bytes; '' is the head's own."""

    mark: Mark
    files: tuple[tuple[str, Sizes], ...]

    def pieces(self, batch: int) -> list[Piece]:
        """Return the batch's pieces, in order."""
        return [
            (batch, name, place, size, rows) for name, sizes in self.files for place, (rows, size) in enumerate(sizes)
        ]


class DirectoryLog:
    """A log in a folder.

    Parameters
    ----------
    folder
        Of the log.
    shape
        Arrow schema in which readers want the rows, with envelope; writers need none.
    """

    def __init__(self, folder: Place, shape: pa.Schema | None = None) -> None:
        self.folder, self.shape = folder, shape
        self._passed = 0
        self._heads: dict[int, Head] = {}

    @property
    def writer(self) -> str:
        """The operator whose rows it holds."""
        return self.folder.name

    def file(self, batch: int) -> Place:
        """Return the head of a batch."""
        return self.folder / f"{batch:012d}.arrow"

    # Writing

    def write(self, batch: int, rows: pa.Table, mark: Mark) -> bool:
        """Append a batch; return False if it is there already (a replay)."""
        parts = pieces(rows, PIECE_BYTES)
        head = Head(mark, (("", _sizes(parts)),) if parts else ())
        return self.file(batch).publish(_packed(rows.schema, parts, head))

    def store(self, batch: int, rows: pa.Table) -> Stored:
        """Store a task's share of a batch in a file of its own; more than one try may do so."""
        name, parts = f"{batch:012d}-{uuid.uuid4().hex}.arrow", pieces(rows, PIECE_BYTES)
        (self.folder / name).replace(_packed(rows.schema, parts, None))
        return {"file": name, "pieces": _sizes(parts)}, []

    def append(self, batch: int, stored: Sequence[Stored], mark: Mark) -> bool:
        """Append a batch whose rows tasks have stored; return False if it is there already."""
        import pyarrow as pa

        head = Head(mark, tuple((said["file"], said["pieces"]) for said, _ in stored))
        return self.file(batch).publish(_packed(pa.schema([]), [], head))

    # Reading

    def read(
        self, start: Position, until: int | None, most: int | None = None
    ) -> tuple[list[pa.RecordBatch], Position]:
        """Return what follows a position, about ``most`` rows, and the mark of the last whole batch."""
        pieces, end = self.plan(start, until, min(most or READ_ROWS, READ_ROWS))
        return [*self.fetch(pieces), *(self.mark(end) if end["batch"] > start["batch"] else ())], end

    def plan(self, start: Position, until: int | None, most: int) -> tuple[list[Piece], Position]:
        """Return the pieces that follow a position, and the position behind.

        Trailing batches without rows or a new frontier are left for later: otherwise a query that reads its own
        output would never come to rest.
        """
        batch, piece, end = start["batch"], start["piece"], start
        left = room(most)
        found: list[Piece] = []
        known = self.marked(batch - 1)
        while most > 0 and batch != until and (head := self._head(batch)) is not None:
            parts = head.pieces(batch)
            while piece < len(parts) and most > 0:
                found.append(parts[piece])
                *_, size, rows = parts[piece]
                left -= size
                most = most - rows if left > 0 else 0
                piece += 1
            if piece < len(parts):
                return found, {"batch": batch, "piece": piece, "rows": sum(part[-1] for part in parts[:piece])}
            batch, piece = batch + 1, 0
            if parts or head.mark[0] != known[0]:
                end, known = self.at(batch), head.mark
        return found, end

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """Return the pieces between two positions."""
        found = []
        for batch in range(start["batch"], end["batch"] + (end["piece"] > 0)):
            parts = self._sure(batch).pieces(batch)
            last = end["piece"] if batch == end["batch"] else len(parts)
            found += parts[start["piece"] if batch == start["batch"] else 0 : last]
        return found

    def fetch(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Read pieces as record batches in the readers' types."""
        for (batch, name), group in itertools.groupby(pieces, key=lambda piece: piece[:2]):
            with (self.folder / name if name else self.file(batch)).open() as file:
                reader = _reader(file)
                for piece in group:
                    yield shaped(reader.get_batch(piece[2]), self.shape)

    def between(self, start: Position, end: Position) -> list[pa.RecordBatch]:
        """Return what lies between two positions: rows, and the mark of the last whole batch."""
        found = [*self.fetch(self.pieces(start, end))]
        return found + (self.mark(end) if end["batch"] > start["batch"] else [])

    def at(self, batch: int) -> Position:
        """Return the position in front of a batch."""
        return {**START, "batch": batch}

    def mark(self, position: Position) -> list[pa.RecordBatch]:
        """Return the mark of the last whole batch before a position, or nothing."""
        mark = self.marked(position["batch"] - 1)
        return [] if mark == SILENT else [mark_row(mark, self.shape)]

    def marked(self, batch: int) -> Mark:
        """Return the mark that a batch carries."""
        return SILENT if batch < 0 else self._sure(batch).mark

    def length(self) -> int:
        """Return the number of the batch that comes next."""
        return max(self.folder.numbers(), default=-1) + 1

    def settled(self) -> int:
        """Return how far a reader would come now: behind the last batch with rows or a new frontier."""
        numbers = self.folder.numbers()
        for batch in reversed(numbers):
            if batch < self._passed:
                break
            head = self._sure(batch)
            before = self.marked(batch - 1) if batch > numbers[0] else SILENT
            if head.files or head.mark[0] != before[0]:
                self._passed = batch + 1
                break
        return self._passed

    def clean(self, passed: list[Position]) -> str:
        """Remove what readers have passed; the batch before stays, since it carries the frontier."""
        before = min(position["batch"] for position in passed)
        for name in self.folder.names():
            if (found := FILE.fullmatch(name)) and int(found[1]) < before - 1:
                (self.folder / name).remove()
        return ""

    def close(self) -> None:
        """Nothing is open."""

    def _sure(self, batch: int) -> Head:
        head = self._head(batch)
        if head is None:
            raise FileNotFoundError(f"{self.file(batch).path} is gone")
        return head

    def _head(self, batch: int) -> Head | None:
        """Return what is known of a batch, None if it is not there yet."""
        if batch not in self._heads:
            if not self.file(batch).exists():
                return None
            with self.file(batch).open() as file:
                mark, files = json.loads(_reader(file).schema.metadata[HEAD])
            for old in [*self._heads][: -MEMORY + 1]:
                del self._heads[old]
            self._heads[batch] = Head(tuple(mark), tuple((name, sizes) for name, sizes in files))
        return self._heads[batch]


def _sizes(parts: Sequence[pa.RecordBatch]) -> Sizes:
    return [(part.num_rows, part.nbytes) for part in parts]


def _packed(schema: pa.Schema, parts: Sequence[pa.RecordBatch], head: Head | None) -> pa.Buffer:
    """Return record batches, and what a head says, as an Arrow file."""
    import pyarrow as pa

    said = {} if head is None else {HEAD: json.dumps([head.mark, head.files]).encode()}
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_file(buffer, schema.with_metadata(said)) as writer:
        for part in parts:
            writer.write_batch(part.replace_schema_metadata(said))
    return buffer.getvalue()


def _reader(file: pa.NativeFile) -> pa.ipc.RecordBatchFileReader:
    import pyarrow as pa

    return pa.ipc.open_file(file)
