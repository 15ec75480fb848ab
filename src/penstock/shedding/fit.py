"""Feasible input tables (Tatbul et al. section 6), central and distributed.

A table holds source rates that every host can take, on a geometric grid that includes 0. Overload is scaled down to
the best point below it. Of the grid only the rim is kept: points that fit while the next point up in every coordinate
does not; any overloaded point has the best grid point below it, or one as good, among them.

The promise: rounding the optimal rates down the grid loses at most 0.8 of the error by its spread, and what falls
below the smallest rate of the grid is worth at most 0.2 of the error of the least optimum that any overload can have
(concave in the rates, so it is at the end of an axis). Where a source feeds several readers, points may be feasible
only with a complementary local plan; it comes from the linear program instead of the paper's greedy ratios.

Sources that differ only in scale (same hosts, same worth per load) count as one input, as section 8.2.4 advises.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock.errors import InputError
from penstock.shedding.exact import Exact
from penstock.shedding.program import Matrix, Program

MOST_POINTS = 6_000_000
MOST_WORK = 4e9
LEAF = 16
"""Points in a leaf of the index."""


def build_c_fit(exact: Exact, upto: Matrix, error: float) -> dict[str, Any]:
    """Build the table of all hosts at once.

    Returns
    -------
    dict
        ``points`` (points, inputs), ``score``, the index, ``group`` and ``factor`` of each source, and ``plans`` where
        local plans are needed.
    """
    from penstock.shedding import kernels

    program = exact.program
    _linear(program, "c-fit")
    if _plain(program):
        load, worth = _totals(program)
        group, factor = _groups(load, worth)
        first = [int(np.flatnonzero(group == g)[0]) for g in range(group.max(initial=-1) + 1)]
        load, worth = load[:, first], worth[first]
        levels, counts = _grid(load, worth, _least(exact, load, first), error)
        _affordable(counts, math.factorial(len(counts)))
        found = kernels.boundary(levels, counts, load, np.zeros((0, len(counts))))
        _fits(found)
        points = np.zeros((found, len(counts)))
        kernels.boundary(levels, counts, load, points)
        return _indexed(points, points @ worth, {"group": group, "factor": factor})
    return _with_plans(exact, upto, error)


def build_d_fit(exact: Exact, upto: Matrix, error: float) -> dict[str, Any]:
    """Build each host's table from its own load and its children's tables, from the leaves to the roots.

    A host knows its load per tuple of each input, its children's rows, and two numbers a source from the first pass
    along the tree: the greatest feasible rate and the smallest rate that matters (the feasibility triangle).

    Raises
    ------
    InputError
        If streams branch, or a host reads from two others: the paper's servers form trees.
    """
    program = exact.program
    _linear(program, "d-fit")
    if not _plain(program):
        raise InputError("d-fit needs streams that do not branch", at="--planner", hint="use c-fit or exact")
    if program.hosts < len(program.limit):
        raise InputError("d-fit knows no limits of links", at="--planner", hint="use c-fit or exact")
    load, worth = _totals(program)
    parent = _parents(program)
    sources = load.shape[1]
    levels, counts = _grid(load, worth, _least(exact, load, list(range(sources))), error)
    greatest = levels[:, 0]
    tables: dict[int, tuple[tuple[int, ...], Matrix]] = {}
    waiting = [host for host in range(program.hosts) if load[host].any()]
    sent = np.zeros(program.hosts, np.int64)
    while waiting:
        ready = [h for h in waiting if not any(parent.get(c) == h for c in waiting)]
        for host in ready:
            children = [c for c in sorted(tables) if parent.get(c) == host]
            known: tuple[int, ...] = tuple(s for c in children for s in tables[c][0])
            rows = np.zeros((1, 0))
            for c in children:
                below = tables[c][1]
                _fits(len(rows) * len(below))
                rows = np.hstack([np.repeat(rows, len(below), axis=0), np.tile(below, (len(rows), 1))])
            own = [s for s in range(sources) if load[host, s] > 0 and s not in known]
            for s in own:
                column = levels[s, : counts[s]]
                _fits(len(rows) * len(column))
                rows = np.hstack([np.repeat(rows, len(column), axis=0), np.tile(column, len(rows))[:, None]])
                known = (*known, s)
                rows = rows[rows @ load[host, list(known)] <= 1 + 1e-9]
            rows = rows[rows @ load[host, list(known)] <= 1 + 1e-9]
            rows = _above_triangle(rows, known, levels, counts, greatest)
            tables[host] = known, rows
            sent[host] = len(rows)
            waiting.remove(host)
    roots = [host for host in sorted(tables) if parent.get(host) is None]
    points = np.zeros((1, 0))
    order: tuple[int, ...] = ()
    for host in roots:
        known, rows = tables[host]
        _fits(len(points) * len(rows))
        points = np.hstack([np.repeat(points, len(rows), axis=0), np.tile(rows, (len(points), 1))])
        order += known
    idle = [s for s in range(sources) if s not in order]
    points = np.hstack([points, np.zeros((len(points), len(idle)))])
    points = points[:, np.argsort([*order, *idle], kind="stable")]
    extra = {"group": np.arange(sources), "factor": np.ones(sources), "sizes": sent}
    return _indexed(points, points @ worth, extra)


def fit_plan(program: Program, arrays: Any, rates: Matrix) -> Matrix:
    """Scale overloaded rates down to the best point below them; return kept rates, array (arcs,)."""
    from penstock.shedding import kernels

    group, factor = arrays["group"], arrays["factor"]
    inputs = arrays["points"].shape[1]
    merged = np.bincount(group, weights=factor * rates, minlength=inputs)
    row = kernels.search(
        arrays["low"], arrays["first"], arrays["last"], arrays["most"], arrays["points"], arrays["score"], merged
    )  # fmt: skip
    if row < 0:
        return np.zeros(program.arcs)
    if "plans" in arrays:
        kept: Matrix = arrays["plans"][row].copy()
        return kept
    share = np.divide(arrays["points"][row], merged, out=np.zeros(inputs), where=merged > 0)
    return program.flow(rates * np.minimum(1.0, share[group]))


def _with_plans(exact: Exact, upto: Matrix, error: float) -> dict[str, Any]:
    program = exact.program
    load, worth = _totals(program)
    sources = load.shape[1]
    levels, counts = _grid(load, worth, _least(exact, load, list(range(sources))), error, upto)
    _affordable(counts, 1)
    _fits(int(np.prod(counts)))
    grids = np.meshgrid(*(levels[s, : counts[s]] for s in range(sources)), indexing="ij")
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    fits = np.all(points @ load.T <= 1, axis=1)
    score = np.where(fits, points @ worth, exact.values(points)).reshape(counts)
    needed = np.ones(tuple(counts), bool)
    for s in range(sources):
        # A point from which a source can be lowered without loss is not needed.
        lower = np.take(score, range(1, counts[s]), axis=s)
        upper = np.take(score, range(counts[s] - 1), axis=s)
        keep = np.ones(tuple(counts), bool)
        view = np.moveaxis(keep, s, 0)
        view[: counts[s] - 1] = np.moveaxis(lower < upper * (1 - 1e-12), s, 0)
        needed &= keep
    points = points[needed.ravel()]
    arrays = _indexed(points, score.ravel()[needed.ravel()], {"group": np.arange(sources), "factor": np.ones(sources)})
    arrays["plans"] = np.array([exact.plan(point) for point in arrays["points"]]).reshape(-1, program.arcs)
    return arrays


def _linear(program: Program, name: str) -> None:
    if program.products:
        raise InputError(f"{name} needs a linear network, got a time-window join", at="--planner", hint="use exact")


def _plain(program: Program) -> bool:
    """Whether no stream branches, so that dropping at the sources is optimal."""
    branches = (program.G > 0).sum(axis=0).max(initial=0) > 1
    return not branches and bool(((program.S > 0).sum(axis=0) <= 1).all())


def _totals(program: Program) -> tuple[Matrix, Matrix]:
    """Return load of each resource (its limit is 1) and worth per tuple of each source, when nothing is dropped."""
    flow = np.linalg.solve(np.eye(program.arcs) - program.G, program.S)
    return np.ascontiguousarray(program.K @ flow / program.limit[:, None]), program.weight @ flow


def _groups(load: Matrix, worth: Matrix) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Matrix]:
    """Number the sources that differ only in scale alike; the factor turns a rate into the first one's."""
    group, factor = np.zeros(len(worth), np.int64), np.ones(len(worth))
    leaders: list[int] = []
    for s in range(len(worth)):
        column = np.append(load[:, s], worth[s])
        for g, first in enumerate(leaders):
            base = np.append(load[:, first], worth[first])
            ratio = column.sum() / base.sum() if base.sum() > 0 else 0.0
            if ratio > 0 and np.allclose(column, ratio * base, rtol=1e-12, atol=0):
                group[s], factor[s] = g, ratio
                break
        else:
            group[s] = len(leaders)
            leaders.append(s)
    return group, factor


