"""Grids of feasible rates, and the index that looks points up (Tatbul et al. sections 6.2.1 and 6.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Numbers
from penstock.errors import InputError
from penstock.native.jit import kernel
from penstock.shedding.program import Matrix

KERNEL = "penstock.shedding.points_kernel"
MOST_POINTS = 3_000_000
"""Rows of a table: with 8 inputs 0.2 GB, and less than 1 GB while it is made."""
MOST_WORK = 4_000_000_000
MOST_STEPS = 200_000_000
"""Steps of the search for points: some seconds. By the number of points alone it can take for ever."""
STEP = 0.4
"""Share of the error by which two rows of one input differ in score: such tables are small, so they do better."""
LEAF = 16
"""Points in a leaf of the index."""


def ladder(top: float, small: float, spread: float) -> Matrix:
    """Return falling rates from the greatest, each 1 - spread of the one before, past ``small``, and then 0."""
    if top <= 0:
        return np.zeros(1)
    steps = max(0, math.ceil(math.log(small / top) / math.log1p(-spread))) if 0 < small < top else 0
    return np.append(top * np.exp(math.log1p(-spread) * np.arange(steps + 1)), 0.0)


def rungs(top: float, bottom: float, spread: float) -> Matrix:
    """Return falling rates from the greatest to where overload begins, each at least 1 - spread of the one before.

    Just above the rate where overload begins an optimal plan loses next to nothing, while a row a step below would
    cost the whole step: so a grid of one input holds that rate, and needs none below it.
    """
    if not 0 < bottom < top:
        return np.array([top, 0.0]) if top > 0 else np.zeros(1)
    steps = math.ceil(math.log(bottom / top) / math.log1p(-spread) - 1e-9)
    return np.append(np.geomspace(top, bottom, steps + 1), 0.0)


def even(rates: Matrix, score: Matrix, error: float) -> Matrix:
    """Return falling rates of one input between which scores fall by equal shares, a part of the error each.

    Parameters
    ----------
    rates, score
        Arrays (rungs,), falling, and what optimal plans earn there. Of the rates that earn the most the least is kept.
    """
    first = int(np.flatnonzero(score >= score[0] * (1 - 1e-12))[-1])
    rates, score = rates[first:], score[first:]
    if len(rates) == 1 or score[-1] <= 0:
        return rates
    steps = math.ceil(math.log(score[-1] / score[0]) / math.log1p(-STEP * error) - 1e-9)
    return np.interp(np.geomspace(score[0], score[-1], steps + 1), score[::-1], rates[::-1])


def stacked(columns: list[Matrix]) -> tuple[Matrix, NDArray[np.int64]]:
    """Return ladders of different lengths as one array (inputs, most), and their lengths."""
    counts = np.array([len(column) for column in columns], np.int64)
    levels = np.zeros((len(columns), int(counts.max(initial=1))))
    for s, column in enumerate(columns):
        levels[s, : len(column)] = column
    return levels, counts


def boundary(levels: Matrix, counts: NDArray[np.int64], load: Matrix) -> Matrix:
    """Return the grid points that fit while the next point up in every coordinate does not, array (points, inputs).

    Parameters
    ----------
    load
        Array (resources, inputs), every limit 1.

    Raises
    ------
    InputError
        If there are too many.
    """
    points = np.zeros((listable(levels, counts, load), len(counts)))
    _outermost(levels, counts, load, points)
    return points


def listable(levels: Matrix, counts: NDArray[np.int64], load: Matrix) -> int:
    """Return how many points `boundary` returns; refuse too many, or too fine a grid."""
    affordable(counts, math.factorial(len(counts)))
    found = _outermost(levels, counts, load, np.zeros((0, len(counts))))
    if found < 0:
        raise _too_fine(counts)
    countable(found)
    return found


def _outermost(levels: Matrix, counts: NDArray[np.int64], load: Matrix, out: Matrix) -> int:
    """Count the points that `boundary` returns, one more than may be or -1 to stop, and fill ``out`` with them."""
    code = kernel(KERNEL, min(math.prod(counts.tolist()) * len(load), MOST_WORK))
    found: int = code.boundary(levels, counts, load, out, (MOST_POINTS + 1, MOST_STEPS))
    return found


def affordable(counts: NDArray[np.int64], share: int) -> None:
    """Refuse a grid that is too fine to list.

    Parameters
    ----------
    share
        One in so many points must be looked at.
    """
    if math.prod(counts.tolist()) > MOST_WORK * share:  # whole numbers, since reals end at 1e308
        raise _too_fine(counts)


def _too_fine(counts: NDArray[np.int64]) -> TooLarge:
    return TooLarge(f"the grid of {len(counts)} different inputs is too fine to list")


def countable(points: int) -> None:
    """Refuse a table with too many rows."""
    if points > MOST_POINTS:
        raise TooLarge(f"the table would need more than {MOST_POINTS:,} points")


class TooLarge(InputError):
    """A table does not fit; a larger error would make it smaller."""

    def __init__(self, problem: str, hint: str = "take a larger --error or --planner exact") -> None:
        super().__init__(problem, at="--planner", hint=hint)


def groups(load: Matrix, worth: Matrix) -> tuple[NDArray[np.int64], Matrix]:
    """Number the inputs that differ only in scale alike; the factor turns a rate into the first one's (8.2.4)."""
    group, factor = np.zeros(len(worth), np.int64), np.ones(len(worth))
    leaders: list[int] = []
    for s in range(len(worth)):
        column = np.append(load[:, s], worth[s])
        for g, first in enumerate(leaders):
            base = np.append(load[:, first], worth[first])
            ratio = column.sum() / base.sum() if base.sum() > 0 else 0.0
            if ratio > 0 and np.allclose(column, ratio * base, rtol=1e-12, atol=0):
                group[s], factor[s] = g, ratio
                break
        else:
            group[s] = len(leaders)
            leaders.append(s)
    return group, factor


