"""Which parts are of one query: those of one identifier, and those of one that was started again on a new one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice

from penstock.telemetry.parts import Part

Span = tuple[float, float]


def by_query(parts: Iterable[Part]) -> list[list[Part]]:
    """Return the parts of each query.

    Parts with the same identifier are one query. What has the name, application name and sources of one other query,
    and never ran at the same time, is that query on a new checkpoint. Of several such queries nobody tells which it
    is: it stays one of its own.
    """
    by_id: defaultdict[str, list[Part]] = defaultdict(list)
    for part in parts:
        by_id[part.id].append(part)
    found: list[list[Part]] = []
    ran: list[list[Span]] = []
    # Places of queries in `found`, by what they have in common: with when they rest again, and those that rest.
    running: defaultdict[tuple[object, ...], list[tuple[float, int]]] = defaultdict(list)
    resting: defaultdict[tuple[object, ...], dict[int, None]] = defaultdict(dict)
    for same in sorted(by_id.values(), key=lambda same: (min(part.begin for part in same), same[0].id)):
        spans = _spans(same)
        keys = {(part.name, part.app_name, part.sources) for part in same if part.name and len(part.batches)}
        free: set[int] = set()
        for key in keys:
            while running[key] and running[key][0][0] <= spans[0][0]:
                resting[key][heappop(running[key])[1]] = None
            # Two are as good as many.
            free.update(islice((k for k in resting[key] if _apart(ran[k], spans)), 2))
        number = free.pop() if len(free) == 1 else len(found)
        if number == len(found):
            found.append([])
            ran.append([])
        found[number] += same
        for span in spans:
            insort(ran[number], span)
        for key in keys:
            resting[key].pop(number, None)
            heappush(running[key], (spans[0][1], number))
    return found


def _spans(parts: Iterable[Part]) -> list[Span]:
    """Return when batches of parts ran (s since the epoch), in order and apart from each other."""
    found: list[Span] = []
    for begin, end in sorted((part.begin, float(part.batches.end.max())) for part in parts if len(part.batches)):
        if found and begin < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _apart(one: list[Span], other: list[Span]) -> bool:
    """Whether no span of one overlaps any of the other."""
    return not any((k := bisect_left(one, (end,))) and one[k - 1][1] > begin for begin, end in other)
