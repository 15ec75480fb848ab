"""What windows put out per row that went into them: their results come at once, long after the rows."""

from __future__ import annotations

import attrs

from penstock.files import Document
from penstock.network import Operator

WINDOWS = 2.0
"""Lengths of a window after which what was seen counts half, at least."""

Counted = tuple[float, float, float]
"""Seconds, rows taken, rows put out."""

NOTHING: Counted = (0.0, 0.0, 0.0)


@attrs.frozen(kw_only=True)
class Stretch:
    """One operator's count over windows, which says nothing before one of them has closed.

    A stretch ends when results come out, so that it holds the rows of whole windows whenever somebody looks. Rows that
    are late or in several windows belong to results that are still to come: the first stretch has too many then, and
    counts only until the second has ended.

    Attributes
    ----------
    closed
        What ended of late, older windows counting less.
    since
        What was counted since.
    ended
        How many stretches have ended.
    """

    closed: Counted = NOTHING
    since: Counted = NOTHING
    ended: int = 0

    def after(self, operator: Operator, seen: Counted, half: float, enough: float) -> Stretch:
        """Return the count after one more look.

        Parameters
        ----------
        half
            Half-life (s) that is wanted; it is never shorter than some windows.
        enough
            Rows that a stretch must have taken.
        """
        window, put = operator.window or 0.0, self.since[2] + seen[2]
        # Rows of the look in which a window closes are in the next one, all but those of its beginning.
        later = seen[:2] if window > seen[0] else (0.0, 0.0)
        seconds, taken = (before + now - next_ for before, now, next_ in zip(self.since, seen, later, strict=False))
        if not seen[2] or taken < enough or seconds < window - seen[0] / 2:
            return attrs.evolve(self, since=_sum(self.since, seen))
        fading = 0.0 if self.ended == 1 else 0.5 ** (seconds / max(half, WINDOWS * window))
        old = (self.closed[0] * fading, self.closed[1] * fading, self.closed[2] * fading)
        return Stretch(closed=_sum(old, (seconds, taken, put)), since=(*later, 0.0), ended=self.ended + 1)

    @classmethod
    def read(cls, document: Document) -> Stretch:
        """Return what was written to the state file."""
        closed, since = (tuple(document[name]) for name in ("closed", "since"))
        return cls(closed=closed, since=since, ended=document["ended"])


def _sum(one: Counted, two: Counted) -> Counted:
    return one[0] + two[0], one[1] + two[1], one[2] + two[2]


def over_windows(operator: Operator) -> bool:
    """Whether an operator puts results out when windows close; joins do so as soon as rows match."""
    return operator.kind == "aggregate" and bool(operator.window)
