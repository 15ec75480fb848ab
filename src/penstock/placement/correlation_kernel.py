# mypy: disable-error-code="no-any-return"
"""Global distribution by load correlation (section 3.4), compiled: its greedy step, and its improvement.

Functions without ``_nrt`` allocate; in the others numba counts no references, which would cost more than their work.

Operators come in the order of ties (falling load, then name), so that a tie goes to the lowest number. Only one host
changes in a greedy step, so the correlations of all operators with all hosts are kept and one row is renewed: O(m²·k)
in all, where the paper's count (section 4.2) is O(m²·n³·k) with m operators a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array, Bools, Ints
from penstock.native.jit import njit, part

if TYPE_CHECKING:
    from penstock.placement import pairwise_kernel as pairs
    from penstock.placement.pairwise_kernel import Hosts, Pair
else:
    pairs = part("penstock.placement.pairwise_kernel")

TIE, FLAT, BLOCK, BY_CORRELATION = pairs.TIE, pairs.FLAT, pairs.BLOCK, pairs.BY_CORRELATION
centred, correlations_with, dot, highest = pairs.centred, pairs.correlations_with, pairs.dot, pairs.highest
operators_of, pair_correlation, placed, two_way = (
    pairs.operators_of,
    pairs.pair_correlation,
    pairs.placed,
    pairs.two_way,
)
PairOf = pairs.Pair


class Rows(NamedTuple):
    """The correlations of all pairs of hosts, changed in place.

    Time is counted in tries. Row h of ``rho`` (n, n) holds the correlations of host h as of ``seen[h]``, and is brought
    up to date when it is asked for; so no column is ever written, which at hundreds of hosts is what takes the time.
    ``changed`` (n,) says when each host last changed.

    ``unit`` (n, k) are the hosts' series with length 1, ``across`` the same with a column each; ``flat`` (n,) says
    which are 0, ``flats`` (1,) how many. ``least`` (n,) is each row's least correlation with a host that may be tried,
    or where ``stale`` a bound from below, and ``nearest`` that host. ``fresh`` (n,) is scratch.
    """

    rho: Array
    seen: NDArray[np.int32]
    changed: NDArray[np.int32]
    unit: Array
    across: Array
    flat: Bools
    flats: Ints
    least: Array
    nearest: Ints
    stale: Bools
    fresh: Array


@njit(cache=True)
def greedy(load: Array, mean: Array, usable: Array, where: Ints) -> None:
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
        norm = np.sqrt(dot(series[alive[i]], series[alive[i]]))
        if norm > 0.0:
            unit[:, i] = series[alive[i]] / norm
    rho = np.zeros((n, left))
    total = np.zeros(left)
    fresh = np.empty(left)
    for h in range(n):
        if level[h] > 0.0:
            correlations_with(unit, host[h], level[h], fresh, left)
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
        best = highest(fresh, width)
        o = alive[best]
        where[o] = h
        taken[best] = True
        count -= 1
        host[h] += series[o]
        level[h] += mean[o]
        correlations_with(unit, host[h], level[h], fresh, width)
        for i in range(width):
            total[i] += fresh[i] - row[i]
            row[i] = fresh[i]
        if count < 0.8 * width:
            width = _closed(taken, width, alive, total, unit, rho)
            taken[:width] = False


@njit(cache=True, _nrt=False)
def _closed(taken: Bools, width: int, alive: Ints, total: Array, unit: Array, rho: Array) -> int:
    """Close the gaps of what is taken, in order, so that loops stay short and ties still go to the lowest number."""
    to = 0
    for i in range(width):
        if not taken[i]:
            alive[to] = alive[i]
            total[to] = total[i]
            for t in range(len(unit)):
                unit[t, to] = unit[t, i]
            for j in range(len(rho)):
                rho[j, to] = rho[j, i]
            to += 1
    return to


@njit(cache=True)
def improve(load: Array, mean: Array, usable: Array, movable: Bools, where: Ints, threshold: float) -> int:
    """Raise the average correlation of all pairs of hosts above a threshold (section 3.4, second step).

    The pair of least correlation is divided anew; pairs that were tried are left alone until one of them changes.
    ``where`` changes in place. Returns how many pairs were tried.
    """
    n, k = len(usable), load.shape[1]
    pairs = n * (n - 1) // 2
    operators = operators_of(load, mean, movable, np.zeros(0))
    hosts = placed(operators, usable, where)
    held = np.zeros(n, np.int64)
    members = _members(where, held)
    rows = _rows(hosts)
    wide = 2 * members.shape[1] + BLOCK
    items, side = np.empty(wide, np.int64), np.empty(wide, np.int64)
    scratch, columns = np.empty((4, wide)), np.empty((k, wide))
    two, levels, limits = np.empty((2, k)), np.empty(2), np.empty(2)
    tried = 0
    total = _total(rows.across, rows.flats[0])
    while tried < pairs and total <= threshold * pairs:
        a = _lowest(rows.least, 0.0)
        if rows.stale[a]:
            _refresh(rows, a, tried)
            _find_nearest(rows, a)
            continue
        before = rows.least[a]
        if before >= 1.0 - TIE:
            break
        b = rows.nearest[a]
        if a > b:
            a, b = b, a
        tried += 1
        c = _merge(a, b, members, held, items, side)
        if c > members.shape[1]:
            grown = np.zeros((n, 2 * c), np.int64)
            grown[:, : members.shape[1]] = members
            members = grown
            items, side = np.empty(4 * c, np.int64), np.empty(4 * c, np.int64)
            scratch, columns = np.empty((4, 4 * c + BLOCK)), np.empty((k, 4 * c + BLOCK))
            c = _merge(a, b, members, held, items, side)
        limits[0], limits[1] = usable[a], usable[b]
        pair = PairOf(items[:c], side[:c], two, levels, limits)
        two_way(operators, pair, BY_CORRELATION, scratch, columns)
        if pair_correlation(two, 0, 1, levels) > before + TIE:
            _take(hosts, pair, a, b, members, held)
            _renew(rows, hosts, a, b, tried)
            total = _total(rows.across, rows.flats[0])
        else:
            for h in (a, b):
                _refresh(rows, h, tried)
                rows.rho[h, a] = rows.rho[h, b] = np.inf
                _find_nearest(rows, h)
    return tried


@njit(cache=True)
def _members(where: Ints, held: Ints) -> Ints:
    """Return the operators of each host, by number, and fill in how many each holds.

    A host may grow, so there is twice the room of the largest pair.
    """
    for o in range(len(where)):
        held[where[o]] += 1
    room = 2 * held.max() + 2 if len(held) else 1
    members = np.zeros((len(held), max(room, 8)), np.int64)
    held[:] = 0
    for o in range(len(where)):
        h = where[o]
        members[h, held[h]] = o
        held[h] += 1
    return members


@njit(cache=True)
def _rows(hosts: Hosts) -> Rows:
    """Return the correlations of all pairs of hosts."""
    n, k = hosts.host.shape
    rows = Rows(
        np.empty((n, n)), np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros((n, k)), np.zeros((k, n)),
        np.zeros(n, np.bool_), np.zeros(1, np.int64), np.empty(n), np.zeros(n, np.int64), np.zeros(n, np.bool_),
        np.empty(n),
    )  # fmt: skip
    for h in range(n):
        _set_unit(rows, hosts, h)
    for a in range(n):
        _correlations(rows, a, rows.rho[a])
        rows.rho[a, a] = np.inf
        _find_nearest(rows, a)
    return rows


@njit(cache=True, _nrt=False)
def _take(hosts: Hosts, pair: Pair, a: int, b: int, members: Ints, held: Ints) -> None:
    """Take over how two hosts were divided."""
    for t in range(hosts.host.shape[1]):
        hosts.host[a, t], hosts.host[b, t] = pair.host[0, t], pair.host[1, t]
    hosts.level[a], hosts.level[b] = pair.level[0], pair.level[1]
    held[a] = held[b] = 0
    for i in range(len(pair.items)):
        h = a if pair.side[i] == 0 else b
        members[h, held[h]] = pair.items[i]
        held[h] += 1
        hosts.where[pair.items[i]] = h


@njit(cache=True, _nrt=False)
def _renew(rows: Rows, hosts: Hosts, a: int, b: int, now: int) -> None:
    """Bring the correlations up to date with two hosts that have changed."""
    for h in (a, b):
        _set_unit(rows, hosts, h)
        rows.changed[h] = now
    for h in (a, b):
        _correlations(rows, h, rows.rho[h])
        # Never itself. And what was just divided so is divided the same again: not before one of the two changes.
        rows.rho[h, a] = rows.rho[h, b] = np.inf
        rows.seen[h] = now
        for j in range(len(rows.least)):
            lower = rows.rho[h, j] < rows.least[j] - TIE
            rows.stale[j] = (rows.stale[j] or rows.nearest[j] == h) and not lower
            rows.least[j] = rows.rho[h, j] if lower else rows.least[j]
            rows.nearest[j] = h if lower else rows.nearest[j]
    for h in (a, b):
        _find_nearest(rows, h)


@njit(cache=True, _nrt=False, fastmath={"contract", "reassoc"})
def _total(across: Array, flats: int) -> float:
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
def _set_unit(rows: Rows, hosts: Hosts, h: int) -> None:
    """Make a host's series one of length 1; where it is flat, 0."""
    k = hosts.host.shape[1]
    size = dot(hosts.host[h], hosts.host[h])
    flat = size <= (FLAT * hosts.level[h]) ** 2 * k
    rows.flats[0] += int(flat) - int(rows.flat[h])
    rows.flat[h] = flat
    scale = 0.0 if flat else 1.0 / np.sqrt(size)
    for t in range(k):
        rows.unit[h, t] = rows.across[t, h] = hosts.host[h, t] * scale


