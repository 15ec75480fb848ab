"""What shares of cores have cost batches: the time that each would have taken alone, and when any worked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise


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
