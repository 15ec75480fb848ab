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
        By operator its unit and the hosts that are asked for the unit's operators.
    begun
        Units that have begun to move.
    grown
        What is to be attached, all at once.
    """

    plan: Plan
    changes: Sequence[Change]
    moves: Mapping[str, tuple[str, Mapping[str, str]]]
    begun: set[str] = attrs.field(factory=set)
    grown: Grown | None = None

    def unit_of(self, operator: str) -> tuple[str, str]:
        """Return the unit to move for an operator, and where to.

        Raises
        ------
        InputError
            If there is no such operator, or its unit cannot move as a whole.
        """
        if operator not in self.moves:
            raise InputError(f"no operator {operator!r}", at="placement")
        unit, hosts = self.moves[operator]
        host = hosts[operator]
        others = sorted(name for name, other in hosts.items() if other != host)
        if others:
            raise InputError(
                f"it shares a query with {', '.join(others)}",
                at=f"placement.{operator}",
                hint="move them together, or let it run apart",
            )
        return unit, host


def moves_by_unit(plan: Plan, system: System) -> dict[str, tuple[str, dict[str, str]]]:
    """Return for each operator its unit and where the operators of the unit would be under a plan."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for unit in system.units.values():
        hosts = {name: plan.placement.get(name, unit.host) for name in unit.fragment.operators}
        found |= dict.fromkeys(unit.fragment.operators, (unit.name, hosts))
    return found
