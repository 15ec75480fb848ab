"""What a query does with a batch: its rows go to logs and sinks, its counts to a manifest."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from penstock.spark.hop import Hop, Mark, Stored
from penstock.spark.hop.logs import log_of
from penstock.spark.shipped.checkpoint import watermark
from penstock.spark.shipped.deliver import Aside, Here, Laid, Rows, deliver
from penstock.spark.shipped.gate import check, committing, end_with_parent
from penstock.spark.shipped.local import Local
from penstock.spark.shipped.lockstep import appeared, first_begun
from penstock.spark.shipped.native import write_by_spark
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.probe import watched
from penstock.spark.shipped.progress import Reports
from penstock.spark.shipped.settle import intend, settle
from penstock.spark.shipped.share import Counts, Reached, brought, count, logged, reached_by
from penstock.spark.shipped.spec import LogExit, WriterSpec
from penstock.spark.shipped.tasks import Written, gather
from penstock.spark.shipped.told import error_of, manifest_of, said
from penstock.spark.shipped.turn import look_ahead, make_turn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Batch:
    """A computed batch.

    Attributes
    ----------
    reached
        How far event time has come with it.
    counts
        Of the streams that its rows tell of.
    appends
        By log, what appends its rows, given number and mark; and how many rows these are.
    sinks
        Rows of each sink; None where there are none.
    begun
        When it was begun (ms since 1970), if it may have been cut off since.
    speed
        How fast the core was while it was computed: times (s since 1970), and steps of a fixed loop a second.
    """

    number: int
    reached: Reached
    counts: Counts
    appends: Sequence[tuple[Callable[[int, Mark], bool], int]]
    sinks: Sequence[Rows | Laid | None]
    begun: int | None = None
    speed: Sequence[tuple[float, float]] = ()

    def discard(self) -> None:
        """Remove the rows of sinks, which another copy has shown; those of logs go with the log's."""
        for rows in self.sinks:
            for place in () if rows is None else (rows.scratch,) if isinstance(rows, Laid) else rows.files:
                place.remove()


@dataclass
class _Standing:
    """Where a query's writer has come to: the next batch, whether it has led, and how far event time has come.

    An object, since functions that are sent to a host do not share the variables around them there.
    """

    next: int | None = None
    led: bool = False
    so_far: Reached = field(default_factory=Reached)


def make_writer(spec: WriterSpec, task: bytes = b"") -> Callable[[DataFrame, int], None]:
    """Return the function that takes a query's batches to its logs and sinks.

    Each batch leaves in each log and sink what is named by its number there, and lastly its manifest, which holds the
    frontiers that it reached and the counts of its streams. A batch that is replayed after a failure finds what it had
    left and writes the rest.

    Parameters
    ----------
    task
        Where tasks write (``spec.spread``), what each does: see `penstock.spark.shipped.tasks.gather`.
    """
    local = Local(spec)
    turn = None if spec.knobs is None or spec.knobs.file is not None else make_turn(spec, local)
    # What is open stays so from batch to batch.
    logs = [log_of(spec.folder, spec.topics, way.writer) for way in spec.logs]
    at = _Standing()
    reports = Reports(spec)

    def write(frame: DataFrame, batch: int) -> None:
        try:
            take(frame, batch)
        except Exception as error:
            # On its way to the client Spark cuts a trace, and with it what went wrong.
            told = {"generation": spec.generation, "batch": batch, "error": f"{type(error).__name__}: {error}"}
            error_of(spec.folder, spec.query).replace(json.dumps(told).encode())
            raise

    def lead(batch: int, manifest: Place, *, computed: bool = False) -> bool:
        """Bring in order what the one before has left, if this is the first batch that it delivers; return whether."""
        reports.keep_before(batch)
        if first := at.next != batch or not at.led:
            settle(spec, batch, manifest, computed=computed)
        at.led = True
        return first

    def take(frame: DataFrame, batch: int) -> None:
        end_with_parent()
        manifest = manifest_of(spec.folder, spec.query, batch)
        leads = check(spec.folder, spec.query, spec.generation)
        first = leads and lead(batch, manifest)
        done = manifest.exists()
        if done and not spec.observed:
            look_ahead(spec, local, batch + 1, *known(spec, batch))
            return
        # An earlier run, or the copy that led before, may have been cut off in the middle of this batch.
        begun = first_begun(spec, batch) if first or at.next != batch else None
        if at.next != batch:
            at.so_far = Reached(*known(spec, batch - 1))
        with watched() as looks:
            if turn is not None:
                turn(frame, batch, at.so_far.frontiers, at.so_far.latest)
            if spec.native:
                written = write_by_spark(spec, frame, batch, store=not done)
                computed = Batch(batch, written.reached, written.counts, [], [written.rows])
            elif spec.spread:
                computed = _spread(spec, logs, gather(spec, task, frame, batch, store=not done), batch)
            else:
                computed = _here(spec, logs, frame.toArrow(), batch)
        reached = at.so_far.further(computed.reached)
        computed = dataclasses.replace(computed, reached=reached, begun=begun, speed=looks)
        if not (done or leads) and not appeared(spec, manifest):
            lead(batch, manifest, computed=True)
            computed = dataclasses.replace(computed, begun=first_begun(spec, batch))
        if not manifest.exists():
            _commit(spec, computed, frame.sparkSession)
        elif not done:
            computed.discard()
        look_ahead(spec, local, batch + 1, reached.frontiers, reached.latest)
        at.next, at.so_far = batch + 1, reached

    return write


