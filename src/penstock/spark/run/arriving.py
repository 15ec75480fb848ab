"""How many messages topics have had by which time: they are asked, since a batch may last long."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from penstock.spark.hop.rows import RowTopic

LOOKS = 1000
"""Looks that are remembered at most."""

LEARNED = 9
"""Batches by which is told how many messages there are for each offset; one that passed a gap alone says nothing."""


class Total:
    """A number that grows, as it was seen from time to time (s since 1970).

    Parameters
    ----------
    kept
        For how long (s) what was seen is remembered.
    """

    def __init__(self, kept: float) -> None:
        self._kept = kept
        self._seen: deque[tuple[float, float]] = deque(maxlen=LOOKS)

    @property
    def at(self) -> float | None:
        """When it was last seen; None: never."""
        return self._seen[-1][0] if self._seen else None

    @property
    def sure(self) -> bool:
        """Whether it was seen often enough to tell how it grows."""
        return len(self._seen) > 1

    @property
    def last(self) -> float:
        """What it was then; 0 before."""
        return self._seen[-1][1] if self._seen else 0.0

    def see(self, now: float, total: float) -> None:
        """Take in what it is now; by a clock that was set back nothing was seen later."""
        while self._seen and self._seen[-1][0] > now:
            self._seen.pop()
        self._seen.append((now, total))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._kept:
            self._seen.popleft()

    def since(self, moment: float) -> float:
        """Return by how much it has grown since a moment, evenly between two looks."""
        if not self._seen:
            return 0.0
        times, totals = np.array(self._seen, float).T
        return float(totals[-1] - np.interp(moment, times, totals))

    def reached(self, total: float) -> float:
        """Return when it was as much, evenly between two looks; at the first look if it was before."""
        times, totals = np.array(self._seen, float).T
        return float(np.interp(total, totals, times))

    def rate(self, period: float) -> float | None:
        """Return its growth per second over the last period (s); None while less than half of one is known."""
        if not self._seen:
            return None
        now = self._seen[-1][0]
        begin = max(now - period, self._seen[0][0])
        return self.since(begin) / (now - begin) if now - begin >= 0.5 * period else None


class Arriving(Total):
    """The messages of some topics.

    Parameters
    ----------
    topics
        Open ones; `close` lets them go.
    kept
        As of `Total`, which is of their offsets.
    """

    def __init__(self, topics: Sequence[RowTopic], kept: float) -> None:
        super().__init__(kept)
        self.topics, self._owed = topics, 0.0
        self._shares: deque[float] = deque(maxlen=LEARNED)
        self._ends: list[dict[int, int]] = [{} for _ in topics]

    def look(self) -> None:
        """Ask the topics; of one that was made again all messages are new."""
        ends, total = [topic.ends() for topic in self.topics], self.last
        for before, after in zip(self._ends, ends, strict=True):
            for number, end in after.items():
                known = before.get(number, 0)
                total += end - known if end >= known else end
        self._ends = ends
        self.see(time.time(), total)

    def read(self, rows: float, offsets: int) -> None:
        """Learn from a batch that found so many rows at so many offsets."""
        if offsets > 0:
            self._shares.append(min(1.0, rows / offsets))

    @property
    def share(self) -> float:
        """How many rows there are for each offset: a transaction has a mark at its end, or shows none of its rows."""
        return float(np.median(self._shares)) if self._shares else 1.0

    def since(self, moment: float) -> float:
        """Return how many messages came since a moment, evenly between two looks."""
        return self.share * super().since(moment)

    def between(self, begin: float, end: float) -> int:
        """Return the messages that came between two moments, of periods that follow each other each in one."""
        self._owed += self.since(begin) - self.since(end)
        whole = round(self._owed)
        self._owed -= whole
        return whole

    def close(self) -> None:
        """Let the topics go."""
        for topic in self.topics:
            topic.__exit__()
