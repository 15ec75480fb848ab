"""Distributed feasible input tables (Tatbul et al. sections 6 and 7): each host makes its own from what it was told.

A host's table holds rates of its own inputs that its subtree can take, each with the score that the subtree then
delivers and, where the host has splits, what it drops there. It is made from the host's own streams, what the parent
said before (`Limits`) and the rows of its children, and from nothing else.

The promise. The grids at the ends of a tree round an optimal plan's rates down by at most the spread, and mapping rows
back, the greatest rate at a split and combining tables lose nothing more. Pairs at a merge and the pruning of similar
rows cost another round each. If a tree needed n rounds, its tables are made again with a spread that leaves
``(1 - spread) ** n`` within the promise; a fifth of the error pays for rates below the smallest of the grids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.native.jit import kernel
from penstock.shedding import grid, local, merge
from penstock.shedding.hosts import (
    HostPart,
    Limits,
    Profile,
    carried,
    greatest_rates,
    one_to_one,
    worth_of,
)
from penstock.shedding.merge import Partial
from penstock.shedding.messages import Rows
from penstock.shedding.program import Matrix

MOST_GRID = 60_000_000
"""Grid points that a host looks at."""
BLOCK = 100_000


@attrs.frozen(eq=False)
class Made:
    """A host's table as it made it: the rows, and for each the kept rates of its streams.

    Attributes
    ----------
    rows
        What the parent gets.
    kept
        Array (rows, arcs), or (rows, 0) where a row is reached by dropping at the inputs alone.
    """

    rows: Rows
    kept: Matrix


def make_rows(
    part: HostPart, profile: Profile, limits: Limits, below: Mapping[str, Profile], told: Mapping[str, Rows]
) -> Made:
    """Make one host's table.

    Parameters
    ----------
    part, profile, limits
        Of the host.
    below, told
        Profiles and rows of its children.

    Raises
    ------
    TooLarge
        If the table, or one on the way to it, has too many rows.
    """
    if not part.children:
        return _at_leaf(part, profile, limits)
    if limits.tree is not None and len(part.children) == 1:
        [child] = part.children
        to = carried(part, below[child], profile.inputs, part.flow(np.eye(len(part.inputs))))
        if one_to_one(part, to):
            return _mapped_back(part, profile, to, told[child])
    return _merged(part, profile, limits, below, told)


def smallest(limits: Limits, worth: float) -> float:
    """Return the smallest rate that a grid needs, of tuples of the given worth."""
    if worth <= 0:
        return np.inf
    return limits.tail * limits.least / (limits.grids * worth)


def _at_leaf(part: HostPart, profile: Profile, limits: Limits) -> Made:
    worth, count = profile.worth, len(part.inputs)
    order = local.drop_order(part, part.weight)
    if part.plain and limits.tree is not None:
        group, factor = grid.groups(limits.tree, worth)
        first = [int(np.flatnonzero(group == g)[0]) for g in range(group.max(initial=-1) + 1)]
        load = np.ascontiguousarray(limits.tree[:, first])
        tops = np.bincount(group, weights=factor * limits.greatest, minlength=len(first))
        heaviest = load.max(axis=0)
        tops = np.where(heaviest > 0, np.minimum(tops, 1 / np.where(heaviest > 0, heaviest, 1.0)), tops)
        small = np.array([smallest(limits, worth[s]) for s in first])
        levels, counts = _grids(np.where(worth[first] > 0, tops, 0.0), small, limits.spread)
        points = grid.boundary(levels, counts, load)
        return Made(_rows(part, profile, (group, factor), points, points @ worth[first], small), np.zeros((0, 0)))
    tops = np.minimum(limits.greatest, local.greatest_useful(part, order))
    small = np.array([smallest(limits, value) for value in worth])
    if count == 1 and limits.tree is not None and worth[0] > 0 and tops[0] * limits.tree.max() > 1:
        # Nothing that overloads the tree is below its grid, so that no error need be kept for the tail.
        error = limits.spread + limits.tail
        rates = grid.rungs(float(tops[0]), 1 / float(limits.tree.max()), error)
        points, kept = _planned(part, order, limits, *grid.stacked([rates]), small)
        score = points @ worth if part.plain else kept @ part.weight
        levels, counts = grid.stacked([np.append(grid.even(points[:, 0], score, error), 0.0)])
    else:
        levels, counts = _grids(np.where(worth > 0, tops, 0.0), small, limits.spread)
    points, kept = _planned(part, order, limits, levels, counts, small)
    identity = np.arange(count), np.ones(count)
    if part.plain:
        return Made(_rows(part, profile, identity, points, points @ worth, small), np.zeros((0, 0)))
    return Made(_rows(part, profile, identity, points, kept @ part.weight, small), kept)


def _grids(tops: Matrix, small: Matrix, spread: float) -> tuple[Matrix, NDArray[np.int64]]:
    return grid.stacked([grid.ladder(float(top), float(least), spread) for top, least in zip(tops, small, strict=True)])


def _planned(
    part: HostPart, order: local.DropOrder, limits: Limits, levels: Matrix, counts: NDArray[np.int64], small: Matrix
) -> tuple[Matrix, Matrix]:
    """Return the grid points that need no drop at an input, with the kept rates of their local plans."""
    total = math.prod(counts.tolist())
    if total > MOST_GRID:
        raise grid.TooLarge(f"the grid of host {part.host} has more than {MOST_GRID:,} points")
    code = kernel("penstock.shedding.fit_kernel", total * len(part.arcs) * (len(part.arcs) + len(part.inputs)))
    host = code.Arcs(part.S, part.G, part.cost, order.arcs, order.load)
    found, plans, rows = [], [], 0
    for start in range(0, total, BLOCK):
        index = np.unravel_index(np.arange(start, min(start + BLOCK, total)), tuple(counts))
        points = np.stack([levels[s][at] for s, at in enumerate(index)], axis=1)
        if limits.tree is not None:
            # Every source of the tree is seen here: what all hosts take together, one step up, no overload needs.
            above = np.maximum(points / (1 - limits.spread), np.where(np.isfinite(small), small, 0.0))
            points = points[(above @ limits.tree.T > 1).any(axis=1)]
        kept, whole = np.zeros((len(points), len(part.arcs))), np.zeros(len(points), bool)
        code.local_plans(host, points, kept, whole)
        found.append(points[whole])
        plans.append(kept[whole] if not part.plain else np.zeros((int(whole.sum()), 0)))
        rows += int(whole.sum())
        grid.countable(rows)
    return np.concatenate(found), np.concatenate(plans)


def _rows(
    part: HostPart,
    profile: Profile,
    columns: tuple[NDArray[np.int64], Matrix],
    points: Matrix,
    score: Matrix,
    small: Matrix,
) -> Rows:
    if not len(points):
        points, score = np.zeros((1, points.shape[1])), np.zeros(1)
    return Rows(part.host, profile.inputs, columns[0], columns[1], points, score, small, 1)


def _mapped_back(part: HostPart, profile: Profile, to: Matrix, rows: Rows) -> Made:
    """Map an only child's rows to the inputs that they come from, and leave out those that overload the host."""
    at = np.argmax(to, axis=0)
    group, factor = rows.group[at], rows.factor[at] * to.max(axis=0)
    load = np.append(part.cost @ part.flow(np.eye(len(part.inputs))), np.zeros(len(at) - len(part.inputs)))
    each = np.zeros(rows.points.shape[1])
    np.maximum.at(each, group, load / factor)
    fits = rows.points @ each <= merge.FULL
    made = attrs.evolve(
        rows, host=part.host, inputs=profile.inputs, group=group, factor=factor,
        points=rows.points[fits], score=rows.score[fits],
    )  # fmt: skip
    return Made(made, np.zeros((0, 0)))


