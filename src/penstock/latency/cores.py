"""What sharing cores costs batches: the time each would have taken alone, when any worked, how fast cores were."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

FEWEST = 3
"""Moments that tell how fast a core is, at least."""


def alone(spans: Sequence[tuple[float, float]], cores: float = 1.0) -> list[float]:
    """Return the seconds that batches would have taken alone, of those that shared cores, from when they ran.

    Each had, at every moment, an equal share of the cores with those that ran then. What the tasks of one took while
    others waited for them is divided among all of them, so that their sum is right.

    Examples
    --------
    >>> alone([(0.0, 2.0), (1.0, 3.0)])
    [1.5, 1.5]
    """
    moments = sorted({moment for span in spans for moment in span})
    found = [0.0] * len(spans)
    running: set[int] = set()
    begins = sorted(range(len(spans)), key=lambda k: spans[k][0])
    following = 0
    for start, end in pairwise(moments):
        running = {k for k in running if spans[k][1] > start}
        while following < len(begins) and spans[begins[following]][0] <= start:
            if spans[begins[following]][1] > start:
                running.add(begins[following])
            following += 1
        for k in running:
            found[k] += (end - start) * min(1.0, cores / len(running))
    return found


def covered(spans: Iterable[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """Return the parts of an interval (s) that at least one of some spans covers, in order and apart from each other.

    The batches of several queries of a host overlap: it is busy once, whoever works.
    """
    parts: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        start, stop = max(start, begin, parts[-1][1] if parts else begin), min(stop, end)
        if stop > start:
            parts.append((start, stop))
    return parts


def beside(
    moments: Mapping[str, Sequence[tuple[float, float]]], spans: Mapping[str, Sequence[tuple[float, float]]]
) -> dict[str, float]:
    """Return how fast the core of each host is while others work, as a share of what it is while none does.

    Cores that share caches, power or units slow each other down, and CPU time does not tell it.

    Parameters
    ----------
    moments
        By host, when its core was looked at (s), and how fast it was then (steps/s).
    spans
        By host, from when to when each of its batches ran (s).

    Returns
    -------
    dict
        Without hosts that were looked at fewer than `FEWEST` times in either case.

    Examples
    --------
    >>> beside({"h1": [(k, 50.0 if k < 4 else 100.0) for k in range(8)]}, {"h1": [], "h2": [(0, 3.5)]})
    {'h1': 0.5}
    """
    found = {}
    for host, seen in moments.items():
        others = [span for name, row in spans.items() if name != host for span in row]
        parts = covered(others, float("-inf"), float("inf"))
        begins = [begin for begin, _ in parts]
        both: tuple[list[float], list[float]] = [], []
        for at, speed in seen:
            place = bisect_right(begins, at) - 1
            both[place >= 0 and at < parts[place][1]].append(speed)
        if min(map(len, both)) >= FEWEST:
            found[host] = median(both[True]) / median(both[False])
    return found
