# mypy: disable-error-code="no-any-return"
"""The correlation family and largest-first, compiled.

Functions without ``_nrt`` allocate; in the others numba counts no references, which would cost more than their work.

Operators come in the order of ties (falling load, then name), so that a tie goes to the lowest number. Only one host
changes in a greedy step, so the correlations of all operators with all hosts are kept and one row is renewed: O(m²·k)
in all, where the paper's count (section 4.2) is O(m²·n³·k) with m operators a host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.native.jit import njit

TIE = 1e-9
FLAT = 1e-9  # A series whose deviation is this small a part of its mean has no correlation.
BY_CORRELATION, BY_LOAD, BY_CHANCE = 0, 1, 2
BLOCK = 16  # Loops over whole blocks need no remainder, which for short ones would take most of the time.


@njit(cache=True)
def least_loaded(mean: Any, usable: Any, where: Any, fitted: bool) -> None:
    """Give each operator that has no host, in order, to the host whose share of load is then the least.

    ``where`` is filled in place. With ``fitted`` false the operator's own load does not count (the host of least
    load so far). A heap of hosts, or a scan where hosts differ.
    """
    n = len(usable)
    load = np.zeros(n)
    for o in range(len(mean)):
        if where[o] >= 0:
            load[where[o]] += mean[o]
    tie = TIE * max(mean.max(), 1e-300) / usable.min() if len(mean) else 0.0
    equal = usable.max() == usable.min()
    if not equal:
        for o in range(len(mean)):
            if where[o] < 0:
                best, least = 0, np.inf
                for h in range(n):
                    share = (load[h] + (mean[o] if fitted else 0.0)) / usable[h]
                    if share < least - tie:
                        best, least = h, share
                where[o] = best
                load[best] += mean[o]
        return
    tie *= usable[0]
    heap = np.arange(n)
    for start in range(n // 2 - 1, -1, -1):
        _sift(heap, load, start, tie)
    for o in range(len(mean)):
        if where[o] < 0:
            h = heap[0]
            where[o] = h
            load[h] += mean[o]
            _sift(heap, load, 0, tie)


@njit(cache=True, _nrt=False)
def _sift(heap: Any, load: Any, at: int, tie: float) -> None:
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


@njit(cache=True, _nrt=False)
def _before(load: Any, a: int, b: int, tie: float) -> bool:
    if load[a] < load[b] - tie:
        return True
    return load[a] <= load[b] + tie and a < b


@njit(cache=True)
def centred(load: Any) -> Any:
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
def _dot(a: Any, b: Any) -> float:
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@njit(cache=True, _nrt=False)
def _with(series: Any, norm: float, host: Any, level: float, inside: bool) -> float:
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
def _pair(host: Any, a: int, b: int, level: Any) -> float:
    """Return the correlation of two hosts; a flat host is as good as can be: 1."""
    k = host.shape[1]
    size_a, size_b = _dot(host[a], host[a]), _dot(host[b], host[b])
    if size_a <= (FLAT * level[a]) ** 2 * k or size_b <= (FLAT * level[b]) ** 2 * k:
        return 1.0
    return _dot(host[a], host[b]) / np.sqrt(size_a * size_b)


@njit(cache=True, _nrt=False)
def one_way(
    items: Any, side: Any, movable: Any, series: Any, norm: Any, mean: Any, priority: Any,
    host: Any, level: Any, usable: Any, mode: int,
) -> None:  # fmt: skip
    """Move operators from the more loaded of two hosts to the other (section 3.3.1); changes side, host, level."""
    if level[0] * usable[1] >= level[1] * usable[0]:
        a, b = 0, 1
    else:
        a, b = 1, 0
    budget = (level[a] * usable[b] - level[b] * usable[a]) / (usable[a] + usable[b])
    tie = TIE * (level[0] + level[1])
    while True:
        best, most = -1, -np.inf
        for i in range(len(items)):
            o = items[i]
            if side[i] != a or not movable[o] or mean[o] > budget + tie or mean[o] <= 0.0:
                continue
            if mode == BY_CORRELATION:
                score = (
                    _with(series[o], norm[o], host[a], level[a], True)
                    - _with(series[o], norm[o], host[b], level[b], False)
                ) / 2
            elif mode == BY_LOAD:
                score = -float(i)
            else:
                score = priority[o]
            if score > most + TIE:
                best, most = i, score
        if best < 0:
            return
        o = items[best]
        side[best] = b
        budget -= mean[o]
        _shift(o, a, b, series, mean, host, level)


@njit(cache=True, _nrt=False)
def _shift(o: int, a: int, b: int, series: Any, mean: Any, host: Any, level: Any) -> None:
    for t in range(series.shape[1]):
        host[a, t] -= series[o, t]
        host[b, t] += series[o, t]
    level[a] -= mean[o]
    level[b] += mean[o]


@njit(cache=True, _nrt=False, fastmath={"contract", "reassoc"})
def two_way(
    items: Any, side: Any, movable: Any, series: Any, norm: Any, mean: Any, priority: Any,
    host: Any, level: Any, usable: Any, mode: int, rho: Any, across: Any,
) -> None:  # fmt: skip
    """Divide the operators of two hosts anew (section 3.3.2); changes side, host, level.

    ``rho`` (4, c) and ``across`` (k, c), c rounded up to whole blocks, are scratch: correlations with either host,
    what keeps those out that are given, and scores; and the operators' unit series, one column each, so that the
    loops run over neighbours.
    """
    k = series.shape[1]
    c = len(items)
    wide = (c + BLOCK - 1) // BLOCK * BLOCK
    host[:] = 0.0
    level[:] = 0.0
    for i in range(c, wide):
        for t in range(k):
            across[t, i] = 0.0
        rho[0, i] = rho[1, i] = 0.0
        rho[2, i] = -np.inf
    left, total = 0, 0.0
    for i in range(c):
        o = items[i]
        total += TIE * mean[o]
        scale = 1.0 / norm[o] if norm[o] > 0.0 else 0.0
        for t in range(k):
            across[t, i] = series[o, t] * scale
        rho[0, i] = rho[1, i] = rho[2, i] = 0.0
        if movable[o]:
            side[i] = -1
            left += 1
        else:
            rho[2, i] = -np.inf
            for t in range(k):
                host[side[i], t] += series[o, t]
            level[side[i]] += mean[o]
    if left < c:
        for j in range(2):
            _row(across, host[j], level[j], rho[j], wide)
    while left:
        a = 0 if level[0] / usable[0] <= level[1] / usable[1] + total else 1
        if mode == BY_CORRELATION:
            for i in range(wide):
                rho[3, i] = (rho[1 - a, i] - rho[a, i]) / 2 + rho[2, i]
        else:
            rho[3, c:wide] = -np.inf
            for i in range(c):
                rho[3, i] = (-float(i) if mode == BY_LOAD else priority[items[i]]) + rho[2, i]
        best = _highest(rho[3], wide)
        rho[2, best] = -np.inf
        side[best] = a
        o = items[best]
        for t in range(k):
            host[a, t] += series[o, t]
        level[a] += mean[o]
        left -= 1
        if left:
            _row(across, host[a], level[a], rho[a], wide)
    one_way(items, side, movable, series, norm, mean, priority, host, level, usable, mode)


@njit(cache=True, _nrt=False, fastmath={"nsz", "reassoc"})
def _highest(score: Any, width: int) -> int:
    """Return the place of the first of the largest."""
    most = -np.inf
    for i in range(width):
        most = score[i] if score[i] > most else most
    best = 0
    while score[best] < most - TIE:
        best += 1
    return best


@njit(cache=True, _nrt=False)
def exchange(
    items: Any, side: Any, movable: Any, series: Any, norm: Any, mean: Any, priority: Any,
    host: Any, level: Any, usable: Any, mode: int, threshold: float,
) -> None:  # fmt: skip
    """Exchange only operators whose score exceeds a threshold (section 3.3.3); changes side, host, level."""
    one_way(items, side, movable, series, norm, mean, priority, host, level, usable, mode)
    for _ in range(len(items)):
        a = 0 if level[0] * usable[1] >= level[1] * usable[0] else 1
        best, most = -1, threshold
        for i in range(len(items)):
            o = items[i]
            if side[i] == a and movable[o]:
                score = (
                    _with(series[o], norm[o], host[a], level[a], True)
                    - _with(series[o], norm[o], host[1 - a], level[1 - a], False)
                ) / 2
                if score > most + TIE:
                    best, most = i, score
        if best < 0:
            break
        side[best] = 1 - a
        _shift(items[best], a, 1 - a, series, mean, host, level)
    one_way(items, side, movable, series, norm, mean, priority, host, level, usable, mode)


@njit(cache=True)
def greedy(load: Any, mean: Any, usable: Any, where: Any) -> None:
    """Give the least loaded host the operator of the largest score with it, until all are placed (section 3.4)."""
    m, k = load.shape
    n = len(usable)
    host = np.zeros((n, k))
    level = np.zeros(n)
    series = centred(load)
    for o in range(m):
        if where[o] >= 0:
            host[where[o]] += series[o]
            level[where[o]] += mean[o]
    alive = np.array([o for o in range(m) if where[o] < 0], dtype=np.int64)
    left = len(alive)
    # Unit series of those not placed, one column each, so that the inner loops run over neighbours in memory.
    unit = np.zeros((k, left))
    for i in range(left):
        norm = np.sqrt(_dot(series[alive[i]], series[alive[i]]))
        if norm > 0.0:
            unit[:, i] = series[alive[i]] / norm
    rho = np.zeros((n, left))
    total = np.zeros(left)
    fresh = np.empty(left)
    for h in range(n):
        if level[h] > 0.0:
            _row(unit, host[h], level[h], fresh, left)
            for i in range(left):
                rho[h, i] = fresh[i]
                total[i] += fresh[i]
    width, count = left, left
    taken = np.zeros(left, np.bool_)
    tie = TIE * max(mean.max(), 1e-300) / usable.min() if m else 0.0
    while count:
        h, least = 0, np.inf
        for j in range(n):
            share = level[j] / usable[j]
            if share < least - tie:
                h, least = j, share
        row = rho[h]
        for i in range(width):
            score = total[i] / n - row[i]
            fresh[i] = score if not taken[i] else -np.inf
        best = _highest(fresh, width)
        o = alive[best]
        where[o] = h
        taken[best] = True
        count -= 1
        host[h] += series[o]
        level[h] += mean[o]
        _row(unit, host[h], level[h], fresh, width)
        for i in range(width):
            total[i] += fresh[i] - row[i]
            row[i] = fresh[i]
        if count < 0.8 * width:
            # Close the gaps, in order, so that the loops stay short and ties still go to the lowest number.
            to = 0
            for i in range(width):
                if not taken[i]:
                    alive[to] = alive[i]
                    total[to] = total[i]
                    for t in range(k):
                        unit[t, to] = unit[t, i]
                    for j in range(n):
                        rho[j, to] = rho[j, i]
                    to += 1
            width = to
            taken[:width] = False


@njit(cache=True, _nrt=False, fastmath={"contract", "reassoc"})
def _row(unit: Any, host: Any, level: float, out: Any, width: int) -> None:
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
def pairwise(
    load: Any, mean: Any, usable: Any, movable: Any, priority: Any, where: Any,
    mode: int, step: int, balance: float, score: float, improve: float,
) -> None:  # fmt: skip
    """One round of pairwise load distribution (sections 3.3 and 3.3.4); ``where`` changes in place.

    Parameters
    ----------
    mode
        How operators are chosen: by correlation, by load, by chance (``priority``).
    step
        0: one-way, 1: two-way, 2: selective exchange.
    balance
        Difference of two hosts' shares of load above which they are balanced.
    score
        Threshold of the exchange.
    improve
        Correlation of two hosts below which they are improved; -2: no improvement step.
    """
    m, k = load.shape
    n = len(usable)
    series = centred(load)
    norm = np.array([np.sqrt(_dot(series[o], series[o])) for o in range(m)])
    host = np.zeros((n, k))
    level = np.zeros(n)
    for o in range(m):
        host[where[o]] += series[o]
        level[where[o]] += mean[o]
    order = np.argsort(-np.round(level / usable, 11), kind="mergesort")
    rho, across = np.empty((4, m + BLOCK)), np.empty((k, m + BLOCK))
    for i in range(n // 2):
        a, b = order[i], order[n - 1 - i]
        if level[a] / usable[a] - level[b] / usable[b] > balance:
            _on_pair(
                a, b, series, norm, mean, usable, movable, priority, where, host, level, mode, step, score, rho,
                across, False,
            )  # fmt: skip
    if improve < -1.0:
        return
    for a in range(n):
        spread = np.sqrt(_dot(host[a], host[a]) / k)
        if level[a] + spread <= usable[a]:
            continue
        b, least = -1, improve
        for j in range(n):
            if j != a:
                value = _pair(host, a, j, level)
                if value < least - TIE:
                    b, least = j, value
        if b >= 0:
            _on_pair(
                a, b, series, norm, mean, usable, movable, priority, where, host, level, mode, step, score, rho,
                across, True,
            )  # fmt: skip


@njit(cache=True)
def _on_pair(
    a: int, b: int, series: Any, norm: Any, mean: Any, usable: Any, movable: Any, priority: Any,
    where: Any, host: Any, level: Any, mode: int, step: int, score: float, rho: Any, across: Any, if_better: bool,
) -> bool:  # fmt: skip
    """Apply a pair step to hosts a and b; with ``if_better`` only if their correlation rises. True: applied."""
    low, high = min(a, b), max(a, b)
    items = np.nonzero((where == low) | (where == high))[0]
    side = np.array([0 if where[o] == low else 1 for o in items])
    pair = np.array([low, high])
    two, levels, limits = host[pair].copy(), level[pair].copy(), usable[pair].copy()
    before = _pair(two, 0, 1, levels)
    if step == 0:
        one_way(items, side, movable, series, norm, mean, priority, two, levels, limits, mode)
    elif step == 1:
        two_way(items, side, movable, series, norm, mean, priority, two, levels, limits, mode, rho, across)
    else:
        exchange(items, side, movable, series, norm, mean, priority, two, levels, limits, mode, score)
    if if_better and _pair(two, 0, 1, levels) <= before + TIE:
        return False
    for i in range(len(items)):
        where[items[i]] = pair[side[i]]
    for j in range(2):
        host[pair[j]] = two[j]
        level[pair[j]] = levels[j]
    return True


@njit(cache=True)
def improve(load: Any, mean: Any, usable: Any, movable: Any, where: Any, threshold: float) -> int:
    """Raise the average correlation of all pairs of hosts above a threshold (section 3.4, second step).

    The pair of least correlation is divided anew; pairs that were tried are left alone until one of them changes.
    ``where`` changes in place. Returns how many pairs were tried.

    Time is counted in tries. Row h of ``rho`` holds the correlations of host h as of ``seen[h]``, and is brought up to
    date when it is asked for; so no column is ever written, which at hundreds of hosts is what takes the time.
    """
    m, k = load.shape
    n = len(usable)
    pairs = n * (n - 1) // 2
    series = centred(load)
    norm = np.array([np.sqrt(_dot(series[o], series[o])) for o in range(m)])
    host = np.zeros((n, k))
    level = np.zeros(n)
    count = np.zeros(n, np.int64)
    for o in range(m):
        host[where[o]] += series[o]
        level[where[o]] += mean[o]
        count[where[o]] += 1
    # Members of each host, by number; a host may grow, so twice the room of the largest pair.
    room = 2 * count.max() + 2 if n else 1
    members = np.zeros((n, max(room, 8)), np.int64)
    count[:] = 0
    for o in range(m):
        h = where[o]
        members[h, count[h]] = o
        count[h] += 1
    unit, across = np.zeros((n, k)), np.zeros((k, n))
    flat = np.zeros(n, np.bool_)
    flats = 0
    for h in range(n):
        flat[h] = _unit(h, host, level, unit)
        flats += flat[h]
        across[:, h] = unit[h]
    rho, fresh = np.empty((n, n)), np.empty(n)
    seen, changed = np.zeros(n, np.int32), np.zeros(n, np.int32)
    # Each row's least correlation with a host that may be tried, or where ``stale`` a bound from below.
    least = np.empty(n)
    nearest = np.zeros(n, np.int64)
    stale = np.zeros(n, np.bool_)
    for a in range(n):
        _correlations(a, unit, across, flat, flats, rho[a])
        rho[a, a] = np.inf
        _nearest(a, rho, least, nearest, stale)
    wide = 2 * members.shape[1] + BLOCK
    items, side = np.empty(wide, np.int64), np.empty(wide, np.int64)
    scratch, columns = np.empty((4, wide)), np.empty((k, wide))
    two = np.empty((2, k))
    levels = np.empty(2)
    limits = np.empty(2)
    none = np.zeros(0)
    tried = 0
    total = _total(across, flats)
    while tried < pairs and total <= threshold * pairs:
        a = _lowest(least, 0.0)
        if stale[a]:
            _refresh(a, rho, unit, across, flat, flats, seen, changed, tried, fresh)
            _nearest(a, rho, least, nearest, stale)
            continue
        before = least[a]
        if before >= 1.0 - TIE:
            break
        b = nearest[a]
        if a > b:
            a, b = b, a
        tried += 1
        c = _merge(a, b, members, count, items, side)
        if c > members.shape[1]:
            grown = np.zeros((n, 2 * c), np.int64)
            grown[:, : members.shape[1]] = members
            members = grown
            items, side = np.empty(4 * c, np.int64), np.empty(4 * c, np.int64)
            scratch, columns = np.empty((4, 4 * c + BLOCK)), np.empty((k, 4 * c + BLOCK))
            c = _merge(a, b, members, count, items, side)
        limits[0], limits[1] = usable[a], usable[b]
        two_way(
            items[:c], side[:c], movable, series, norm, mean, none, two, levels, limits, BY_CORRELATION, scratch,
            columns,
        )  # fmt: skip
        if _pair(two, 0, 1, levels) <= before + TIE:
            for h in (a, b):
                _refresh(h, rho, unit, across, flat, flats, seen, changed, tried, fresh)
                rho[h, a] = rho[h, b] = np.inf
                _nearest(h, rho, least, nearest, stale)
            continue
        for t in range(k):
            host[a, t], host[b, t] = two[0, t], two[1, t]
        level[a], level[b] = levels[0], levels[1]
        count[a] = count[b] = 0
        for i in range(c):
            h = a if side[i] == 0 else b
            members[h, count[h]] = items[i]
            count[h] += 1
            where[items[i]] = h
        for h in (a, b):
            flats -= flat[h]
            flat[h] = _unit(h, host, level, unit)
            flats += flat[h]
            for t in range(k):
                across[t, h] = unit[h, t]
            changed[h] = tried
        total = _total(across, flats)
        for h in (a, b):
            _correlations(h, unit, across, flat, flats, rho[h])
            # Never itself. And what was just divided so is divided the same again: not before one of the two changes.
            rho[h, a] = rho[h, b] = np.inf
            seen[h] = tried
            for j in range(n):
                lower = rho[h, j] < least[j] - TIE
                stale[j] = (stale[j] or nearest[j] == h) and not lower
                least[j] = rho[h, j] if lower else least[j]
                nearest[j] = h if lower else nearest[j]
        for h in (a, b):
            _nearest(h, rho, least, nearest, stale)
    return tried


@njit(cache=True, _nrt=False, fastmath={"contract", "reassoc"})
def _total(across: Any, flats: int) -> float:
    """Return the sum of the correlations of all pairs: from the length of the units' sum, and 1 with flat ones."""
    k, n = across.shape
    some = n - flats
    total = 0.0
    for t in range(k):
        along = 0.0
        for h in range(n):
            along += across[t, h]
        total += along * along
    return (total - some) / 2 + (n * (n - 1) - some * (some - 1)) / 2


