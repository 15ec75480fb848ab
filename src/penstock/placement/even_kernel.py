# mypy: disable-error-code="no-any-return"
"""Where mace-climb starts from, compiled: operators swapped until each host has its share in the intervals that matter.

Swaps lower the sum of squares of the hosts' deviations from the perfectly divided load, which is smooth where the worst
latency is not. An interval counts the more, the nearer its perfectly divided excess is to the goal.

Nothing that is compiled makes an array, so that numba counts no references, which would be most of what it compiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Grid, Ints, Lists
from penstock.native.jit import INNER, njit
from penstock.placement.episode import Loads
from penstock.placement.episode import episode as plain_episode

INTERVALS = 16
TURNS = 400
"""Other hosts that each host is swapped with, at most."""
NEAR = 0.02
"""Least distance from the goal, as a share of it, that an interval is weighed by."""
LEAST = 1e-6
"""Least such distance in periods: where all hosts together are just full, the goal and the distance from it are 0."""


episode = njit(**INNER)(plain_episode)


class Divided(NamedTuple):
    """How the operators' weighed loads are divided among the hosts, changed in place.

    ``rows`` (m, intervals) are those of the operators, ``off`` (n, intervals) the hosts' deviations from their shares,
    ``level`` (n,) their mean loads. Host h has the operators in ``slot`` from ``start[h]`` on.
    """

    rows: Grid
    off: Grid
    level: Array
    slot: Ints
    start: Ints


class Gap(NamedTuple):
    """What is between two hosts, filled in pair by pair.

    ``pull`` (intervals,) is their difference in deviation over capacity, ``both`` (1,) the sum of their 1 / capacity,
    ``room`` (2,) what each may take more; ``score`` (m,) is room for what each swap changes.
    """

    pull: Array
    both: Array
    room: Array
    score: Array


def intervals(host: Grid, capacity: Array) -> Lists:
    """Return up to INTERVALS different worst intervals, of all hosts together and then of the latest ones."""
    late = np.empty(len(capacity))
    _late(host, capacity, late)
    found = np.zeros((INTERVALS, 2), np.int64)
    return found[: _chosen(host, capacity, host.sum(axis=0), np.argsort(-late), found)]


@njit(**INNER)
def _late(host: Grid, capacity: Array, late: Array) -> None:
    for h in range(len(capacity)):
        late[h] = episode(host[h], capacity[h])[0] / capacity[h]


@njit(**INNER)
def _total(values: Array) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


@njit(**INNER)
def _chosen(host: Grid, capacity: Array, whole: Array, order: Ints, found: Lists) -> int:
    """Fill in the worst intervals of all hosts together and of hosts in order that differ; return how many."""
    count = 0
    for q in range(-1, len(order)):
        if q < 0:
            most, first, end = episode(whole, _total(capacity))
        else:
            most, first, end = episode(host[order[q]], capacity[order[q]])
        known = most <= 0.0
        for j in range(count):
            common = min(end, found[j, 1]) - max(first, found[j, 0])
            known = known or common > 0.8 * (max(end, found[j, 1]) - min(first, found[j, 0]))
        if not known:
            found[count, 0], found[count, 1] = first, end
            count += 1
        if count == len(found):
            break
    return count


def weighed(given: Loads, spans: Lists, goal: float) -> Grid:
    """Return the operators' loads in the intervals, and their mean loads, each over its distance from the goal."""
    rows = np.empty((len(given.mean), len(spans) + 1))
    _weigh(given, spans, goal, rows)
    return rows


@njit(**INNER)
def _weigh(given: Loads, spans: Lists, goal: float, rows: Grid) -> None:
    mean, capacity = given.mean, _total(given.capacity)
    m, count = len(mean), len(spans)
    for k in range(count):
        first, end = spans[k, 0], spans[k, 1]
        for o in range(m):
            rows[o, k] = _total(given.load[o, first:end]) * given.period
        shared = _total(rows[:, k]) / capacity - (end - first) * given.period
        far = max(1.25 * goal - shared, NEAR * goal, LEAST * given.period)
        for o in range(m):
            rows[o, k] /= far
    # The mean counts less: it only keeps hosts from filling up.
    far = max(1.0 - _total(mean) / capacity, NEAR)
    for o in range(m):
        rows[o, count] = 0.3 * mean[o] / far


