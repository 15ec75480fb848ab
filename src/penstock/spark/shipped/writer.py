"""What a query does with a batch: its rows go to logs and sinks, its counts to a manifest."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.spark.hop import Hop
from penstock.spark.hop.logs import log_of
from penstock.spark.shipped import BITS, ENVELOPE
from penstock.spark.shipped.checkpoint import offsets, watermark
from penstock.spark.shipped.deliver import Brought, Delivery, deliver
from penstock.spark.shipped.gate import check, committing, end_with_parent
from penstock.spark.shipped.identity import unique
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.progress import save_from_within
from penstock.spark.shipped.spec import LogExit, SinkExit, WriterSpec
from penstock.spark.shipped.turn import make_turn


def manifest_of(folder: Place, query: str, batch: int) -> Place:
    """Return the place of a batch's manifest."""
    return folder / "batches" / query / f"{batch:012d}.json"


def error_of(folder: Place, query: str) -> Place:
    """Return the place of what a query's writer failed with."""
    return folder / "errors" / f"{query}.json"


@dataclass(frozen=True)
class Reached:
    """How far event time has come (µs since 1970): the frontier by number of the origin, and the latest row's."""

    frontiers: Mapping[str, int] = field(default_factory=dict)
    latest: int | None = None


@dataclass(frozen=True)
class Batch:
    """A computed batch.

    Attributes
    ----------
    rows
        Arrow table of all that it brought.
    reached
        How far event time has come with it.
    begun
        When it was begun (ms since 1970), if it may have been cut off since.
    """

    number: int
    rows: Any
    reached: Reached
    begun: int | None


def make_writer(spec: WriterSpec) -> Callable[[Any, int], None]:
    """Return the function that takes a query's batches to its logs and sinks.

    Each batch leaves at most one file per log and sink, named by its number there, and lastly its manifest, which
    holds the frontiers that it reached and the counts of its streams. A batch that is replayed after a failure finds
    what it had left and writes the rest.
    """
    turn = None if spec.knobs is None else make_turn(spec)
    # What is open stays so from batch to batch.
    logs = [log_of(spec.folder, spec.topics, way.writer) for way in spec.logs]
    state: dict[str, Any] = {"next": None, "reached": Reached()}
    reports: dict[str, Any] = {}

    def write(frame: Any, batch: int) -> None:
        try:
            take(frame, batch)
        except Exception as error:
            # On its way to the client Spark cuts a trace, and with it what went wrong.
            said = {"generation": spec.generation, "batch": batch, "error": f"{type(error).__name__}: {error}"}
            error_of(spec.folder, spec.query).replace(json.dumps(said).encode())
            raise

    def take(frame: Any, batch: int) -> None:
        end_with_parent()
        check(spec.folder, spec.query, spec.generation)
        save_from_within(spec, batch, reports)
        manifest = manifest_of(spec.folder, spec.query, batch)
        done = manifest.exists()
        if done and not spec.observed:
            return
        begun = None
        if state["next"] != batch:
            # An earlier run may have been cut off in the middle of this batch.
            begun = int(offsets(spec.checkpoint, batch)[0]["batchTimestampMs"])
            state["reached"] = Reached()
            if batch > 0:
                before = json.loads(manifest_of(spec.folder, spec.query, batch - 1).read())
                state["reached"] = Reached(before["frontiers"], before["latest"])
        reached = state["reached"]
        if turn is not None:
            turn(frame, batch, reached.frontiers, reached.latest)
        table = frame.toArrow()
        if spec.timed:
            reached = risen(reached, table, spec)
        if not done:
            _commit(spec, logs, Batch(batch, table, reached, begun), frame.sparkSession)
        state.update(next=batch + 1, reached=reached)

    return write


