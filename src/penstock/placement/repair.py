"""Putting right what a heuristic left over a quota or a memory: the fewest moves, then swaps, then packing anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penstock.arrays import Bools
from penstock.placement.base import TIE, Arrays, Floats, Ints

LOOKS, ALIKE = 30_000, 64
"""Hosts that are looked at once the first packing has failed, and hosts among which those alike are looked for."""


def fits(arrays: Arrays, where: Ints) -> bool:
    """Whether no host carries more than it may, nor keeps more state than it can hold."""
    need, limit = resources(arrays)
    return bool((_level(need, where, len(limit)) <= limit).all())


def repaired(arrays: Arrays, where: Ints, pack: Callable[[Arrays], Ints | None] | None = None) -> Ints | None:
    """Return a placement within all quotas and memories that is near the given one, or None where none was found.

    Where moves and swaps do not get there, the answer is `packed`, or what ``pack`` remembers of it: it does not depend
    on the given placement.
    """
    where = where.copy()
    need, limit = resources(arrays)
    level = _level(need, where, len(limit))
    movable = arrays.fixed < 0
    for _ in range(4 * len(where) + 16):
        over = np.argwhere(level > limit)
        if not len(over):
            return where
        # Of the worst host what it has most too much of, as a share of the largest host.
        host, scarce = over[int(np.argmax([(level[h, r] - limit[h, r]) / _most(limit[:, r]) for h, r in over]))]
        step = _step(_State(need, limit, level, where, movable), int(host), int(scarce))
        if step is None:
            break
        for operator, target in step:
            level[where[operator]] -= need[operator]
            level[target] += need[operator]
            where[operator] = target
    anew = (pack or packed)(arrays)
    return None if anew is None else anew.copy()


class _State(NamedTuple):
    """Needs (m, r) and limits (n, r) by resource, what hosts carry (n, r), and where operators are that may move."""

    need: Floats
    limit: Floats
    level: Floats
    where: Ints
    movable: Bools


def resources(arrays: Arrays) -> tuple[Floats, Floats]:
    """Return what operators need and what hosts have, arrays (m, r) and (n, r): load, and state where it is bounded."""
    need, limit = arrays.mean[:, None], arrays.limit[:, None]
    if arrays.state is not None and arrays.memory is not None:
        need, limit = np.column_stack([need, arrays.state]), np.column_stack([limit, arrays.memory])
    return need, limit * (1 + TIE)


def _level(need: Floats, where: Ints, hosts: int) -> Floats:
    level = np.zeros((hosts, need.shape[1]))
    np.add.at(level, where[where >= 0], need[where >= 0])
    return level


def _most(limit: Floats) -> float:
    return float(limit[np.isfinite(limit)].max(initial=0.0)) or 1.0


def _step(now: _State, host: int, scarce: int) -> list[tuple[int, int]] | None:
    """Return the move, or else the swap, that takes most of a resource from a host; None where none fits."""
    amount, excess = now.need[:, scarce], now.level[host, scarce] - now.limit[host, scarce]
    inside = np.flatnonzero((now.where == host) & now.movable & (amount > 0))
    inside = inside[np.argsort(-amount[inside], kind="stable")]
    enough = inside[amount[inside] >= excess][::-1]  # the least that suffices first
    for operator in [*enough, *inside[amount[inside] < excess]]:
        room = now.limit - now.level - now.need[operator]
        able = (room >= 0).all(axis=1)
        able[host] = False
        if able.any():
            return [(int(operator), int(np.argmax(np.where(able, room[:, scarce], -np.inf))))]
    for operator in inside:
        others = np.flatnonzero((now.where != host) & now.movable & (amount < amount[operator]))
        there = now.where[others]
        after = now.level[there] - now.need[others] + now.need[operator]
        back = now.level[host] - now.need[operator] + now.need[others]
        able = (after <= now.limit[there]).all(axis=1)
        # Of other resources the host may not get too much in exchange.
        able &= np.delete(back <= now.limit[host], scarce, axis=1).all(axis=1)
        if able.any():
            least = int(others[able][np.argmin(amount[others[able]])])
            return [(int(operator), int(now.where[least])), (least, host)]
    return None


def packed(arrays: Arrays) -> Ints | None:
    """Return a packing, or None where none was found: the best-fit decreasing one, or one near it.

    Where the last operators do not fit, those before them try their next best host, until `LOOKS` are spent.
    """
    where = arrays.fixed.copy()
    need, limit = resources(arrays)
    level = _level(need, where, len(limit))
    if (level > limit).any():
        return None
    scale = np.array([_most(column) for column in limit.T])
    free = np.flatnonzero(where < 0)
    free = free[np.argsort(-(need[free] / scale).max(axis=1), kind="stable")]
    rest = np.cumsum(need[free][::-1], axis=0)[::-1]

    def hosts(k: int) -> list[int]:
        """Return where the k-th operator fits, the best first; of hosts with the same room and limit one."""
        room = limit - level
        if (rest[k] > room.sum(axis=0)).any():
            return []
        left = room - need[free[k]]
        able = np.flatnonzero((left >= 0).all(axis=1))
        if len(able) <= ALIKE:
            unlike: dict[tuple[float, ...], int] = {}
            for host, row in zip(able.tolist(), np.hstack([room[able], limit[able]]).tolist(), strict=True):
                unlike.setdefault(tuple(row), host)
            able = np.array([*unlike.values()], np.int64)
        over = np.where(np.isfinite(left[able]), left[able], 0.0) / scale
        found: list[int] = able[np.argsort(over.sum(axis=1), kind="stable")].tolist()
        return found[::-1]

    choices: list[list[int]] = []
    for _ in range(len(free) + LOOKS // len(limit)):
        if len(choices) == len(free):
            return where
        choices.append(hosts(len(choices)))
        while choices and not choices[-1]:
            choices.pop()
            if choices:
                operator = free[len(choices) - 1]
                level[where[operator]] -= need[operator]
        if not choices:
            return None
        operator = free[len(choices) - 1]
        where[operator] = choices[-1].pop()
        level[where[operator]] += need[operator]
    return None
