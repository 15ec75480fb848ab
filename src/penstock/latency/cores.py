"""What sharing cores costs batches: the time each would have taken alone, when any worked, how fast cores were."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from penstock.load.spans import covered

FEWEST = 3
"""Moments that tell how fast a core is, at least."""


def alone(spans: Sequence[tuple[float, float]], cores: float = 1.0, hosts: Sequence[str] | None = None) -> list[float]:
    """Return the seconds that batches would have taken alone, of those that shared cores, from when they ran.

    As in the model, the hosts at work divide the cores equally, of which each uses one at most, and the batches of a
    host divide its part. What the tasks of one took while others waited for them is divided among all of them, so that
    the sum of a host is right.

    Parameters
    ----------
    spans
        From when to when each ran (s).
    cores
        Of the machine.
    hosts
        On which host each ran; each on one of its own if that is not given.

    Examples
    --------
    >>> alone([(0.0, 2.0), (1.0, 3.0)])
    [1.5, 1.5]
    >>> alone([(0.0, 2.0), (1.0, 3.0)], 2.0)
    [2.0, 2.0]
    >>> alone([(0.0, 2.0), (1.0, 3.0)], 2.0, ["h1", "h1"])
    [1.5, 1.5]
    """
    where = range(len(spans)) if hosts is None else hosts
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
        together = Counter(where[k] for k in running)
        for k in running:
            found[k] += (end - start) * min(1.0, cores / len(together)) / together[where[k]]
    return found


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
