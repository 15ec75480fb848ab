"""exact: the optimum everywhere, from the vertices of the dual program.

For linear networks the optimal score is the least of a few tens of linear functions of the source rates, one for each
vertex of the dual program, so a short table holds the whole answer with no error. Prices that are tight together
would make a vertex ambiguous (equal operators are the rule, not the exception), so each arc's weight is lowered
by about 1e-9 of its worth; constraints are never touched, and plans are scored with the true weights.
"""

from __future__ import annotations

import functools

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.shedding.optimum import Solver, repaired, repaired_together
from penstock.shedding.program import TOLERANCE, Matrix, Program
from penstock.shedding.walk import Walker

BLOCK = 2_000
"""Points planned at once: few enough for a processor's cache."""
MOST = 20_000
"""Vertices kept; beyond it points are solved one by one."""


@attrs.frozen(eq=False)
class DualTable:
    """The dual vertices of a program.

    Attributes
    ----------
    alpha, beta
        Arrays (rows,), (rows, sources): the optimum is the least ``alpha + beta · rates``.
    tights
        Array (rows, resources): a resource whose price is 0, or resources + arc where a tuple is worth nothing.
    signs
        Array (rows, arcs): 1 keep, -1 drop, 0 keep in part.
    complete
        Whether these are all of them.
    """

    alpha: Matrix
    beta: Matrix
    tights: NDArray[np.int64]
    signs: NDArray[np.int8]
    complete: bool

    def __len__(self) -> int:
        return len(self.alpha)


@attrs.frozen(eq=False)
class Vertices:
    """The dual vertices of a program whatever its limits: these only say which vertex is the least.

    So one list serves a system whose hosts become slower, or have a backlog to work off.

    Attributes
    ----------
    prices
        Array (rows, resources): score per unit of each resource.
    beta, tights, signs, complete
        As in `DualTable`.
    """

    prices: Matrix
    beta: Matrix
    tights: NDArray[np.int64]
    signs: NDArray[np.int8]
    complete: bool

    def table(self, limit: Matrix) -> DualTable:
        """Return the dual table for given limits, array (resources,)."""
        return DualTable(self.prices @ limit, self.beta, self.tights, self.signs, self.complete)


def dual_table(program: Program, most: int = MOST) -> DualTable:
    """List the dual vertices of a program without time-window joins, priced at its own limits.

    Parameters
    ----------
    most
        Stop at this many; the table is then not complete.
    """
    return vertices(program, most).table(program.limit)


def vertices(program: Program, most: int = MOST) -> Vertices:
    """List the dual vertices of a program without time-window joins; at most ``most``."""
    found = Walker(program, lowered(program)).listed(most)
    prices = found.prices / program.limit
    for array in (prices, found.beta, found.tights, found.signs):
        array.setflags(write=False)
    return Vertices(prices, found.beta, found.tights, found.signs, found.complete)


def empty(program: Program) -> DualTable:
    """Return a table without rows, for programs that have none."""
    return DualTable(
        np.zeros(0),
        np.zeros((0, len(program.sources))),
        np.zeros((0, len(program.limit)), np.int64),
        np.zeros((0, program.arcs), np.int8),
        complete=False,
    )


def lowered(program: Program) -> Matrix:
    """Return the weights, lowered a little and differently for each arc: of equal drops the first is best."""
    worth = program.weight.copy()
    for arc in range(program.arcs - 1, -1, -1):
        worth[arc] += program.G[:, arc] @ worth
    golden = (np.arange(1, program.arcs + 1) * 0.6180339887498949) % 1.0
    least = float(worth.max(initial=0.0)) * 1e-3 or 1.0
    # A quadratic sequence: differences of arcs do not repeat as those of an arithmetic one would.
    return program.weight - 1e-9 * np.maximum(worth, least) * (0.5 + golden * golden)


class Exact:
    """Optimal plans at any rates: by the dual table where it is complete, else by the linear program."""

    def __init__(self, program: Program, table: DualTable | None = None) -> None:
        self.program = program
        if table is None:
            table = empty(program) if program.products else dual_table(program)
        self.table = table
        self._solver: Solver | None = None
        self._walker = Walker(program, program.weight)
        self._walker.know(table.alpha, table.beta, table.tights, table.signs)

    @property
    def solver(self) -> Solver:
        """The linear program itself."""
        if self._solver is None:
            self._solver = Solver(self.program)
        return self._solver

    def plan(self, rates: Matrix) -> Matrix:
        """Return the kept rates of an optimal plan, array (arcs,); everything where everything fits."""
        full = self.program.flow(rates)
        if self.program.feasible(full):
            return full
        if self.table.complete:
            y = np.zeros(self.program.arcs)
            if self.find(rates, y) >= 0:
                return repaired(self.program, rates, y)
        return self.solver.solve(rates)

    def plans(self, points: Matrix) -> Matrix:
        """Return the kept rates of an optimal plan at each point, array (points, sources) to array (points, arcs)."""
        if not self.table.complete:
            return np.array([self.plan(point) for point in points]).reshape(len(points), self.program.arcs)
        blocks = [self._planned(points[k : k + BLOCK]) for k in range(0, len(points), BLOCK)]
        return np.concatenate([np.zeros((0, self.program.arcs)), *blocks])

    def _planned(self, points: Matrix) -> Matrix:
        """Return what `plan` returns of each point, by the table."""
        program = self.program
        kept: Matrix = points @ self._full.T
        over = np.flatnonzero(~np.all(kept @ program.K.T <= program.limit * (1 + TOLERANCE) + 1e-15, axis=1))
        found = np.zeros((len(over), program.arcs))
        known = self._walker.look_up(points[over], found) >= 0
        kept[over[known]] = repaired_together(program, points[over[known]], found[known])
        for k in over[~known]:
            kept[k] = self.solver.solve(points[k])
        return kept

    @functools.cached_property
    def _full(self) -> Matrix:
        """Array (arcs, sources): what each arc keeps where everything fits, by source rates; without products."""
        return np.asarray(np.linalg.solve(np.eye(self.program.arcs) - self.program.G, self.program.S), np.float64)

    def find(self, rates: Matrix, y: Matrix) -> int:
        """Fill the kept rates by the table alone and return the row, or -1."""
        return int(self._walker.look_up(rates[None], y[None])[0])

    def values(self, points: Matrix) -> Matrix:
        """Return the optimum at each point, array (points, sources) to array (points,)."""
        if not self.table.complete:
            return np.array([self.program.score(self.plan(point)) for point in points])
        return self._walker.values(points)