def _merged(
    part: HostPart, profile: Profile, limits: Limits, below: Mapping[str, Profile], told: Mapping[str, Rows]
) -> Made:
    """Map the children's rows, and grids for the host's own sinks, back through its operators, and combine them."""
    worth, most, offers = worth_of(part, below), greatest_rates(part, limits), _offers(part)
    tables = [_of(told[child], len(part.arcs)) for child in part.children]
    for arc in np.flatnonzero(part.weight > 0).tolist():
        small = smallest(limits, float(part.weight[arc]))
        rates = grid.ladder(float(most[arc]), small, limits.spread)
        name = part.streams[arc]
        tables.append(
            merge.table_of((name,), rates[:, None], rates * part.weight[arc], np.array([small]), 1, len(part.arcs))
        )
    tables = [_settled(part, table, offers) for table in tables]
    for name, reads, _ in reversed(part.operators):
        out = f"<{name}>"
        mine = [table for table in tables if out in table.dims]
        tables = [table for table in tables if out not in table.dims]
        if mine:
            whole = _all(mine, limits.spread, len(part.arcs))
            inputs = []
            for gain, arc in sorted(zip(_gains(part, name).tolist(), reads, strict=True)):
                rates = grid.ladder(float(most[arc]), smallest(limits, float(worth[arc])), limits.spread)
                inputs.append((part.streams[arc], gain, rates))
            tables.append(_settled(part, merge.paired(whole, out, inputs, limits.spread), offers))
    return _finished(part, profile, limits, _all(tables, limits.spread, len(part.arcs)))


