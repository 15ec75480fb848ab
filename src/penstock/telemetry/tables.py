"""What logs tell, as frozen values: a table of batches for each query, and each application's cores and work."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array


@attrs.frozen(eq=False, kw_only=True)
class Batches:
    """The batches of one query, a row each, by the time at which they began; all arrays are read-only.

    Attributes
    ----------
    run
        Index of the run in `QueryLog.runs`.
    number
        Spark's ``batchId``.
    start, duration
        When the batch was triggered (s since the epoch), and how long it took (s, ``triggerExecution``).
    rows
        Input rows, of all sources.
    source_rows
        Input rows by source, shape ``(sources, batches)``.
    lag
        Rows that waited at the sources and the batch did not take; NaN where the sources do not tell.
    output
        Rows that the sink took; NaN where it does not count.
    event_time
        The youngest event time of the rows (s since the epoch); NaN without a watermark.
    state_rows, state_bytes
        Of all stateful operators, after the batch; 0 without any.
    late
        Rows that stateful operators did not take because they were behind the watermark.
    parts
        By Spark's name (``addBatch``, ``walCommit``, …): seconds of the batch; and `STATE_COMMIT`, which lies within
        ``addBatch`` and adds up over the tasks.
    tasks, task_seconds, task_cpu, collecting
        Tasks of the batch, the seconds that they ran, were on a core, and collected garbage; NaN where the log has no
        tasks (progress reports only).
    slowest, typical
        Seconds of the slowest task, and the median of the other tasks of its stage; NaN where no stage had two tasks.
    """

    run: NDArray[np.int64]
    number: NDArray[np.int64]
    start: Array
    duration: Array
    rows: Array
    source_rows: Array
    lag: Array
    output: Array
    event_time: Array
    state_rows: Array
    state_bytes: Array
    late: Array
    parts: Mapping[str, Array]
    tasks: Array
    task_seconds: Array
    task_cpu: Array
    collecting: Array
    slowest: Array
    typical: Array

    def __len__(self) -> int:
        return int(self.start.size)

    @property
    def end(self) -> Array:
        """When each batch ended (s since the epoch)."""
        return self.start + self.duration

    def take(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Batches:
        """Return some of the batches: by a mask, or by their indices in the wanted order."""
        changes: dict[str, object] = {}
        for field in attrs.fields(Batches):
            value = getattr(self, field.name)
            if field.name == "parts":
                changes["parts"] = {name: _frozen(part[which]) for name, part in value.items()}
            else:
                changes[field.name] = _frozen(value[..., which])
        return attrs.evolve(self, **changes)  # type: ignore[arg-type]


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    array.setflags(write=False)
    return array


STATE_COMMIT = "stateCommit"
"""Name of the part of a batch in which stateful operators commit, as the sum over tasks."""


@attrs.frozen(kw_only=True)
class Run:
    """One run of a query, from its start to its end.

    Attributes
    ----------
    id
        Spark's ``runId``.
    start, end
        Seconds since the epoch; None where the log does not tell (cut off, or progress reports only).
    error
        The exception by which it ended.
    """

    id: str
    start: float | None = None
    end: float | None = None
    error: str | None = None


@attrs.frozen(eq=False, kw_only=True)
class QueryLog:
    """What the logs tell of one query.

    Attributes
    ----------
    name
        The query's name, or its identifier if it has none; unique.
    ids
        Spark's identifiers: one a checkpoint.
    app
        Identifier of the application in which it ran last.
    runs, batches
        Its runs, and the batches of all of them.
    sources, sink
        As Spark describes them, e.g. ``KafkaV2[Subscribe[clicks]]``.
    state
        Names of its stateful operators, e.g. ``stateStoreSave``.
    """

    name: str
    ids: tuple[str, ...]
    app: str
    runs: tuple[Run, ...]
    batches: Batches
    sources: tuple[str, ...]
    sink: str
    state: tuple[str, ...] = ()


@attrs.frozen(eq=False, kw_only=True)
class Application:
    """What the logs tell of one Spark application.

    Attributes
    ----------
    id, name, version
        Of the application and its Spark; the version is empty where the log does not tell.
    start, end
        Seconds since the epoch of the first and the last thing told.
    changes
        When executors came and went (s since the epoch) and how many cores there were from then on, shape
        ``(changes, 2)``.
    executors
        Executors there were at most, the driver of local mode included.
    task_seconds
        Seconds that all tasks ran, also those of no query; NaN without tasks in the log.
    settings
        Spark's settings that bear on streaming (``spark.sql.shuffle.partitions``, …).
    """

    id: str
    name: str
    version: str
    start: float
    end: float
    changes: Array
    executors: int
    task_seconds: float
    settings: Mapping[str, str]

    @property
    def cores(self) -> float:
        """Cores, as the mean over time; NaN where the log does not tell."""
        if len(self.changes) == 0:
            return float("nan")
        when, cores = self.changes.T
        lasts = np.diff(np.append(when, max(self.end, when[-1])))
        return float((cores * lasts).sum() / lasts.sum()) if lasts.sum() > 0 else float(cores[-1])


@attrs.frozen(eq=False, kw_only=True)
class Telemetry:
    """All that was read.

    Attributes
    ----------
    applications, queries
        By identifier, and by name.
    warnings
        What was read in part, and why, one sentence each.
    skipped
        What could not be read at all, and why.
    lines
        Lines that were looked at.
    """

    applications: Mapping[str, Application]
    queries: Mapping[str, QueryLog]
    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    lines: int = 0