@njit(cache=True, _nrt=False)
def _unit(h: int, host: Any, level: Any, unit: Any) -> bool:
    """Make a host's series one of length 1; True where it is flat, which becomes 0."""
    k = host.shape[1]
    size = _dot(host[h], host[h])
    flat: bool = size <= (FLAT * level[h]) ** 2 * k
    scale = 0.0 if flat else 1.0 / np.sqrt(size)
    for t in range(k):
        unit[h, t] = host[h, t] * scale
    return flat


@njit(cache=True, _nrt=False)
def _correlations(a: int, unit: Any, across: Any, flat: Any, flats: int, out: Any) -> None:
    """Fill ``out`` with a host's correlations with all hosts; 1 where one of the two is flat."""
    _row(across, unit[a], 0.0, out, len(flat))
    if flats:
        for j in range(len(flat)):
            if flat[j] or flat[a]:
                out[j] = 1.0


@njit(cache=True, _nrt=False)
def _refresh(
    a: int, rho: Any, unit: Any, across: Any, flat: Any, flats: int, seen: Any, changed: Any, now: int, fresh: Any
) -> None:  # fmt: skip
    """Bring a row up to date with the hosts that have changed: all at once, or one by one where these are few."""
    n = len(flat)
    late, since = 0, seen[a]
    for j in range(n):
        late += changed[j] > since
    many = 8 * late > n
    if many:
        _correlations(a, unit, across, flat, flats, fresh)
    if late:
        for j in range(n):
            if changed[j] > since:
                rho[a, j] = fresh[j] if many else 1.0 if flat[a] or flat[j] else _dot(unit[a], unit[j])
    seen[a] = now