def known(spec: WriterSpec, batch: int) -> tuple[dict[str, int], int | None]:
    """Return how far event time had come with a batch: frontiers, and the latest row's; batch -1 has none."""
    if batch < 0:
        return {}, None
    told = said(manifest_of(spec.folder, spec.query, batch))
    return spec.numbered(told["frontiers"]), told["latest"]


def _here(spec: WriterSpec, logs: Sequence[Hop], table: pa.Table, number: int) -> Batch:
    """Return a batch whose rows are in this process."""
    appends = []
    for log, way in zip(logs, spec.logs, strict=True):
        rows = logged(way, table, way.base + number if way.numbered else None)
        appends.append((partial(_write, log, rows), rows.num_rows))
    given = [brought(way, table) for way in spec.sinks]
    sinks = [Here(way, own) if own.rows.num_rows else None for way, own in zip(spec.sinks, given, strict=True)]
    return Batch(number, reached_by(table, spec), count(table, spec.passes), appends, sinks)


def _write(log: Hop, rows: pa.Table, number: int, mark: Mark) -> bool:
    return log.write(number, rows, mark)


def _spread(spec: WriterSpec, logs: Sequence[Hop], written: Written, number: int) -> Batch:
    """Return a batch whose rows tasks have written."""
    import numpy as np

    appends = [(partial(_append, log, stored), rows) for log, (stored, rows) in zip(logs, written.logs, strict=True)]
    sinks: list[Rows | None] = []
    for way, (names, stimuli) in zip(spec.sinks, written.sinks, strict=True):
        files = [spec.aside / name for name in names]
        sinks.append(Aside(way, files, np.frombuffer(b"".join(stimuli), np.int64)) if files else None)
    return Batch(number, written.reached, written.counts, appends, sinks)


def _append(log: Hop, stored: Sequence[Stored], number: int, mark: Mark) -> bool:
    return log.append(number, stored, mark)


def _commit(spec: WriterSpec, batch: Batch, session: SparkSession) -> None:
    """Make a batch's rows visible, all of them or, if another query of the unit delivers, none."""
    delivered = [
        deliver(spec, way, batch.number, rows, session, batch.begun)
        for way, rows in zip(spec.sinks, batch.sinks, strict=True)
        if rows is not None
    ]
    manifest = manifest_of(spec.folder, spec.query, batch.number)
    with committing(spec.folder, spec.query, spec.generation):
        for way, (append, _) in zip(spec.logs, batch.appends, strict=True):
            frontier = frontier_of(way, spec.checkpoint, batch.number, batch.reached.frontiers)
            append(way.base + batch.number, (frontier, batch.reached.latest))
        for delivery in delivered:
            delivery.send()
        content = {
            "batch": batch.number,
            "host": spec.host,
            "frontiers": spec.named(batch.reached.frontiers),
            "latest": batch.reached.latest,
            "rows": {
                way.writer: [way.base + batch.number, rows]
                for way, (_, rows) in zip(spec.logs, batch.appends, strict=True)
            },
            "counts": batch.counts,
            "speed": batch.speed,
        }
        # Where there may be several files, none may be shown unless all will be, also after a kill.
        with intend(spec, batch.number, delivered, content) if spec.spread else contextlib.nullcontext():
            for delivery in delivered:
                delivery.show(begun=spec.spread)
            manifest.publish(json.dumps({**content, "visible": time.time()}).encode())
    for delivery in delivered:
        delivery.clear()


def frontier_of(way: LogExit, checkpoint: Place, batch: int, frontiers: Mapping[str, int]) -> int | None:
    """Return the frontier of a stream that leaves to a log, behind a batch with which others were reached."""
    if way.stateful:
        # What the state still holds comes out when the watermark passes it, a batch later.
        return watermark(checkpoint, batch)
    return slowest(way.origins, frontiers)


def slowest(origins: tuple[int, ...], frontiers: Mapping[str, int]) -> int | None:
    """Return the least of some origins' frontiers; None while one of them has said nothing."""
    if not origins or any(str(number) not in frontiers for number in origins):
        return None
    return min(frontiers[str(number)] for number in origins)
