"""What waits at Spark's source of numbers (format ``rate``): the clock says how many it has had by now."""

from __future__ import annotations

import time

from penstock.network import Source
from penstock.spark.shipped.checkpoint import source_began
from penstock.spark.shipped.place import Place
from penstock.units import spoken


class Ticking:
    """The rows of such a source that one query has not read yet; they come once a second.

    Parameters
    ----------
    source
        Makes rows.
    checkpoint
        Of the query.
    number
        Of the source among those that the query reads.
    """

    known = True

    def __init__(self, source: Source, checkpoint: Place, number: int) -> None:
        options = {key.lower(): value for key, value in source.options.items()}
        self._rate = int(options.get("rowspersecond", "1"))
        self._ramp = int(spoken(options.get("rampuptime", "0")))
        self._checkpoint, self._number = checkpoint, number
        self._began: float | None = None

    def took(self, rows: float, since: int, upto: int) -> None:
        """Learn nothing: what a second holds is given."""

    def waiting(self, upto: int) -> tuple[float, float | None] | None:
        """Return the rows behind an offset, and when the oldest of them came (s since 1970); None: not begun."""
        if self._began is None:
            self._began = source_began(self._checkpoint, self._number)
        if self._began is None:
            return None
        upto = max(0, upto)
        now = int(time.time() - self._began)
        if now <= upto:
            return 0.0, None
        return float(self._had(now) - self._had(upto)), self._began + upto

    def _had(self, seconds: int) -> int:
        """Return the rows of the first seconds: their number rises evenly each second until the rate is reached."""
        rising = min(seconds, self._ramp)
        step = self._rate // (self._ramp + 1)
        return step * rising * (rising + 1) // 2 + self._rate * (seconds - rising)
