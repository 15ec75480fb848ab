"""What tests of live keep fractions share: a plan table that says what the test wants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Scripted:
    """Stands in for a plan table: says what to keep by the time since the run began."""

    plan = SimpleNamespace(period=0.3, table=SimpleNamespace(error=0.0))

    def __init__(self, script: list[tuple[float, dict[str, float]]], source: str = "events") -> None:
        self.sources = (source,)
        self.script, self.asked = script, list[tuple[float, float]]()

    def hosts(self) -> dict[str, Any]:
        """Return the tables of hosts that decide alone: none."""
        return {}

    def answer(self, rates: Any, at: float) -> dict[str, float]:
        """Return what the script says, and note the rate that was measured."""
        self.asked.append((at, float(rates[0])))
        return [keep for since, keep in self.script if since <= at][-1]
