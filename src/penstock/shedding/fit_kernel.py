"""Loops of the feasible input tables, compiled where it pays (references: `local.local_plan`, `merge.undominated`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Bools, Ints
from penstock.native.jit import njit


class Arcs(NamedTuple):
    """A host's share of a program (see `penstock.shedding.hosts.HostPart`), and in which order its arcs drop.

    ``order`` lists arcs by what they earn per load, ``load`` what a kept tuple saves when its arc's turn comes.
    """

    S: Array
    G: Array
    cost: Array
    order: Ints
    load: Array


class Side(NamedTuple):
    """Rows of one of two tables that are put together.

    ``cells`` (rows, dims) are their cells in all dims, -1 where the table does not have the dim.
    """

    cells: Ints
    load: Array
    score: Array


class Cells(NamedTuple):
    """How rates and loads are divided into cells: ``sizes`` (dims,) says how many a dim has.

    A load lies in cell ``1 + floor(log(load) / step) - least``, and in 0 where there is none.
    """

    sizes: Ints
    step: float
    least: int


@njit(cache=True)
def local_plans(host: Arcs, points: Array, y: Array, whole: Bools) -> None:
    """Fill the kept rates of the greedy local plan at each point (section 6.2.2).

    ``whole[p]`` says that no input need be cut: each has an arc that drops nothing.
    """
    S, G, cost, order, load = host.S, host.G, host.cost, host.order, host.load
    arcs, inputs = S.shape
    keep = np.ones(arcs)
    for p in range(len(points)):
        keep[:] = 1.0
        turn = 0
        while True:
            used = 0.0
            for a in range(arcs):
                rate = 0.0
                for s in range(inputs):
                    rate += S[a, s] * points[p, s]
                for b in range(a):
                    if G[a, b] > 0.0:
                        rate += G[a, b] * y[p, b]
                y[p, a] = keep[a] * rate
                used += cost[a] * y[p, a]
            if used <= 1.0 + 1e-12 or turn == len(order):
                break
            while turn < len(order) and y[p, order[turn]] * load[turn] <= 0.0:
                keep[order[turn]] = 0.0
                turn += 1
            if turn == len(order):
                continue
            saved = y[p, order[turn]] * load[turn]
            keep[order[turn]] = max(0.0, 1.0 - (used - 1.0) / saved)
            turn += 1
        whole[p] = True
        for s in range(inputs):
            if points[p, s] > 0.0:
                uncut = False
                for a in range(arcs):
                    uncut = uncut or (S[a, s] > 0.0 and keep[a] == 1.0)
                whole[p] = whole[p] and uncut


@njit(cache=True)
def undominated(price: Array, score: Array, best_first: Ints, most: int, keep: Bools) -> bool:
    """Mark rows that no other beats: nowhere higher in price, and at least its score; any number of prices.

    False where that takes more than ``most`` comparisons.
    """
    kept = np.zeros(len(score), np.int64)
    count, work = 0, 0
    for row in best_first:
        beaten = False
        work += count
        if work > most:
            return False
        for k in range(count):
            other = kept[k]
            beaten = True
            for d in range(price.shape[1]):
                if price[other, d] > price[row, d]:
                    beaten = False
                    break
            if beaten:
                break
        if not beaten:
            kept[count] = row
            count += 1
            keep[row] = True
    return True


@njit(cache=True)
def undominated_pair(rank: Ints, score: Array, keep: Bools) -> None:
    """Mark what `undominated` marks for two prices: rows come in order of the first, ``rank`` orders the second."""
    size = len(rank)
    tree = np.full(size + 1, -np.inf)
    for row in range(size):
        best = -np.inf
        k = rank[row] + 1
        while k > 0:
            best = max(best, tree[k])
            k -= k & -k
        if score[row] > best:
            keep[row] = True
            k = rank[row] + 1
            while k <= size:
                tree[k] = max(tree[k], score[row])
                k += k & -k


@njit(cache=True)
def best_pairs(one: Side, other: Side, grid: Cells, slots: int) -> tuple[Ints, Ints, bool]:
    """Return of all pairs of rows that fit the best in each cell (plain reference: `merge.similar` of all pairs).

    A pair has the greater cell of both in each dim.

    Parameters
    ----------
    slots
        Room for so many cells, a power of 2.

    Returns
    -------
    first, second, ok
        The pairs, and whether there was room.
    """
    loads, other_loads, sizes = one.load, other.load, grid.sizes
    keys = np.full(slots, -1, np.int64)
    best = np.zeros(slots)
    where = np.zeros((slots, 2), np.int64)
    count = 0
    dims = len(sizes)
    for i in range(len(loads)):
        for j in range(len(other_loads)):
            load = loads[i] + other_loads[j]
            if load > 1.0 + 1e-12:
                continue
            key = np.int64(0)
            if load > 0.0:
                key = 1 + np.int64(np.floor(np.log(load) / grid.step)) - grid.least
            for d in range(dims):
                key = key * sizes[d] + max(one.cells[i, d], other.cells[j, d])
            score = one.score[i] + other.score[j]
            slot = (key * np.int64(-7046029254386353131) >> 20) & (slots - 1)
            while keys[slot] != -1 and keys[slot] != key:
                slot = (slot + 1) & (slots - 1)
            if keys[slot] == -1:
                count += 1
                if 2 * count > slots:
                    return where[:0, 0], where[:0, 1], False
                keys[slot] = key
                best[slot] = score
                where[slot, 0], where[slot, 1] = i, j
            elif score > best[slot]:
                best[slot] = score
                where[slot, 0], where[slot, 1] = i, j
    used = keys != -1
    return where[used, 0], where[used, 1], True


@njit(cache=True)
def thinned(G: Array, cost: Array, ends: Array, worth: Array, kept: Array) -> None:
    """Thin what a host keeps at each point, arcs by what they earn per load, until it fits; see `greedy.thinned`.

    ``kept`` holds, for each point, the rates with nothing dropped, and is overwritten.
    """
    arcs = len(cost)
    q, load, gain, start = np.zeros(arcs), np.zeros(arcs), np.zeros(arcs), np.zeros(arcs)
    slack = np.zeros(arcs, np.bool_)
    for p in range(len(kept)):
        y = kept[p]
        slack[:] = False
        while True:
            used = 0.0
            for a in range(arcs - 1, -1, -1):
                used += cost[a] * y[a]
                at = 0
                while ends[a, at] < y[a] / (1.0 + 1e-12):
                    at += 1
                q[a], load[a] = worth[a, at], cost[a]
                start[a] = ends[a, at - 1] if at > 0 else 0.0
                for k in range(a + 1, arcs):
                    if G[k, a] > 0.0 and not slack[k]:
                        q[a] += G[k, a] * q[k]
                        load[a] += G[k, a] * load[k]
            if used <= 1.0 + 1e-12:
                break
            arc, least = -1, np.inf
            for a in range(arcs):
                if y[a] > 0.0 and load[a] > 0.0 and q[a] / load[a] < least:
                    arc, least = a, q[a] / load[a]
            by = min((used - 1.0) / load[arc], y[arc])
            gain[:] = 0.0
            gain[arc] = 1.0
            for k in range(arc, arcs):
                falls, offered = 0.0, 0.0
                for a in range(k):
                    falls += G[k, a] * gain[a]
                    offered += G[k, a] * y[a]
                if k != arc and not slack[k]:
                    gain[k] = falls
                if gain[k] > 0.0:
                    by = min(by, (y[k] - start[k]) / gain[k])
                elif slack[k] and y[k] > 0.0 and falls > 0.0:
                    by = min(by, (offered - y[k]) / falls)
            # At least a little, so that rounding cannot make it stand still.
            y[arc] = max(0.0, y[arc] - max(by, 1e-13 * y[arc]))
            slack[arc] = True
            for k in range(arc + 1, arcs):
                falls, offered = 0.0, 0.0
                for a in range(arc, k):
                    falls += G[k, a] * gain[a]
                for a in range(k):
                    offered += G[k, a] * y[a]
                if falls > 0.0:
                    slack[k] = slack[k] and (y[k] < offered * (1.0 - 1e-12) or y[k] == 0.0)
                    y[k] = min(y[k], offered) if slack[k] else offered
