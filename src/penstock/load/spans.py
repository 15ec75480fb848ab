"""Times that spans cover."""

from __future__ import annotations

from collections.abc import Iterable


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