def indexed(points: Matrix, score: Matrix, rows: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Order points by an implicit balanced tree and give each node its box and its best score.

    Parameters
    ----------
    rows
        Further arrays with a row for each point.
    """
    count, dims = points.shape
    depth = 0
    while (count >> depth) > LEAF:
        depth += 1
    nodes = (2 << depth) - 1
    first, last = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    order = np.arange(count)
    # Taken once: taken at each node it would make a large table quadratic in its points.
    greatest = points.max(axis=0, initial=1e-300)
    spans = {0: (0, count)}
    for node in range(nodes):
        a, b = spans.pop(node)
        if node >= nodes // 2:
            first[node], last[node] = a, b
            continue
        part = order[a:b]
        if dims and len(part):
            axis = int(np.argmax(np.ptp(points[part], axis=0) / greatest))
            order[a:b] = part[np.argsort(points[part, axis], kind="stable")]
        middle = (a + b) // 2
        spans[2 * node + 1], spans[2 * node + 2] = (a, middle), (middle, b)
    points, score = np.ascontiguousarray(points[order]), score[order]
    low = np.full((nodes, dims), 1e300)
    most = np.full(nodes, -1.0)
    for node in range(nodes - 1, -1, -1):
        if first[node] >= 0:
            a, b = first[node], last[node]
            if b > a:
                low[node], most[node] = points[a:b].min(axis=0), score[a:b].max()
        else:
            for child in (2 * node + 1, 2 * node + 2):
                low[node] = np.minimum(low[node], low[child])
                most[node] = max(most[node], most[child])
    more = {name: np.ascontiguousarray(value[order]) for name, value in rows.items()}
    return {"points": points, "score": score, "low": low, "first": first, "last": last, "most": most, **more}


def best_below(arrays: Mapping[str, Numbers], rates: Matrix) -> int:
    """Return the row of the best point that is nowhere above the rates, or -1."""
    code = kernel(KERNEL, arrays["points"].size)
    tree = code.Tree(arrays["low"], arrays["first"], arrays["last"], arrays["most"])
    row: int = code.search(tree, arrays["points"], arrays["score"], rates)
    return row
