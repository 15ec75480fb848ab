"""Latency bounds, and what an estimate makes of them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from penstock.latency.estimate import Estimate
from penstock.sizing.search import TIE


@attrs.frozen
class Bounds:
    """What no sink may wait longer for.

    Attributes
    ----------
    latency
        Bound of every sink (s).
    sinks
        Tighter ones of single sinks (s).
    sure
        Whether the upper ends of intervals have to keep them too, where these were drawn.
    """

    latency: float
    sinks: Mapping[str, float] = attrs.field(factory=dict)
    sure: bool = False

    def of(self, sink: str) -> float:
        """Return the bound (s) of a sink: that of all of them, or its own where that is tighter."""
        return min(self.latency, self.sinks.get(sink, self.latency))

    def excess(self, found: Estimate) -> float:
        """Return by how much (s) an estimate exceeds what it exceeds most, or by how little it stays below."""
        return self.over(*self._worst(found))

    def over(self, whole: float, sinks: Mapping[str, float]) -> float:
        """Return the same of worst latencies (s): over all tuples, and by sink."""
        return max([whole - self.latency, *(sinks[name] - limit for name, limit in self.sinks.items())])

    def missed(self, found: Estimate) -> tuple[str, ...]:
        """Return the sinks that would miss their bound, the worst first, and the bottleneck where the whole does."""
        whole, sinks = self._worst(found)
        late = [(-worst, name) for name, worst in sinks.items() if worst > self.of(name) + TIE]
        return (*(name for _, name in sorted(late)), *([found.bottleneck] if whole > self.latency + TIE else []))

    def _worst(self, found: Estimate) -> tuple[float, Mapping[str, float]]:
        if not self.sure or found.spread is None:
            return found.total.worst, {name: row.worst for name, row in found.sinks.items()}
        return found.spread.total["worst"][1], {name: row["worst"][1] for name, row in found.spread.sinks.items()}
