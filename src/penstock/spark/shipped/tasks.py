"""Rows written by the tasks that compute them; the query's own process hears where they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.spark.hop import Stored
from penstock.spark.hop.logs import log_of
from penstock.spark.shipped.share import Counts, Reached, added, brought, count, logged, put_aside, reached_by
from penstock.spark.shipped.spec import WriterSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.files import Document

Task: TypeAlias = "Callable[[int, bool, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""What a task does: given the batch's number, whether to store anything, and the rows."""

WITHIN = 1 << 40
"""More than a query has batches."""


@dataclass(frozen=True)
class Written:
    """What the tasks of a batch have written.

    ``logs`` and ``sinks`` have an entry for each way: what was stored and how many rows; files and stimulus times.
    """

    counts: Counts
    reached: Reached
    logs: list[tuple[list[Stored], int]]
    sinks: list[tuple[list[str], list[bytes]]]


def make_task(spec: WriterSpec) -> Task:
    """Return the function by which a task takes its share of a batch to logs and sinks; see `gather`."""

    def take(batch: int, store: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        parts = [part for part in batches if part.num_rows]
        if not parts:
            return
        table = pa.Table.from_batches(parts)
        context = TaskContext.get()
        said, blobs = _taken(spec, batch, table, context.partitionId() if context else 0, store)
        yield pa.RecordBatch.from_arrays(
            [pa.array([json.dumps(said)]), pa.array([blobs], pa.list_(pa.binary()))], names=["said", "blobs"]
        )

    return take


def _taken(spec: WriterSpec, batch: int, table: pa.Table, part: int, store: bool) -> Stored:
    """Write a task's share, if it is to be stored; return what is to be told of it."""
    reached = reached_by(table, spec)
    said: Document = {"counts": count(table, spec.passes), "reached": [reached.frontiers, reached.latest]}
    said |= {"logs": [], "sinks": []}
    blobs: list[bytes] = []
    for way in spec.logs if store else ():
        # A source without positions may have equal rows in two tasks.
        rows = logged(way, table, way.base + batch + part * WITHIN if way.numbered else None)
        told, values = (
            log_of(spec.folder, spec.topics, way.writer).store(way.base + batch, rows) if len(rows) else ({}, [])
        )
        said["logs"].append([len(rows), told, len(values)])
        blobs += values
    for exit_ in spec.sinks if store else ():
        given = brought(exit_, table)
        said["sinks"].append(put_aside(spec, exit_, batch, given).name if given.rows.num_rows else None)
        blobs.append(given.stimulus.to_numpy().tobytes())
    return said, blobs


def gather(spec: WriterSpec, task: bytes, frame: DataFrame, batch: int, *, store: bool) -> Written:
    """Let the tasks of a batch write its rows, and return what they tell.

    Parameters
    ----------
    task
        What `make_task` returned, pickled by whoever compiled the query: by value.
    frame
        The batch.
    store
        False for a batch that is done again for Spark's counts only.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        # It comes from penstock, with the query; what tasks tell comes back as JSON and rows.
        yield from pickle.loads(task)(batch, store, batches)  # noqa: S301

    told = frame.mapInArrow(run, "said string, blobs array<binary>").toArrow()
    written = Written({}, Reached(), [([], 0) for _ in spec.logs], [([], []) for _ in spec.sinks])
    counts, reached = {stream: [0, 0] for streams in spec.passes for stream in streams}, Reached()
    for text, blobs in zip(*(told.column(name).to_pylist() for name in ("said", "blobs")), strict=True):
        said, left = json.loads(text), iter(blobs)
        counts, reached = added(counts, said["counts"]), reached.further(Reached(*said["reached"]))
        for number, (rows, document, size) in enumerate(said["logs"]):
            stored, before = written.logs[number]
            values = [next(left) for _ in range(size)]
            written.logs[number] = ([*stored, (document, values)] if rows else stored, before + rows)
        for number, name in enumerate(said["sinks"]):
            files, stimuli = written.sinks[number]
            stimuli.append(next(left))
            files += [name] if name else []
    return Written(counts, reached, written.logs, written.sinks)
