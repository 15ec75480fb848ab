"""Times that spans cover."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

SHORTEST = 1e-3
"""How long a run without batches took (s): more than a time since 1970 is rounded to."""


def covered(spans: Iterable[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """Return the parts of an interval (s) that at least one of some spans covers, in order and apart from each other.

    The batches of several queries of a host overlap: it is busy once, whoever works.

    Examples
    --------
    >>> covered([(0.0, 2.0), (1.0, 3.0), (5.0, 9.0)], 0.5, 6.0)
    [(0.5, 3.0), (5.0, 6.0)]
    """
    parts: list[tuple[float, float]] = []
    for first, last in sorted(spans):
        start, stop = max(first, begin), min(last, end)
        if stop <= start:
            continue
        if parts and start <= parts[-1][1]:
            parts[-1] = parts[-1][0], max(stop, parts[-1][1])
        else:
            parts.append((start, stop))
    return parts


def runs_of(
    begins: Sequence[float], ends: Iterable[float], batches: Iterable[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return from when to when each run of a folder went (s since 1970): one that was killed until its last batch.

    Examples
    --------
    >>> runs_of([10.0, 50.0, 80.0], [40.0], [(11.0, 12.0), (51.0, 53.0)])
    [(10.0, 40.0), (50.0, 53.0), (80.0, 80.001)]
    """
    told = [*batches, *((end, end) for end in ends)]
    found = []
    for start, following in zip(begins, [*begins[1:], math.inf], strict=True):
        last = max((end for at, end in told if at < following), default=start)
        found.append((start, max(start + SHORTEST, min(last, following))))
    return found


def known_since(runs: Sequence[tuple[float, float]], firsts: Iterable[float]) -> float:
    """Return from when on all batches are known, where of some queries those before their ``firsts`` are not.

    It is before the end of the last run.
    """
    return min(max([runs[0][0], *firsts]), runs[-1][1] - SHORTEST)


def share(
    spans: Sequence[tuple[float, float] | None], runs: Iterable[tuple[float, float]], since: float
) -> float | None:
    """Return the share of the time from ``since`` on in which runs went that some spans cover; None: one is not known.

    Examples
    --------
    >>> share([(1.0, 3.0), (2.0, 4.0), (12.0, 13.0)], [(0.0, 5.0), (10.0, 15.0)], 0.0)
    0.4
    """
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    ran = covered(runs, since, math.inf)
    return sum(b - a for run in ran for a, b in covered(known, *run)) / sum(b - a for a, b in ran)
