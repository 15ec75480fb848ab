# mypy: disable-error-code="no-any-return"
"""Largest-first, compiled: operators in order, each to the host that is then the least loaded."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array, Ints
from penstock.native.jit import INNER, njit

TIE = 1e-9


def least_loaded(mean: Array, usable: Array, where: Ints, fitted: bool) -> None:
    """Give each operator that has no host, in order, to the host whose share of load is then the least.

    ``where`` is filled in place. With ``fitted`` false the operator's own load does not count (the host of least
    load so far, of equal ones that with the most room). A heap of hosts, or a scan where hosts differ.
    """
    if len(mean) == 0:
        return
    load, placed = np.zeros(len(usable)), where >= 0
    np.add.at(load, where[placed], mean[placed])
    tie = float(TIE * max(mean.max(), 1e-300) / usable.min())
    if usable.max() == usable.min():
        _from_heap(mean, where, load, np.arange(len(usable)), tie * usable[0])
    else:
        _from_all(mean, usable, where, load, tie, int(fitted))


@njit(**INNER)
def _from_all(mean: Array, usable: Array, where: Ints, load: Array, tie: float, fitted: int) -> None:
    for o in range(len(mean)):
        if where[o] < 0:
            best, least = 0, np.inf
            for h in range(len(usable)):
                share = (load[h] + (mean[o] if fitted else 0.0)) / usable[h]
                equally = not fitted and share <= least + tie and usable[h] > usable[best]
                if share < least - tie or equally:
                    best, least = h, min(share, least)
            where[o] = best
            load[best] += mean[o]


@njit(**INNER)
def _from_heap(mean: Array, where: Ints, load: Array, heap: Ints, tie: float) -> None:
    for start in range(len(heap) // 2 - 1, -1, -1):
        _sift(heap, load, start, tie)
    for o in range(len(mean)):
        if where[o] < 0:
            h = heap[0]
            where[o] = h
            load[h] += mean[o]
            _sift(heap, load, 0, tie)


@njit(**INNER)
def _sift(heap: Ints, load: Array, at: int, tie: float) -> None:
    n = len(heap)
    item = heap[at]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and _before(load, heap[child + 1], heap[child], tie):
            child += 1
        if not _before(load, heap[child], item, tie):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item


@njit(**INNER)
def _before(load: Array, a: int, b: int, tie: float) -> bool:
    if load[a] < load[b] - tie:
        return True
    return load[a] <= load[b] + tie and a < b
