"""When a run is over: its schedules have ended and all is delivered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from penstock.network import Network
from penstock.spark.compile import Deployment
from penstock.spark.run.folder import epoch_of


class Ending:
    """Watches for the end.

    Parameters
    ----------
    deployment
        What runs.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.epoch = epoch_of(deployment.place)
        self._seen: tuple[int, ...] = ()
        self._changed = 0.0
        self.finite, self.length = False, 0.0
        self._network: Network | None = None
        self.see(deployment)

    def see(self, deployment: Deployment) -> None:
        """Take in what runs now: a query that was attached may bring a longer schedule, or input without an end."""
        if deployment.network is not self._network:
            self._network, self.finite = deployment.network, deployment.network.scheduled
            self.length = max([length_of(options) for options in deployment.schedules.values()] or [0.0])

    def over(
        self, state: Sequence[int], now: float, trigger: float, patience: Callable[[], float] = lambda: 0.0
    ) -> bool:
        """Whether nothing more comes.

        Parameters
        ----------
        state
            The last batch begun and ended of each unit, one after the other.
        now
            The present (s since 1970).
        trigger
            Longest interval of the micro-batches (s): nothing has come if nothing has for two of them.
        patience
            Returns for how long (s) a query may besides wait for another one before it takes more.
        """
        # A clock that was set back is no time in which nothing has come, and would let it wait that long.
        if tuple(state) != self._seen or now < self._changed:
            self._seen, self._changed = tuple(state), now
        idle = all(begun == ended for begun, ended in zip(state[::2], state[1::2], strict=True))
        quiet = now - self._changed - (2 * trigger + 1.0)
        return self.finite and now - self.epoch > self.length and idle and quiet > 0 and quiet > patience()


def length_of(options: Mapping[str, str]) -> float:
    """Return how long a schedule is (s)."""
    rates = json.loads(options["rates"])
    return float(rates["period"] * len(rates["values"]))
