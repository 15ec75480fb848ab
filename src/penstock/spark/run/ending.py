"""When a run is over: its schedules have ended and all is delivered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from penstock.spark.compile import Deployment
from penstock.spark.run.folder import epoch_of


class Ending:
    """Watches for the end.

    Parameters
    ----------
    deployment
        What runs.
    trigger
        Interval of the micro-batches (s).
    """

    def __init__(self, deployment: Deployment, trigger: float) -> None:
        self.finite = deployment.network.scheduled
        self.length = max([length_of(options) for options in deployment.schedules.values()] or [0.0])
        self.epoch = epoch_of(deployment.place)
        self._rest = 2 * trigger + 1.0
        self._seen: tuple[int, ...] = ()
        self._changed = 0.0

    def over(self, state: Sequence[int], now: float) -> bool:
        """Whether nothing more comes, by the last batch begun and ended of each unit, one after the other."""
        if tuple(state) != self._seen:
            self._seen, self._changed = tuple(state), now
        idle = all(begun == ended for begun, ended in zip(state[::2], state[1::2], strict=True))
        return self.finite and now - self.epoch > self.length and idle and now - self._changed > self._rest


def length_of(options: Mapping[str, str]) -> float:
    """Return how long a schedule is (s)."""
    rates = json.loads(options["rates"])
    return float(rates["period"] * len(rates["values"]))
