"""How fast rows enter a source that shows them in lumps only: files that appear, batches that are planned."""

from __future__ import annotations

import attrs

HALF = 0.5
"""Rows below which a total has not grown: rows in files are told by their bytes."""

PATIENCE = 5.0
"""Seconds after the first look from which on it is believed that nothing comes where nothing more has come."""

QUIET = 2.0
"""Times the usual gap between two lumps after which the next one is overdue."""


@attrs.define
class Arrivals:
    """The rows that have come to a source so far, and when there were more.

    A lump came since the one before: its rows over the time between the two are the rate until the next one, which
    falls once that is overdue. What was there before the first look is not counted.

    Attributes
    ----------
    total
        Rows that were read or wait, at the last time that something was known.
    """

    total: float | None = None
    _since: float = 0.0
    _gap: float = 0.0
    _rate: float = 0.0
    _owed: float = 0.0

    def known(self, total: float, at: float) -> None:
        """Take in how many rows had come by a time (s)."""
        if self.total is None:
            self.total, self._since = total, at
        elif total < self.total:
            self.total = total
        elif total >= self.total + HALF and at > self._since:
            self._gap = at - self._since
            self._rate = (total - self.total) / self._gap
            self.total, self._since = total, at

    def sure(self, now: float) -> bool:
        """Whether enough was seen to tell how fast rows come."""
        return self._gap > 0 or (self.total is not None and now - self._since >= PATIENCE)

    def rate(self, now: float) -> float:
        """Return how fast rows come (rows/s)."""
        quiet = now - self._since
        return self._rate if quiet <= QUIET * self._gap else self._rate * self._gap / quiet

    def entered(self, begin: float, now: float) -> int:
        """Return whole rows that came in a period at this rate; what is left over counts in the next one."""
        self._owed += self.rate(now) * max(0.0, now - begin)
        whole = int(self._owed)
        self._owed -= whole
        return whole
