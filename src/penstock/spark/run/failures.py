"""Units whose queries fail: how often one is started again."""

from __future__ import annotations

import time

AGAIN, FORGIVEN = 3, 60.0
"""So often a unit whose query fails is started again within so many seconds, before a run gives up."""


class Failures:
    """When units have failed of late."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = {}

    def too_many(self, name: str) -> bool:
        """Count a failure of a unit; return whether it was one too many."""
        now = time.monotonic()
        times = self._times[name] = [at for at in self._times.get(name, ()) if now - at < FORGIVEN] + [now]
        return len(times) > AGAIN
