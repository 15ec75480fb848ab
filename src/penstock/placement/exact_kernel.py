# mypy: disable-error-code="no-any-return"
"""Branch and bound over all placements, compiled.

Nothing that is compiled makes an array: what is needed on the way is a part of the state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Bools, Cube, Grid, Ints, Lists
from penstock.native.jit import INNER, njit

LATENCY, BALANCE, HOSTS, POTENTIAL = 0, 1, 2, 3


class Problem(NamedTuple):
    """Operators and hosts: arrays as in `penstock.placement.base.Arrays`.

    ``limits`` is what hosts may carry, ``usable`` what loads are measured by. ``alike[h]`` numbers the hosts that can
    be exchanged for each other: of those that are empty only the first is tried. ``state`` and ``memory`` are in
    bytes, infinite where nothing bounds it.
    """

    load: Grid
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
    delay: Grid
    bandwidth: Grid


class Aim(NamedTuple):
    """What is least: the objective, its weights and penalty, what no placement is below, and steps until a pause."""

    goal: int
    weights: Array
    penalty: float
    bound: float
    limit: int


class State(NamedTuple):
    """Where a search is, changed in place, so that it goes on where it was left.

    By depth ``host`` (m + 1, n, k), the load of the host that got an operator there, ``depth`` (m + 1, n), where the
    hosts' loads are, and ``late``, ``level`` and ``kept`` (m + 1, n); of now ``used`` (n,), ``where`` (m,) and the
    depth ``at`` (1,), which is negative once all has been tried. Of the placement that is measured ``flow`` (n, n) is
    the traffic, ``fresh`` (e,) says which streams cross to a host first, and ``rest`` (k,) is what else runs on an
    operator's host.
    """

    host: Cube
    depth: Lists
    late: Grid
    level: Grid
    kept: Grid
    used: Ints
    where: Ints
    at: Ints
    flow: Grid
    fresh: Bools
    rest: Array


class Carried(NamedTuple):
    """What hosts carry, arrays (n,): the worst wait (s), mean load, and how many operators."""

    late: Array
    level: Array
    used: Ints


def begun(problem: Problem, streams: Streams, goal: int) -> State:
    """Return the state of a search that begins."""
    m, d = problem.load.shape
    n = len(problem.capacity)
    host = np.zeros((m + 1, n, d)) if goal == LATENCY else np.zeros((1, 1, 1))
    depth, (late, level, kept) = np.zeros((m + 1, n), np.int64), np.zeros((3, m + 1, n))
    flow, fresh, rest = np.zeros((n, n)), np.zeros(len(streams.rate), np.bool_), np.zeros(d)
    used, where, at = np.zeros(n, np.int64), np.full(m, -1, np.int64), np.zeros(1, np.int64)
    return State(host, depth, late, level, kept, used, where, at, flow, fresh, rest)


@njit(**INNER)
def search(problem: Problem, streams: Streams, aim: Aim, state: State, best: Ints, least: float) -> tuple[float, int]:
    """Find the placement of least value below ``least``; ``best`` is filled where one is found.

    Returns the least value and the number of steps; the search may go on where ``state.at`` is not negative.
    """
    load, mean, capacity, fixed = problem.load, problem.mean, problem.capacity, problem.fixed
    late, level, kept, used, where = state.late, state.level, state.kept, state.used, state.where
    m, d = load.shape
    n = len(capacity)
    at = state.at[0]
    steps = 0
    tiny = 1e-12
    while at >= 0 and steps < aim.limit:
        if at == m:
            value = _value(problem, streams, aim, state, Carried(late[at], level[at], used))
            if value < least - tiny * max(1.0, abs(least) if least < np.inf else 1.0):
                least = value
                _copy(where, best)
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
                for rows in (level, kept, late):
                    _copy(rows[at], rows[at + 1])
                level[at + 1, h] += mean[o]
                kept[at + 1, h] += problem.state[o]
                used[h] += 1
                if aim.goal == LATENCY:
                    _copy(state.depth[at], state.depth[at + 1])
                    state.depth[at + 1, h] = at + 1
                    before, now = state.host[state.depth[at, h], h], state.host[at + 1, h]
                    excess = most = 0.0
                    for t in range(d):
                        now[t] = before[t] + load[o, t]
                        excess = max(0.0, excess + now[t] - capacity[h])
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


@njit(**INNER)
def _copy(values: Array | Ints, to: Array | Ints) -> None:
    for k in range(len(values)):
        to[k] = values[k]


@njit(**INNER)
def _repeats(used: Ints, alike: Ints, h: int, pinned: int) -> bool:
    if used[h] or pinned >= 0:
        return False
    g = 0
    while g < h and not (alike[g] == alike[h] and used[g] == 0):
        g += 1
    return g < h


@njit(**INNER)
def _floor(problem: Problem, aim: Aim, hosts: Carried, m: int) -> float:
    """Return what no completion of a partial placement goes below."""
    n, most, count = len(hosts.used), 0.0, 0
    if aim.goal == LATENCY:
        for h in range(n):
            most = max(most, hosts.late[h])
        return most
    if aim.goal == BALANCE:
        for h in range(n):
            most = max(most, hosts.level[h] / problem.capacity[h])
        return most
    if aim.goal == HOSTS:
        for h in range(n):
            count += hosts.used[h] > 0
        return float(count)
    total = -aim.weights[1] * m
    for h in range(n):
        x = hosts.level[h] / problem.usable[h]
        total += aim.weights[0] * hosts.used[h] * (x if x < 1.0 else 1.0 + aim.penalty * (x - 1.0))
    return total


@njit(**INNER)
def _value(problem: Problem, streams: Streams, aim: Aim, state: State, hosts: Carried) -> float:
    """Return the objective of a whole placement; infinite where a link is short."""
    load, writer, reader, rate = problem.load, streams.writer, streams.reader, streams.rate
    where, flow, fresh, rest = state.where, state.flow, state.fresh, state.rest
    m, n = len(load), len(flow)
    for a in range(n):
        flow[a] = 0.0
    for e in range(len(rate)):
        fresh[e] = True
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
            rest[:] = 0.0
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


@njit(**INNER)
def _correlation(a: Array, b: Array) -> float:
    k = len(a)
    mean_a = mean_b = most_a = most_b = 0.0
    for t in range(k):
        x, y = a[t], b[t]
        mean_a, mean_b = mean_a + x, mean_b + y
        most_a, most_b = x if x > most_a else most_a, y if y > most_b else most_b
    mean_a, mean_b = mean_a / k, mean_b / k
    dot = size_a = size_b = 0.0
    for t in range(k):
        x, y = a[t] - mean_a, b[t] - mean_b
        dot += x * y
        size_a += x * x
        size_b += y * y
    if size_a <= (1e-12 * most_a) ** 2 * k or size_b <= (1e-12 * most_b) ** 2 * k:
        return 0.0
    return min(1.0, max(-1.0, dot / np.sqrt(size_a * size_b)))
