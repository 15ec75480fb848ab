"""The space of rates divided by a region quadtree (Tatbul et al. section 5): its cells, their errors, the look-up."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from penstock.arrays import Bools, Ints
from penstock.native.jit import kernel
from penstock.shedding.division import CornerPlans, unit
from penstock.shedding.exact import Exact
from penstock.shedding.grid import KERNEL
from penstock.shedding.program import TOLERANCE, Matrix, Program
from penstock.shedding.shapes import check_range, check_shapes, damaged
from penstock.shedding.tables import PlanTable

TREE = {"child": ("i", "cells"), "row": ("i", "cells"), "plans": ("f", "plans", "arcs")}
"""Arrays of a quadtree's table."""


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
    row
        Array (cells,): of the plan of the cell's lower corner, -1 where everything fits.
    plans
        Of these corners.
    """

    low: Matrix
    high: Matrix
    child: Ints
    error: Matrix
    over: Bools
    row: Ints
    plans: CornerPlans

    @classmethod
    def of(cls, exact: Exact, upto: Matrix) -> Cells:
        """Return one cell: the whole region."""
        low, high = np.zeros((1, len(upto))), np.asarray(upto, float)[None]
        error, over = _errors(exact, low, high)
        plans, child = CornerPlans(exact), np.full(1, -1)
        return cls(low, high, child, error, over, plans.rows(low, over, child), plans)

    def divide(self, exact: Exact, cells: Ints) -> None:
        """Divide leaves into halves of every dimension that has an extent."""
        corners, total = unit(self.high[0]), len(self.child)
        fan, dims = corners.shape
        grown = total + len(cells) * fan
        self.child[cells] = total + np.arange(len(cells)) * fan
        half = (self.high[cells] - self.low[cells]) / 2
        low = (self.low[cells][:, None, :] + corners[None] * half[:, None, :]).reshape(-1, dims)
        high = low + np.repeat(half, fan, axis=0)
        error, over = _errors(exact, low, high)
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        self.child = np.concatenate([self.child, np.full(grown - total, -1)])
        self.error, self.over = np.concatenate([self.error, error]), np.concatenate([self.over, over])
        shared = np.full((len(cells), fan), -1)
        shared[:, 0] = self.row[cells]
        self.row = np.concatenate([self.row, self.plans.rows(low, over, shared.ravel())])


def _errors(exact: Exact, low: Matrix, high: Matrix) -> tuple[Matrix, Bools]:
    """Return the greatest error of each cell, and whether something in it does not fit."""
    full = full_load(exact.program)
    over = ~full(high)
    top = np.where(over, exact.values(high), 1.0)
    bottom = np.where(full(low), full_score(exact.program, low), exact.values(low))
    loss = np.where(top > 0, 1 - bottom / np.where(top > 0, top, 1.0), 0.0)
    return np.where(over, np.maximum(loss, 0.0), 0.0), over


def corners(table: PlanTable) -> tuple[Matrix, Matrix, Bools]:
    """Return the lower and upper corners of a quadtree's cells, arrays (cells, sources), and which are leaves."""
    child, dims = table.arrays["child"], len(table.upto)
    low, high = np.zeros((len(child), dims)), np.tile(table.upto, (len(child), 1))
    halves = unit(table.upto)
    at = np.zeros(1, np.int64)
    while len(at := at[child[at] >= 0]):
        below = child[at][:, None] + np.arange(len(halves))
        half = ((high[at] - low[at]) / 2)[:, None]
        low[below] = low[at][:, None] + halves * half
        high[below] = low[below] + half
        at = below.ravel()
    return low, high, child < 0


def descend(program: Program, table: PlanTable) -> Callable[[Matrix], Matrix]:
    """Return the look-up of a quadtree: the plan of the cell that holds the rates."""
    child, rows, plans = (table.arrays[name] for name in ("child", "row", "plans"))
    code, axes = kernel(KERNEL, child.size), table.upto > 0
    sizes = check_shapes(table.arrays, TREE, arcs=program.arcs)
    check_range(table.arrays, "child", -1, max(0, sizes["cells"] - (1 << int(np.count_nonzero(axes))) + 1))
    check_range(table.arrays, "row", -1, sizes["plans"])
    # Cells are made after what they are halves of.
    if not sizes["cells"] or ((child >= 0) & (child <= np.arange(len(child)))).any():
        raise damaged("child")
    none = np.zeros(np.count_nonzero(axes))

    def plan(rates: Matrix) -> Matrix:
        row = rows[code.descend(child, none, table.upto[axes], rates[axes])]
        kept: Matrix = plans[row].copy() if row >= 0 else np.zeros(program.arcs)
        return kept

    return plan


def full_load(program: Program) -> Callable[[Matrix], Bools]:
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
