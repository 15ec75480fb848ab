"""exact: the optimum everywhere, from the vertices of the dual program.

For linear networks the optimal score is the least of a few tens of linear functions of the source rates, one for each
vertex of the dual program, so a short table holds the whole answer with no error. Prices that are tight together
would make a vertex ambiguous (equal operators are the rule, not the exception), so each arc's weight is lowered
by about 1e-9 of its worth; constraints are never touched, and plans are scored with the true weights.
"""

from __future__ import annotations

import math
from types import ModuleType

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.native.jit import kernel
from penstock.shedding.optimum import Solver, repaired
from penstock.shedding.program import Matrix, Program

MOST = 20_000
"""Vertices kept; beyond it points are solved one by one."""

EVENTS = 5
"""Times that the worth of all arcs is computed on the way from a vertex to another, about."""


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


@attrs.frozen(eq=False)
class Sparse:
    """A program as the kernels read it: both directions of ``G``, entries, ``K`` with every limit 1."""

    start: NDArray[np.int64]
    reader: NDArray[np.int64]
    gain: Matrix
    wstart: NDArray[np.int64]
    writer: NDArray[np.int64]
    wgain: Matrix
    entries: NDArray[np.int64]
    share: Matrix
    K: Matrix

    @classmethod
    def of(cls, program: Program) -> Sparse:
        """Lay a program out in rows."""
        start, reader, gain = _rows(program.G.T)
        wstart, writer, wgain = _rows(program.G)
        fed = program.S.any(axis=1)
        entries = np.where(fed, program.S.argmax(axis=1), -1) if len(program.sources) else np.full(program.arcs, -1)
        share = program.S.max(axis=1, initial=0.0)
        K = np.ascontiguousarray(program.K / program.limit[:, None])
        return cls(start, reader, gain, wstart, writer, wgain, entries.astype(np.int64), share, K)


def _rows(matrix: Matrix) -> tuple[NDArray[np.int64], NDArray[np.int64], Matrix]:
    rows, columns = np.nonzero(matrix)
    start = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int64)
    return start, columns.astype(np.int64), np.ascontiguousarray(matrix[rows, columns])


def _code(program: Program, points: int = 0, rows: int = 0) -> ModuleType:
    """Return the kernel for the vertices of a program, or for looking up points among so many."""
    hosts, arcs = len(program.limit), program.arcs
    walked = min(MOST, math.comb(arcs + hosts, hosts)) * hosts * EVENTS * arcs * hosts
    return kernel("penstock.shedding.vertices_kernel", points * rows * len(program.sources) if points else walked)


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
    sparse, code = Sparse.of(program), _code(program)
    weight = lowered(program)
    with np.errstate(over="ignore"):  # Hashes are to overflow, also where they are interpreted.
        prices, tights, signs, complete = code.walk(
            sparse.start, sparse.reader, sparse.gain, sparse.entries >= 0, sparse.K, weight, most
        )
    alpha, beta = np.zeros(len(prices)), np.zeros((len(prices), len(program.sources)))
    code.worth(
        sparse.start, sparse.reader, sparse.gain, sparse.entries, sparse.share, sparse.K, weight, prices, alpha, beta
    )
    prices = prices / program.limit
    for array in (prices, beta, tights, signs):
        array.setflags(write=False)
    return Vertices(prices, beta, tights, signs, bool(complete))


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
            table = (
                DualTable(
                    np.zeros(0),
                    np.zeros((0, len(program.sources))),
                    np.zeros((0, len(program.limit)), np.int64),
                    np.zeros((0, program.arcs), np.int8),
                    complete=False,
                )
                if program.products
                else dual_table(program)
            )
        self.table = table
        self._sparse, self._code = Sparse.of(program), _code(program)
        self._solver: Solver | None = None

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
        return np.array([self.plan(point) for point in points]).reshape(len(points), self.program.arcs)

    def find(self, rates: Matrix, y: Matrix) -> int:
        """Fill the kept rates by the table alone and return the row, or -1."""
        t, s = self.table, self._sparse
        found: int = self._code.look_up(
            t.alpha, t.beta, s.wstart, s.writer, s.wgain, s.entries, s.share, s.K, t.tights, t.signs, rates, y
        )
        return found

    def values(self, points: Matrix) -> Matrix:
        """Return the optimum at each point, array (points, sources) to array (points,)."""
        if not self.table.complete:
            return np.array([self.program.score(self.plan(point)) for point in points])
        out = np.zeros(len(points))
        _code(self.program, len(points), len(self.table)).values(
            self.table.alpha, self.table.beta, np.ascontiguousarray(points, float), out
        )
        return out
