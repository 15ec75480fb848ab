# mypy: disable-error-code="no-any-return"
"""Hill climbing on the worst of Mace, compiled: moves and swaps away from the bottleneck host."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.placement.jit import njit


@njit(cache=True)
def worst(load: Any, capacity: float, period: float) -> float:
    """Return the largest cumulative excess of a series, over capacity (s)."""
    excess = most = 0.0
    for t in range(len(load)):
        excess = max(0.0, excess + load[t] - capacity)
        most = max(most, excess)
    return most * period / capacity


WIDTH = 16
"""Operators that are tried at a time."""
CHUNK = 32


@njit(cache=True, fastmath={"contract", "nsz", "nnan"})
def _tried(base: Any, rows: Any, sign: float, count: int, capacity: float, stop: float, out: Any) -> bool:
    """Fill ``out`` with the worst excess of a base load plus (or minus) each of the rows, array (d, WIDTH).

    One loop over periods for all of them, since each period needs the one before. False as soon as none of the first
    ``count`` stays below ``stop``.
    """
    # Of a size that the compiler does not know: a loop that it would unroll is not made into one over vectors.
    d, width = rows.shape
    excess = np.zeros(width)
    most = np.zeros(width)
    for start in range(0, d, CHUNK):
        for t in range(start, min(start + CHUNK, d)):
            room = base[t] - capacity
            for i in range(width):
                # Comparisons, not max(): these become one instruction for several operators.
                now = excess[i] + (room + sign * rows[t, i])
                now = now if now > 0.0 else 0.0
                excess[i] = now
                most[i] = now if now > most[i] else most[i]
        least = np.inf
        for i in range(count):
            least = min(least, most[i])
        if least >= stop:
            return False
    out[:] = most
    return True


@njit(cache=True)
def climb(
    load: Any, mean: Any, capacity: Any, usable: Any, movable: Any, where: Any, period: float, bound: float,
    steps: int, targets: int,
) -> float:  # fmt: skip
    """Climb to a local optimum; ``where`` changes in place.

    Each step takes the bottleneck host and makes the move, or else the swap, after which the worse of the two hosts
    is best; first among the ``targets`` best hosts, then among all. Stops at the bound or when nothing helps.

    Returns
    -------
    float
        The worst latency (s).
    """
    m, d = load.shape
    n = len(capacity)
    host = np.zeros((n, d))
    level = np.zeros(n)
    for o in range(m):
        host[where[o]] += load[o]
        level[where[o]] += mean[o]
    latency = np.empty(n)
    for h in range(n):
        latency[h] = worst(host[h], capacity[h], period)
    limit = np.maximum(usable, level) * (1 + 1e-9)
    left = np.empty(WIDTH)
    right = np.empty(WIDTH)
    base = np.empty(d)
    for _ in range(steps):
        b = int(np.argmax(latency))
        now = latency[b]
        if now <= bound * (1 + 1e-9) + 1e-12:
            break
        inside = np.nonzero((where == b) & movable & (mean > 0.0))[0]
        # The operators of the bottleneck, WIDTH at a time, one column each.
        groups = (len(inside) + WIDTH - 1) // WIDTH
        rows = np.zeros((groups, d, WIDTH))
        for i in range(len(inside)):
            for t in range(d):
                rows[i // WIDTH, t, i % WIDTH] = load[inside[i], t]
        order = np.argsort(latency + level / capacity * 1e-6)
        best = now * (1 - 1e-9)
        move, target, partner = -1, -1, -1
        stay = np.empty((groups, WIDTH))
        for g in range(groups):
            count = min(WIDTH, len(inside) - g * WIDTH)
            if not _tried(host[b], rows[g], -1.0, count, capacity[b], best * capacity[b] / period, stay[g]):
                stay[g] = np.inf
        for wide in range(2):
            first, last = (0, min(targets, n)) if wide == 0 else (min(targets, n), n)
            for j in range(first, last):
                h = order[j]
                if h == b or latency[h] >= best:
                    continue
                for g in range(groups):
                    count = min(WIDTH, len(inside) - g * WIDTH)
                    if not _tried(host[h], rows[g], 1.0, count, capacity[h], best * capacity[h] / period, right):
                        continue
                    for i in range(count):
                        o = inside[g * WIDTH + i]
                        if level[h] + mean[o] <= limit[h]:
                            value = max(stay[g, i] * period / capacity[b], right[i] * period / capacity[h])
                            if value < best:
                                best, move, target = value, o, h
                if wide and move >= 0:
                    break
            if move >= 0:
                break
        if move < 0 or best > 0.98 * now:
            # No move helps much: swaps, host by host, until one helps.
            for j in range(n):
                h = order[j]
                if h == b or latency[h] >= best:
                    continue
                others = np.nonzero((where == h) & movable)[0]
                for q in range(len(others)):
                    p = others[q]
                    for g in range(groups):
                        count = min(WIDTH, len(inside) - g * WIDTH)
                        for t in range(d):
                            base[t] = host[b, t] + load[p, t]
                        if not _tried(base, rows[g], -1.0, count, capacity[b], best * capacity[b] / period, left):
                            continue
                        for t in range(d):
                            base[t] = host[h, t] - load[p, t]
                        if not _tried(base, rows[g], 1.0, count, capacity[h], best * capacity[h] / period, right):
                            continue
                        for i in range(count):
                            o = inside[g * WIDTH + i]
                            change = mean[o] - mean[p]
                            if level[h] + change > limit[h] or level[b] - change > max(limit[b], level[b]):
                                continue
                            value = max(left[i] * period / capacity[b], right[i] * period / capacity[h])
                            if value < best:
                                best, move, target, partner = value, o, h, p
                if partner >= 0 and (best < 0.9 * now or j >= targets):
                    break
        if move < 0:
            break
        for t in range(d):
            change = load[move, t] - (load[partner, t] if partner >= 0 else 0.0)
            host[b, t] -= change
            host[target, t] += change
        change = mean[move] - (mean[partner] if partner >= 0 else 0.0)
        level[b] -= change
        level[target] += change
        where[move] = target
        if partner >= 0:
            where[partner] = b
        latency[b] = worst(host[b], capacity[b], period)
        latency[target] = worst(host[target], capacity[target], period)
    return latency.max()
