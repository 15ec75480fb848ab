"""Python operators: the user's function sees the user's columns, and every row keeps its envelope."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from penstock.spark.shipped import ENVELOPE
from penstock.spark.shipped.identity import Signed, mixed, ordinals, told_apart

if TYPE_CHECKING:
    import pyarrow as pa

Step: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""What Spark's ``mapInArrow`` calls."""

ROW = "_row"
"""The column by which a function says which row it took a row from."""


class StepError(ValueError):
    """A python operator's function fails, or gives what it must not: told without the lines of what calls it."""


def wrap_python(
    function: Step, columns: Sequence[str], shape: pa.Schema, *, name: str, kept: bool, needed: bool
) -> Step:
    """Return a mapInArrow function that hands the user's columns to ``function`` and carries the envelope along.

    Parameters
    ----------
    function
        Takes and gives an iterator of record batches, as Spark's ``mapInArrow``.
    columns
        Names of the columns that it takes, in their order, whatever they are called in what Spark hands over.
    shape
        Arrow schema of what it gives, without envelope.
    name
        Of the operator, for messages.
    kept
        Whether it gives as many rows as it takes, in the same order. Else the batches that it takes have the column
        `ROW`, and what it gives with that column comes from that row.
    needed
        Whether windows or joins lie behind, which need each row's own event time.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        taken = _Taken()

        def feed() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows:
                    rows = taken.take(batch)
                    data = batch.drop_columns(list(ENVELOPE)).rename_columns(columns)
                    yield data if kept else data.append_column(ROW, rows)

        zone = pa.timestamp("us", "UTC")
        whole = pa.schema([*shape, ("__id", pa.int64()), ("__stimulus", pa.int64()), ("__time", zone)])
        for result in _given(function, feed(), name):
            if result.num_rows == 0:
                continue
            arrays = _shaped(result, shape, name)
            if kept:
                envelope = taken.next(result.num_rows, name)
            elif ROW in result.schema.names:
                envelope = taken.of(result.column(ROW), name)
            elif needed:
                raise StepError(_told(name))
            else:
                envelope = taken.latest(result.num_rows)
            yield pa.RecordBatch.from_arrays([*arrays, *envelope], schema=whole)
        if kept:
            taken.end(name)

    return run


def _given(function: Step, batches: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """Return what a function gives of batches; what it raises is told with the last line of its own."""
    import pyarrow as pa

    try:
        for result in function(batches):
            if not isinstance(result, pa.RecordBatch):
                raise StepError(f"operator {name!r} gave a {type(result).__name__}: it must yield Arrow record batches")
            yield result
    except StepError:
        raise
    except Exception as error:
        mine, *frames = traceback.extract_tb(error.__traceback__)
        if any(frame.filename == mine.filename for frame in frames):
            raise  # it could not be handed its rows
        raise StepError(f"operator {name!r}: {type(error).__name__}: {error}{_line(frames)}") from None


def _line(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return the last line of a trace in the folder of its first."""
    folder = os.path.dirname(frames[0].filename) if frames else ""
    own = [frame for frame in frames if frame.filename.startswith(folder)]
    if not own:
        return ""
    text = f": {own[-1].line}" if own[-1].line else ""
    return f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno}{text})"


def _shaped(result: pa.RecordBatch, shape: pa.Schema, name: str) -> list[pa.Array]:
    """Return the columns that a function was to give."""
    import pyarrow as pa

    arrays, names = [], result.schema.names
    for field in shape:
        if names.count(field.name) != 1:
            shown = ", ".join(each for each in names if each != ROW)
            raise StepError(
                f"operator {name!r} gave {'two columns' if field.name in names else 'no column'} {field.name!r}; "
                f"it gave {shown}: set .schema on the function"
            )
        given = result.column(field.name)
        try:
            arrays.append(given.cast(field.type))
        except pa.ArrowException as error:
            raise StepError(
                f"operator {name!r} gave the column {field.name!r} as {given.type}, not {field.type}, and it cannot be "
                f"cast: {error}: set .schema on the function"
            ) from None
    return arrays


class _Taken:
    """The envelopes of the rows that a function has taken."""

    def __init__(self) -> None:
        self.parts: list[pa.RecordBatch] = []
        self.count = self.given = 0
        self.copies: Signed | None = None

    def take(self, data: pa.RecordBatch) -> pa.Array:
        """Note a batch's envelopes, and return the numbers of its rows."""
        import numpy as np
        import pyarrow as pa

        self.parts.append(data.select(list(ENVELOPE)))
        first, self.count = self.count, self.count + data.num_rows
        return pa.array(np.arange(first, self.count, dtype=np.int64))

    def next(self, rows: int, name: str) -> list[pa.Array]:
        """Return the envelopes of the next rows."""
        import numpy as np

        first, self.given = self.given, self.given + rows
        if self.given > self.count:
            raise StepError(f"operator {name!r} says rows = 'kept' but gave more rows than it had taken")
        return self._at(np.arange(first, self.given))

    def end(self, name: str) -> None:
        """Check that every row came out again."""
        if self.given != self.count:
            raise StepError(f"operator {name!r} says rows = 'kept' but took {self.count} rows and gave {self.given}")

    def of(self, rows: pa.Array, name: str) -> list[pa.Array]:
        """Return the envelopes of given rows; the second, third, … row from one row has an identity of its own."""
        import numpy as np
        import pyarrow as pa

        numbers = rows.cast(pa.int64()).to_numpy(zero_copy_only=False)
        if rows.null_count or numbers.min() < 0 or numbers.max() >= self.count:
            raise StepError(f"operator {name!r} changed the column {ROW!r}: pass it on as it came")
        if self.copies is None or len(self.copies) < self.count:
            grown = np.zeros(self.count, np.int64)
            if self.copies is not None:
                grown[: len(self.copies)] = self.copies
            self.copies = grown
        nth = ordinals(numbers) + self.copies[numbers]
        np.add.at(self.copies, numbers, 1)
        identity, *rest = self._at(numbers)
        return [pa.array(told_apart(identity.to_numpy().astype(np.uint64), nth)), *rest]

    def latest(self, rows: int) -> list[pa.Array]:
        """Return envelopes of rows that nobody can assign: the latest times, and identities in the order of rows."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        part = self.parts[-1] if self.parts else None
        if part is None:
            raise StepError("a python operator gave rows before it had taken any")
        base = np.full(rows, part.column("__id")[0].as_py(), np.int64).astype(np.uint64)
        ids = mixed(base, np.arange(self.given + 1, self.given + rows + 1, dtype=np.uint64))
        self.given += rows
        times = [pa.array([pc.max(part.column(n)).as_py()] * rows, part.column(n).type) for n in ENVELOPE[1:]]
        return [pa.array(ids.astype(np.int64)), *times]

    def _at(self, numbers: Signed) -> list[pa.Array]:
        import pyarrow as pa

        if len(self.parts) > 1:
            table = pa.Table.from_batches(self.parts).combine_chunks()
            self.parts = table.to_batches()
        part = self.parts[0]
        return [part.column(name).take(pa.array(numbers)) for name in ENVELOPE]


def _told(name: str) -> str:
    return (
        f"operator {name!r} does not say which row a row comes from, which the windows and joins behind it need: "
        f"yield the column {ROW!r} as it came, or set rows = 'kept' on the function if it keeps every row in order"
    )
