"""The answer to a new query."""

from __future__ import annotations

import attrs

from penstock.cluster import Placement
from penstock.files import Document
from penstock.latency.estimate import Estimate
from penstock.sizing.search import TIE, checked_document


@attrs.frozen(eq=False, kw_only=True)
class Admission:
    """The answer to a new query.

    Attributes
    ----------
    admitted
        Whether every bound holds with it.
    bound
        Latency that no sink may exceed (s).
    placement
        Of the new operators.
    before, after
        Estimates without and with the new operators.
    breaks
        Sinks and hosts that would miss a bound, the worst first.
    exhaustive
        Whether every placement of the new operators was considered, so that none is better.
    simulated
        Worst latency that the simulator measured (s), if it was asked.
    """

    admitted: bool
    bound: float
    placement: Placement
    before: Estimate | None
    after: Estimate
    breaks: tuple[str, ...]
    exhaustive: bool
    simulated: float | None = None

    def checked(self, worst: float) -> Admission:
        """Return the answer that also minds the worst latency (s) that the simulator measured."""
        holds = worst <= self.bound + TIE
        breaks = self.breaks if holds or not self.admitted else (*self.breaks, "simulation")
        return attrs.evolve(self, admitted=self.admitted and holds, breaks=breaks, simulated=worst)

    def document(self) -> Document:
        """Return the keys of ``penstock admit --json``."""
        old = {} if self.before is None else self.before.sinks
        return {
            "admitted": self.admitted,
            "latency": self.after.total.worst,
            "bound": self.bound,
            "placement": dict(self.placement),
            "model": self.after.model,
            "before": None if self.before is None else self.before.total.worst,
            "bottleneck": self.after.bottleneck,
            "sinks": {
                name: {"worst": row.worst, "before": old[name].worst if name in old else None}
                for name, row in self.after.sinks.items()
            },
            "breaks": list(self.breaks),
            "exhaustive": self.exhaustive,
            "error": {**attrs.asdict(self.after.error), "relative": self.after.error.relative},
            "notes": list(self.after.notes),
            **checked_document(self.simulated, self.bound),
        }