def _least(exact: Exact, load: Matrix, sources: list[int]) -> float:
    """Return a lower bound of the optimum at any overloaded point: its least at the ends of the axes."""
    points = []
    for column, s in enumerate(sources):
        for row in load[:, column]:
            if row > 0:
                point = np.zeros(len(exact.program.sources))
                point[s] = 1 / row
                points.append(point)
    scores = exact.values(np.array(points)) if points else np.zeros(0)
    return float(scores[scores > 0].min(initial=math.inf))


def _grid(
    load: Matrix, worth: Matrix, least: float, error: float, upto: Matrix | None = None
) -> tuple[Matrix, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the falling rates of each input, ending with 0, and how many there are (section 6.2.1)."""
    spread = math.log1p(-0.8 * error)
    columns: list[Matrix] = []
    for s in range(len(worth)):
        heaviest = float(load[:, s].max(initial=0.0))
        top = (1 / heaviest if heaviest > 0 else 0.0) if upto is None else float(upto[s])
        if worth[s] <= 0 or top <= 0 or not math.isfinite(least):
            columns.append(np.zeros(1))
            continue
        small = 0.2 * error * least / (len(worth) * worth[s])
        steps = max(0, math.ceil(math.log(small / top) / spread)) if small < top else 0
        columns.append(np.append(top * np.exp(spread * np.arange(steps + 1)), 0.0))
    counts = np.array([len(column) for column in columns], np.int64)
    levels = np.zeros((len(columns), int(counts.max(initial=1))))
    for s, column in enumerate(columns):
        levels[s, : len(column)] = column
    return levels, counts


def _affordable(counts: np.ndarray[Any, np.dtype[np.int64]], share: int) -> None:
    if float(np.prod(counts.astype(float))) / share > MOST_WORK:
        raise InputError(
            f"the grid of {len(counts)} different inputs is too fine to list",
            at="--planner",
            hint="take a larger --error or --planner exact",
        )


def _fits(points: int) -> None:
    if points > MOST_POINTS:
        raise InputError(
            f"the table would need {points} points, more than {MOST_POINTS}",
            at="--planner",
            hint="take a larger --error or --planner exact",
        )


def _above_triangle(
    rows: Matrix, known: tuple[int, ...], levels: Matrix, counts: np.ndarray[Any, np.dtype[np.int64]], most: Matrix
) -> Matrix:
    """Leave out points whose next point up lies where everything is feasible for all hosts (figure 6)."""
    total = np.zeros(len(rows))
    for column, s in enumerate(known):
        if most[s] <= 0:
            continue
        rising = levels[s, : counts[s]][::-1]
        place = np.searchsorted(rising, rows[:, column] * (1 + 1e-12), side="right")
        up = np.where(place < len(rising), rising[np.minimum(place, len(rising) - 1)], np.inf)
        total += up / most[s]
    return rows[total > 1]


def _parents(program: Program) -> dict[int, int]:
    """Return the host that each host reads from."""
    parent: dict[int, int] = {}
    place = [np.flatnonzero(program.K[: program.hosts, arc]) for arc in range(program.arcs)]
    for reader, writer in zip(*np.nonzero(program.G), strict=True):
        for start in place[writer]:
            for end in place[reader]:
                if start != end and parent.setdefault(int(end), int(start)) != start:
                    raise InputError(
                        f"d-fit needs hosts that form a tree, but {program.resources[end]} reads from two hosts",
                        at="--planner",
                        hint="use c-fit or exact",
                    )
    for host in list(parent):
        seen, at = {host}, parent.get(host)
        while at is not None:
            if at in seen:
                raise InputError(
                    "d-fit needs hosts that form a tree, but they feed each other in a circle",
                    at="--planner",
                    hint="use c-fit or exact",
                )
            seen.add(at)
            at = parent.get(at)
    return parent


def _indexed(points: Matrix, score: Matrix, extra: dict[str, Any]) -> dict[str, Any]:
    """Order points by an implicit balanced tree and give each node its box and its best score."""
    count, dims = points.shape
    depth = 0
    while (count >> depth) > LEAF:
        depth += 1
    nodes = (2 << depth) - 1
    first, last = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    order = np.arange(count)
    spans = {0: (0, count)}
    for node in range(nodes):
        a, b = spans.pop(node)
        if node >= nodes // 2:
            first[node], last[node] = a, b
            continue
        part = order[a:b]
        if dims and len(part):
            axis = int(np.argmax(np.ptp(points[part], axis=0) / np.maximum(points.max(axis=0), 1e-300)))
            order[a:b] = part[np.argsort(points[part, axis], kind="stable")]
        middle = (a + b) // 2
        spans[2 * node + 1], spans[2 * node + 2] = (a, middle), (middle, b)
    points, score = np.ascontiguousarray(points[order]), score[order]
    low = np.full((nodes, dims), 1e300)
    most = np.full(nodes, -1.0)
    for node in range(nodes - 1, -1, -1):
        if first[node] >= 0:
            a, b = first[node], last[node]
            if b > a:
                low[node], most[node] = points[a:b].min(axis=0), score[a:b].max()
        else:
            for child in (2 * node + 1, 2 * node + 2):
                low[node] = np.minimum(low[node], low[child])
                most[node] = max(most[node], most[child])
    extra = {name: np.asarray(value) for name, value in extra.items()}
    return {
        "points": points, "score": score, "low": low, "first": first, "last": last, "most": most, **extra,
    }  # fmt: skip
