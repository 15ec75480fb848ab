"""When the batches of a query began, beside when they may under a trigger."""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.telemetry import Batches

EARLY = 0.002
"""Seconds by which a batch may seem to begin before its trigger was due: times are told in milliseconds."""

LATE = 0.04
"""Seconds by which a batch may begin after its trigger was due."""

AT_ONCE = 0.5
"""Seconds that Spark may need between two batches of which the second does not wait."""

SURE = math.log(1e4)
"""Evidence that shows an interval: the log of how unlikely chance is."""


@attrs.frozen
class Match:
    """How well an interval tells when batches began.

    `waited` of the `count` batches must have waited, and `on` of these began when the trigger was due; `early` ones
    began before; `explained` is the share that began when it may, at a multiple or at once.
    """

    count: int
    waited: int
    on: int
    early: int
    explained: float
    evidence: float

    @property
    def told(self) -> bool:
        """Whether the interval is right about the batches, and that is no chance."""
        return self.explained >= 0.9 and self.on >= 3 and self.evidence >= SURE

    @property
    def possible(self) -> bool:
        """Whether the batches do not rule the interval out; that some began before they were due does."""
        return self.explained >= 0.75 and not (self.early >= 2 and self.early > 0.03 * self.count)


@attrs.frozen(eq=False)
class Starts:
    """When batches began (s), each with the begin and the end of the one before it in the same run."""

    before: Array
    ended: Array
    begun: Array

    @classmethod
    def of(cls, batches: Batches, *, last: bool = False) -> Starts:
        """Take those of a query, or of its last run; the first batch of a run has none before it."""
        same = batches.run[1:] == batches.run[:-1]
        if last:
            same &= batches.run[1:] == batches.run[-1:]
        return cls(batches.start[:-1][same], batches.end[:-1][same], batches.start[1:][same])

    def __len__(self) -> int:
        return int(self.begun.size)

    @property
    def gaps(self) -> Array:
        """Seconds from begin to begin."""
        return self.begun - self.before

    @property
    def pause(self) -> Array:
        """Seconds in which no batch ran."""
        return self.begun - self.ended

    def allows(self, interval: float) -> bool:
        """Whether the starts do not rule a trigger out."""
        return not len(self) or self.under(interval).possible

    def under(self, interval: float) -> Match:
        """Compare the starts with those that a trigger would allow."""
        width = min(LATE + EARLY, 0.2 * interval)
        due = (np.floor((self.before + EARLY) / interval) + 1) * interval
        on = np.mod(self.begun + EARLY, interval) <= width
        early = self.begun < due - EARLY
        at_once = self.pause <= AT_ONCE
        waited = (due > self.ended) | ~at_once
        number, hits = int(waited.sum()), int((on & waited).sum())
        return Match(
            count=len(self),
            waited=number,
            on=hits,
            early=int(early.sum()),
            explained=float(np.mean(on | (at_once & ~early))),
            evidence=_evidence(hits, number, width / interval),
        )


def _evidence(hits: int, number: int, chance: float) -> float:
    """Return minus the log of (a bound of) the probability of so many hits by chance.

    Examples
    --------
    >>> _evidence(0, 10, 0.1), round(_evidence(3, 3, 0.1), 3) == round(3 * math.log(10), 3)
    (0.0, True)
    """
    share = hits / number if number else 0.0
    if share <= chance:
        return 0.0
    missed = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return number * (share * math.log(share / chance) + missed)
