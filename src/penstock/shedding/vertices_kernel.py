# mypy: disable-error-code="no-any-return"
"""The walk over dual vertices and the look-up of the least, compiled (plain references: `optimum`).

A tuple's worth on an arc under host prices ``p`` is ``V = weight - K'p + G' max(0, V)``: what it earns downstream minus
what it costs. The optimum is ``f(r) = min over p >= 0 of limit·p + (S r)·max(0, V(p))``, convex and piecewise linear in
the few prices, so its vertices can be listed by walking from vertex to vertex along edges. A vertex has as many tight
conditions as there are prices: ``p_i = 0`` or ``V_a = 0``.

It allocates nothing: `penstock.shedding.walk` lays the arrays out.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import int64

from penstock.arrays import Array, Flags, Ints
from penstock.native.memory import rows_of
from penstock.native.views import flags, grid, hashes, inside, lists, reals, small, small_grid, whole
from penstock.shedding.vertices_tables import RECORD, VALUES, WALK, WORTH

Scalars: TypeAlias = Any  # the record
Signs: TypeAlias = Any  # array of bytes: 1 keep, -1 drop, 0 keep in part

record_at = rows_of(RECORD)


class Arcs(NamedTuple):
    """A program: readers of each arc and how many tuples they get, where sources enter, costs, weights.

    ``K``, array (resources, arcs), is divided by the limits, so that every limit is 1. Arcs e with ``fed[e]`` carry
    ``S[e, s]`` of each source s: several where sources merge and nothing can be dropped before.
    """

    start: Ints
    reader: Ints
    gain: Array
    fed: Flags
    S: Array
    K: Array
    weight: Array


class Back(NamedTuple):
    """The writers of each arc, and how many tuples they give."""

    start: Ints
    writer: Ints
    gain: Array


class Found(NamedTuple):
    """Vertices: prices, tight conditions (resource, or resources + arc), signs; functions ``alpha + beta·r``."""

    prices: Array
    tights: Ints
    signs: Signs
    alpha: Array
    beta: Array


class Room(NamedTuple):
    """Room to work in: worth of arcs as functions of prices, signs, who lives; small systems; kept rates."""

    const: Array
    grad: Array
    sign: Signs
    live: Flags
    A: Array
    d: Array
    fresh: Ints
    at: Array
    column: Array
    offered: Array
    bind: Flags
    unknown: Ints


@inside()
def solve(a: Array, b: Array, n: int) -> bool:
    """Solve a small system in place by elimination; False if it is singular."""
    for c in range(n):
        best = c
        for i in range(c + 1, n):
            if abs(a[i, c]) > abs(a[best, c]):
                best = i
        size = 0.0
        for j in range(n):
            size = max(size, abs(a[best, j]))
        if size == 0.0 or abs(a[best, c]) < 1e-13 * size:
            return False
        if best != c:
            for j in range(n):
                a[c, j], a[best, j] = a[best, j], a[c, j]
            b[c], b[best] = b[best], b[c]
        for i in range(c + 1, n):
            f = a[i, c] / a[c, c]
            if f != 0.0:
                for j in range(c, n):
                    a[i, j] -= f * a[c, j]
                b[i] -= f * b[c]
    for c in range(n - 1, -1, -1):
        for j in range(c + 1, n):
            b[c] -= a[c, j] * b[j]
        b[c] /= a[c, c]
    return True


@inside()
def _forms(arcs: Arcs, room: Room, up: int) -> None:
    """Write V as ``const + grad·p`` under the signs; the arc ``up`` counts as positive."""
    n, m = arcs.K.shape
    const, grad = room.const, room.grad
    for a in range(m - 1, -1, -1):
        const[a] = arcs.weight[a]
        for i in range(n):
            grad[a, i] = -arcs.K[i, a]
        for e in range(arcs.start[a], arcs.start[a + 1]):
            b = arcs.reader[e]
            if room.sign[b] > 0 or b == up:
                const[a] += arcs.gain[e] * const[b]
                for i in range(n):
                    grad[a, i] += arcs.gain[e] * grad[b, i]


@inside()
def _enliven(arcs: Arcs, room: Room, down: int) -> None:
    """Mark the arcs that a tuple can reach without being dropped before; the arc ``down`` drops."""
    m = len(arcs.fed)
    for a in range(m):
        room.live[a] = arcs.fed[a]
    for a in range(m):
        if room.live[a] and room.sign[a] >= 0 and a != down:
            for e in range(arcs.start[a], arcs.start[a + 1]):
                room.live[arcs.reader[e]] = 1


@inside()
def _key(tight: Ints, room: Room) -> Any:
    """Hash a vertex: its tight conditions and the signs of all live arcs."""
    h = np.uint64(1469598103934665603)
    for i in range(len(tight)):
        h = (h ^ np.uint64(tight[i] + 7)) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    for a in range(len(room.sign)):
        if room.live[a]:
            h = (h ^ np.uint64(3 * a + int(room.sign[a]) + 11)) * np.uint64(1099511628211)
            h ^= h >> np.uint64(31)
    return h if h != np.uint64(0) else np.uint64(1)


@inside()
def _first(arcs: Arcs, found: Found, room: Room) -> None:
    """Write the first vertex: free hosts, so nothing is dropped."""
    m, const = len(arcs.fed), room.const
    for a in range(m - 1, -1, -1):
        const[a] = arcs.weight[a]
        for e in range(arcs.start[a], arcs.start[a + 1]):
            if const[arcs.reader[e]] > 0:
                const[a] += arcs.gain[e] * const[arcs.reader[e]]
        found.signs[0, a] = room.sign[a] = 1 if const[a] > 0 else -1
    for i in range(len(arcs.K)):
        found.tights[0, i] = i
    _enliven(arcs, room, -1)


@inside()
def _direction(arcs: Arcs, tight: Ints, released: int, side: int, room: Room) -> bool:
    """Find the way along which one condition is released and the others stay tight; False: there is none."""
    n, A, d = len(tight), room.A, room.d
    usable = True
    for j in range(n):
        c = tight[j]
        d[j] = side if j == released else 0.0
        if c >= n and j != released and not room.live[c - n]:
            usable = False
        for i in range(n):
            A[j, i] = room.grad[c - n, i] if c >= n else 0.0
        if c < n:
            A[j, c] = 1.0
    return usable and solve(A, d, n)


@inside()
def _next_event(tight: Ints, own: int, room: Room) -> tuple[float, int]:
    """Return how far along the way a price or a worth reaches 0 first, and which; -1: none does."""
    n, at, d = len(tight), room.at, room.d
    best, hit = np.inf, -1
    for i in range(n):
        if d[i] < 0 and at[i] > 0:
            held = False
            for j in range(n):
                held = held or tight[j] == i
            if not held and -at[i] / d[i] < best:
                best, hit = -at[i] / d[i], i
    for a in range(len(room.sign)):
        if room.sign[a] == 0 or own == a:
            continue
        v, slope = room.const[a], 0.0
        for i in range(n):
            v += room.grad[a, i] * at[i]
            slope += room.grad[a, i] * d[i]
        if (room.sign[a] > 0 and slope < 0) or (room.sign[a] < 0 and slope > 0):
            t = max(0.0, -v / slope)
            if t < best:
                best, hit = t, n + a
    return best, hit


@inside()
def _follow(arcs: Arcs, tight: Ints, up: int, own: int, room: Room) -> int:
    """Go along an edge to its other end; return the condition that is tight there, -1: it has no end."""
    n, hit = len(tight), -1
    for _ in range(4 * len(arcs.fed) + 4):
        best, hit = _next_event(tight, own, room)
        if hit < 0:
            break
        for i in range(n):
            room.at[i] = max(0.0, room.at[i] + best * room.d[i])
        if hit < n or room.live[hit - n]:
            break
        # What no tuple reaches bends only the worth of what is dropped before it.
        room.sign[hit - n] = -room.sign[hit - n]
        _forms(arcs, room, up)
        hit = -1
    return hit


@inside()
def _is_new(g: Scalars, room: Room) -> bool:
    """Look a vertex up among those that are known, and note it if there is room for more."""
    slots = hashes(g.slots, g.slotted)
    h = _key(room.fresh, room)
    slot = np.int64(h % np.uint64(g.slotted))
    while slots[slot] != 0 and slots[slot] != h:
        slot = (slot + 1) % g.slotted
    if slots[slot] == h:
        return False
    if g.count == g.most:
        g.complete = 0
        return False
    slots[slot] = h
    return True


@inside()
def _note(g: Scalars, arcs: Arcs, found: Found, room: Room) -> None:
    """Write a vertex, with its prices from its conditions where they tell them."""
    n, A, d = len(room.fresh), room.A, room.d
    _forms(arcs, room, -1)
    for j in range(n):
        c = room.fresh[j]
        for i in range(n):
            A[j, i] = room.grad[c - n, i] if c >= n else 0.0
        if c < n:
            A[j, c] = 1.0
        d[j] = -room.const[c - n] if c >= n else 0.0
    polished = solve(A, d, n)
    for i in range(n):
        found.prices[g.count, i] = max(0.0, d[i]) if polished else room.at[i]
        found.tights[g.count, i] = room.fresh[i]
    for a in range(len(room.sign)):
        found.signs[g.count, a] = room.sign[a]
    g.count += 1


@inside()
def walk(g: Scalars, arcs: Arcs, found: Found, room: Room) -> None:
    """List the vertices; ``g.complete`` says whether all were found."""
    n, m = arcs.K.shape
    _first(arcs, found, room)
    for i in range(n):
        room.fresh[i] = found.tights[0, i]
    g.count, g.complete = 0, 1
    _is_new(g, room)
    g.count = 1
    done = 0
    while done < g.count:
        tight = found.tights[done]
        for released in range(n):
            k = tight[released]
            for turn in range(1 if k < n else 2):
                side = 1 if turn == 0 else -1
                up = k - n if k >= n and side > 0 else -1
                down = k - n if k >= n and side < 0 else -1
                for a in range(m):
                    room.sign[a] = found.signs[done, a]
                _enliven(arcs, room, down)
                _forms(arcs, room, up)
                if not _direction(arcs, tight, released, side, room):
                    continue
                for i in range(n):
                    room.at[i] = found.prices[done, i]
                hit = _follow(arcs, tight, up, max(up, down), room)
                if hit < 0:
                    continue
                if k >= n:
                    room.sign[k - n] = side
                if hit >= n:
                    room.sign[hit - n] = 0
                # In order, so that a vertex looks alike from wherever it is reached.
                for j in range(n):
                    c = hit if j == released else tight[j]
                    to = j
                    while to > 0 and room.fresh[to - 1] > c:
                        room.fresh[to] = room.fresh[to - 1]
                        to -= 1
                    room.fresh[to] = c
                _enliven(arcs, room, -1)
                if _is_new(g, room):
                    _note(g, arcs, found, room)
        done += 1


@inside()
def worth(arcs: Arcs, found: Found, v: Array) -> None:
    """Fill ``f = alpha + beta·r`` of each vertex."""
    n, m = arcs.K.shape
    prices, alpha, beta = found.prices, found.alpha, found.beta
    for row in range(len(prices)):
        total = 0.0
        for i in range(n):
            total += prices[row, i]
        alpha[row] = total
        for s in range(beta.shape[1]):
            beta[row, s] = 0.0
        for a in range(m - 1, -1, -1):
            v[a] = arcs.weight[a]
            for i in range(n):
                v[a] -= arcs.K[i, a] * prices[row, i]
            for e in range(arcs.start[a], arcs.start[a + 1]):
                if v[arcs.reader[e]] > 0:
                    v[a] += arcs.gain[e] * v[arcs.reader[e]]
            if arcs.fed[a] and v[a] > 0:
                for s in range(beta.shape[1]):
                    beta[row, s] += arcs.S[a, s] * v[a]


@inside()
def lowest(found: Found, r: Array, above: float) -> tuple[int, float]:
    """Return the row of the least ``alpha + beta·r`` that is greater than ``above``, or -1."""
    best, row = np.inf, -1
    for v in range(len(found.alpha)):
        f = found.alpha[v]
        for s in range(len(r)):
            f += found.beta[v, s] * r[s]
        if f < best and f > above:
            best, row = f, v
    return row, best


@inside()
def _kept(arcs: Arcs, back: Back, sign: Signs, r: Array, room: Room) -> None:
    """Write the kept rate of each arc as ``column[:, n] + column[:, :n] · unknowns``, and what it is offered alike."""
    n, m = arcs.K.shape
    column, offered = room.column, room.offered
    for a in range(m):
        for j in range(n + 1):
            offered[a, j] = column[a, j] = 0.0
        if arcs.fed[a]:
            for s in range(len(r)):
                offered[a, n] += arcs.S[a, s] * r[s]
        for e in range(back.start[a], back.start[a + 1]):
            for j in range(n + 1):
                offered[a, j] += back.gain[e] * column[back.writer[e], j]
        if room.unknown[a] >= 0:
            column[a, room.unknown[a]] = 1.0
        elif sign[a] > 0:
            for j in range(n + 1):
                column[a, j] = offered[a, j]


@inside()
def _bound(arcs: Arcs, free: int, room: Room) -> bool:
    """Find the unknowns that use up the hosts whose prices are not 0; False if nothing does."""
    n, m = arcs.K.shape
    A, b = room.A, room.d
    row = 0
    for i in range(n):
        if room.bind[i]:
            b[row] = 1.0
            for j in range(free):
                A[row, j] = 0.0
            for a in range(m):
                for j in range(free):
                    A[row, j] += arcs.K[i, a] * room.column[a, j]
                b[row] -= arcs.K[i, a] * room.column[a, n]
            row += 1
    return solve(A, b, free)


@inside()
def primal(arcs: Arcs, back: Back, tight: Ints, sign: Signs, asked: tuple[Array, Array], room: Room) -> bool:
    """Fill the kept rates that belong to a vertex; False if they are not feasible at the rates.

    ``asked`` are the rates of the sources, and the array to fill.
    """
    n, m = arcs.K.shape
    r, y = asked
    for i in range(n):
        room.bind[i] = 1
    for a in range(m):
        room.unknown[a] = -1
    free = 0
    for j in range(n):
        if tight[j] < n:
            room.bind[tight[j]] = 0
        else:
            room.unknown[tight[j] - n] = free
            free += 1
    _kept(arcs, back, sign, r, room)
    if not _bound(arcs, free, room):
        return False
    column, offered, b = room.column, room.offered, room.d
    good = True
    for a in range(m):
        total, most = column[a, n], offered[a, n]
        for j in range(free):
            total += column[a, j] * b[j]
            most += offered[a, j] * b[j]
        if total < -1e-9 * most - 1e-12 or total > most * (1 + 1e-9) + 1e-12:
            good = False
        y[a] = min(max(0.0, total), max(0.0, most))
    for i in range(n):
        used = 0.0
        for a in range(m):
            used += arcs.K[i, a] * y[a]
        good = good and used <= 1 + 1e-9
    return good


@inside()
def look_up(arcs: Arcs, back: Back, found: Found, asked: tuple[Array, Array], room: Room) -> int:
    """Fill the optimal kept rates and return the vertex, or -1 where rounding hides the right one."""
    above = -np.inf
    for _ in range(12):
        row, above = lowest(found, asked[0], above)
        if row < 0:
            return -1
        if primal(arcs, back, found.tights[row], found.signs[row], asked, room):
            return row
    return -1


@inside(int64(int64))
def vertices(address: int) -> int:
    """Do what the record at an address says."""
    g = record_at(address, 0)
    n, m, s = g.hosts, g.arcs, g.sources
    arcs = Arcs(
        whole(g.start, m + 1), whole(g.reader, g.readers), reals(g.gain, g.readers), flags(g.fed, m),
        grid(g.S, m, s), grid(g.K, n, m), reals(g.weight, m),
    )  # fmt: skip
    back = Back(whole(g.wstart, m + 1), whole(g.writer, g.writers), reals(g.wgain, g.writers))
    found = Found(
        grid(g.prices, g.rows, n), lists(g.tights, g.rows, n), small_grid(g.signs, g.rows, m), reals(g.alpha, g.rows),
        grid(g.beta, g.rows, s),
    )  # fmt: skip
    room = Room(
        reals(g.const, m), grid(g.grad, m, n), small(g.sign, m), flags(g.live, m), grid(g.A, n, n), reals(g.d, n),
        whole(g.fresh, n), reals(g.at, n), grid(g.column, m, n + 1), grid(g.offered, m, n + 1), flags(g.bind, n),
        whole(g.unknown, m),
    )  # fmt: skip
    points = grid(g.points, g.asked, s)
    if g.task == WALK:
        walk(g, arcs, found, room)
    elif g.task == WORTH:
        worth(arcs, found, room.const)
    elif g.task == VALUES:
        values = reals(g.out, g.asked)
        for q in range(g.asked):
            values[q] = lowest(found, points[q], -np.inf)[1]
    else:
        kept, rows = grid(g.out, g.asked, m), whole(g.found, g.asked)
        for q in range(g.asked):
            rows[q] = look_up(arcs, back, found, (points[q], kept[q]), room)
    return 0
