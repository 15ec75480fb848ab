"""Putting right what a heuristic left over a quota: the fewest moves, then swaps, then packing anew."""

from __future__ import annotations

import numpy as np

from penstock.placement.base import TIE, Arrays, Ints


def repaired(arrays: Arrays, where: Ints) -> Ints | None:
    """Return a placement within all quotas that is near the given one, or None where none was found."""
    where = where.copy()
    limit = arrays.limit * (1 + TIE)
    level = arrays.host_mean(where)
    movable = arrays.fixed < 0
    for _ in range(4 * len(where) + 16):
        over = np.flatnonzero(level > limit)
        if not len(over):
            return where
        host = over[int(np.argmax(level[over] - arrays.usable[over]))]
        step = _step(arrays, where, level, limit, movable, int(host))
        if step is None:
            break
        for operator, target in step:
            level[where[operator]] -= arrays.mean[operator]
            level[target] += arrays.mean[operator]
            where[operator] = target
    return _packed(arrays)


def _step(
    arrays: Arrays, where: Ints, level: np.ndarray, limit: np.ndarray, movable: np.ndarray, host: int
) -> list[tuple[int, int]] | None:
    """Return the move, or else the swap, that takes most from an overloaded host; None where none fits."""
    mean, excess = arrays.mean, level[host] - limit[host]
    inside = np.flatnonzero((where == host) & movable)
    enough = inside[mean[inside] >= excess][::-1]  # the least that suffices first
    for operator in [*enough, *inside[mean[inside] < excess]]:
        room = limit - level - mean[operator]
        room[host] = -1.0
        if mean[operator] > 0 and room.max() >= 0:
            return [(int(operator), int(np.argmax(room)))]
    for operator in inside:
        others = np.flatnonzero((where != host) & movable & (mean < mean[operator]))
        after = level[where[others]] - mean[others] + mean[operator]
        fits = others[after <= limit[where[others]]]
        if len(fits):
            least = fits[-1]
            return [(int(operator), int(where[least])), (int(least), host)]
    return None


def _packed(arrays: Arrays) -> Ints | None:
    """Return the best-fit decreasing packing, or None where an operator fits nowhere."""
    where = arrays.fixed.copy()
    limit = arrays.limit * (1 + TIE)
    level = np.zeros(len(limit))
    np.add.at(level, where[where >= 0], arrays.mean[where >= 0])
    for operator in np.flatnonzero(where < 0):
        room = limit - level - arrays.mean[operator]
        fits = np.flatnonzero(room >= 0)
        if not len(fits):
            return None
        where[operator] = fits[int(np.argmin(room[fits]))]
        level[where[operator]] += arrays.mean[operator]
    return where if (level <= limit).all() else None
