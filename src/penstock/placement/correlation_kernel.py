# mypy: disable-error-code="no-any-return"
"""Load distribution by correlation, compiled: the greedy step (section 3.4), its improvement, and pairs of hosts.

Operators come in the order of ties (falling load, then name), so that a tie goes to the lowest number. Only one host
changes in a greedy step, so the correlations of all operators with all hosts are kept and one row is renewed: O(m²·k)
in all, where the paper's count (section 4.2) is O(m²·n³·k) with m operators a host.

It allocates nothing: `penstock.placement.distribute` lays the arrays out, and calls again with more room where a host
has more operators than there is room for.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import int64

from penstock.arrays import Array, Flags, Ints
from penstock.native.memory import rows_of
from penstock.native.views import flags, grid, inside, lists, reals, whole
from penstock.placement.layout import BLOCK, BY_CORRELATION, DONE, FLAT, FULL, GREEDY, PAIRWISE, RECORD, TIE
from penstock.placement.pairwise_kernel import (
    Division,
    Hosts,
    Operators,
    Pair,
    correlations_with,
    dot,
    highest,
    pair_correlation,
    pairwise,
    two_way,
)

Scalars: TypeAlias = Any  # the record

record_at = rows_of(RECORD)


class Free(NamedTuple):
    """Operators without a host, changed in place.

    ``alive`` (left,) are their numbers, ``taken`` (left,) says which have a host by now, ``unit`` (k, left) are their
    series with length 1, one column each, so that the inner loops run over neighbours in memory; ``rho`` (n, left) are
    their correlations with all hosts, ``total`` (left,) the sums of these, ``fresh`` (left,) is scratch.
    """

    alive: Ints
    taken: Flags
    unit: Array
    rho: Array
    total: Array
    fresh: Array


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
    seen: Ints
    changed: Ints
    unit: Array
    across: Array
    flat: Flags
    flats: Ints
    least: Array
    nearest: Ints
    stale: Flags
    fresh: Array


@inside()
def greedy(operators: Operators, hosts: Hosts, free: Free, tie: float) -> None:
    """Give the least loaded host the operator of the largest score with it, until all are placed (section 3.4).

    Of equally loaded hosts the one of the largest capacity: it is the least loaded then, whatever the operator.
    """
    n, k = hosts.host.shape
    alive, taken, rho, total, fresh = free.alive, free.taken, free.rho, free.total, free.fresh
    width = count = len(alive)
    for h in range(n):
        if hosts.level[h] > 0.0:
            correlations_with(free.unit, hosts.host[h], hosts.level[h], fresh, width)
            for i in range(width):
                rho[h, i] = fresh[i]
                total[i] += fresh[i]
    while count:
        h, least = 0, np.inf
        for j in range(n):
            share = hosts.level[j] / hosts.usable[j]
            if share < least - tie or (share <= least + tie and hosts.usable[j] > hosts.usable[h]):
                h, least = j, min(share, least)
        row = rho[h]
        for i in range(width):
            score = total[i] / n - row[i]
            fresh[i] = -np.inf if taken[i] else score
        best = highest(fresh, width)
        o = alive[best]
        hosts.where[o] = h
        taken[best] = 1
        count -= 1
        for t in range(k):
            hosts.host[h, t] += operators.series[o, t]
        hosts.level[h] += operators.mean[o]
        correlations_with(free.unit, hosts.host[h], hosts.level[h], fresh, width)
        for i in range(width):
            total[i] += fresh[i] - row[i]
            row[i] = fresh[i]
        if count < 0.8 * width:
            width = _closed(free, width)
            for i in range(width):
                taken[i] = 0


@inside()
def _closed(free: Free, width: int) -> int:
    """Close the gaps of what is taken, in order, so that loops stay short and ties still go to the lowest number."""
    to = 0
    for i in range(width):
        if not free.taken[i]:
            free.alive[to] = free.alive[i]
            free.total[to] = free.total[i]
            for t in range(len(free.unit)):
                free.unit[t, to] = free.unit[t, i]
            for j in range(len(free.rho)):
                free.rho[j, to] = free.rho[j, i]
            to += 1
    return to


@inside()
def improve(g: Scalars, operators: Operators, hosts: Hosts, rows: Rows, how: Division) -> int:
    """Raise the average correlation of all pairs of hosts above a threshold (section 3.4, second step).

    The pair of least correlation is divided anew; pairs that were tried are left alone until one of them changes.
    ``g.tried`` counts these.
    """
    n = len(hosts.usable)
    pairs = n * (n - 1) // 2
    held, members = whole(g.held, n), lists(g.members, n, g.room)
    items, side, two, levels, limits = how.pair
    total = _total(rows.across, rows.flats[0])
    while g.tried < pairs and total <= g.threshold * pairs:
        a = _lowest(rows.least, 0.0)
        if rows.stale[a]:
            _refresh(rows, a, g.tried)
            _find_nearest(rows, a)
            continue
        before = rows.least[a]
        if before >= 1.0 - TIE:
            break
        b = rows.nearest[a]
        if a > b:
            a, b = b, a
        if held[a] + held[b] > g.room:
            g.need = held[a] + held[b]
            return FULL
        g.tried += 1
        c = _merge(a, b, members, held, items, side)
        limits[0], limits[1] = hosts.usable[a], hosts.usable[b]
        pair = Pair(items[:c], side[:c], two, levels, limits)
        two_way(operators, pair, BY_CORRELATION, how.scratch, how.columns)
        if pair_correlation(two, 0, 1, levels) > before + TIE:
            _take(hosts, pair, a, b, members, held)
            _renew(rows, hosts, a, b, g.tried)
            total = _total(rows.across, rows.flats[0])
        else:
            for h in (a, b):
                _refresh(rows, h, g.tried)
                rows.rho[h, a] = rows.rho[h, b] = np.inf
                _find_nearest(rows, h)
    return DONE


@inside()
def _fill(rows: Rows, hosts: Hosts) -> None:
    """Fill in the correlations of all pairs of hosts."""
    n = len(hosts.level)
    for h in range(n):
        _set_unit(rows, hosts, h)
    for a in range(n):
        _correlations(rows, a, rows.rho[a])
        rows.rho[a, a] = np.inf
        _find_nearest(rows, a)


@inside()
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


@inside()
def _renew(rows: Rows, hosts: Hosts, a: int, b: int, now: int) -> None:
    """Bring the correlations up to date with two hosts that have changed."""
    for h in (a, b):
        _set_unit(rows, hosts, h)
        rows.changed[h] = now
    for h in (a, b):
        _correlations(rows, h, rows.rho[h])
        # Not itself; and the two that were just divided would be divided alike until one of them changes.
        rows.rho[h, a] = rows.rho[h, b] = np.inf
        rows.seen[h] = now
        for j in range(len(rows.least)):
            lower = rows.rho[h, j] < rows.least[j] - TIE
            rows.stale[j] = (rows.stale[j] or rows.nearest[j] == h) and not lower
            rows.least[j] = rows.rho[h, j] if lower else rows.least[j]
            rows.nearest[j] = h if lower else rows.nearest[j]
    for h in (a, b):
        _find_nearest(rows, h)


@inside(fastmath={"contract", "reassoc"})
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


@inside()
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


@inside()
def _correlations(rows: Rows, a: int, out: Array) -> None:
    """Fill ``out`` with a host's correlations with all hosts; 1 where one of the two is flat."""
    n = len(rows.flat)
    correlations_with(rows.across, rows.unit[a], 0.0, out, n)
    if rows.flats[0]:
        for j in range(n):
            if rows.flat[j] or rows.flat[a]:
                out[j] = 1.0


