# mypy: disable-error-code="no-any-return"
"""Branch and bound over all placements, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Bools, Ints
from penstock.native.jit import njit

LATENCY, BALANCE, HOSTS, POTENTIAL = 0, 1, 2, 3


class Problem(NamedTuple):
    """Operators and hosts: arrays as in `penstock.placement.base.Arrays`.

    ``limits`` is what hosts may carry, ``usable`` what loads are measured by. ``alike[h]`` numbers the hosts that can
    be exchanged for each other: of those that are empty only the first is tried. ``state`` and ``memory`` are in
    bytes, infinite where nothing bounds it.
    """

    load: Array
    mean: Array
    capacity: Array
    usable: Array
    limits: Array
    fixed: Ints
    alike: Ints
    state: Array
    memory: Array
    period: float


class Streams(NamedTuple):
    """What hosts send each other, as in `penstock.placement.base.Arrays`."""

    writer: Ints
    reader: Ints
    rate: Array
    shared: Bools
    sender: Ints
    delay: Array
    bandwidth: Array


class Aim(NamedTuple):
    """What is least: the objective, its weights and penalty, what no placement is below, and steps until a pause."""

    goal: int
    weights: Array
    penalty: float
    bound: float
    limit: int


class State(NamedTuple):
    """Where a search is, changed in place, so that it goes on where it was left.

    By depth ``host`` (m + 1, n, k), the hosts' loads, and ``late``, ``level`` and ``kept`` (m + 1, n); of now ``used``
    (n,), ``where`` (m,) and the depth ``at`` (1,), which is negative once all has been tried.
    """

    host: Array
    late: Array
    level: Array
    kept: Array
    used: Ints
    where: Ints
    at: Ints


class Carried(NamedTuple):
    """What hosts carry, arrays (n,): the worst wait (s), mean load, and how many operators."""

    late: Array
    level: Array
    used: Ints


def begun(problem: Problem, goal: int) -> State:
    """Return the state of a search that begins."""
    m, d = problem.load.shape
    n = len(problem.capacity)
    host = np.zeros((m + 1, n, d)) if goal == LATENCY else np.zeros((1, 1, 1))
    late, level, kept = np.zeros((3, m + 1, n))
    return State(host, late, level, kept, np.zeros(n, np.int64), np.full(m, -1, np.int64), np.zeros(1, np.int64))


@njit(cache=True)
def search(problem: Problem, streams: Streams, aim: Aim, state: State, best: Ints, least: float) -> tuple[float, int]:
    """Find the placement of least value below ``least``; ``best`` is filled where one is found.

    Returns the least value and the number of steps; the search may go on where ``state.at`` is not negative.
    """
    load, mean, capacity, fixed = problem.load, problem.mean, problem.capacity, problem.fixed
    host, late, level, kept, used, where = state.host, state.late, state.level, state.kept, state.used, state.where
    m, d = load.shape
    n = len(capacity)
    at = state.at[0]
    steps = 0
    tiny = 1e-12
    while at >= 0 and steps < aim.limit:
        if at == m:
            value = _value(problem, streams, aim, where, Carried(late[at], level[at], used))
            if value < least - tiny * max(1.0, abs(least) if least < np.inf else 1.0):
                least = value
                best[:] = where
            at = at - 1 if least > aim.bound + tiny else -1
            if at >= 0:
                used[where[at]] -= 1
            continue
        o = at
        h = where[o] + 1
        if fixed[o] >= 0:
            h = fixed[o] if where[o] < 0 else n
        chosen = -1
        while h < n:
            steps += 1
            fits = level[at, h] + mean[o] <= problem.limits[h] * (1 + 1e-9)
            fits = fits and kept[at, h] + problem.state[o] <= problem.memory[h] * (1 + 1e-9)
            if fits and not _repeats(used, problem.alike, h, fixed[o]):
                level[at + 1] = level[at]
                level[at + 1, h] += mean[o]
                kept[at + 1] = kept[at]
                kept[at + 1, h] += problem.state[o]
                late[at + 1] = late[at]
                used[h] += 1
                if aim.goal == LATENCY:
                    host[at + 1] = host[at]
                    excess = most = 0.0
                    for t in range(d):
                        host[at + 1, h, t] += load[o, t]
                        excess = max(0.0, excess + host[at + 1, h, t] - capacity[h])
                        most = max(most, excess)
                    late[at + 1, h] = most * problem.period / capacity[h]
                if _floor(problem, aim, Carried(late[at + 1], level[at + 1], used), m) < least:
                    chosen = h
                    break
                used[h] -= 1
            h = n if fixed[o] >= 0 else h + 1
        if chosen >= 0:
            where[o] = chosen
            at += 1
        else:
            where[o] = -1
            at -= 1
            if at >= 0:
                used[where[at]] -= 1
    state.at[0] = at
    return least, steps


@njit(cache=True)
def _repeats(used: Ints, alike: Ints, h: int, pinned: int) -> bool:
    if used[h] or pinned >= 0:
        return False
    return bool(((alike[:h] == alike[h]) & (used[:h] == 0)).any())


@njit(cache=True)
def _floor(problem: Problem, aim: Aim, hosts: Carried, m: int) -> float:
    """Return what no completion of a partial placement goes below."""
    if aim.goal == LATENCY:
        return hosts.late.max()
    if aim.goal == BALANCE:
        return (hosts.level / problem.capacity).max()
    if aim.goal == HOSTS:
        return float((hosts.used > 0).sum())
    total = -aim.weights[1] * m
    for h in range(len(problem.usable)):
        x = hosts.level[h] / problem.usable[h]
        total += aim.weights[0] * hosts.used[h] * (x if x < 1.0 else 1.0 + aim.penalty * (x - 1.0))
    return total


@njit(cache=True)
def _value(problem: Problem, streams: Streams, aim: Aim, where: Ints, hosts: Carried) -> float:
    """Return the objective of a whole placement; infinite where a link is short."""
    load, writer, reader, rate = problem.load, streams.writer, streams.reader, streams.rate
    m, d = load.shape
    n = len(problem.capacity)
    flow = np.zeros((n, n))
    fresh = np.ones(len(rate), np.bool_)
    for e in range(len(rate)):
        start = where[writer[e]] if writer[e] >= 0 else ~writer[e]
        end = where[reader[e]] if reader[e] >= 0 else ~reader[e]
        if start == end:
            fresh[e] = False
            continue
        repeated = False
        for f in range(e):
            if fresh[f] and streams.sender[f] == streams.sender[e]:
                other = where[reader[f]] if reader[f] >= 0 else ~reader[f]
                if other == end:
                    fresh[e] = False
                    repeated = True
                    break
        if not (repeated and streams.shared[e]):
            flow[start, end] += rate[e]
    for a in range(n):
        for b in range(n):
            if flow[a, b] > streams.bandwidth[a, b] * (1 + 1e-9):
                return np.inf
    if aim.goal != POTENTIAL:
        return _floor(problem, aim, hosts, 0)
    total, weights = _floor(problem, aim, hosts, 0), aim.weights
    if weights[1] > 0.0:
        for o in range(m):
            rest = np.zeros(d)
            for p in range(m):
                if p != o and where[p] == where[o]:
                    rest += load[p]
            total += weights[1] * _correlation(load[o], rest)
    if weights[2] > 0.0:
        for e in range(len(rate)):
            if fresh[e] and writer[e] >= 0:
                start = where[writer[e]]
                end = where[reader[e]] if reader[e] >= 0 else ~reader[e]
                use = flow[start, end] / streams.bandwidth[start, end]
                total += weights[2] * streams.delay[start, end] * max(1.0, use)
    return total


@njit(cache=True)
def _correlation(a: Array, b: Array) -> float:
    k = len(a)
    mean_a, mean_b = a.sum() / k, b.sum() / k
    dot = size_a = size_b = 0.0
    for t in range(k):
        x, y = a[t] - mean_a, b[t] - mean_b
        dot += x * y
        size_a += x * x
        size_b += y * y
    if size_a <= (1e-12 * a.max()) ** 2 * k or size_b <= (1e-12 * b.max()) ** 2 * k:
        return 0.0
    return min(1.0, max(-1.0, dot / np.sqrt(size_a * size_b)))
