# mypy: disable-error-code="no-any-return"
"""Pairwise load distribution, compiled: operators are divided anew between two hosts at a time.

Operators come in the order of ties (falling load, then name), so that a tie goes to the lowest number. A part of
`penstock.placement.correlation_kernel`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Flags, Ints
from penstock.native.views import inside
from penstock.placement.layout import BLOCK, BY_CORRELATION, BY_LOAD, FLAT, ONE_WAY, TIE, TWO_WAY


class Operators(NamedTuple):
    """Centred series (m, k) and, arrays (m,), their lengths, mean loads, who may move, and who is chosen by chance."""

    series: Array
    norm: Array
    mean: Array
    movable: Flags
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
    """How pairs are divided, as `penstock.placement.distribute.Rules` say, and room for it.

    ``pair`` has room for all operators; ``scratch`` and ``columns`` are those of `two_way`.
    """

    mode: int
    step: int
    score: float
    pair: Pair
    scratch: Array
    columns: Array


@inside(fastmath={"contract", "reassoc"})
def dot(a: Array, b: Array) -> float:
    """Return the sum of products."""
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@inside()
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


@inside()
def pair_correlation(host: Array, a: int, b: int, level: Array) -> float:
    """Return the correlation of two hosts; a flat host is as good as can be: 1."""
    k = host.shape[1]
    size_a, size_b = dot(host[a], host[a]), dot(host[b], host[b])
    if size_a <= (FLAT * level[a]) ** 2 * k or size_b <= (FLAT * level[b]) ** 2 * k:
        return 1.0
    return dot(host[a], host[b]) / np.sqrt(size_a * size_b)


@inside()
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


@inside()
def _shift(operators: Operators, pair: Pair, o: int, a: int, b: int) -> None:
    """Move an operator from one host of a pair to the other."""
    for t in range(operators.series.shape[1]):
        pair.host[a, t] -= operators.series[o, t]
        pair.host[b, t] += operators.series[o, t]
    pair.level[a] -= operators.mean[o]
    pair.level[b] += operators.mean[o]


@inside(fastmath={"contract", "reassoc"})
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
        more = pair.level[0] / pair.usable[0] - pair.level[1] / pair.usable[1]
        # Of equally loaded hosts the larger one is the least loaded then.
        a = 0 if more < -total or (more <= total and pair.usable[0] >= pair.usable[1]) else 1
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


@inside(fastmath={"nsz", "reassoc"})
def highest(score: Array, width: int) -> int:
    """Return the place of the first of the largest."""
    most = -np.inf
    for i in range(width):
        most = score[i] if score[i] > most else most
    best = 0
    while score[best] < most - TIE:
        best += 1
    return best


@inside()
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


@inside(fastmath={"contract", "reassoc"})
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


@inside()
def pairwise(operators: Operators, hosts: Hosts, order: Ints, how: Division, balance: float, improve: float) -> None:
    """One round of pairwise load distribution (sections 3.3 and 3.3.4); ``hosts.where`` changes in place.

    ``order`` are the hosts by falling share of load; ``improve`` is the correlation of two hosts below which they are
    improved, -2: none.
    """
    n, k = hosts.host.shape
    level, usable = hosts.level, hosts.usable
    for i in range(n // 2):
        a, b = order[i], order[n - 1 - i]
        if level[a] / usable[a] - level[b] / usable[b] > balance:
            _divide(operators, hosts, a, b, how, False)
    if improve < -1.0:
        return
    for a in range(n):
        spread = np.sqrt(dot(hosts.host[a], hosts.host[a]) / k)
        if level[a] + spread <= usable[a]:
            continue
        b, least = -1, improve
        for j in range(n):
            if j != a:
                value = pair_correlation(hosts.host, a, j, level)
                if value < least - TIE:
                    b, least = j, value
        if b >= 0:
            _divide(operators, hosts, a, b, how, True)


@inside()
def _divide(operators: Operators, hosts: Hosts, a: int, b: int, how: Division, if_better: bool) -> None:
    """Divide the operators of hosts a and b; with ``if_better`` only if that makes their correlation rise."""
    low, high = min(a, b), max(a, b)
    c = 0
    for o in range(len(hosts.where)):
        if hosts.where[o] == low or hosts.where[o] == high:
            how.pair.items[c] = o
            how.pair.side[c] = 0 if hosts.where[o] == low else 1
            c += 1
    pair = Pair(how.pair.items[:c], how.pair.side[:c], how.pair.host, how.pair.level, how.pair.usable)
    for j in range(2):
        h = low if j == 0 else high
        for t in range(hosts.host.shape[1]):
            pair.host[j, t] = hosts.host[h, t]
        pair.level[j], pair.usable[j] = hosts.level[h], hosts.usable[h]
    before = pair_correlation(pair.host, 0, 1, pair.level)
    if how.step == ONE_WAY:
        one_way(operators, pair, how.mode)
    elif how.step == TWO_WAY:
        two_way(operators, pair, how.mode, how.scratch, how.columns)
    else:
        exchange(operators, pair, how.mode, how.score)
    if if_better and pair_correlation(pair.host, 0, 1, pair.level) <= before + TIE:
        return
    for i in range(c):
        hosts.where[pair.items[i]] = low if pair.side[i] == 0 else high
    for j in range(2):
        h = low if j == 0 else high
        for t in range(hosts.host.shape[1]):
            hosts.host[h, t] = pair.host[j, t]
        hosts.level[h] = pair.level[j]
