"""What is new of a run since somebody last looked, as values."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray


@attrs.frozen(eq=False, kw_only=True)
class RunBatch:
    """One batch of a running query.

    Attributes
    ----------
    query, number
        Whose, and Spark's number of it.
    start, duration
        When it was triggered (s since the epoch), and how long it took (s); 0 where Spark's report was lost.
    visible
        When its rows could be seen (s since the epoch).
    rows
        Input rows.
    counts
        By stream: rows that arrived, and those of them that were dropped.
    late
        By stream: rows that came too late for a window.
    logged
        By operator: rows that went to its log.
    busy
        Share of the time in which its host worked, other than all of it in real-time mode; None: not known.
    since
        When that time began (s since the epoch); None: when the batch was triggered.
    host
        Where it was done; empty where that is not told.
    """

    query: str
    number: int
    start: float
    duration: float
    visible: float
    rows: int
    counts: Mapping[str, tuple[int, int]]
    late: Mapping[str, int]
    logged: Mapping[str, int]
    busy: float | None = 1.0
    since: float | None = None
    host: str = ""


@attrs.frozen(eq=False)
class Seen:
    """Rows that came to a sink: when each became visible, and its stimulus time (s since 1970)."""

    sink: str
    visible: NDArray[np.float64]
    stimulus: NDArray[np.float64]


@attrs.frozen(eq=False)
class News:
    """What came since the last look."""

    batches: tuple[RunBatch, ...]
    rows: tuple[Seen, ...]