@inside()
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


@inside()
def _find_nearest(rows: Rows, a: int) -> None:
    """Find the host of least correlation with a host, from its row."""
    at = _lowest(rows.rho[a], TIE)
    rows.least[a], rows.nearest[a], rows.stale[a] = rows.rho[a, at], at, False


@inside(fastmath={"nnan", "nsz", "reassoc"})
def _lowest(values: Array, tie: float) -> int:
    """Return the place of the first of the smallest."""
    smallest = np.inf
    # In blocks, of which the compiler makes loops over vectors.
    for start in range(0, len(values), BLOCK):
        here = np.inf
        for at in range(start, min(start + BLOCK, len(values))):
            here = values[at] if values[at] < here else here
        smallest = min(smallest, here)
    at = 0
    while values[at] > smallest + tie:
        at += 1
    return at


@inside()
def _merge(a: int, b: int, members: Ints, count: Ints, items: Ints, side: Ints) -> int:
    """Merge the operators of two hosts, in order, into ``items``, with which of the two has each in ``side``."""
    first, second, m, n = members[a], members[b], count[a], count[b]
    i = j = c = 0
    while i < m or j < n:
        if j >= n or (i < m and first[i] < second[j]):
            items[c], side[c] = first[i], 0
            i += 1
        else:
            items[c], side[c] = second[j], 1
            j += 1
        c += 1
    return c


@inside(int64(int64))
def distribute(address: int) -> int:
    """Do what the record at an address says; return `DONE`, or `FULL` where there must be more room first."""
    g = record_at(address, 0)
    m, k, n = g.operators, g.periods, g.hosts
    operators = Operators(
        grid(g.series, m, k), reals(g.norm, m), reals(g.mean, m), flags(g.movable, m), reals(g.priority, m)
    )
    hosts = Hosts(grid(g.host, n, k), reals(g.level, n), reals(g.usable, n), whole(g.where, m))
    if g.task == GREEDY:
        free = Free(
            whole(g.alive, g.left), flags(g.taken, g.left), grid(g.unit, k, g.left), grid(g.rho, n, g.left),
            reals(g.total, g.left), reals(g.fresh, g.left),
        )  # fmt: skip
        greedy(operators, hosts, free, g.tie)
        return DONE
    pair = Pair(
        whole(g.items, g.wide), whole(g.side, g.wide), grid(g.two, 2, k), reals(g.levels, 2), reals(g.limits, 2)
    )
    how = Division(g.mode, g.step, g.score, pair, grid(g.scratch, 4, g.wide), grid(g.columns, k, g.wide))
    if g.task == PAIRWISE:
        pairwise(operators, hosts, whole(g.order, n), how, g.balance, g.threshold)
        return DONE
    rows = Rows(
        grid(g.rho, n, n), whole(g.seen, n), whole(g.changed, n), grid(g.unit, n, k), grid(g.across, k, n),
        flags(g.flat, n), whole(g.flats, 1), reals(g.least, n), whole(g.nearest, n), flags(g.stale, n),
        reals(g.fresh, n),
    )  # fmt: skip
    if g.begun == 0:
        g.begun = 1
        _fill(rows, hosts)
    return improve(g, operators, hosts, rows, how)
