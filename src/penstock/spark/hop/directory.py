"""A log in a folder: an Arrow file per batch, named by the batch's number. It is shipped to the hosts by value."""

from __future__ import annotations

import json
from typing import Any

from penstock.spark.hop import PIECE_ROWS, READ_ROWS, SILENT, START, Mark, Position, mark_row, shaped
from penstock.spark.shipped.place import Place

MARK = b"penstock.mark"


class DirectoryLog:
    """A log in a folder.

    Parameters
    ----------
    folder
        Of the log.
    shape
        Arrow schema in which readers want the rows, with envelope; writers need none.
    """

    def __init__(self, folder: Place, shape: Any = None) -> None:
        self.folder, self.shape = folder, shape
        self._passed = 0

    @property
    def writer(self) -> str:
        """The operator whose rows it holds."""
        return self.folder.name

    def file(self, batch: int) -> Place:
        """Return the file of a batch."""
        return self.folder / f"{batch:012d}.arrow"

    def write(self, batch: int, rows: Any, mark: Mark) -> bool:
        """Append a batch; return False if it is there already (a replay)."""
        import pyarrow as pa

        marked = rows.replace_schema_metadata({MARK: json.dumps(mark).encode()})
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_file(buffer, marked.schema) as writer:
            writer.write_table(marked.combine_chunks(), max_chunksize=PIECE_ROWS)
        return self.file(batch).publish(buffer.getvalue())

    def read(self, start: Position, until: int | None) -> tuple[list[Any], Position]:
        """Return what follows a position, `READ_ROWS` rows at a time.

        Trailing batches without rows or a new frontier are left for later: otherwise a query that reads its own
        output would never come to rest.
        """
        batch, piece, left = start["batch"], start["piece"], READ_ROWS
        found: list[Any] = []
        known = passed = self.marked(batch - 1)
        end = start
        while left > 0 and batch != until and self.file(batch).exists():
            with self.file(batch).open() as file:
                reader = self._reader(file)
                count, mark = reader.num_record_batches, _mark(reader.schema)
                while piece < count and left > 0:
                    found.append(shaped(reader.get_batch(piece), self.shape))
                    left -= found[-1].num_rows
                    piece += 1
            if piece < count:
                end, known = {"batch": batch, "piece": piece}, passed
                break
            batch, piece, passed = batch + 1, 0, mark
            if count or mark[0] != known[0]:
                end, known = {"batch": batch, "piece": 0}, mark
        return found + (self._marks(known) if end["batch"] > start["batch"] else []), end

    def between(self, start: Position, end: Position) -> list[Any]:
        """Return what lies between two positions: rows, and the mark of the last whole batch."""
        found = []
        for batch in range(start["batch"], end["batch"] + (end["piece"] > 0)):
            first = start["piece"] if batch == start["batch"] else 0
            with self.file(batch).open() as file:
                reader = self._reader(file)
                last = end["piece"] if batch == end["batch"] else reader.num_record_batches
                found += [shaped(reader.get_batch(piece), self.shape) for piece in range(first, last)]
        return found + (self.mark(end) if end["batch"] > start["batch"] else [])

    def at(self, batch: int) -> Position:
        """Return the position in front of a batch."""
        return {**START, "batch": batch}

    def mark(self, position: Position) -> list[Any]:
        """Return the mark of the last whole batch before a position, or nothing."""
        return self._marks(self.marked(position["batch"] - 1))

    def marked(self, batch: int) -> Mark:
        """Return the mark that a batch carries."""
        if batch < 0:
            return SILENT
        with self.file(batch).open() as file:
            return _mark(self._reader(file).schema)

    def _marks(self, mark: Mark) -> list[Any]:
        return [] if mark == SILENT else [mark_row(mark, self.shape)]

    def length(self) -> int:
        """Return the number of the batch that comes next."""
        return max(self.folder.numbers(), default=-1) + 1

    def settled(self) -> int:
        """Return how far a reader would come now: behind the last batch with rows or a new frontier."""
        numbers = self.folder.numbers()
        for batch in reversed(numbers):
            if batch < self._passed:
                break
            with self.file(batch).open() as file:
                reader = self._reader(file)
                before = self.marked(batch - 1) if batch > numbers[0] else SILENT
                if reader.num_record_batches or _mark(reader.schema)[0] != before[0]:
                    self._passed = batch + 1
                    break
        return self._passed

    def clean(self, passed: list[Position]) -> None:
        """Remove what readers have passed; the batch before stays, since it carries the frontier."""
        before = min(position["batch"] for position in passed)
        for batch in self.folder.numbers():
            if batch < before - 1:
                self.file(batch).remove()

    def close(self) -> None:
        """Nothing is open."""

    def _reader(self, file: Any) -> Any:
        import pyarrow as pa

        return pa.ipc.open_file(file)


def _mark(schema: Any) -> Mark:
    frontier, latest = json.loads(schema.metadata[MARK])
    return frontier, latest
