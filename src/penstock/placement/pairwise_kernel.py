# mypy: disable-error-code="no-any-return"
"""Pairwise load distribution, compiled: operators are divided anew between two hosts at a time.

Functions without ``_nrt`` allocate; in the others numba counts no references, which would cost more than their work.

Operators come in the order of ties (falling load, then name), so that a tie goes to the lowest number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Bools, Ints
from penstock.native.jit import njit

TIE = 1e-9
FLAT = 1e-9  # A series whose deviation is this small a part of its mean has no correlation.
BY_CORRELATION, BY_LOAD, BY_CHANCE = 0, 1, 2
ONE_WAY, TWO_WAY, EXCHANGE = 0, 1, 2
BLOCK = 16  # Loops over whole blocks need no remainder, which for short ones would take most of the time.


class Given(NamedTuple):
    """What is to be divided: arrays as in `penstock.placement.base.Arrays`; ``where`` changes in place."""

    load: Array
    mean: Array
    usable: Array
    movable: Bools
    where: Ints


class Rules(NamedTuple):
    """How.

    ``mode`` is how operators are chosen: by correlation, by load, by chance (priority). ``step`` is one-way, two-way or
    selective exchange. ``balance`` is the difference of two hosts' shares of load above which they are balanced,
    ``score`` the threshold of the exchange, ``improve`` the correlation of two hosts below which they are improved; -2:
    no improvement step.
    """

    mode: int
    step: int
    balance: float
    score: float
    improve: float


class Operators(NamedTuple):
    """Centred series (m, k) and, arrays (m,), their lengths, mean loads, who may move, and who is chosen by chance."""

    series: Array
    norm: Array
    mean: Array
    movable: Bools
    priority: Array


class Pair(NamedTuple):
    """Two hosts, changed in place: centred loads (2, k), mean loads and limits (2,).

    ``items`` (c,) are the numbers of the operators of both, ``side`` (c,) says which of the two hosts each is on.
    """

    items: Ints
    side: Ints
    host: Array
    level: Array
    usable: Array


class Hosts(NamedTuple):
    """All hosts, changed in place: centred loads (n, k), mean loads and limits (n,), and the host of each operator."""

    host: Array
    level: Array
    usable: Array
    where: Ints


class Division(NamedTuple):
    """How a pair is divided, as in `Rules`, and room for `two_way`."""

    mode: int
    step: int
    score: float
    rho: Array
    across: Array


@njit(cache=True)
def centred(load: Array) -> Array:
    """Return the series minus their means, (m, k); flat ones are 0."""
    m, k = load.shape
    out = np.empty((m, k))
    for o in range(m):
        mean = load[o].sum() / k
        norm = 0.0
        for t in range(k):
            out[o, t] = load[o, t] - mean
            norm += out[o, t] ** 2
        if norm <= (FLAT * abs(mean)) ** 2 * k:
            out[o] = 0.0
    return out


@njit(cache=True, _nrt=False, fastmath={"contract", "reassoc"})
def dot(a: Array, b: Array) -> float:
    """Return the sum of products."""
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@njit(cache=True, _nrt=False)
def _with(series: Array, norm: float, host: Array, level: float, inside: bool) -> float:
    """Return the correlation of an operator (centred, its norm) with the rest of a host (centred, its mean load)."""
    k = len(series)
    dot, size = 0.0, 0.0
    for t in range(k):
        rest = host[t] - series[t] if inside else host[t]
        dot += series[t] * rest
        size += rest * rest
    if norm == 0.0 or size <= (FLAT * level) ** 2 * k:
        return 0.0
    return dot / (norm * np.sqrt(size))


@njit(cache=True, _nrt=False)
def pair_correlation(host: Array, a: int, b: int, level: Array) -> float:
    """Return the correlation of two hosts; a flat host is as good as can be: 1."""
    k = host.shape[1]
    size_a, size_b = dot(host[a], host[a]), dot(host[b], host[b])
    if size_a <= (FLAT * level[a]) ** 2 * k or size_b <= (FLAT * level[b]) ** 2 * k:
        return 1.0
    return dot(host[a], host[b]) / np.sqrt(size_a * size_b)


@njit(cache=True, _nrt=False)
def one_way(operators: Operators, pair: Pair, mode: int) -> None:
    """Move operators from the more loaded of two hosts to the other (section 3.3.1); changes side, host, level."""
    if pair.level[0] * pair.usable[1] >= pair.level[1] * pair.usable[0]:
        a, b = 0, 1
    else:
        a, b = 1, 0
    budget = (pair.level[a] * pair.usable[b] - pair.level[b] * pair.usable[a]) / (pair.usable[a] + pair.usable[b])
    tie = TIE * (pair.level[0] + pair.level[1])
    while True:
        best, most = -1, -np.inf
        for i in range(len(pair.items)):
            o = pair.items[i]
            mean = operators.mean[o]
            if pair.side[i] != a or not operators.movable[o] or mean > budget + tie or mean <= 0.0:
                continue
            if mode == BY_CORRELATION:
                score = (
                    _with(operators.series[o], operators.norm[o], pair.host[a], pair.level[a], True)
                    - _with(operators.series[o], operators.norm[o], pair.host[b], pair.level[b], False)
                ) / 2
            elif mode == BY_LOAD:
                score = -float(i)
            else:
                score = operators.priority[o]
            if score > most + TIE:
                best, most = i, score
        if best < 0:
            return
        o = pair.items[best]
        pair.side[best] = b
        budget -= operators.mean[o]
        _shift(operators, pair, o, a, b)


@njit(cache=True, _nrt=False)
def _shift(operators: Operators, pair: Pair, o: int, a: int, b: int) -> None:
    """Move an operator from one host of a pair to the other."""
    for t in range(operators.series.shape[1]):
        pair.host[a, t] -= operators.series[o, t]
        pair.host[b, t] += operators.series[o, t]
    pair.level[a] -= operators.mean[o]
    pair.level[b] += operators.mean[o]


@njit(cache=True, _nrt=False, fastmath={"contract", "reassoc"})
def two_way(operators: Operators, pair: Pair, mode: int, rho: Array, across: Array) -> None:
    """Divide the operators of two hosts anew (section 3.3.2); changes side, host, level.

    ``rho`` (4, c) and ``across`` (k, c), c rounded up to whole blocks, are scratch: correlations with either host,
    what keeps those out that are given, and scores; and the operators' unit series, one column each, so that the
    loops run over neighbours.
    """
    k = operators.series.shape[1]
    c = len(pair.items)
    wide = (c + BLOCK - 1) // BLOCK * BLOCK
    pair.host[:] = 0.0
    pair.level[:] = 0.0
    for i in range(c, wide):
        for t in range(k):
            across[t, i] = 0.0
        rho[0, i] = rho[1, i] = 0.0
        rho[2, i] = -np.inf
    left, total = 0, 0.0
    for i in range(c):
        o = pair.items[i]
        total += TIE * operators.mean[o]
        scale = 1.0 / operators.norm[o] if operators.norm[o] > 0.0 else 0.0
        for t in range(k):
            across[t, i] = operators.series[o, t] * scale
        rho[0, i] = rho[1, i] = rho[2, i] = 0.0
        if operators.movable[o]:
            pair.side[i] = -1
            left += 1
        else:
            rho[2, i] = -np.inf
            for t in range(k):
                pair.host[pair.side[i], t] += operators.series[o, t]
            pair.level[pair.side[i]] += operators.mean[o]
    if left < c:
        for j in range(2):
            correlations_with(across, pair.host[j], pair.level[j], rho[j], wide)
    while left:
        a = 0 if pair.level[0] / pair.usable[0] <= pair.level[1] / pair.usable[1] + total else 1
        if mode == BY_CORRELATION:
            for i in range(wide):
                rho[3, i] = (rho[1 - a, i] - rho[a, i]) / 2 + rho[2, i]
        else:
            rho[3, c:wide] = -np.inf
            for i in range(c):
                rho[3, i] = (-float(i) if mode == BY_LOAD else operators.priority[pair.items[i]]) + rho[2, i]
        best = highest(rho[3], wide)
        rho[2, best] = -np.inf
        pair.side[best] = a
        o = pair.items[best]
        for t in range(k):
            pair.host[a, t] += operators.series[o, t]
        pair.level[a] += operators.mean[o]
        left -= 1
        if left:
            correlations_with(across, pair.host[a], pair.level[a], rho[a], wide)
    one_way(operators, pair, mode)


@njit(cache=True, _nrt=False, fastmath={"nsz", "reassoc"})
def highest(score: Array, width: int) -> int:
    """Return the place of the first of the largest."""
    most = -np.inf
    for i in range(width):
        most = score[i] if score[i] > most else most
    best = 0
    while score[best] < most - TIE:
        best += 1
    return best


@njit(cache=True, _nrt=False)
def exchange(operators: Operators, pair: Pair, mode: int, threshold: float) -> None:
    """Exchange only operators whose score exceeds a threshold (section 3.3.3); changes side, host, level."""
    one_way(operators, pair, mode)
    for _ in range(len(pair.items)):
        a = 0 if pair.level[0] * pair.usable[1] >= pair.level[1] * pair.usable[0] else 1
        best, most = -1, threshold
        for i in range(len(pair.items)):
            o = pair.items[i]
            if pair.side[i] == a and operators.movable[o]:
                score = (
                    _with(operators.series[o], operators.norm[o], pair.host[a], pair.level[a], True)
                    - _with(operators.series[o], operators.norm[o], pair.host[1 - a], pair.level[1 - a], False)
                ) / 2
                if score > most + TIE:
                    best, most = i, score
        if best < 0:
            break
        pair.side[best] = 1 - a
        _shift(operators, pair, pair.items[best], a, 1 - a)
    one_way(operators, pair, mode)


@njit(cache=True, _nrt=False, fastmath={"contract", "reassoc"})
def correlations_with(unit: Array, host: Array, level: float, out: Array, width: int) -> None:
    """Fill ``out`` with the correlations of unit series, array (k, width), with a host's; 0 where that is flat."""
    k = len(host)
    size = 0.0
    for t in range(k):
        size += host[t] * host[t]
    out[:width] = 0.0
    if size <= (FLAT * level) ** 2 * k:
        return
    scale = 1.0 / np.sqrt(size)
    # Four periods at a time: what is written is read and written again a quarter as often.
    whole = k - k % 4
    for t in range(0, whole, 4):
        f0, f1, f2, f3 = host[t] * scale, host[t + 1] * scale, host[t + 2] * scale, host[t + 3] * scale
        u0, u1, u2, u3 = unit[t], unit[t + 1], unit[t + 2], unit[t + 3]
        for i in range(width):
            out[i] += f0 * u0[i] + f1 * u1[i] + f2 * u2[i] + f3 * u3[i]
    for t in range(whole, k):
        factor = host[t] * scale
        for i in range(width):
            out[i] += factor * unit[t, i]


