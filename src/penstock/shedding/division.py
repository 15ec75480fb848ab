"""What goes with the division of a quadtree's cells: how many to divide in the time there is, and the plans of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import Bools, Ints
from penstock.errors import InputError
from penstock.shedding.exact import Exact
from penstock.shedding.program import Matrix
from penstock.shedding.tables import PlanTable

if TYPE_CHECKING:
    from penstock.shedding.planners import Question

MOST_CELLS = 3_000_000


def unit(upto: Matrix) -> Matrix:
    """Return the lower corners of the halves of a unit region, array (halves, sources).

    A source that brings nothing is not divided: its halves would be the cell again, for ever.
    """
    axes = np.flatnonzero(upto > 0)
    found = np.zeros((1 << len(axes), len(upto)))
    found[:, axes] = (np.arange(len(found))[:, None] >> np.arange(len(axes))) & 1
    return found


class CornerPlans:
    """Plans for the lower corners of cells, made with the cells: whoever stops dividing has those of all."""

    def __init__(self, exact: Exact) -> None:
        self._exact, self._count = exact, 0
        self._plans: list[Matrix] = []

    def rows(self, low: Matrix, over: Bools, shared: Ints) -> Ints:
        """Return the row of each cell's plan, -1 where everything in the cell fits.

        Parameters
        ----------
        low, over
            Arrays (cells, sources), (cells,): lower corners, and whether something in the cell does not fit.
        shared
            Array (cells,): the row of the divided cell where a cell has the same lower corner, else -1.
        """
        rows = np.where(over, shared, -1)
        new = over & (rows < 0)
        plans = self._exact.plans(low[new])
        rows[new] = self._count + np.arange(len(plans))
        self._plans.append(plans)
        self._count += len(plans)
        return rows

    def table(self, question: Question, name: str, child: Ints, row: Ints, error: float) -> PlanTable:
        """Return the table of a quadtree: of each cell the first it is divided into, or -1, and the row of its plan."""
        program = self._exact.program
        arrays = {"child": child, "row": row, "plans": np.concatenate(self._plans)}
        entries = int(((child < 0) & (row >= 0)).sum())
        return PlanTable.of(program, name, question.upto, error, entries, arrays)


class Allowance:
    """How many cells may still be divided: by the time that is left, and by the number of cells.

    At most half of the time that is left is given out at once, reckoned by what the last cells took each.
    """

    def __init__(self, question: Question) -> None:
        self._budget, self._clock, self._fan = (
            question.budget,
            question.clock,
            1 << int(np.count_nonzero(question.upto)),
        )
        self._begun = self._last = self._clock()
        self._cells = 0

    def left(self, cells: int, wanted: int) -> int:
        """Return how many of the wanted divisions to make in a quadtree of so many cells; 0 to stop.

        Raises
        ------
        InputError
            If there would be too many cells, and no budget says that fewer will do.
        """
        room = (MOST_CELLS - cells) // self._fan
        if self._budget is None:
            if wanted > room:
                raise InputError(
                    f"the quadtree would need more than {MOST_CELLS} cells",
                    at="--planner",
                    hint="take --planner exact"
                    if self._fan > MOST_CELLS
                    else "take a larger --error, a smaller --upto, a --budget, or --planner exact",
                )
            return wanted
        now = self._clock()
        left, took = self._begun + self._budget - now, (now - self._last) / (cells - self._cells) * self._fan
        self._last, self._cells = now, cells
        if left <= 0:
            return 0
        return min(wanted, room, max(1, int(left / 2 / took)) if took > 0 else wanted)
