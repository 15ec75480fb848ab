"""The planners: each builds a table, and looks rates up in it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.shedding.baselines import input_only, random_drop
from penstock.shedding.exact import DualTable, Exact
from penstock.shedding.fit import build_c_fit, build_d_fit, fit_plan
from penstock.shedding.program import TOLERANCE, Matrix, Program
from penstock.shedding.tables import PlanTable, fingerprint

MOST_CELLS = 3_000_000


@attrs.frozen(eq=False)
class Question:
    """What a planner is asked.

    Attributes
    ----------
    exact
        The program and its optimum.
    upto
        Array (sources,): the region is 0..upto (tuples/s).
    error
        Promised share of the optimum that may be lost.
    scale
        Of an exponential workload (mean rate as a share of ``upto``), for ``solver-w``; None: uniform.
    """

    exact: Exact
    upto: Matrix
    error: float = 0.05
    scale: float | None = None


class Planner(Protocol):
    """Build a table for a question."""

    def __call__(self, question: Question) -> PlanTable:
        """Return the table."""
        ...


def build_exact(question: Question) -> PlanTable:
    """Keep the dual vertices: optimal everywhere."""
    table = question.exact.table
    arrays: dict[str, Any] = {"alpha": table.alpha, "beta": table.beta, "tights": table.tights, "signs": table.signs}
    arrays["complete"] = np.array([int(table.complete)])
    return _table(question, "exact", len(table), arrays, 1e-6)


def build_solver(question: Question) -> PlanTable:
    """Divide the region until the optimum differs by at most the error within each cell (section 5.1)."""
    exact, error = question.exact, question.error
    dims = len(question.upto)
    low, high = np.zeros((1, dims)), question.upto[None, :].astype(float)
    ids = np.zeros(1, np.int64)
    child: list[NDArray[np.int64]] = [np.full(1, -1)]
    total = 1
    plans: list[Matrix] = []
    rows: list[tuple[NDArray[np.int64], int]] = []
    full = _full_load(exact.program)
    count = 0
    while len(ids):
        over = ~full(high)
        low, high, ids = low[over], high[over], ids[over]
        if not len(ids):
            break
        top, bottom = exact.values(high), exact.values(low)
        bottom = np.where(full(low), _full_score(exact.program, low), bottom)
        done = top - bottom <= error * top
        if done.any():
            plans.append(_plans(exact, low[done]))
            rows.append((ids[done], count))
            count += int(done.sum())
        low, high, ids = low[~done], high[~done], ids[~done]
        total = _split(child, ids, total, dims)
        low, high, ids = _quarters(low, high, child, ids, dims)
    return _tree(question, "solver", child, rows, plans, count)


def build_solver_w(question: Question) -> PlanTable:
    """Divide the cell of the greatest expected error until their sum is at most the error (section 5.2)."""
    exact, dims = question.exact, len(question.upto)
    full = _full_load(exact.program)
    corners = np.array([[(k >> s) & 1 for s in range(dims)] for k in range(1 << dims)], float)
    child = [-1]
    waiting: list[tuple[float, int, Matrix, Matrix]] = []
    expected = 0.0

    def enter(ids: list[int], low: Matrix, high: Matrix) -> None:
        nonlocal expected
        over = ~full(high)
        top = exact.values(high)
        bottom = np.where(full(low), _full_score(exact.program, low), exact.values(low))
        chance = _chance(question, low, high)
        for k, node in enumerate(ids):
            if over[k]:
                loss = max(0.0, 1 - bottom[k] / top[k]) if top[k] > 0 else 0.0
                expected += chance[k] * loss
                heapq.heappush(waiting, (-chance[k] * loss, node, low[k], high[k]))

    enter([0], np.zeros((1, dims)), question.upto[None, :].astype(float))
    while waiting and expected > question.error:
        loss, node, low, high = heapq.heappop(waiting)
        expected += loss
        child[node] = len(child)
        ids = list(range(len(child), len(child) + (1 << dims)))
        child.extend([-1] * (1 << dims))
        _bounded(len(child))
        half = (high - low) / 2
        enter(ids, low + corners * half, low + corners * half + half)
    waiting.sort(key=lambda cell: cell[1])
    low = np.array([cell[2] for cell in waiting]).reshape(-1, dims)
    leaves = np.array([cell[1] for cell in waiting], np.int64)
    return _tree(question, "solver-w", [np.array(child)], [(leaves, 0)], [_plans(exact, low)], len(leaves))


def build_formula(name: str) -> Planner:
    """Return the builder of a baseline: there is nothing to prepare."""

    def build(question: Question) -> PlanTable:
        return _table(question, name, 0, {}, 1.0)

    return build


def build_fit(question: Question) -> PlanTable:
    """c-fit; see `penstock.shedding.fit`."""
    arrays = build_c_fit(question.exact, question.upto, question.error)
    return _table(question, "c-fit", len(arrays["points"]), arrays, question.error)


def build_distributed(question: Question) -> PlanTable:
    """d-fit; see `penstock.shedding.fit`."""
    arrays = build_d_fit(question.exact, question.upto, question.error)
    return _table(question, "d-fit", int(arrays["sizes"].sum()), arrays, question.error)


PLANNERS: dict[str, Planner] = {
    "exact": build_exact,
    "solver": build_solver,
    "solver-w": build_solver_w,
    "c-fit": build_fit,
    "d-fit": build_distributed,
    "random-drop": build_formula("random-drop"),
    "input-only": build_formula("input-only"),
}
"""The names on the command line (``replica`` plans by copies: `penstock.shedding.replica`)."""


def build_table(planner: str, question: Question) -> PlanTable:
    """Build the table of a planner by its name."""
    return PLANNERS[planner](question)


class LookUp:
    """A table in use: rates in, kept rates out.

    Raises
    ------
    InputError
        If the table was made for another program.
    """

    def __init__(self, program: Program, table: PlanTable) -> None:
        self.program, self.table = program, table.check(program)
        self._exact: Exact | None = None
        arrays = table.arrays
        try:
            if table.planner == "exact":
                dual = DualTable(
                    arrays["alpha"], arrays["beta"], arrays["tights"], arrays["signs"], bool(arrays["complete"][0])
                )
                self._exact = Exact(program, dual)
            elif table.planner not in PLANNERS:
                raise InputError(f"the plan table has the unknown planner {table.planner!r}")
        except KeyError as error:
            raise InputError(f"the plan table is damaged: {error} is missing") from None

    def plan(self, rates: Matrix) -> Matrix:
        """Return the kept rate of each arc, array (arcs,): everything where everything fits.

        Raises
        ------
        InputError
            If the rates are outside the table's region.
        """
        rates = np.asarray(rates, float)
        self.table.within(rates, self.program.sources)
        full = self.program.flow(rates)
        if self.program.feasible(full):
            return full
        name, arrays = self.table.planner, self.table.arrays
        if self._exact is not None:
            return self._exact.plan(rates)
        if name == "random-drop":
            return random_drop(self.program, rates)
        if name == "input-only":
            return input_only(self.program, rates)
        if name in ("c-fit", "d-fit"):
            return fit_plan(self.program, arrays, rates)
        from penstock.shedding import kernels

        leaf = kernels.descend(arrays["child"], np.zeros(len(rates)), self.table.upto, rates)
        row = arrays["row"][leaf]
        kept: Matrix = arrays["plans"][row].copy() if row >= 0 else np.zeros(self.program.arcs)
        return kept


def _table(question: Question, name: str, entries: int, arrays: dict[str, Any], error: float) -> PlanTable:
    return PlanTable(
        name, fingerprint(question.exact.program), np.asarray(question.upto, float), error, entries, arrays
    )


def _full_load(program: Program) -> Callable[[Matrix], NDArray[np.bool_]]:
    """Return a test of many points at once: does everything fit?"""
    if program.products:
        return lambda points: np.array([program.feasible(program.flow(point)) for point in points])
    flow = np.linalg.solve(np.eye(program.arcs) - program.G, program.S)
    load, limit = program.K @ flow, program.limit * (1 + TOLERANCE) + 1e-15
    return lambda points: np.asarray(np.all(points @ load.T <= limit, axis=1))


def _full_score(program: Program, points: Matrix) -> Matrix:
    return (
        np.array([program.score(program.flow(point)) for point in points])
        if program.products
        else points @ (program.weight @ np.linalg.solve(np.eye(program.arcs) - program.G, program.S))
    )


def _plans(exact: Exact, points: Matrix) -> Matrix:
    out = np.zeros((len(points), exact.program.arcs))
    for k, point in enumerate(points):
        out[k] = exact.plan(point)
    return out


def _bounded(cells: int) -> None:
    if cells > MOST_CELLS:
        raise InputError(
            f"the quadtree would need more than {MOST_CELLS} cells",
            at="--planner",
            hint="take a larger --error, a smaller --upto, or --planner exact",
        )


def _split(child: list[NDArray[np.int64]], ids: NDArray[np.int64], total: int, dims: int) -> int:
    """Give each cell its children, numbered on from ``total``."""
    grown = total + len(ids) * (1 << dims)
    _bounded(grown)
    if len(ids):
        whole = np.concatenate(child)
        whole[ids] = total + np.arange(len(ids)) * (1 << dims)
        child[:] = [whole, np.full(grown - total, -1)]
    return grown


def _quarters(
    low: Matrix, high: Matrix, child: list[NDArray[np.int64]], ids: NDArray[np.int64], dims: int
) -> tuple[Matrix, Matrix, NDArray[np.int64]]:
    if not len(ids):
        return low, high, ids
    first = child[0][ids]
    corners = np.array([[(k >> s) & 1 for s in range(dims)] for k in range(1 << dims)], float)
    half = (high - low) / 2
    lower = (low[:, None, :] + corners[None] * half[:, None, :]).reshape(-1, dims)
    step = np.repeat(half, 1 << dims, axis=0)
    return lower, lower + step, (first[:, None] + np.arange(1 << dims)[None]).ravel()


def _tree(
    question: Question,
    name: str,
    child: list[NDArray[np.int64]],
    rows: list[tuple[NDArray[np.int64], int]],
    plans: list[Matrix],
    count: int,
) -> PlanTable:
    children = np.concatenate(child).astype(np.int64)
    row = np.full(len(children), -1, np.int64)
    for ids, first in rows:
        row[ids] = first + np.arange(len(ids))
    kept = np.concatenate(plans) if plans else np.zeros((0, question.exact.program.arcs))
    return _table(question, name, count, {"child": children, "row": row, "plans": kept}, question.error)


def _chance(question: Question, low: Matrix, high: Matrix) -> Matrix:
    """Probability of each cell under the workload, cut to the region."""
    upto = np.where(question.upto > 0, question.upto, 1.0)
    a, b = low / upto, high / upto
    if question.scale is not None:
        most = -np.expm1(-1 / question.scale)
        a, b = -np.expm1(-a / question.scale) / most, -np.expm1(-b / question.scale) / most
    return np.asarray(np.prod(np.where(question.upto > 0, b - a, 1.0), axis=1))
