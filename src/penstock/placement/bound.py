"""A lower bound of the worst latency that knows that operators are whole, by branch and bound.

The perfectly divided load (`penstock.placement.objective.latency_bound`) bounds every placement, but no placement
divides an operator. Where a few operators are large the host that has one cannot take its share of what comes when that
operator rests, and the others have to. So here the largest operators are put on hosts, whole, and only the others are
divided: a linear program, over the intervals of time in which some host is late, says how well that can end. The bound
is the least over all ways to put the largest ones. Hosts that have none of them and are alike count as one, since what
is convex is least when divided evenly; quotas, links and pinned operators are left out, which only lowers the bound.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

import attrs
import numpy as np

from penstock.placement.base import Arrays, Floats, Ints
from penstock.placement.episode import episode

NODES = 60
"""Linear programs with whole operators that are solved unless told otherwise."""
WHOLE = 12
"""Operators that are kept whole at most."""
ROUNDS = 12
NEAR = 1e-4


@attrs.frozen
class Bin:
    """Hosts that count as one: one with some of the largest operators, or all alike that have none of them."""

    kind: int
    hosts: int
    holds: tuple[int, ...] = ()


@attrs.frozen(eq=False)
class Parts:
    """A problem in the form of the linear program.

    Attributes
    ----------
    load
        Array (shapes, periods): of operators whose series differ only in scale, their sum.
    shape, share
        Arrays (operators,): where each is counted, and its part of that.
    large
        Numbers of operators, the largest mean load first.
    capacity, count
        Arrays (kinds,): of hosts that are alike, their capacity and how many there are.
    own
        Array (operators, periods).
    period
        Length of a period (s).
    """

    load: Floats
    shape: Ints
    share: Floats
    large: Ints
    capacity: Floats
    count: Ints
    own: Floats
    period: float


def whole_bound(arrays: Arrays, nodes: int = NODES) -> float:
    """Return a lower bound of the worst latency (s) of every placement; more nodes never make it worse.

    Parameters
    ----------
    nodes
        Linear programs that may be solved; each takes some hundredths of a second, or tenths with thousands of
        operators of which no two have the same course.
    """
    if not arrays.names:
        return 0.0
    parts = _parts(arrays)
    cuts = [_latest(arrays.load.sum(axis=0), float(arrays.capacity.sum()))]
    first = tuple(Bin(kind, int(hosts)) for kind, hosts in enumerate(parts.count))
    order = itertools.count()
    waiting = [(_least(parts, first, cuts), next(order), 0, first)]
    solved = 1
    while solved < nodes and waiting[0][2] < min(WHOLE, len(parts.large)):
        value, _, depth, bins = heapq.heappop(waiting)
        for after in _put(bins, int(parts.large[depth])):
            # What a way to put fewer of them cannot do, no way to put more of them can.
            heapq.heappush(waiting, (max(value, _least(parts, after, cuts)), next(order), depth + 1, after))
            solved += 1
    return waiting[0][0]


def _parts(arrays: Arrays) -> Parts:
    peak = arrays.load.max(axis=1)
    course = np.divide(arrays.load, peak[:, None], out=np.zeros_like(arrays.load), where=peak[:, None] > 0)
    _, shape = np.unique(np.round(course, 9), axis=0, return_inverse=True)
    shape = shape.ravel().astype(np.int64)
    load = np.zeros((int(shape.max()) + 1, arrays.load.shape[1]))
    np.add.at(load, shape, arrays.load)
    size = np.bincount(shape, peak)
    share = np.divide(peak, size[shape], out=np.zeros_like(peak), where=peak > 0)
    capacity, count = np.unique(arrays.capacity, return_counts=True)
    large = np.argsort(-arrays.mean, kind="stable")
    return Parts(load, shape, share, large, capacity, count, arrays.load, arrays.period)


def _put(bins: tuple[Bin, ...], operator: int) -> Iterator[tuple[Bin, ...]]:
    """Iterate over the ways to put one more operator on a host; hosts that are alike give one way."""
    for at, found in enumerate(bins):
        rest = bins[:at] + bins[at + 1 :]
        if found.holds:
            yield (*rest, attrs.evolve(found, holds=(*found.holds, operator)))
        else:
            left = (Bin(found.kind, found.hosts - 1),) if found.hosts > 1 else ()
            yield (*rest, *left, Bin(found.kind, 1, (operator,)))


def _latest(load: Floats, capacity: float) -> tuple[int, int]:
    _, first, end = episode(load, capacity)
    return first, end


def _least(parts: Parts, bins: tuple[Bin, ...], cuts: list[tuple[int, int]]) -> float:
    """Return the least worst latency with some operators put and the others divided; intervals are added to ``cuts``.

    Fewer intervals than there are only lower it, so it may stop at any time.
    """
    from scipy.optimize import linprog

    shapes, width = len(parts.load), len(parts.load) * len(bins)
    free = np.ones(shapes)
    fixed = np.zeros((len(bins), parts.load.shape[1]))
    capacity = np.array([parts.capacity[each.kind] * each.hosts for each in bins])
    for row, each in enumerate(bins):
        for operator in each.holds:
            free[parts.shape[operator]] -= parts.share[operator]
            fixed[row] += parts.own[operator]
    divided = np.tile(np.eye(shapes), len(bins))
    goal = np.append(np.zeros(width), 1.0)
    best = 0.0
    for _ in range(ROUNDS):
        rows, limits = np.zeros((len(cuts) * len(bins), width + 1)), np.zeros(len(cuts) * len(bins))
        for k, (first, end) in enumerate(cuts):
            inside = parts.load[:, first:end].sum(axis=1) * parts.period
            for row in range(len(bins)):
                at = k * len(bins) + row
                rows[at, row * shapes : (row + 1) * shapes], rows[at, -1] = inside, -capacity[row]
                limits[at] = (capacity[row] * (end - first) - fixed[row, first:end].sum()) * parts.period
        equal = np.hstack([divided, np.zeros((shapes, 1))])
        found = linprog(goal, rows, limits, equal, np.maximum(free, 0.0), bounds=(0, None), method="highs")
        if found.x is None or found.fun is None:
            break
        best = max(best, float(found.fun))
        load = fixed + found.x[:-1].reshape(len(bins), shapes) @ parts.load
        late = [episode(row, size) for row, size in zip(load, capacity, strict=True)]
        over = [
            (first, end) for (most, first, end), size in zip(late, capacity, strict=True)
            if most * parts.period > size * (best + NEAR * max(best, parts.period))
        ]  # fmt: skip
        fresh = [cut for cut in dict.fromkeys(over) if cut not in cuts]
        if not fresh:
            break
        cuts += fresh
    return best
