"""The batches of one query as a table, a row each."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array

STATE_COMMIT = "stateCommit"
"""Name of the part of a batch in which stateful operators commit, as the sum over tasks."""


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
    source_lag
        Rows that waited at each source and the batch did not take, shape ``(sources, batches)``; NaN where it does not
        tell.
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
    tasks, task_seconds, collecting
        Tasks of the batch, the seconds that they ran, and collected garbage; NaN where the log has no tasks
        (progress reports only).
    slowest, typical
        Seconds of the slowest task, and the median of the other tasks of its stage; NaN where no stage had two tasks.
    """

    run: NDArray[np.int64]
    number: NDArray[np.int64]
    start: Array
    duration: Array
    rows: Array
    source_rows: Array
    source_lag: Array
    output: Array
    event_time: Array
    state_rows: Array
    state_bytes: Array
    late: Array
    parts: Mapping[str, Array]
    tasks: Array
    task_seconds: Array
    collecting: Array
    slowest: Array
    typical: Array

    def __len__(self) -> int:
        return int(self.start.size)

    @property
    def end(self) -> Array:
        """When each batch ended (s since the epoch)."""
        return self.start + self.duration

    @property
    def lag(self) -> Array:
        """Rows that waited at all sources that tell it; NaN where none does."""
        told = ~np.isnan(self.source_lag)
        return np.where(told.any(axis=0), np.nan_to_num(self.source_lag).sum(axis=0), np.nan)

    @property
    def by_source(self) -> Array:
        """Input rows by source, shape ``(sources, batches)``; where no source is told, all as of one."""
        return self.source_rows if self.source_rows.size else self.rows[None, :]

    @property
    def lag_by_source(self) -> Array:
        """Rows that waited, shape ``(sources, batches)``, as of `by_source`; NaN where a source does not tell."""
        return self.source_lag if self.source_rows.size else self.lag[None, :]

    def take(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Batches:
        """Return some of the batches: by a mask, or by their indices in the wanted order."""
        changes: dict[str, object] = {}
        for field in attrs.fields(Batches):
            value = getattr(self, field.name)
            if field.name == "parts":
                changes["parts"] = {name: frozen(part[which]) for name, part in value.items()}
            else:
                changes[field.name] = frozen(value[..., which])
        return attrs.evolve(self, **changes)  # type: ignore[arg-type]


def frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an array, read-only from now on."""
    array.setflags(write=False)
    return array
