"""What rows that queue tell of a host that takes them one by one: while any do, it works as fast as it can."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.load.fitting import FEWEST, least_unsteady, unrest
from penstock.load.spans import covered
from penstock.load.statistics import HostStatistics

BEHIND = 0.5
"""How much longer (s) than twice the shortest time ever a row takes while others wait; a message's way alone may take a
tenth of a second."""

PIECE = 0.5
"""Seconds of work that are looked at together: times of messages are whole milliseconds."""


@attrs.frozen(eq=False)
class Passed:
    """The rows that left a query, in the order in which they did.

    Attributes
    ----------
    came, left
        Arrays (rows,): when each had come to the query, and when it left it (s).
    work
        Benchmark-core seconds over the host's capacity for each row that leaves, those with it that were filtered out.
    """

    came: Array
    left: Array
    work: float

    def full(self) -> list[tuple[float, float]]:
        """Return from when to when (s) rows queued: one that waited was followed by another."""
        own = self.left - self.came
        slow = own > 2 * max(float(own.min(initial=np.inf)), 0.0) + BEHIND
        edges = np.flatnonzero(np.diff(np.concatenate([[False], slow, [False]]).astype(np.int8)))
        return [(float(self.left[a]), float(self.left[b - 1])) for a, b in edges.reshape(-1, 2).tolist() if b - a > 1]


def told_by_queues(
    queries: Sequence[Passed], before: HostStatistics | None = None, young: float = -np.inf
) -> HostStatistics | None:
    """Return a host's statistics with the factor that its rows tell where they queued; None: too few did.

    While one of a host's queries has more to do than it can, the host works all the time: on the rows that leave any of
    them meanwhile. What is out of line at the beginning does not count.

    Parameters
    ----------
    queries
        Of the host.
    before
        What was known of it: its batches are others.
    young
        Until when (s) its code was young.
    """
    at, took, work = [], [], []
    for begin, end in covered([span for query in queries for span in query.full()], young, np.inf):
        count = int((end - begin) / PIECE)
        edges = np.linspace(begin, begin + count * PIECE, count + 1)
        done = [query.work * np.diff(np.searchsorted(query.left, edges, side="right")) for query in queries]
        at.append(edges[:-1])
        took.append(np.full(count, PIECE))
        work.append(np.sum(done, axis=0))
    begins, lengths, loads = (np.concatenate([np.zeros(0), *each]) for each in (at, took, work))
    # Of what nothing is said to cost no factor can be told.
    some = loads > 0
    if some.sum() < FEWEST:
        return None
    begins, lengths, loads = begins[some], lengths[some], loads[some]
    ratio = np.log(lengths / loads)
    first = least_unsteady(ratio, len(ratio) // 2)
    ratio, begins = ratio[first:], begins[first:]
    factor = float(lengths[first:].sum() / loads[first:].sum())
    error = float(ratio.std(ddof=1) / np.sqrt(len(ratio)))
    # Nothing tells of the core's speed: what rows took from one stretch to another stands for how that wanders, too.
    steady = unrest(begins, ratio)
    return attrs.evolve(
        before or HostStatistics(), factor=factor, error=error, unrest=steady, wander=steady, correlation=0.0
    )
