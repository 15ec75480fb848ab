"""Decisions of which it is not yet known what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from penstock.control.decision import seen_of
from penstock.control.line import Came, Line
from penstock.steering import Observation

PATIENT = 6
"""Windows after which a decision is settled although moves of it are still under way."""


@attrs.frozen(eq=False)
class Open:
    """A decision of which it is not yet known what came.

    Attributes
    ----------
    line
        The decision.
    worst
        The worst latency since (s).
    there
        Operators that have come to where they were to move; they may have moved on.
    """

    line: Line
    worst: float | None = None
    there: frozenset[str] = frozenset()

    @property
    def moves(self) -> dict[str, str]:
        """Hosts to which operators were to move."""
        return {move["operator"]: move["to"] for move in self.line["decided"].get("moves", ())}

    def after(self, seen: Observation) -> Open:
        """Return it with what was seen since."""
        worst = [row.worst for row in seen.latency.values() if row.worst is not None and seen.at > self.line["time"]]
        known = [] if self.worst is None else [self.worst]
        # An operator that moves is placed where it will be.
        there = {name for name, host in self.moves.items() if seen.placement.get(name) == host} - seen.moving
        return Open(self.line, max([*worst, *known], default=None), self.there | there)

    def settled(self, seen: Observation, window: float) -> bool:
        """Whether it is known what came of it: after a window (s), and once no move of it is under way."""
        late = seen.at - self.line["time"]
        return late >= window and (late >= PATIENT * window or seen.moving.isdisjoint(self.moves))

    def came(self, seen: Observation) -> Line:
        """Return the line with what came of it: how things stand now, and the worst latency since."""
        now = seen_of(seen)
        found: Came = {
            "time": seen.at,
            "worst": self.worst,
            "p99": now["p99"],
            "waiting": now["waiting"],
            "busy": max((share for share in now["busy"].values() if share is not None), default=None),
        }
        if self.moves:
            found["moved"] = len(self.there)
        return {**self.line, "came": found}

    def document(self) -> list[object]:
        """Return it for the state file."""
        return [self.line, self.worst, sorted(self.there)]

    @classmethod
    def read(cls, row: Sequence[Any]) -> Open:
        """Return what `document` wrote; earlier versions did not tell which operators have come."""
        line, worst, *there = row
        return cls(line, worst, frozenset(there[0] if there else ()))
