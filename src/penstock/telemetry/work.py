"""The tasks of one batch, as they end."""

from __future__ import annotations

from array import array
from statistics import median

import attrs

from penstock.telemetry.sources import NAN


@attrs.define
class BatchWork:
    """The tasks of one batch so far: seconds run, collecting garbage, and of each task by stage."""

    run: float = 0.0
    collecting: float = 0.0
    stages: dict[int, array[float]] = attrs.field(factory=dict)

    def row(self) -> tuple[float, ...]:
        """Return the columns ``tasks`` to ``typical`` of `Batches`."""
        count = 0
        slowest = typical = NAN
        for stage in self.stages.values():
            count += len(stage)
            if len(stage) >= 2:
                ordered = sorted(stage)
                if not ordered[-1] <= slowest:
                    slowest, typical = ordered[-1], median(ordered[:-1])
        return count, self.run, self.collecting, slowest, typical
