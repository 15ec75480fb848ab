"""Solver: a quadtree whose cells differ from the optimum by the promised error at most (Tatbul et al. section 5.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InputError
from penstock.shedding.division import Allowance
from penstock.shedding.quadtree import Cells
from penstock.shedding.tables import PlanTable

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
    if exact.program.products and question.budget is None:
        # Each cell takes linear programs, and near the axes pairs fall faster than cells can be halved.
        raise InputError(
            "solver may never be done with a time-window join",
            at="--planner",
            hint="use exact or solver-w, or give it a --budget",
        )
    allowance = Allowance(question)
    cells = Cells.of(exact, question.upto)
    leaves = np.zeros(1, np.int64)
    while True:
        waiting = leaves[cells.error[leaves] > error]
        reached = float(cells.error[waiting].max(initial=error))
        total, wave = len(cells.child), 1 if question.budget is None else WAVE
        count = allowance.left(total, math.ceil(len(waiting) / wave))
        if count == 0:
            break
        worst = waiting[np.argsort(-cells.error[waiting], kind="stable")[:count]]
        cells.divide(exact, np.sort(worst))
        leaves = np.concatenate([leaves[cells.child[leaves] < 0], np.arange(total, len(cells.child))])
    return cells.plans.table(question, "solver", cells.child, cells.row, reached)
