"""What a run can drop: nothing in front of windows of which it could not leave out whole ones."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.errors import Infeasible
from penstock.network.windows import undroppable
from penstock.shedding.program import TOLERANCE, Matrix, Program
from penstock.shedding.whole import without_drops


@attrs.frozen(eq=False)
class Run:
    """What a run can drop of a program at given rates.

    Attributes
    ----------
    program
        In which streams that drop nothing let everything through, with the room that is left beside what those take.
    taken
        Array (resources,): what they take.
    """

    program: Program
    taken: Matrix

    @classmethod
    def of(cls, program: Program, rates: Matrix) -> Run:
        """Leave out drops in front of windows that would not be whole.

        With a join over time, whose output is no linear function, plans count on them all the same.

        Raises
        ------
        Infeasible
            If too much cannot be dropped.
        """
        network = program.network
        fixed = undroppable(network)
        if program.products or not fixed:
            return cls(program, np.zeros(len(program.limit)))
        left, floor = without_drops(program, fixed)
        taken: Matrix = floor @ rates
        over = np.flatnonzero(taken > program.limit * (1 + TOLERANCE))
        if over.size:
            name, names = program.resources[over[0]], ", ".join(sorted(fixed))
            raise Infeasible(
                f"{name} gets {taken[over[0]]:.6g} of {program.limit[over[0]]:.6g} by what cannot be dropped, since no "
                f"window behind it would be whole: {names}"
            )
        # What passes there is in the rows of those behind it: nothing is left to decide.
        free = np.ones(program.arcs)
        free[program.arc[[name in fixed for name in program.streams]]] = 0.0
        G, S, limit = (
            left.G * free[:, None],
            left.S * free[:, None],
            np.maximum(program.limit - taken, 1e-9 * program.limit),
        )
        for array in (G, S, limit):
            array.setflags(write=False)
        return cls(attrs.evolve(left, G=G, S=S, limit=limit), taken)

    def load(self, kept: Matrix) -> Matrix:
        """Return the load of each host as a share of its capacity, array (hosts,)."""
        hosts = self.program.hosts
        load: Matrix = self.program.load(kept) + self.taken[:hosts] / self.program.capacity
        return load

    def keep(self, rates: Matrix, kept: Matrix) -> dict[str, float]:
        """Return the keep fraction of each stream that drops something."""
        return {name: share for name, share in self.program.keep(rates, kept).items() if name not in self.program.whole}
