"""What rows bring to logs, sinks, counts and event time: all rows of a batch, or those of a task."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.spark.shipped import BITS, ENVELOPE
from penstock.spark.shipped.identity import unique
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import LogExit, SinkExit, WriterSpec

if TYPE_CHECKING:
    import pyarrow as pa

TYPES = "org.apache.spark.sql.parquet.row.metadata"
"""Under which name Spark notes in a parquet file what its columns are: parquet itself knows no spans of time."""


@dataclass(frozen=True)
class Reached:
    """How far event time has come (µs since 1970): the frontier by number of the origin, and the latest row's."""

    frontiers: Mapping[str, int] = field(default_factory=dict)
    latest: int | None = None

    def further(self, other: Reached) -> Reached:
        """Return how far it has come by this and by another: it never falls."""
        found = dict(self.frontiers)
        for number, frontier in other.frontiers.items():
            found[number] = max(frontier, found.get(number, frontier))
        told = [value for value in (self.latest, other.latest) if value is not None]
        return Reached(found, max(told, default=None))


Counts = dict[str, list[int]]
"""By stream: arrived and dropped."""


def added(counts: Counts, more: Mapping[str, list[int]]) -> Counts:
    """Return the sums of counts."""
    names = [*counts, *(name for name in more if name not in counts)]
    return {
        name: [a + b for a, b in zip(counts.get(name, [0, 0]), more.get(name, [0, 0]), strict=True)] for name in names
    }


def logged(way: LogExit, table: pa.Table, salt: int | None) -> pa.Table:
    """Return the rows that leave to a log, with envelope; ``salt``: see `unique`."""
    import pyarrow as pa

    there = table.column(way.column)
    columns = [table.column(column).filter(there) for column, _ in way.columns]
    envelope = {name: table.column(name).filter(there) for name in ENVELOPE}
    envelope["__id"] = unique(envelope["__id"], salt)
    return pa.Table.from_arrays([*columns, *envelope.values()], names=[*(name for _, name in way.columns), *envelope])


@dataclass(frozen=True)
class Brought:
    """What rows bring to a sink: an Arrow table; stimulus time and identity of each where it has one."""

    rows: pa.Table
    stimulus: pa.ChunkedArray
    ids: pa.Array | None = None

    @property
    def identified(self) -> pa.Table:
        """The rows, with ``__id`` where they have identities."""
        return self.rows if self.ids is None else self.rows.append_column("__id", self.ids)


def brought(way: SinkExit, table: pa.Table) -> Brought:
    """Return the rows that arrived at a sink and were not dropped on the way."""
    import pyarrow as pa

    there = arrived(table, way)
    rows = pa.Table.from_arrays(
        [table.column(column).filter(there) for column, _ in way.columns], names=[name for _, name in way.columns]
    )
    ids = unique(table.column("__id").filter(there)) if way.format == "kafka" else None
    return Brought(rows, table.column("__stimulus").filter(there), ids)


def put_aside(spec: WriterSpec, way: SinkExit, batch: int, given: Brought) -> Place:
    """Put rows for a sink aside, in a parquet file.

    Its columns are numbered, unless it is to be shown as it is: Spark reads none by names that differ only in case.
    """
    rows = given.identified
    if way.format is not None:
        rows = rows.rename_columns([f"c{number}" for number in range(rows.num_columns)])
    content = as_parquet(rows, way)
    file = spec.aside / f"{batch:012d}-{uuid.uuid4().hex}.parquet"
    file.replace(content)
    return file


def as_parquet(rows: pa.Table, way: SinkExit) -> pa.Buffer:
    """Return a parquet file with rows of a sink; of one that is shown as it is, Spark finds its own types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if way.format is None:
        rows = rows.replace_schema_metadata({TYPES: way.shape})
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer)
    return buffer.getvalue()


def arrived(table: pa.Table, way: SinkExit) -> pa.BooleanArray:
    """Return which rows arrived on a sink's stream and were not dropped."""
    import pyarrow.compute as pc

    place, number = way.seen
    column, bit = divmod(2 * number, BITS)
    both = pc.bit_wise_and(table.column(f"_seen{place}_{column}"), 3 << bit)
    return pc.equal(both, 1 << bit)


def reached_by(table: pa.Table, spec: WriterSpec) -> Reached:
    """Return how far event time has come by some rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not spec.timed:
        return Reached()
    origin, mark = table.column("__origin"), pc.is_null(table.column("__id"))
    clock = pc.cast(table.column("__time"), pa.int64())
    masks = [pc.equal(origin, number) for number in range(len(spec.origins))]
    latest = [
        pc.max(pc.filter(clock, pc.and_(mask, mark) if start.marked else mask)).as_py()
        for mask, start in zip(masks, spec.origins, strict=True)
    ]
    told = [pc.max(clock).as_py(), pc.max(pc.filter(table.column("__stimulus"), mark)).as_py()]
    return reached_from(spec, latest, told)


def reached_from(spec: WriterSpec, latest: Sequence[int | None], told: Sequence[int | None]) -> Reached:
    """Return how far event time has come.

    Parameters
    ----------
    latest
        By origin, the latest mark, or event time where it has no marks.
    told
        The latest event time of any row, and the latest that a mark tells of.
    """
    found = {
        str(number): time - (0 if start.marked else start.lateness)
        for number, (time, start) in enumerate(zip(latest, spec.origins, strict=True))
        if time is not None
    }
    return Reached(found, max((time for time in told if time is not None), default=None))


def count(table: pa.Table, passes: tuple[tuple[str, ...], ...]) -> Counts:
    """Return arrived and dropped rows of the streams that the rows' bits tell of."""
    import pyarrow.compute as pc

    found = {stream: [0, 0] for streams in passes for stream in streams}
    for place, streams in enumerate(passes):
        for begin in range(0, 2 * len(streams), BITS):
            for kind in pc.value_counts(table.column(f"_seen{place}_{begin // BITS}")).to_pylist():
                for bit in range(begin, min(2 * len(streams), begin + BITS)):
                    if (kind["values"] or 0) & (1 << (bit - begin)):
                        found[streams[bit // 2]][bit % 2] += kind["counts"]
    return found