@njit(**INNER)
def _swap(rows: Array, mean: Array, a: Ints, b: Ints, gap: Gap) -> tuple[int, int]:
    """Return the swap of operators of two hosts that lowers the sum of squares most, as places in a and b; or -1."""
    pull, both, room, score = gap.pull, gap.both[0], gap.room, gap.score
    width = len(pull)
    best, one, other = -1e-9, -1, -1
    for i in range(len(a)):
        score[: len(b)] = 0.0
        for k in range(width):
            mine, twice = rows[a[i], k], 2.0 * pull[k]
            for j in range(len(b)):
                y = rows[b[j], k] - mine
                score[j] += y * (twice + both * y)
        for j in range(len(b)):
            if score[j] < best:
                change = mean[b[j]] - mean[a[i]]
                if (change <= 0.0 or change <= room[0]) and (change >= 0.0 or -change <= room[1]):
                    best, one, other = score[j], i, j
    return one, other


def evened(given: Loads, goal: float, turn: Ints, budget: int) -> int:
    """Swap operators between hosts, each host with up to TURNS others in turn; ``given.where`` changes in place.

    No further round of hosts begins once ``budget`` swaps have been tried.

    Returns
    -------
    int
        How many swaps were tried.
    """
    capacity, where = given.capacity, given.where
    n, total = len(capacity), _total(capacity)
    host = np.zeros((n, given.load.shape[1]))
    _add(given.load, where, host)
    spans = intervals(host, capacity)
    if len(spans) == 0:
        return 0
    rows = weighed(given, spans, goal)
    off = -rows.sum(axis=0) * (capacity / total)[:, None]
    _add(rows, where, off)
    free = np.flatnonzero(given.movable)
    slot = free[np.argsort(where[free], kind="stable")]
    level = np.bincount(where, weights=given.mean, minlength=n).astype(np.float64)
    divided = Divided(rows, off, level, slot, np.searchsorted(where[slot], np.arange(n + 1)))
    gap = Gap(np.empty(rows.shape[1]), np.empty(1), np.empty(2), np.empty(len(where)))
    tried: int = _rounds(given, divided, gap, turn, budget)
    return tried


@njit(**INNER)
def _add(rows: Grid, where: Ints, total: Grid) -> None:
    """Add the operators' rows to those of their hosts."""
    for o in range(len(where)):
        for k in range(rows.shape[1]):
            total[where[o], k] += rows[o, k]


@njit(**INNER)
def _rounds(given: Loads, divided: Divided, gap: Gap, turn: Ints, budget: int) -> int:
    """Swap operators of hosts ever farther apart in ``turn``."""
    rows, off, level, slot, start = divided.rows, divided.off, divided.level, divided.slot, divided.start
    mean, capacity, usable, where = given.mean, given.capacity, given.usable, given.where
    n, tried = len(capacity), 0
    for distance in range(1, min(n, TURNS + 1)):
        for q in range(n if tried < budget else 0):
            b, g = turn[q], turn[(q + distance) % n]
            mine, theirs = slot[start[b] : start[b + 1]], slot[start[g] : start[g + 1]]
            tried += len(mine) * len(theirs)
            gap.room[0], gap.room[1] = usable[b] - level[b], usable[g] - level[g]
            gap.both[0] = 1.0 / capacity[b] + 1.0 / capacity[g]
            for k in range(rows.shape[1]):
                gap.pull[k] = off[b, k] / capacity[b] - off[g, k] / capacity[g]
            i, j = _swap(rows, mean, mine, theirs, gap)
            if i < 0:
                continue
            mine[i], theirs[j] = theirs[j], mine[i]
            where[mine[i]], where[theirs[j]] = b, g
            for k in range(rows.shape[1]):
                change = rows[mine[i], k] - rows[theirs[j], k]
                off[b, k] += change
                off[g, k] -= change
            level[b] += mean[mine[i]] - mean[theirs[j]]
            level[g] -= mean[mine[i]] - mean[theirs[j]]
    return tried