def _gains(part: HostPart, operator: str) -> Matrix:
    """Return what an operator puts out, on its fullest stream, per tuple of each of its inputs, array (inputs,)."""
    _, reads, writes = next(row for row in part.operators if row[0] == operator)
    return np.asarray(part.G[np.ix_(writes, reads)].max(axis=0, initial=0.0))


def _offers(part: HostPart) -> dict[str, tuple[int, str, float]]:
    """Return for each stream its arc, what offers its tuples (an operator or an input), and the share it gets."""
    found = {}
    for operator, reads, writes in part.operators:
        gains = _gains(part, operator)
        for arc in writes:
            best = int(np.argmax(gains)) if len(reads) else 0
            share = float(part.G[arc, reads[best]] / gains[best]) if len(reads) and gains[best] > 0 else 0.0
            found[part.streams[arc]] = (arc, f"<{operator}>", share)
    for arc in np.flatnonzero(part.S.any(axis=1)).tolist():
        at = int(np.argmax(part.S[arc]))
        found[part.streams[arc]] = (arc, part.inputs[at], float(part.S[arc, at]))
    return found


def _settled(part: HostPart, table: Partial, offers: Mapping[str, tuple[int, str, float]]) -> Partial:
    """Turn the rates of streams into rates of what offers them; a split needs the greatest."""
    open_ = {name for name in table.dims if name in offers}
    for name in sorted(open_):
        arc, offered, share = offers[name]
        table = merge.settled(table, name, arc, float(part.cost[arc]), offered, share)
    return table


def _of(rows: Rows, arcs: int) -> Partial:
    """Return a child's rows as a table; columns are inputs, since nothing is grouped where hosts branch."""
    return merge.table_of(rows.inputs, rows.points, rows.score, rows.small, rows.rounds, arcs)


def _all(tables: list[Partial], spread: float, arcs: int) -> Partial:
    """Combine tables, the smallest first."""
    whole = merge.table_of((), np.zeros((1, 0)), np.zeros(1), np.zeros(0), 0, arcs)
    for table in sorted(tables, key=len):
        whole = merge.combined(whole, table, spread)
    return whole


def _finished(part: HostPart, profile: Profile, limits: Limits, whole: Partial) -> Made:
    for name in profile.inputs:
        if name not in whole.dims:
            whole = merge.joined_zero(whole, name)
    whole = merge.pruned(whole, limits.spread, loads=False)
    if limits.tree is not None and np.isfinite(limits.least):
        # No overload is worth less than the least, so rows far below it answer none.
        enough = (1 - limits.spread) ** whole.rounds * limits.least - limits.tail * limits.least
        chosen = whole.rows(whole.score >= enough * (1 - 1e-9))
        whole = chosen if len(chosen) else whole
    grid.countable(len(whole))
    columns = [whole.dims.index(name) for name in profile.inputs]
    count = len(columns)
    rows = Rows(
        part.host, profile.inputs, np.arange(count), np.ones(count),
        np.ascontiguousarray(whole.rates[:, columns]), whole.score, whole.small[columns], whole.rounds,
    )  # fmt: skip
    return Made(rows, whole.kept)
