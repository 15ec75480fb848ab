"""The optimum of the linear program at one point, by HiGHS, warm-started from point to point."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.errors import EngineError
from penstock.shedding.program import Matrix, Program

ROUNDS = 30
"""Linearisations of a time-window join at most; each is feasible, the best is kept."""


class Solver:
    """Solve one program at many points: only the bounds that hold the source rates change."""

    def __init__(self, program: Program) -> None:
        import highspy

        self.program = program
        self._highs: Any = highspy.Highs()
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("presolve", "off")
        self._highs.setOptionValue("solver", "simplex")
        self._highs.setOptionValue("threads", 1)
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._product = {arc: (left, right, factor) for arc, left, right, factor in program.products}
        lp = highspy.HighsLp()
        arcs, resources = program.arcs, len(program.limit)
        matrix = np.vstack([np.eye(arcs) - program.G, program.K])
        # Rows are scaled so that HiGHS' absolute tolerances mean the same whatever the units of cost.
        self._scale = 1.0 / np.where(program.limit > 0, program.limit, 1.0)
        matrix[arcs:] *= self._scale[:, None]
        for arc, left, right, _ in program.products:
            matrix[arc, left] = matrix[arc, right] = -1.0  # a place for the slopes
        lp.num_col_, lp.num_row_ = arcs, arcs + resources
        lp.col_cost_ = -program.weight
        lp.col_lower_, lp.col_upper_ = np.zeros(arcs), np.full(arcs, highspy.kHighsInf)
        lp.row_lower_ = np.full(arcs + resources, -highspy.kHighsInf)
        lp.row_upper_ = np.concatenate([np.zeros(arcs), program.limit * self._scale])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        starts, columns, values = [0], [], []
        for row in matrix:
            filled = np.flatnonzero(row)
            columns.append(filled)
            values.append(row[filled])
            starts.append(starts[-1] + len(filled))
        lp.a_matrix_.start_ = np.array(starts, np.int32)
        lp.a_matrix_.index_ = np.concatenate(columns).astype(np.int32) if columns else np.zeros(0, np.int32)
        lp.a_matrix_.value_ = np.concatenate(values) if values else np.zeros(0)
        self._highs.passModel(lp)
        self._lower = np.full(arcs, -highspy.kHighsInf)
        self._entry = np.flatnonzero(program.S.any(axis=1)).astype(np.int32)

    def solve(self, rates: Matrix) -> Matrix:
        """Return the kept rates of an optimal plan, array (arcs,).

        A time-window join is linearised about the last solution (from the full rates on) until the score no longer
        grows; every round is feasible, because a plan is cut down to what the true join puts out.
        """
        program = self.program
        if not program.products:
            return self._repaired(rates, self._linear(rates))
        best = np.zeros(program.arcs)
        for start in (1.0, 0.5, 0.1):
            about = start * program.flow(rates)
            for _ in range(ROUNDS):
                for arc, (left, right, factor) in self._product.items():
                    self._highs.changeCoeff(arc, left, -factor * about[right])
                    self._highs.changeCoeff(arc, right, -factor * about[left])
                offset = np.zeros(program.arcs)
                for arc, (left, right, factor) in self._product.items():
                    offset[arc] = -factor * about[left] * about[right]
                y = self._repaired(rates, self._linear(rates, offset))
                better = program.score(y) > program.score(best) * (1 + 1e-12)
                if better:
                    best = y
                if np.allclose(y, about, rtol=1e-9, atol=1e-12):
                    break
                about = y
        return best

    def _linear(self, rates: Matrix, offset: Matrix | None = None) -> Matrix:
        bound = self.program.S @ rates
        rows = self._entry
        if offset is not None:
            bound = bound + offset
            # The tangent of a product passes below 0 near the axes, where nothing but 0 would satisfy it.
            rows = np.arange(self.program.arcs, dtype=np.int32)
        for row in rows:
            self._highs.changeRowBounds(int(row), float(self._lower[row]), float(bound[row]))
        self._highs.run()
        if self._highs.getModelStatus() != self._optimal:
            if offset is not None:
                return np.zeros(self.program.arcs)
            raise EngineError(f"the linear program was not solved: {self._highs.getModelStatus()}")
        return np.array(self._highs.getSolution().col_value)

    def _repaired(self, rates: Matrix, y: Matrix) -> Matrix:
        return repaired(self.program, rates, y)


def repaired(program: Program, rates: Matrix, y: Matrix) -> Matrix:
    """Return kept rates that are exactly feasible: cut to what arrives, and down by the solver's tolerance."""
    y = np.maximum(y, 0.0)
    y = program.limited(rates, lambda arc, offered: min(y[arc], offered))
    used = program.K @ y
    over = float(np.max(used / program.limit, initial=0.0))
    if over <= 1:
        return y
    y = y / over
    return program.limited(rates, lambda arc, offered: min(y[arc], offered)) if program.products else y