@njit(cache=True)
def operators_of(load: Array, mean: Array, movable: Bools, priority: Array) -> Operators:
    """Return operators with their centred series."""
    series = centred(load)
    norm = np.array([np.sqrt(dot(series[o], series[o])) for o in range(len(series))])
    return Operators(series, norm, mean, movable, priority)


@njit(cache=True)
def placed(operators: Operators, usable: Array, where: Ints) -> Hosts:
    """Return the hosts of a placement."""
    host, level = np.zeros((len(usable), operators.series.shape[1])), np.zeros(len(usable))
    for o in range(len(where)):
        host[where[o]] += operators.series[o]
        level[where[o]] += operators.mean[o]
    return Hosts(host, level, usable, where)


@njit(cache=True)
def pairwise(given: Given, priority: Array, rules: Rules) -> None:
    """One round of pairwise load distribution (sections 3.3 and 3.3.4); ``given.where`` changes in place."""
    m, k = given.load.shape
    n = len(given.usable)
    operators = operators_of(given.load, given.mean, given.movable, priority)
    hosts = placed(operators, given.usable, given.where)
    how = Division(rules.mode, rules.step, rules.score, np.empty((4, m + BLOCK)), np.empty((k, m + BLOCK)))
    level, usable = hosts.level, hosts.usable
    order = np.argsort(-np.round(level / usable, 11), kind="mergesort")
    for i in range(n // 2):
        a, b = order[i], order[n - 1 - i]
        if level[a] / usable[a] - level[b] / usable[b] > rules.balance:
            _divide(operators, hosts, a, b, how, False)
    if rules.improve < -1.0:
        return
    for a in range(n):
        spread = np.sqrt(dot(hosts.host[a], hosts.host[a]) / k)
        if level[a] + spread <= usable[a]:
            continue
        b, least = -1, rules.improve
        for j in range(n):
            if j != a:
                value = pair_correlation(hosts.host, a, j, level)
                if value < least - TIE:
                    b, least = j, value
        if b >= 0:
            _divide(operators, hosts, a, b, how, True)


@njit(cache=True)
def _divide(operators: Operators, hosts: Hosts, a: int, b: int, how: Division, if_better: bool) -> None:
    """Divide the operators of hosts a and b; with ``if_better`` only if that makes their correlation rise."""
    low, high = min(a, b), max(a, b)
    items = np.nonzero((hosts.where == low) | (hosts.where == high))[0]
    side = np.array([0 if hosts.where[o] == low else 1 for o in items])
    both = np.array([low, high])
    pair = Pair(items, side, hosts.host[both].copy(), hosts.level[both].copy(), hosts.usable[both].copy())
    before = pair_correlation(pair.host, 0, 1, pair.level)
    if how.step == ONE_WAY:
        one_way(operators, pair, how.mode)
    elif how.step == TWO_WAY:
        two_way(operators, pair, how.mode, how.rho, how.across)
    else:
        exchange(operators, pair, how.mode, how.score)
    if if_better and pair_correlation(pair.host, 0, 1, pair.level) <= before + TIE:
        return
    for i in range(len(items)):
        hosts.where[items[i]] = both[side[i]]
    for j in range(2):
        hosts.host[both[j]] = pair.host[j]
        hosts.level[both[j]] = pair.level[j]
