"""Solver and Solver-W: the space of rates divided by a region quadtree (Tatbul et al. section 5)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.native.jit import kernel
from penstock.shedding.exact import Exact
from penstock.shedding.grid import KERNEL
from penstock.shedding.program import TOLERANCE, Matrix, Program
from penstock.shedding.tables import PlanTable, fingerprint

if TYPE_CHECKING:
    from penstock.shedding.planners import Question

MOST_CELLS = 3_000_000
WAVE = 8
"""The cells divided together are an eighth of those that wait: the ones with the greatest error."""


@attrs.define(eq=False)
class Cells:
    """A region quadtree that grows: cells by number.

    Attributes
    ----------
    low, high
        Arrays (cells, sources): corners (tuples/s).
    child
        Array (cells,): the first of the cells that a cell is divided into, -1 for a leaf.
    error
        Array (cells,): what the optimum differs by within the cell at most, 0 where everything fits.
    over
        Array (cells,): whether something in the cell does not fit.
    """

    low: Matrix
    high: Matrix
    child: NDArray[np.int64]
    error: Matrix
    over: NDArray[np.bool_]

    @classmethod
    def of(cls, exact: Exact, upto: Matrix) -> Cells:
        """Return one cell: the whole region."""
        low, high = np.zeros((1, len(upto))), np.asarray(upto, float)[None]
        error, over = _errors(exact, low, high)
        return cls(low, high, np.full(1, -1), error, over)

    def divide(self, exact: Exact, cells: NDArray[np.int64]) -> None:
        """Divide leaves into halves of every dimension."""
        dims, total = self.low.shape[1], len(self.child)
        grown = total + len(cells) * (1 << dims)
        _bounded(grown)
        self.child[cells] = total + np.arange(len(cells)) * (1 << dims)
        corners = np.array([[(k >> s) & 1 for s in range(dims)] for k in range(1 << dims)], float)
        half = (self.high[cells] - self.low[cells]) / 2
        low = (self.low[cells][:, None, :] + corners[None] * half[:, None, :]).reshape(-1, dims)
        high = low + np.repeat(half, 1 << dims, axis=0)
        error, over = _errors(exact, low, high)
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        self.child = np.concatenate([self.child, np.full(grown - total, -1)])
        self.error, self.over = np.concatenate([self.error, error]), np.concatenate([self.over, over])


def _errors(exact: Exact, low: Matrix, high: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return the greatest error of each cell, and whether something in it does not fit."""
    full = full_load(exact.program)
    over = ~full(high)
    top = np.where(over, exact.values(high), 1.0)
    bottom = np.where(full(low), full_score(exact.program, low), exact.values(low))
    loss = np.where(top > 0, 1 - bottom / np.where(top > 0, top, 1.0), 0.0)
    return np.where(over, np.maximum(loss, 0.0), 0.0), over


