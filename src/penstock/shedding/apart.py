"""Optimal plans of a network part by part, where it has parts that share nothing."""

from __future__ import annotations

import numpy as np

from penstock.shedding.exact import Exact, empty
from penstock.shedding.parts import Part, split
from penstock.shedding.program import Matrix, Program


class Apart(Exact):
    """Optimal plans of several parts, each by its own table: together they would have the product of all rows."""

    def __init__(self, program: Program, parts: tuple[Part, ...]) -> None:
        super().__init__(program, empty(program))
        self.parts = [(part, Exact(part.program)) for part in parts]

    def plan(self, rates: Matrix) -> Matrix:
        """Return the kept rates of an optimal plan, array (arcs,); everything where everything fits."""
        found: Matrix = self.plans(rates[None])[0]
        return found

    def plans(self, points: Matrix) -> Matrix:
        """Return the kept rates of an optimal plan at each point, array (points, sources) to array (points, arcs)."""
        found = np.zeros((len(points), self.program.arcs))
        for part, exact in self.parts:
            found[:, part.arcs] = exact.plans(points[:, part.sources])
        return found

    def values(self, points: Matrix) -> Matrix:
        """Return the optimum at each point, array (points, sources) to array (points,)."""
        found = np.zeros(len(points))
        for part, exact in self.parts:
            found += exact.values(points[:, part.sources])
        return found


def optimum(program: Program) -> Exact:
    """Return the optimal plans of a program, part by part where it has parts."""
    parts = split(program)
    return Apart(program, parts) if parts else Exact(program)
