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


@njit(cache=True)
def _changed(host: Any, plus: Any, minus: Any, sign: int, capacity: float, period: float, limit: float) -> float:
    """Return the worst of a host that gains one series and loses another; infinite as soon as it reaches the limit.

    ``sign``: 1 only gains, -1 only loses, 0 both.
    """
    excess = most = 0.0
    stop = limit * capacity / period
    for t in range(len(host)):
        if sign == 0:
            excess += host[t] + plus[t] - minus[t] - capacity
        elif sign > 0:
            excess += host[t] + plus[t] - capacity
        else:
            excess += host[t] - minus[t] - capacity
        if excess > most:
            most = excess
            if most >= stop:
                return np.inf
        elif excess < 0.0:
            excess = 0.0
    return most * period / capacity


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
    none = load[0] if m else np.zeros(d)
    for _ in range(steps):
        b = int(np.argmax(latency))
        now = latency[b]
        if now <= bound * (1 + 1e-9) + 1e-12:
            break
        inside = np.nonzero((where == b) & movable)[0]
        order = np.argsort(latency + level / capacity * 1e-6)
        goal = now * (1 - 1e-9)
        best = goal
        move, target, partner = -1, -1, -1
        for wide in range(2):
            first, last = (0, min(targets, n)) if wide == 0 else (min(targets, n), n)
            for i in range(len(inside)):
                o = inside[i]
                if mean[o] == 0.0:
                    continue
                left = _changed(host[b], none, load[o], -1, capacity[b], period, best)
                if left == np.inf:
                    continue
                for j in range(first, last):
                    h = order[j]
                    if h == b or latency[h] >= best or level[h] + mean[o] > limit[h]:
                        continue
                    value = max(left, _changed(host[h], load[o], none, 1, capacity[h], period, best))
                    if value < best:
                        best, move, target, partner = value, o, h, -1
                if wide and move >= 0:
                    break
            if move >= 0:
                break
        if move < 0 or best > 0.98 * now:
            # No move helps much: swaps, host by host, until one helps.
            found = move >= 0
            for j in range(n):
                h = order[j]
                if h == b or latency[h] >= best:
                    continue
                others = np.nonzero((where == h) & movable)[0]
                for i in range(len(inside)):
                    o = inside[i]
                    for q in range(len(others)):
                        p = others[q]
                        if level[h] + mean[o] - mean[p] > limit[h] or level[b] + mean[p] - mean[o] > max(
                            limit[b], level[b]
                        ):
                            continue
                        left = _changed(host[b], load[p], load[o], 0, capacity[b], period, best)
                        if left == np.inf:
                            continue
                        right = _changed(host[h], load[o], load[p], 0, capacity[h], period, best)
                        if right == np.inf:
                            continue
                        best, move, target, partner = max(left, right), o, h, p
                        found = True
                if found and partner >= 0 and (best < 0.9 * now or j >= targets):
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
