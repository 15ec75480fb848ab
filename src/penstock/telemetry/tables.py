"""What was read from all logs, as frozen values, with what they tell of each application."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.telemetry.query_log import QueryLog


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
    attempts
        When each of its attempts began: a cluster manager may start an application again.
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
    attempts: tuple[float, ...]
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
        What could not be read at all, and queries without any batch, and why.
    lines
        Lines that were looked at.
    """

    applications: Mapping[str, Application]
    queries: Mapping[str, QueryLog]
    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    lines: int = 0