def build_solver(question: Question) -> PlanTable:
    """Divide the cells of the greatest error until it is at most the promised one, or time is up (section 5.1).

    The cells wait in order of their error and are divided in waves of the worst; the greatest error of those that wait
    is what a table that is stopped then keeps.
    """
    exact, error = question.exact, question.error
    begun = question.clock()
    cells = Cells.of(exact, question.upto)
    leaves = np.zeros(1, np.int64)
    while True:
        waiting = leaves[cells.error[leaves] > error]
        if not len(waiting):
            reached = error
            break
        reached = float(cells.error[waiting].max())
        if question.budget is not None and question.clock() - begun >= question.budget:
            break
        count = len(waiting) if question.budget is None else max(1, len(waiting) // WAVE)
        worst = waiting[np.argsort(-cells.error[waiting], kind="stable")[:count]]
        total = len(cells.child)
        cells.divide(exact, np.sort(worst))
        leaves = np.concatenate([leaves[cells.child[leaves] < 0], np.arange(total, len(cells.child))])
    planned = np.flatnonzero((cells.child < 0) & cells.over)
    return _tree(question, "solver", cells.child, planned, cells.low[planned], max(reached, error))


def build_solver_w(question: Question) -> PlanTable:
    """Divide the cell of the greatest expected error until their sum is at most the error (section 5.2)."""
    exact, dims = question.exact, len(question.upto)
    full = full_load(exact.program)
    corners = np.array([[(k >> s) & 1 for s in range(dims)] for k in range(1 << dims)], float)
    child = [-1]
    waiting: list[tuple[float, int, Matrix, Matrix]] = []
    expected = 0.0

    def enter(ids: list[int], low: Matrix, high: Matrix) -> None:
        nonlocal expected
        over = ~full(high)
        top = exact.values(high)
        bottom = np.where(full(low), full_score(exact.program, low), exact.values(low))
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
    return _tree(question, "solver-w", np.array(child), leaves, low, question.error)


def _tree(
    question: Question, name: str, child: NDArray[np.int64], leaves: NDArray[np.int64], low: Matrix, error: float
) -> PlanTable:
    """Return the table of a quadtree: a plan for the lower corner of each leaf where something does not fit."""
    program = question.exact.program
    row = np.full(len(child), -1, np.int64)
    row[leaves] = np.arange(len(leaves))
    plans = np.zeros((len(leaves), program.arcs))
    for k, point in enumerate(low):
        plans[k] = question.exact.plan(point)
    arrays = {"child": child.astype(np.int64), "row": row, "plans": plans}
    return PlanTable(name, fingerprint(program), np.asarray(question.upto, float), error, len(leaves), arrays)


def _bounded(cells: int) -> None:
    if cells > MOST_CELLS:
        raise InputError(
            f"the quadtree would need more than {MOST_CELLS} cells",
            at="--planner",
            hint="take a larger --error, a smaller --upto, or --planner exact; solver also takes a --budget",
        )


def corners(table: PlanTable) -> tuple[Matrix, Matrix, NDArray[np.bool_]]:
    """Return the lower and upper corners of a quadtree's cells, arrays (cells, sources), and which are leaves."""
    child, dims = table.arrays["child"], len(table.upto)
    low, high = np.zeros((len(child), dims)), np.tile(table.upto, (len(child), 1))
    unit = np.array([[(k >> s) & 1 for s in range(dims)] for k in range(1 << dims)], float)
    at = np.zeros(1, np.int64)
    while len(at := at[child[at] >= 0]):
        below = child[at][:, None] + np.arange(1 << dims)
        half = ((high[at] - low[at]) / 2)[:, None]
        low[below] = low[at][:, None] + unit * half
        high[below] = low[below] + half
        at = below.ravel()
    return low, high, child < 0


def descend(program: Program, table: PlanTable) -> Callable[[Matrix], Matrix]:
    """Return the look-up of a quadtree: the plan of the cell that holds the rates."""
    child, rows, plans = (table.arrays[name] for name in ("child", "row", "plans"))
    code = kernel(KERNEL, child.size)

    def plan(rates: Matrix) -> Matrix:
        row = rows[code.descend(child, np.zeros(len(rates)), table.upto, rates)]
        kept: Matrix = plans[row].copy() if row >= 0 else np.zeros(program.arcs)
        return kept

    return plan


def full_load(program: Program) -> Callable[[Matrix], NDArray[np.bool_]]:
    """Return a test of many points at once: does everything fit?"""
    if program.products:
        return lambda points: np.array([program.feasible(program.flow(point)) for point in points])
    flow = np.linalg.solve(np.eye(program.arcs) - program.G, program.S)
    load, limit = program.K @ flow, program.limit * (1 + TOLERANCE) + 1e-15
    return lambda points: np.asarray(np.all(points @ load.T <= limit, axis=1))


def full_score(program: Program, points: Matrix) -> Matrix:
    """Return the score of each point when nothing is dropped."""
    return (
        np.array([program.score(program.flow(point)) for point in points])
        if program.products
        else points @ (program.weight @ np.linalg.solve(np.eye(program.arcs) - program.G, program.S))
    )


def _chance(question: Question, low: Matrix, high: Matrix) -> Matrix:
    """Probability of each cell under the workload, cut to the region."""
    upto = np.where(question.upto > 0, question.upto, 1.0)
    a, b = low / upto, high / upto
    if question.scale is not None:
        most = -np.expm1(-1 / question.scale)
        a, b = -np.expm1(-a / question.scale) / most, -np.expm1(-b / question.scale) / most
    return np.asarray(np.prod(np.where(question.upto > 0, b - a, 1.0), axis=1))
