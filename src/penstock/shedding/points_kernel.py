# mypy: disable-error-code="no-any-return"
"""Grids of feasible inputs: their outermost points, and which point or cell rates belong to; compiled where it pays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.native.jit import njit


@njit(cache=True)
def boundary(levels: Any, counts: Any, load: Any, out: Any, most: tuple[int, int]) -> Any:
    """List grid points that fit while the next point up in every coordinate does not; return how many.

    ``levels[s]`` falls from the greatest rate to 0, ``counts[s]`` of them; ``load`` has a row for each resource, with
    every limit 1. Without room in ``out`` points are only counted. ``most`` is of points and of steps: -1 beyond those.
    """
    dims, n = len(counts), len(load)
    at = np.zeros(dims, np.int64)
    partial = np.zeros((dims + 1, n))
    ups = np.zeros((dims + 1, n))
    found = 0
    d = 0
    at[0] = -1
    steps = 0
    while d >= 0 and found < most[0]:
        steps += 1
        if steps > most[1]:
            return -1
        at[d] += 1
        if at[d] == counts[d]:
            d -= 1
            continue
        fits = True
        for i in range(n):
            partial[d + 1, i] = partial[d, i] + load[i, d] * levels[d, at[d]]
            higher = np.inf if at[d] == 0 else levels[d, at[d] - 1]
            ups[d + 1, i] = ups[d, i] + (load[i, d] * higher if load[i, d] > 0 else 0.0)
            fits = fits and partial[d + 1, i] <= 1 + 1e-9
        if not fits:
            continue
        if d < dims - 1:
            d += 1
            at[d] = -1
            continue
        over = False
        for i in range(n):
            over = over or ups[dims, i] > 1
        if not over:
            # Lower levels of the last coordinate are lower still.
            d -= 1
            continue
        if found < len(out):
            for s in range(dims):
                out[found, s] = levels[s, at[s]]
        found += 1
    return found


class Tree(NamedTuple):
    """An index of points: of its nodes the lowest corner, the first point and the one after the last, the best score.

    Only leaves have points of their own; of other nodes ``first`` is -1.
    """

    low: Any
    first: Any
    last: Any
    most: Any


@njit(cache=True)
def scan(points: Any, score: Any, r: Any) -> Any:
    """Return the best point that is nowhere above ``r``, by looking at all."""
    best, row = -1.0, -1
    for p in range(len(points)):
        if score[p] <= best:
            continue
        below = True
        for s in range(len(r)):
            if points[p, s] > r[s]:
                below = False
                break
        if below:
            best, row = score[p], p
    return row


@njit(cache=True)
def search(tree: Tree, points: Any, score: Any, r: Any) -> Any:
    """Return what `scan` returns, by the index: node ``k`` has the children ``2k+1`` and ``2k+2``."""
    low, first, last, most = tree
    best, row = -1.0, -1
    stack = np.zeros(128, np.int64)
    top = 1
    while top:
        top -= 1
        node = stack[top]
        if most[node] < best:
            continue
        out = False
        for s in range(len(r)):
            if low[node, s] > r[s]:
                out = True
                break
        if out:
            continue
        if first[node] >= 0:
            for p in range(first[node], last[node]):
                if score[p] < best or (score[p] == best and p > row):
                    continue
                below = True
                for s in range(len(r)):
                    if points[p, s] > r[s]:
                        below = False
                        break
                if below:
                    best, row = score[p], p
            continue
        stack[top] = 2 * node + 2
        stack[top + 1] = 2 * node + 1
        top += 2
    return row


@njit(cache=True)
def descend(child: Any, lower: Any, upper: Any, r: Any) -> Any:
    """Return the leaf cell of a region quadtree that holds ``r``: lower corners belong to their cell."""
    node = 0
    low, high = lower.copy(), upper.copy()
    while child[node] >= 0:
        number = 0
        for s in range(len(r)):
            middle = 0.5 * (low[s] + high[s])
            if r[s] >= middle:
                number |= 1 << s
                low[s] = middle
            else:
                high[s] = middle
        node = child[node] + number
    return node