@njit(cache=True, _nrt=False)
def _correlations(rows: Rows, a: int, out: Array) -> None:
    """Fill ``out`` with a host's correlations with all hosts; 1 where one of the two is flat."""
    n = len(rows.flat)
    correlations_with(rows.across, rows.unit[a], 0.0, out, n)
    if rows.flats[0]:
        for j in range(n):
            if rows.flat[j] or rows.flat[a]:
                out[j] = 1.0


@njit(cache=True, _nrt=False)
def _refresh(rows: Rows, a: int, now: int) -> None:
    """Bring a row up to date with the hosts that have changed: all at once, or one by one where these are few."""
    n = len(rows.flat)
    late, since = 0, rows.seen[a]
    for j in range(n):
        late += rows.changed[j] > since
    many = 8 * late > n
    if many:
        _correlations(rows, a, rows.fresh)
    if late:
        for j in range(n):
            if rows.changed[j] > since:
                flat = rows.flat[a] or rows.flat[j]
                rows.rho[a, j] = rows.fresh[j] if many else 1.0 if flat else dot(rows.unit[a], rows.unit[j])
    rows.seen[a] = now


@njit(cache=True, _nrt=False)
def _find_nearest(rows: Rows, a: int) -> None:
    """Find the host of least correlation with a host, from its row."""
    at = _lowest(rows.rho[a], TIE)
    rows.least[a], rows.nearest[a], rows.stale[a] = rows.rho[a, at], at, False


@njit(cache=True, _nrt=False, fastmath={"nnan", "nsz", "reassoc"})
def _lowest(values: Array, tie: float) -> int:
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
def _merge(a: int, b: int, members: Ints, count: Ints, items: Ints, side: Ints) -> int:
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
