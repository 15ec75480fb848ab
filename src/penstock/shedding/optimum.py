"""The optimum of the linear program at one point, by HiGHS, warm-started from point to point."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.arrays import Ints
from penstock.errors import EngineError
from penstock.shedding.baselines import input_only
from penstock.shedding.program import Matrix, Program


class Solver:
    """Solve one program at many points: only the bounds that hold the source rates change."""

    def __init__(self, program: Program) -> None:
        import highspy

        self.program = program
        self._highs = highspy.Highs()
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("presolve", "off")
        self._highs.setOptionValue("solver", "simplex")
        self._highs.setOptionValue("threads", 1)
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._product = {arc: (left, right, factor) for arc, left, right, factor in program.products}
        lp = highspy.HighsLp()
        arcs, resources = program.arcs, len(program.limit)
        # Rows are scaled so that HiGHS' absolute tolerances mean the same whatever the units of cost.
        self._scale = 1.0 / np.where(program.limit > 0, program.limit, 1.0)
        lp.num_col_, lp.num_row_ = arcs, arcs + resources
        lp.col_cost_ = -program.weight
        lp.col_lower_, lp.col_upper_ = np.zeros(arcs), np.full(arcs, highspy.kHighsInf)
        lp.row_lower_ = np.full(arcs + resources, -highspy.kHighsInf)
        lp.row_upper_ = np.concatenate([np.zeros(arcs), program.limit * self._scale])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        starts, columns, values = self._rows()
        lp.a_matrix_.start_, lp.a_matrix_.index_ = starts.astype(np.int32), columns.astype(np.int32)
        lp.a_matrix_.value_ = values
        self._highs.passModel(lp)
        self._lower = np.full(arcs, -highspy.kHighsInf)
        self._entry = np.flatnonzero(program.S.any(axis=1)).astype(np.int32)

    def _rows(self) -> tuple[Ints, Ints, Matrix]:
        """Return what is not 0 in the rows, of arcs and then of resources: starts, columns, values."""
        program, arcs = self.program, self.program.arcs
        passed = program.G
        if program.products:
            passed = passed.copy()
            for arc, left, right, _ in program.products:
                passed[arc, left] = passed[arc, right] = 1.0  # a place for the slopes
        (reader, writer), (resource, user) = np.nonzero(passed), np.nonzero(program.K)
        row = np.concatenate([np.arange(arcs), reader, arcs + resource])
        column = np.concatenate([np.arange(arcs), writer, user])
        work = program.K[resource, user] * self._scale[resource]
        value = np.concatenate([np.ones(arcs), -passed[reader, writer], work])
        order = np.lexsort((column, row))
        starts = np.searchsorted(row[order], np.arange(arcs + len(program.limit) + 1))
        return starts, column[order], value[order]

    def solve(self, rates: Matrix) -> Matrix:
        """Return the kept rates of an optimal plan, array (arcs,).

        With time-window joins the program is not linear: from a few feasible plans on, sequential quadratic programming
        climbs to a local optimum. What it finds is made exactly feasible, and scored by the true joins.
        """
        program = self.program
        if not program.products:
            return self._repaired(rates, self._linear(rates))
        starts = [program.flow(share * rates) for share in (1.0, 0.5, 0.1)]
        plans = [self._repaired(rates, self._linear(rates, start)) for start in starts]
        plans.append(input_only(program, rates))
        climbed = [self._at(rates, climb(program, rates, plan)) for plan in plans]
        return max([*plans, *climbed], key=program.score)

    def _at(self, rates: Matrix, about: Matrix) -> Matrix:
        """Return the best kept rates when the inputs of time-window joins keep given rates: a linear program."""
        program = self.program
        about = np.maximum(about, 0.0)
        about = program.limited(rates, lambda arc, offered: min(about[arc], offered))
        inputs = sorted({arc for pair in self._product.values() for arc in pair[:2]})
        for arc in inputs:
            self._highs.changeColBounds(arc, float(about[arc]), float(about[arc]))
        y = self._linear(rates, about, slopes=False)
        for arc in inputs:
            self._highs.changeColBounds(arc, 0.0, np.inf)
        return self._repaired(rates, y)

    def _linear(self, rates: Matrix, about: Matrix | None = None, *, slopes: bool = True) -> Matrix:
        """Solve with time-window joins replaced by their tangents, or by their values, at given rates."""
        bound = self.program.S @ rates
        rows = self._entry
        if about is not None:
            for arc, (left, right, factor) in self._product.items():
                one, other = (factor * about[right], factor * about[left]) if slopes else (0.0, 0.0)
                self._highs.changeCoeff(arc, left, -one)
                self._highs.changeCoeff(arc, right, -other)
                bound[arc] += factor * about[left] * about[right] * (-1.0 if slopes else 1.0)
            # The tangent of a product passes below 0 near the axes, where nothing but 0 would satisfy it.
            rows = np.arange(self.program.arcs, dtype=np.int32)
        for row in rows:
            self._highs.changeRowBounds(int(row), float(self._lower[row]), float(bound[row]))
        self._highs.run()
        if self._highs.getModelStatus() != self._optimal:
            if about is not None:
                return np.zeros(self.program.arcs)
            raise EngineError(f"the linear program was not solved: {self._highs.getModelStatus()}")
        return np.array(self._highs.getSolution().col_value)

    def _repaired(self, rates: Matrix, y: Matrix) -> Matrix:
        return repaired(self.program, rates, y)


def climb(program: Program, rates: Matrix, start: Matrix) -> Matrix:
    """Return kept rates of a local optimum near a feasible plan, feasible up to the solver's tolerance."""
    import scipy.optimize

    minimize: Any = scipy.optimize.minimize
    most = program.flow(rates)
    unit = np.where(most > 0, most, 1.0)
    base, limited = program.S @ rates, np.isfinite(program.limit)
    K = program.K[limited] / program.limit[limited, None]
    worth = program.weight * unit
    worth = worth / max(float(worth.max(initial=0.0)), 1e-300)
    offered = np.eye(program.arcs) - program.G

    def slack(u: Matrix) -> Matrix:
        y = u * unit
        room = base - offered @ y
        for arc, left, right, factor in program.products:
            room[arc] += factor * y[left] * y[right]
        return np.concatenate([room / unit, 1.0 - K @ y])

    def slopes(u: Matrix) -> Matrix:
        y = u * unit
        rows = -offered
        for arc, left, right, factor in program.products:
            rows[arc, left] += factor * y[right]
            rows[arc, right] += factor * y[left]
        return np.concatenate([rows / unit[:, None], -K]) * unit

    found = minimize(
        lambda u: -float(worth @ u),
        start / unit,
        jac=lambda _: -worth,
        bounds=[(0.0, 1.0 if rate > 0 else 0.0) for rate in most],
        constraints={"type": "ineq", "fun": slack, "jac": slopes},
        method="SLSQP",
        options={"maxiter": 200, "ftol": 1e-10},
    )
    climbed: Matrix = found.x * unit
    return climbed


