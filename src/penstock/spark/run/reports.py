"""Spark's reports of a query's batches, as penstock looks at them from outside."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from penstock.errors import EngineError
from penstock.spark.compile import Query
from penstock.spark.left import said
from penstock.spark.shipped.checkpoint import begun_and_ended, forget_commit
from penstock.spark.shipped.progress import save
from penstock.spark.shipped.python_step import StepError
from penstock.spark.shipped.told import error_of, manifest_of, report_of
from penstock.spark.silent import Ask, waiting

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SLOW = "failed to connect back"
"""What Spark says when a Python worker did not start within its 10 s: the machine was busy."""

LOST = "ExecutorLostFailure"
"""What Spark says where a task ended with its executor: it starts another one, and clusters may retry no task."""

SHARED = ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming queries are concurrently using")
"""What Spark says while a query of an earlier run still plans its last batch."""


def marks(query: Query) -> tuple[int, int]:
    """Return the last batch that a query has begun, and the last that it has ended."""
    return begun_and_ended(query.spec.checkpoint)


def save_reports(query: Query, handle: StreamingQuery, ask: Ask = waiting) -> None:
    """Save Spark's reports of all batches that a query has ended, unless they are saved."""
    folder, ended = query.spec.folder, marks(query)[1]
    if ended < 0 or report_of(folder, query.name, ended).exists():
        return
    last = ask(lambda: handle.lastProgress)
    if last is None or last.batchId < ended:
        return
    alone = ended == 0 or report_of(folder, query.name, ended - 1).exists()
    # Without an addBatch Spark only looked for data.
    found = [last] if alone and "addBatch" in (last.durationMs or {}) else ask(lambda: handle.recentProgress)
    for progress in found:
        if progress.batchId <= ended and not report_of(folder, query.name, progress.batchId).exists():
            save(progress, query.spec)


def recount(query: Query) -> None:
    """Let Spark do a query's last batch again if what it counted was not saved; the writer finds its files.

    Nothing of the batch that Spark had planned next was computed, since it waits for those counts. A border behind the
    last batch is one at which the query was to go on in another shape, and a kill came before it did: the batch of that
    number is still to come.

    Raises
    ------
    EngineError
        If a batch that the checkpoint does not know has been shown.
    """
    ended, folder = marks(query)[1], query.spec.folder
    for number in (folder / "batches" / query.name).numbers():
        if number <= ended:
            continue
        # Of a border nobody has measured how fast its core was.
        if "speed" not in said(manifest_of(folder, query.name, number)):
            manifest_of(folder, query.name, number).remove()
            report_of(folder, query.name, number).remove()
        elif number > ended + 1:
            why = f"it ends with batch {ended}, and {query.name!r} has shown batch {number}"
            raise EngineError(f"{query.spec.checkpoint.path}: {why}: put back what was removed there")
    if query.spec.observed and ended >= 0 and not report_of(query.spec.folder, query.name, ended).exists():
        forget_commit(query.spec.checkpoint, ended)


def launch(writer: DataStreamWriter, again: int = 5) -> StreamingQuery:
    """Start a query, again if its Python worker was slow or the query of an earlier run is about to end."""
    try:
        return writer.start()
    except PySparkException as error:
        if again and _passing(error):
            return launch(writer, again - 1)
        raise


def was_passing(handle: StreamingQuery) -> bool:
    """Whether a query ended for a reason that passes."""
    with contextlib.suppress(Exception):
        error = handle.exception()
        return error is not None and _passing(error)
    return False


def _passing(error: Exception) -> bool:
    text = str(error)
    return any(sign in text for sign in (SLOW, LOST, *SHARED))


def told(query: Query) -> str | None:
    """Return what a query's own writer says that it failed with in this run."""
    try:
        wrong = said(error_of(query.spec.folder, query.name))
    except FileNotFoundError:
        return None
    return f"batch {wrong['batch']}: {short(wrong['error'])}" if wrong["generation"] == query.spec.generation else None


def short(error: object) -> str:
    """Return the beginning and the end of an error, which say what and why; of a python operator's, what it says."""
    text = str(error).split("\n\nJVM stacktrace")[0].split("\n=== Streaming Query")[0]
    text = " ".join(text.rpartition(f"{StepError.__name__}: ")[2].replace("SQLSTATE: 38000", "").split())
    return text if len(text) < 900 else f"{text[:300]} … {text[-500:]}"
