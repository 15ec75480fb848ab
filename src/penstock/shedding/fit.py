"""The central feasible input table (Tatbul et al. section 6), made at one place for all hosts.

A table holds source rates that every host can take, on a geometric grid that includes 0. Overload is scaled down to
the best point below it. Of the grid only the rim is kept: points that fit while the next point up in every coordinate
does not; any overloaded point has the best grid point below it, or one as good, among them.

The promise: rounding the optimal rates down the grid loses at most 0.8 of the error by its spread, and what falls
below the smallest rate of the grid is worth at most 0.2 of the error of the least optimum that any overload can have
(concave in the rates, so it is at the end of an axis).

Where streams split or merge, points may be feasible only with complementary local plans. They are the greedy ones of
section 6.2.2 (`penstock.shedding.greedy`; where no host reads from another, `penstock.shedding.trees`). Where no greedy
order is known, they are those of the linear program: the merged tables of section 6.3 can be a thousand times as large
as the grid.

Sources that differ only in scale (same hosts, same worth per load) count as one input, as section 8.2.4 advises.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Numbers
from penstock.errors import InputError
from penstock.shedding.exact import Exact
from penstock.shedding.greedy import Greedy
from penstock.shedding.grid import (
    TooLarge,
    affordable,
    best_below,
    boundary,
    countable,
    even,
    groups,
    indexed,
    ladder,
    listable,
    rungs,
    stacked,
)
from penstock.shedding.hosts import HostPart
from penstock.shedding.program import Matrix, Program
from penstock.shedding.shapes import check_index, check_range, check_shapes

TRYING = 5.0
"""How long (s) to look for an error for which tables fit."""


def plain(program: Program) -> bool:
    """Whether no stream branches, so that dropping at the sources is optimal."""
    branches = (program.G > 0).sum(axis=0).max(initial=0) > 1
    return not branches and bool(((program.S > 0).sum(axis=0) <= 1).all())


def linear(program: Program) -> None:
    """Refuse joins with a time window."""
    if program.products:
        raise InputError("c-fit needs a linear network, got a time-window join", at="--planner", hint="use exact")


def plain_table(exact: Exact, error: float) -> dict[str, Numbers]:
    """Build the table of all hosts of a network without splits.

    Returns
    -------
    dict
        ``points`` (points, inputs), ``score``, the index, ``group`` and ``factor`` of each source; a source that loads
        nothing has the factor 0, and nothing of it is dropped.
    """
    levels, counts, load, worth, group, factor = plain_grid(exact, error)
    try:
        points = boundary(levels, counts, load)
    except TooLarge as large:
        raise TooLarge(large.problem, smallest_error(exact, error)) from None
    return indexed(points, points @ worth, {}) | {"group": group, "factor": factor}


def smallest_error(exact: Exact, error: float) -> str:
    """Return advice: the smallest error, to 1 %, for which a table without splits fits, if it is soon found."""
    begun, small, fits = time.perf_counter(), int(100 * error), 100
    while fits - small > 1 and time.perf_counter() - begun < TRYING:
        percent = (small + fits) // 2
        levels, counts, load, *_ = plain_grid(exact, percent / 100)
        try:
            listable(levels, counts, load)
            fits = percent
        except TooLarge:
            small = percent
    if fits == 100:
        return "take --planner exact, which needs no grid"
    found = "is the smallest that fits" if fits - small == 1 else "fits"
    return f"--error {fits / 100:g} {found}; --planner exact needs no grid"


def plain_grid(
    exact: Exact, error: float
) -> tuple[Matrix, NDArray[np.int64], Matrix, Matrix, NDArray[np.int64], Matrix]:
    """Return levels, counts, load and worth of the merged inputs, and how sources are merged into them."""
    load, worth = _totals(exact.program)
    group, factor = groups(load, worth)
    factor = np.where(load.any(axis=0), factor, 0.0)
    first = [int(np.flatnonzero(group == g)[0]) for g in range(group.max(initial=-1) + 1)]
    load, worth = np.ascontiguousarray(load[:, first]), worth[first]
    levels, counts = _grid(load, worth, _least(exact, load, first), error)
    return levels, counts, load, worth, group, factor


class Plans(Protocol):
    """Optimal plans at any rates: `Exact`, or `Greedy` where its order is optimal."""

    program: Program

    def plans(self, points: Matrix) -> Matrix:
        """Return the kept rates at each point, array (points, sources) to array (points, arcs)."""

    def values(self, points: Matrix) -> Matrix:
        """Return the score at each point, array (points, sources) to array (points,)."""


def local_plans(exact: Exact, upto: Matrix, parts: Mapping[str, HostPart] | None = None) -> Plans:
    """Return the greedy plans, or where no greedy order is known to be optimal, those of the linear program."""
    try:
        return Greedy(exact.program, upto, parts)
    except InputError:
        return exact


def planned_table(plans: Plans, upto: Matrix, error: float) -> dict[str, Numbers]:
    """Build the table of a network with splits on any hosts, with a complementary plan at each point.

    Returns
    -------
    dict
        As `plain_table`, and ``plans`` (points, arcs).
    """
    program = plans.program
    load, worth = _totals(program)
    sources = load.shape[1]
    if sources == 1 and worth[0] > 0 and load.max() > 0:
        falling = rungs(float(upto[0]), 1 / float(load.max()), error)
        rates = falling[: max(1, len(falling) - 1)]  # without the last, 0, unless it is all
        return _kept(plans, even(rates, plans.values(rates[:, None]), error)[:, None])
    levels, counts = _grid(load, worth, _least(plans, load, list(range(sources))), error, upto)
    affordable(counts, 1)
    countable(int(np.prod(counts.astype(float))))
    grids = np.meshgrid(*(levels[s, : counts[s]] for s in range(sources)), indexing="ij")
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    fits = np.all(points @ load.T <= 1, axis=1)
    score = np.where(fits, points @ worth, plans.values(points)).reshape(counts)
    useless = np.stack([_same_below(score, s) for s in range(sources)])
    # An overload between a point and the next one up in every coordinate is rounded down to the point, or, where a
    # source can be lowered without loss, to the one below.
    steps = np.indices(tuple(counts)) - 1
    up = [np.where(at >= 0, levels[s][np.maximum(at, 0)], upto[s] * 2 + 1) for s, at in enumerate(steps)]
    asked = (np.stack([rate.ravel() for rate in up], axis=1) @ load.T > 1).any(axis=1).reshape(counts)
    for _ in range(sum(counts)):
        before = asked.sum()
        for s in range(sources):
            view, passes = np.moveaxis(asked, s, 0), np.moveaxis(useless[s], s, 0)
            for k in range(counts[s] - 1):
                view[k + 1] |= view[k] & passes[k]
        if asked.sum() == before:
            break
    chosen = (asked & ~useless.any(axis=0)).ravel()
    if not chosen.any():
        chosen[-1] = True
    return _kept(plans, points[chosen])


def _kept(plans: Plans, points: Matrix) -> dict[str, Numbers]:
    """Return the table of chosen points."""
    kept, sources = plans.plans(points), points.shape[1]
    table = indexed(points, kept @ plans.program.weight, {"plans": kept})
    return table | {"group": np.arange(sources), "factor": np.ones(sources)}


def _same_below(score: Matrix, source: int) -> NDArray[np.bool_]:
    """Return from which grid points a source can be lowered by a step without loss."""
    along = np.moveaxis(score, source, 0)
    found = np.zeros(along.shape, bool)
    found[:-1] = along[1:] >= along[:-1] * (1 - 1e-12)
    return np.moveaxis(found, 0, source)


def check_arrays(program: Program, arrays: Mapping[str, Numbers]) -> None:
    """Refuse a table that is damaged."""
    plans = {"plans": ("f", "points", "arcs")} if "plans" in arrays else {}
    expected = {"group": ("i", "sources"), "factor": ("f", "sources"), **plans}
    check_index(arrays, **check_shapes(arrays, expected, sources=len(program.sources), arcs=program.arcs))
    check_range(arrays, "group", 0, arrays["points"].shape[1])


def fit_plan(program: Program, arrays: Mapping[str, Numbers], rates: Matrix) -> Matrix:
    """Scale overloaded rates down to the best point below them; return kept rates, array (arcs,)."""
    group, factor = arrays["group"], arrays["factor"]
    inputs = arrays["points"].shape[1]
    merged = np.asarray(np.bincount(group, weights=factor * rates, minlength=inputs), float)
    row = best_below(arrays, merged)
    if row < 0:
        return np.zeros(program.arcs)
    if "plans" in arrays:
        kept: Matrix = arrays["plans"][row].copy()
        return kept
    share = np.divide(arrays["points"][row], merged, out=np.zeros(inputs), where=merged > 0)
    return program.flow(rates * np.where(factor > 0, np.minimum(1.0, share[group]), 1.0))


def _totals(program: Program) -> tuple[Matrix, Matrix]:
    """Return load of each resource (its limit is 1) and worth per tuple of each source, when nothing is dropped."""
    flow = np.linalg.solve(np.eye(program.arcs) - program.G, program.S)
    return np.ascontiguousarray(program.K @ flow / program.limit[:, None]), program.weight @ flow


def _least(plans: Plans, load: Matrix, sources: list[int]) -> float:
    """Return a lower bound of the optimum at any overloaded point: its least at the ends of the axes."""
    points = []
    for column, s in enumerate(sources):
        for row in load[:, column]:
            if row > 0:
                point = np.zeros(len(plans.program.sources))
                point[s] = 1 / row
                points.append(point)
    scores = plans.values(np.array(points)) if points else np.zeros(0)
    return float(scores[scores > 0].min(initial=math.inf))


def _grid(
    load: Matrix, worth: Matrix, least: float, error: float, upto: Matrix | None = None
) -> tuple[Matrix, NDArray[np.int64]]:
    """Return the falling rates of each input, ending with 0, and how many there are (section 6.2.1)."""
    columns: list[Matrix] = []
    for s in range(len(worth)):
        heaviest = float(load[:, s].max(initial=0.0))
        top = (1 / heaviest if heaviest > 0 else 0.0) if upto is None else float(upto[s])
        if worth[s] <= 0 or top <= 0 or not math.isfinite(least):
            columns.append(np.zeros(1))
            continue
        columns.append(ladder(top, 0.2 * error * least / (len(worth) * worth[s]), 0.8 * error))
    return stacked(columns)