def _commit(spec: WriterSpec, logs: Sequence[Hop], batch: Batch, session: Any) -> None:
    """Make a batch's rows visible, all of them or, if another query of the unit delivers, none."""
    import pyarrow as pa

    table, reached = batch.rows, batch.reached
    logged = [(way, *_logged(spec, way, batch.number, table, reached)) for way in spec.logs]
    delivered: list[Delivery] = []
    for way in spec.sinks:
        there = arrived(table, way)
        rows = pa.Table.from_arrays(
            [table.column(column).filter(there) for column, _ in way.columns], names=[name for _, name in way.columns]
        )
        if rows.num_rows:
            ids = table.column("_id").filter(there) if "_id" in table.column_names else None
            brought = Brought(rows, table.column("_stimulus").filter(there), ids)
            delivered.append(deliver(spec, way, batch.number, brought, session, batch.begun))
    counts = count(table, spec.passes)
    with committing(spec.folder, spec.query, spec.generation):
        for log, (exit_, rows, frontier) in zip(logs, logged, strict=True):
            log.write(exit_.base + batch.number, rows, (frontier, reached.latest))
        for delivery in delivered:
            delivery.commit()
        content = {
            "batch": batch.number,
            "host": spec.host,
            "frontiers": reached.frontiers,
            "latest": reached.latest,
            "rows": {way.writer: [way.base + batch.number, rows.num_rows] for way, rows, _ in logged},
            "counts": counts,
            "visible": time.time(),
        }
        manifest_of(spec.folder, spec.query, batch.number).publish(json.dumps(content).encode())


def _logged(spec: WriterSpec, way: LogExit, batch: int, table: Any, reached: Reached) -> tuple[Any, int | None]:
    """Return the rows that leave to a log, with envelope, and the stream's frontier behind them."""
    import pyarrow as pa

    there = table.column(way.column)
    columns = [table.column(column).filter(there) for column, _ in way.columns]
    envelope = {name: table.column(name).filter(there) for name in ENVELOPE}
    envelope["_id"] = unique(envelope["_id"], way.base + batch if way.numbered else None)
    rows = pa.Table.from_arrays([*columns, *envelope.values()], names=[*(name for _, name in way.columns), *envelope])
    if way.stateful:
        # What the state still holds comes out when the watermark passes it, a batch later.
        return rows, watermark(spec.checkpoint, batch)
    return rows, slowest(way.origins, reached.frontiers)


def slowest(origins: tuple[int, ...], frontiers: Mapping[str, int]) -> int | None:
    """Return the least of some origins' frontiers; None while one of them has said nothing."""
    if not origins or any(str(number) not in frontiers for number in origins):
        return None
    return min(frontiers[str(number)] for number in origins)


def arrived(table: Any, way: SinkExit) -> Any:
    """Return which rows arrived on a sink's stream and were not dropped."""
    import pyarrow.compute as pc

    place, number = way.seen
    column, bit = divmod(2 * number, BITS)
    both = pc.bit_wise_and(table.column(f"_seen{place}_{column}"), 3 << bit)
    return pc.equal(both, 1 << bit)


def risen(reached: Reached, table: Any, spec: WriterSpec) -> Reached:
    """Return how far event time has come, with a batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = dict(reached.frontiers)
    origin, mark = table.column("_origin"), pc.is_null(table.column("_id"))
    clock = pc.cast(table.column("_time"), pa.int64())
    for number, start in enumerate(spec.origins):
        mask = pc.equal(origin, number)
        latest = pc.max(pc.filter(clock, pc.and_(mask, mark) if start.marked else mask)).as_py()
        if latest is not None:
            frontier = latest - (0 if start.marked else start.lateness)
            found[str(number)] = max(frontier, found.get(str(number), frontier))
    told = [reached.latest, pc.max(clock).as_py(), pc.max(pc.filter(table.column("_stimulus"), mark)).as_py()]
    return Reached(found, max((value for value in told if value is not None), default=None))


def count(table: Any, passes: tuple[tuple[str, ...], ...]) -> dict[str, list[int]]:
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