@njit(cache=True, _nrt=False)
def _nearest(a: int, rho: Any, least: Any, nearest: Any, stale: Any) -> None:
    """Find the host of least correlation with a host, from its row."""
    at = _lowest(rho[a], TIE)
    least[a], nearest[a], stale[a] = rho[a, at], at, False


@njit(cache=True, _nrt=False, fastmath={"nnan", "nsz", "reassoc"})
def _lowest(values: Any, tie: float) -> int:
    """Return the place of the first of the smallest."""
    smallest = np.inf
    # In blocks, which the compiler makes loops over vectors of.
    for start in range(0, len(values), BLOCK):
        here = np.inf
        for at in range(start, min(start + BLOCK, len(values))):
            here = values[at] if values[at] < here else here
        smallest = min(smallest, here)
    at = 0
    while values[at] > smallest + tie:
        at += 1
    return at


@njit(cache=True, _nrt=False)
def _merge(a: int, b: int, members: Any, count: Any, items: Any, side: Any) -> int:
    """Merge the operators of two hosts, in order, into ``items``, with which of the two has each in ``side``."""
    first, second, m, n = members[a], members[b], count[a], count[b]
    i = j = c = 0
    if m + n > len(items):
        return m + n
    while i < m or j < n:
        if j >= n or (i < m and first[i] < second[j]):
            items[c], side[c] = first[i], 0
            i += 1
        else:
            items[c], side[c] = second[j], 1
            j += 1
        c += 1
    return c
