"""Solver: a quadtree whose cells differ from the optimum by the promised error at most (Tatbul et al. section 5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.shedding.program import Matrix
from penstock.shedding.quadtree import Cells
from penstock.shedding.tables import PlanTable, fingerprint

if TYPE_CHECKING:
    from penstock.shedding.planners import Question


WAVE = 8
"""The cells divided together are an eighth of those that wait: the ones with the greatest error."""


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
    return table_of(question, "solver", cells.child, planned, cells.low[planned], max(reached, error))


def table_of(
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
