# mypy: disable-error-code="no-any-return"
"""Where mace-climb starts from, compiled: operators swapped until each host has its share in the intervals that matter.

Swaps lower the sum of squares of the hosts' deviations from the perfectly divided load, which is smooth where the worst
latency is not. An interval counts the more, the nearer its perfectly divided excess is to the goal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Ints
from penstock.native.jit import njit
from penstock.placement.episode import Loads
from penstock.placement.episode import episode as plain_episode

INTERVALS = 16
TURNS = 400
"""Other hosts that each host is swapped with, at most."""
NEAR = 0.02
"""Least distance from the goal, as a share of it, that an interval is weighed by."""


episode = njit(cache=True)(plain_episode)


class Gap(NamedTuple):
    """What is between two hosts.

    ``pull`` is their difference in deviation over capacity, ``both`` the sum of their 1 / capacity, ``room`` (2,) what
    each may take more.
    """

    pull: Array
    both: float
    room: Array


@njit(cache=True)
def intervals(host: Array, capacity: Array) -> Ints:
    """Return up to INTERVALS different worst intervals, of all hosts together and then of the latest ones."""
    n = len(capacity)
    found = np.zeros((INTERVALS, 2), np.int64)
    late = np.empty(n)
    for h in range(n):
        late[h] = episode(host[h], capacity[h])[0] / capacity[h]
    order = np.argsort(-late)
    count = 0
    for q in range(-1, n):
        if q < 0:
            most, first, end = episode(host.sum(axis=0), capacity.sum())
        else:
            most, first, end = episode(host[order[q]], capacity[order[q]])
        known = most <= 0.0
        for j in range(count):
            common = min(end, found[j, 1]) - max(first, found[j, 0])
            known = known or common > 0.8 * (max(end, found[j, 1]) - min(first, found[j, 0]))
        if not known:
            found[count] = first, end
            count += 1
        if count == INTERVALS:
            break
    return found[:count]


@njit(cache=True)
def weighed(load: Array, mean: Array, spans: Ints, capacity: float, period: float, goal: float) -> Array:
    """Return the operators' loads in the intervals, and their mean loads, each over its distance from the goal."""
    m, count = len(mean), len(spans)
    rows = np.empty((m, count + 1))
    for k in range(count):
        first, end = spans[k, 0], spans[k, 1]
        for o in range(m):
            rows[o, k] = load[o, first:end].sum() * period
        shared = rows[:, k].sum() / capacity - (end - first) * period
        rows[:, k] /= max(1.25 * goal - shared, NEAR * goal)
    # The mean counts less: it only keeps hosts from filling up.
    rows[:, count] = 0.3 * mean / max(1.0 - mean.sum() / capacity, NEAR)
    return rows


@njit(cache=True)
def _swap(rows: Array, mean: Array, a: Ints, b: Ints, gap: Gap) -> tuple[int, int]:
    """Return the swap of operators of two hosts that lowers the sum of squares most, as places in a and b; or -1."""
    pull, both, room = gap.pull, gap.both, gap.room
    width = len(pull)
    score = np.zeros(len(b))
    best, one, other = -1e-9, -1, -1
    for i in range(len(a)):
        score[:] = 0.0
        for k in range(width):
            mine = rows[a[i], k]
            for j in range(len(b)):
                y = rows[b[j], k] - mine
                score[j] += y * (2.0 * pull[k] + both * y)
        for j in range(len(b)):
            if score[j] < best:
                change = mean[b[j]] - mean[a[i]]
                if (change <= 0.0 or change <= room[0]) and (change >= 0.0 or -change <= room[1]):
                    best, one, other = score[j], i, j
    return one, other


@njit(cache=True)
def evened(given: Loads, goal: float, turn: Ints, budget: int) -> int:
    """Swap operators between hosts, each host with up to TURNS others in turn; ``given.where`` changes in place.

    No further round of hosts begins once ``budget`` swaps have been tried.

    Returns
    -------
    int
        How many swaps were tried.
    """
    load, mean, capacity, where = given.load, given.mean, given.capacity, given.where
    n, total = len(capacity), capacity.sum()
    host, level = np.zeros((n, load.shape[1])), np.zeros(n)
    for o in range(len(where)):
        host[where[o]] += load[o]
        level[where[o]] += mean[o]
    spans = intervals(host, capacity)
    if len(spans) == 0:
        return 0
    rows = weighed(load, mean, spans, total, given.period, goal)
    off = np.zeros((n, rows.shape[1]))
    for h in range(n):
        off[h] = -rows.sum(axis=0) * (capacity[h] / total)
    for o in range(len(where)):
        off[where[o]] += rows[o]
    free = np.nonzero(given.movable)[0]
    slot = free[np.argsort(where[free], kind="mergesort")]
    start = np.searchsorted(where[slot], np.arange(n + 1))
    tried = 0
    room = np.empty(2)
    for distance in range(1, min(n, TURNS + 1)):
        for q in range(n if tried < budget else 0):
            b, g = turn[q], turn[(q + distance) % n]
            mine, theirs = slot[start[b] : start[b + 1]], slot[start[g] : start[g + 1]]
            tried += len(mine) * len(theirs)
            room[0], room[1] = given.usable[b] - level[b], given.usable[g] - level[g]
            pull = off[b] / capacity[b] - off[g] / capacity[g]
            gap = Gap(pull, 1.0 / capacity[b] + 1.0 / capacity[g], room)
            i, j = _swap(rows, mean, mine, theirs, gap)
            if i >= 0:
                mine[i], theirs[j] = theirs[j], mine[i]
                where[mine[i]], where[theirs[j]] = b, g
                change = rows[mine[i]] - rows[theirs[j]]
                off[b] += change
                off[g] -= change
                level[b] += mean[mine[i]] - mean[theirs[j]]
                level[g] -= mean[mine[i]] - mean[theirs[j]]
    return tried
