"""How long batches have run up to any time, of all queries of an application together."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.telemetry import Batches


@attrs.frozen(eq=False)
class Running:
    """How long batches have run up to any time, of all queries of an application together.

    Attributes
    ----------
    origin
        Times count from here (s since the epoch), so that sums keep their digits.
    starts, ends
        Of all batches, sorted; with the sum of those before each, which has one entry more.
    """

    origin: float
    starts: Array
    ends: Array
    started: Array
    ended: Array

    @classmethod
    def of(cls, tables: Sequence[Batches]) -> Running:
        """Join the batches of several queries."""
        origin = min((float(table.start[0]) for table in tables if len(table)), default=0.0)
        starts = np.sort(np.concatenate([np.zeros(0), *(table.start - origin for table in tables)]))
        ends = np.sort(np.concatenate([np.zeros(0), *(table.end - origin for table in tables)]))
        return cls(origin, starts, ends, np.append(0.0, np.cumsum(starts)), np.append(0.0, np.cumsum(ends)))

    def seconds(self, times: Array) -> Array:
        """Return the batch seconds up to these times (s since the epoch)."""
        since = times - self.origin
        begun, done = np.searchsorted(self.starts, since), np.searchsorted(self.ends, since)
        return np.asarray(begun * since - self.started[begun] - (done * since - self.ended[done]))

    def during(self, batches: Batches) -> Array:
        """Return how many batches ran during each of these batches, in the mean over its time."""
        lasted = np.maximum(batches.duration, 1e-9)
        return np.asarray((self.seconds(batches.end) - self.seconds(batches.start)) / lasted)