def upper_bound(program: Program, rates: Matrix) -> float:
    """Return a score that no plan exceeds, the optimum itself where the program is linear.

    The product of a time-window join lies below each factor times the most that the other can be (McCormick, 1976).
    How far the plan of `Solver` may be from the optimum is 1 - score / bound.
    """
    from scipy.optimize import linprog

    most = program.flow(rates)
    offered = np.eye(program.arcs) - program.G
    base = program.S @ rates
    rows, limits = [offered, program.K], [base, program.limit]
    for arc, left, right, factor in program.products:
        for one, other in ((left, right), (right, left)):
            row = offered[arc].copy()
            row[one] -= factor * most[other]
            rows.append(row[None])
            limits.append(base[arc : arc + 1])
    plain = np.ones(program.arcs, bool)
    plain[[arc for arc, *_ in program.products]] = False
    rows[0], limits[0] = offered[plain], base[plain]
    matrix = np.concatenate(rows)
    finite = np.isfinite(np.concatenate(limits))
    found = linprog(-program.weight, matrix[finite], np.concatenate(limits)[finite], method="highs")
    if found.status != 0:
        raise EngineError(f"the linear program was not solved: {found.message}")
    return -float(found.fun or 0.0)


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


def repaired_together(program: Program, points: Matrix, plans: Matrix) -> Matrix:
    """Return what `repaired` returns of each point, array (points, sources), and its plan; no time-window joins."""
    offered, y = program.S @ points.T, np.maximum(np.ascontiguousarray(plans.T), 0.0)
    for arc in range(program.arcs):
        for writer in np.flatnonzero(program.G[arc]):
            offered[arc] += program.G[arc, writer] * y[writer]
        np.minimum(y[arc], offered[arc], out=y[arc])
    over = np.max((program.K @ y) / program.limit[:, None], axis=0, initial=1.0)
    found: Matrix = (y / over).T
    return found
