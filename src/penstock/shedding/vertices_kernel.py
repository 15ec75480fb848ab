# mypy: disable-error-code="no-any-return"
"""The walk over dual vertices and the look-up of the least, compiled where it pays (plain references: `optimum`).

A tuple's worth on an arc under host prices ``p`` is ``V = weight - K'p + G' max(0, V)``: what it earns downstream minus
what it costs. The optimum is ``f(r) = min over p >= 0 of limit·p + (S r)·max(0, V(p))``, convex and piecewise linear in
the few prices, so its vertices can be listed by walking from vertex to vertex along edges. A vertex has as many tight
conditions as there are prices: ``p_i = 0`` or ``V_a = 0``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.native.jit import INNER, njit


@njit(**INNER)
def solve(a: Any, b: Any, n: Any) -> Any:
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


@njit(**INNER)
def forms(start: Any, reader: Any, gain: Any, K: Any, weight: Any, sign: Any, up: Any, const: Any, grad: Any) -> Any:
    """Write V as ``const + grad·p`` under a sign pattern; the arc ``up`` counts as positive."""
    n, m = K.shape
    for a in range(m - 1, -1, -1):
        const[a] = weight[a]
        for i in range(n):
            grad[a, i] = -K[i, a]
        for e in range(start[a], start[a + 1]):
            b = reader[e]
            if sign[b] > 0 or b == up:
                const[a] += gain[e] * const[b]
                for i in range(n):
                    grad[a, i] += gain[e] * grad[b, i]


@njit(**INNER)
def alive(start: Any, reader: Any, entry: Any, sign: Any, down: Any, live: Any) -> Any:
    """Mark the arcs that a tuple can reach without being dropped before; the arc ``down`` drops."""
    m = len(entry)
    for a in range(m):
        live[a] = entry[a]
    for a in range(m):
        if live[a] and sign[a] >= 0 and a != down:
            for e in range(start[a], start[a + 1]):
                live[reader[e]] = True


@njit(**INNER)
def key_of(tight: Any, sign: Any, live: Any) -> Any:
    """Hash a vertex: its tight conditions and the signs of all live arcs."""
    h = np.uint64(1469598103934665603)
    n = len(tight)
    for i in range(n):
        h = (h ^ np.uint64(tight[i] + 7)) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    for a in range(len(sign)):
        if live[a]:
            h = (h ^ np.uint64(3 * a + int(sign[a]) + 11)) * np.uint64(1099511628211)
            h ^= h >> np.uint64(31)
    return h if h != np.uint64(0) else np.uint64(1)


@njit(cache=True)
def walk(start: Any, reader: Any, gain: Any, entry: Any, K: Any, weight: Any, most: Any) -> Any:
    """List the vertices: prices, tight conditions (resource, or resources + arc), signs; and whether all were found.

    ``K`` is divided by the limits, so that every limit is 1.
    """
    n, m = K.shape
    prices = np.zeros((most, n))
    tights = np.zeros((most, n), np.int64)
    signs = np.zeros((most, m), np.int8)
    size = 1
    while size < 4 * most:
        size *= 2
    slots = np.zeros(size, np.uint64)
    const, grad = np.zeros(m), np.zeros((m, n))
    sign, live = np.zeros(m, np.int8), np.zeros(m, np.bool_)
    A, d = np.zeros((n, n)), np.zeros(n)
    fresh = np.zeros(n, np.int64)
    count = 1
    # The first vertex: free hosts, so nothing is dropped.
    forms(start, reader, gain, K, weight, sign, -1, const, grad)
    for a in range(m - 1, -1, -1):
        const[a] = weight[a]
        for e in range(start[a], start[a + 1]):
            if const[reader[e]] > 0:
                const[a] += gain[e] * const[reader[e]]
        signs[0, a] = 1 if const[a] > 0 else -1
    for i in range(n):
        tights[0, i] = i
    alive(start, reader, entry, signs[0], -1, live)
    h = key_of(tights[0], signs[0], live)
    slots[np.int64(h % np.uint64(size))] = h
    complete = True
    done = 0
    while done < count:
        for released in range(n):
            k = tights[done, released]
            for side in (1, -1):
                if k < n and side < 0:
                    continue
                up = k - n if k >= n and side > 0 else -1
                down = k - n if k >= n and side < 0 else -1
                sign[:] = signs[done]
                alive(start, reader, entry, sign, down, live)
                forms(start, reader, gain, K, weight, sign, up, const, grad)
                usable = True
                for j in range(n):
                    c = tights[done, j]
                    d[j] = side if j == released else 0.0
                    if c < n:
                        for i in range(n):
                            A[j, i] = 0.0
                        A[j, c] = 1.0
                    else:
                        if j != released and not live[c - n]:
                            usable = False
                        for i in range(n):
                            A[j, i] = grad[c - n, i]
                if not usable or not solve(A, d, n):
                    continue
                at = prices[done].copy()
                hit = -1
                for _ in range(4 * m + 4):
                    # The next event: a price or a worth reaches 0.
                    best, hit = np.inf, -1
                    for i in range(n):
                        if d[i] < 0 and at[i] > 0:
                            held = False
                            for j in range(n):
                                held = held or tights[done, j] == i
                            if not held and -at[i] / d[i] < best:
                                best, hit = -at[i] / d[i], i
                    for a in range(m):
                        if sign[a] == 0 or max(up, down) == a:
                            continue
                        v, slope = const[a], 0.0
                        for i in range(n):
                            v += grad[a, i] * at[i]
                            slope += grad[a, i] * d[i]
                        if (sign[a] > 0 and slope < 0) or (sign[a] < 0 and slope > 0):
                            t = max(0.0, -v / slope)
                            if t < best:
                                best, hit = t, n + a
                    if hit < 0:
                        break
                    for i in range(n):
                        at[i] = max(0.0, at[i] + best * d[i])
                    if hit < n or live[hit - n]:
                        break
                    # What no tuple reaches bends only the worth of what is dropped before it.
                    sign[hit - n] = -sign[hit - n]
                    forms(start, reader, gain, K, weight, sign, up, const, grad)
                    hit = -1
                if hit < 0:
                    continue
                for j in range(n):
                    fresh[j] = tights[done, j]
                fresh[released] = hit
                if k >= n:
                    sign[k - n] = side
                if hit >= n:
                    sign[hit - n] = 0
                order = np.sort(fresh)
                alive(start, reader, entry, sign, -1, live)
                h = key_of(order, sign, live)
                slot = np.int64(h % np.uint64(size))
                while slots[slot] != 0 and slots[slot] != h:
                    slot = (slot + 1) % size
                if slots[slot] == h:
                    continue
                if count == most:
                    complete = False
                    continue
                slots[slot] = h
                forms(start, reader, gain, K, weight, sign, -1, const, grad)
                for j in range(n):
                    c = order[j]
                    if c < n:
                        for i in range(n):
                            A[j, i] = 0.0
                        A[j, c] = 1.0
                        d[j] = 0.0
                    else:
                        for i in range(n):
                            A[j, i] = grad[c - n, i]
                        d[j] = -const[c - n]
                polished = solve(A, d, n)
                for i in range(n):
                    prices[count, i] = max(0.0, d[i]) if polished else at[i]
                tights[count] = order
                signs[count] = sign
                count += 1
        done += 1
    return prices[:count].copy(), tights[:count].copy(), signs[:count].copy(), complete


@njit(cache=True)
def worth(
    start: Any,
    reader: Any,
    gain: Any,
    entries: Any,
    share: Any,
    K: Any,
    weight: Any,
    prices: Any,
    alpha: Any,
    beta: Any,
) -> Any:
    """Fill ``f = alpha + beta·r`` of each vertex; entry arcs e carry ``share[e]`` of source ``entries[e]``."""
    n, m = K.shape
    v = np.zeros(m)
    for row in range(len(prices)):
        total = 0.0
        for i in range(n):
            total += prices[row, i]
        alpha[row] = total
        for s in range(beta.shape[1]):
            beta[row, s] = 0.0
        for a in range(m - 1, -1, -1):
            v[a] = weight[a]
            for i in range(n):
                v[a] -= K[i, a] * prices[row, i]
            for e in range(start[a], start[a + 1]):
                if v[reader[e]] > 0:
                    v[a] += gain[e] * v[reader[e]]
            if entries[a] >= 0 and v[a] > 0:
                beta[row, entries[a]] += share[a] * v[a]


@njit(**INNER)
def lowest(alpha: Any, beta: Any, r: Any, above: Any) -> Any:
    """Return the row of the least ``alpha + beta·r`` that is greater than ``above``, or -1."""
    best, row = np.inf, -1
    for v in range(len(alpha)):
        f = alpha[v]
        for s in range(len(r)):
            f += beta[v, s] * r[s]
        if f < best and f > above:
            best, row = f, v
    return row, best


@njit(cache=True)
def values(alpha: Any, beta: Any, points: Any, out: Any) -> Any:
    """Fill the optimum at each point."""
    for q in range(len(points)):
        out[q] = lowest(alpha, beta, points[q], -np.inf)[1]


@njit(cache=True)
def primal(
    wstart: Any, writer: Any, wgain: Any, entries: Any, share: Any, K: Any, tight: Any, sign: Any, r: Any, y: Any
) -> Any:
    """Fill the kept rates that belong to a vertex; False if they are not feasible at ``r``."""
    n, m = K.shape
    column = np.zeros((m, n + 1))  # kept rate = column[:, n] + column[:, :n] · unknowns
    offered = np.zeros((m, n + 1))
    bind = np.ones(n, np.bool_)
    unknown = np.full(m, -1)
    for j in range(n):
        if tight[j] < n:
            bind[tight[j]] = False
    free = 0
    for j in range(n):
        if tight[j] >= n:
            unknown[tight[j] - n] = free
            free += 1
    A, b = np.zeros((n, n)), np.zeros(n)
    for a in range(m):
        for j in range(n + 1):
            offered[a, j] = 0.0
        if entries[a] >= 0:
            offered[a, n] = share[a] * r[entries[a]]
        for e in range(wstart[a], wstart[a + 1]):
            for j in range(free):
                offered[a, j] += wgain[e] * column[writer[e], j]
            offered[a, n] += wgain[e] * column[writer[e], n]
        if unknown[a] >= 0:
            column[a, unknown[a]] = 1.0
        elif sign[a] > 0:
            for j in range(free):
                column[a, j] = offered[a, j]
            column[a, n] = offered[a, n]
    row = 0
    for i in range(n):
        if bind[i]:
            b[row] = 1.0
            for a in range(m):
                for j in range(free):
                    A[row, j] += K[i, a] * column[a, j]
                b[row] -= K[i, a] * column[a, n]
            row += 1
    if not solve(A, b, free):
        return False
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
            used += K[i, a] * y[a]
        good = good and used <= 1 + 1e-9
    return good


@njit(cache=True)
def look_up(
    alpha: Any,
    beta: Any,
    wstart: Any,
    writer: Any,
    wgain: Any,
    entries: Any,
    share: Any,
    K: Any,
    tights: Any,
    signs: Any,
    r: Any,
    y: Any,
) -> Any:
    """Fill the optimal kept rates at ``r`` and return the vertex, or -1 where rounding hides the right one."""
    above = -np.inf
    for _ in range(12):
        row, above = lowest(alpha, beta, r, above)
        if row < 0:
            return -1
        if primal(wstart, writer, wgain, entries, share, K, tights[row], signs[row], r, y):
            return row
    return -1
