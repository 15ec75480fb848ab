"""Solver-W: the expected error of a quadtree's cells is at most the promised one (Tatbul et al. section 5.2)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from penstock.shedding.division import Allowance, CornerPlans, unit
from penstock.shedding.program import Matrix
from penstock.shedding.quadtree import full_load, full_score
from penstock.shedding.tables import PlanTable

if TYPE_CHECKING:
    from penstock.shedding.planners import Question


def build_solver_w(question: Question) -> PlanTable:
    """Divide the cell of the greatest expected error until the sum is at most the error, or time is up (5.2)."""
    allowance = Allowance(question)
    exact, dims = question.exact, len(question.upto)
    plans = CornerPlans(exact)
    full = full_load(exact.program)
    child, row = [-1], list[int]()
    waiting: list[tuple[float, int, Matrix, Matrix]] = []
    expected = 0.0

    def enter(ids: list[int], low: Matrix, high: Matrix, shared: int = -1) -> None:
        nonlocal expected
        over = ~full(high)
        row.extend(plans.rows(low, over, np.array([shared] + [-1] * (len(ids) - 1))).tolist())
        top = exact.values(high)
        bottom = np.where(full(low), full_score(exact.program, low), exact.values(low))
        chance = _chance(question, low, high)
        for k, node in enumerate(ids):
            if over[k]:
                loss = max(0.0, 1 - bottom[k] / top[k]) if top[k] > 0 else 0.0
                expected += chance[k] * loss
                heapq.heappush(waiting, (-chance[k] * loss, node, low[k], high[k]))

    enter([0], np.zeros((1, dims)), question.upto[None, :].astype(float))
    corners: Matrix | None = None
    while waiting and expected > question.error and allowance.left(len(child), 1):
        # Not before there is room for them: of many sources there are too many.
        corners = unit(question.upto) if corners is None else corners
        loss, node, low, high = heapq.heappop(waiting)
        expected += loss
        child[node] = len(child)
        ids = list(range(len(child), len(child) + len(corners)))
        child.extend([-1] * len(corners))
        half = (high - low) / 2
        enter(ids, low + corners * half, low + corners * half + half, row[node])
    return plans.table(question, "solver-w", np.array(child), np.array(row), max(expected, question.error))


def _chance(question: Question, low: Matrix, high: Matrix) -> Matrix:
    """Probability of each cell under the workload, cut to the region."""
    upto = np.where(question.upto > 0, question.upto, 1.0)
    a, b = low / upto, high / upto
    if question.scale is not None:
        most = -np.expm1(-1 / question.scale)
        a, b = -np.expm1(-a / question.scale) / most, -np.expm1(-b / question.scale) / most
    return np.asarray(np.prod(np.where(question.upto > 0, b - a, 1.0), axis=1))
