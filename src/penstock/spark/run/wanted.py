"""What a plan wants of units: operators are named, units move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from penstock.errors import InputError
from penstock.spark.run.attach import Grown
from penstock.spark.run.system import System
from penstock.steering import Change, Plan


@attrs.define(eq=False)
class Wanted:
    """A plan as units see it.

    Attributes
    ----------
    plan, changes
        What is wanted.
    moves
        By operator its unit and the hosts that are asked for the unit's operators; of a copy for the copy's.
    begun
        Units, and copies of units, that have begun to move.
    paced
        Units that are to go on at another pace.
    grown
        What is to be attached, all at once.
    """

    plan: Plan
    changes: Sequence[Change]
    moves: Mapping[str, tuple[str, Mapping[str, str]]]
    begun: set[str] = attrs.field(factory=set)
    paced: set[str] = attrs.field(factory=set)
    grown: Grown | None = None

    def unit_of(self, operator: str) -> tuple[str, Mapping[str, str]]:
        """Return the unit of an operator, and where each operator of the unit is wanted.

        Raises
        ------
        InputError
            If there is no such operator.
        """
        if operator not in self.moves:
            raise InputError(f"no operator {operator!r}", at="placement")
        return self.moves[operator]


def moves_by_unit(plan: Plan, system: System) -> dict[str, tuple[str, dict[str, str]]]:
    """Return for each operator its unit and where the operators of the unit would be under a plan."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for unit in [*system.units.values()]:
        for copy, host in unit.hosts.items():
            mine = unit.operators(copy)
            hosts = {name: plan.placement.get(name, host) for name in mine}
            found |= dict.fromkeys(mine, (unit.name, hosts))
    return found
