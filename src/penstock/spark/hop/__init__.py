"""How rows pass from one query to another: a log that one query writes and others read.

A *log* holds batches of rows. With each batch comes the stream's *frontier*, an event time (µs since the epoch) of
which the writer promises that nothing older will follow, and the latest event time so far; None as long as the writer
has heard of none. A reader gets the two as a row without identity, a *mark*, behind the rows that it covers: the
frontier as its event time, the latest event time in place of its stimulus time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.files import Document

Position = dict[str, int]
"""Where a reader is: the batch that it reads next, how many pieces of that batch and rows in them it has read already,
and what the log notes besides."""

START: Position = {"batch": 0, "piece": 0}
SILENT = (None, None)

Mark = tuple[int | None, int | None]
"""Frontier and latest event time (µs since the epoch)."""

Stored: TypeAlias = "tuple[Document, list[bytes]]"
"""What tells a log of rows that a task has stored: a document, and bytes that it cannot hold."""

Piece = tuple[Any, ...]
"""Where a piece of a batch is, as its log knows it; its rows are the last.

In a folder: batch, file, place in the file, bytes; in a topic: partition, offset.
"""

READ_ROWS = 200_000
"""Rows that a reader takes at once, unless a single piece of a batch is larger."""

READ_BYTES = 64 << 20
"""Bytes that a reader takes at once for every `READ_ROWS`, likewise: those of a batch meet in their host's memory."""

PIECE_ROWS = 20_000
"""Rows of a piece, the smallest part that a reader takes."""


class Hop(Protocol):
    """A log, as its writer and its readers see it."""

    @property
    def writer(self) -> str:
        """The operator whose rows it holds."""

    def write(self, batch: int, rows: pa.Table, mark: Mark) -> bool:
        """Append a batch (a pyarrow table with envelope); return False if it is there already."""

    def store(self, batch: int, rows: pa.Table) -> Stored:
        """Store a task's share of a batch where no reader sees it; more than one try may do so."""

    def append(self, batch: int, stored: Sequence[Stored], mark: Mark) -> bool:
        """Append a batch of which all rows are stored; return False if it is there already."""

    def read(
        self, start: Position, until: int | None, most: int | None = None
    ) -> tuple[list[pa.RecordBatch], Position]:
        """Return what follows a position as record batches, and the position behind.

        Not beyond batch ``until``, and about ``most`` rows, `READ_ROWS` and `READ_BYTES` at most.
        """

    def plan(self, start: Position, until: int | None, most: int) -> tuple[list[Piece], Position]:
        """Return the pieces that follow a position, about ``most`` rows, fewer wide ones, and the position behind."""

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """Return the pieces between two positions."""

    def fetch(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Read pieces as record batches; any process can do so."""

    def between(self, start: Position, end: Position) -> list[pa.RecordBatch]:
        """Return what lies between two positions, the same whenever it is asked for."""

    def at(self, batch: int) -> Position:
        """Return the position in front of a batch that is there, or comes next."""

    def mark(self, position: Position) -> list[pa.RecordBatch]:
        """Return what is known of event time at a position, as a record batch with one mark, or nothing."""

    def length(self) -> int:
        """Return the number of the batch that comes next."""

    def settled(self) -> int:
        """Return how far a reader would come now: behind the last batch with rows or a new frontier."""

    def clean(self, passed: list[Position]) -> str:
        """Remove what readers at these positions have passed; the mark before stays.

        Returns
        -------
        str
            Why that is refused, if it is. What cannot be removed at the moment is not told: it goes next time.
        """

    def close(self) -> None:
        """Let go of what was opened."""


def room(most: int) -> int:
    """Return how many bytes a reader takes that takes ``most`` rows."""
    return READ_BYTES * max(1, most // READ_ROWS)


def shaped(batch: pa.RecordBatch, shape: pa.Schema) -> pa.RecordBatch:
    """Return a record batch in the readers' types (Arrow schema), which differ in what may be null."""
    import pyarrow as pa

    columns = [
        column if column.type == field.type else column.cast(field.type)
        for field, column in ((field, batch.column(field.name)) for field in shape)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=shape)


def mark_row(mark: Mark, shape: pa.Schema) -> pa.RecordBatch:
    """Return a record batch with a mark as its only row."""
    import pyarrow as pa

    values = dict(zip(("__time", "__stimulus"), mark, strict=True))
    columns = [
        pa.array([values[field.name]], pa.int64()).cast(field.type) if field.name in values else pa.nulls(1, field.type)
        for field in shape
    ]
    return pa.RecordBatch.from_arrays(columns, schema=shape)
