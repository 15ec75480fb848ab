"""The answer to a new query."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from penstock.cluster import Placement
from penstock.files import Document
from penstock.latency.estimate import Estimate
from penstock.sizing.bounds import Bounds
from penstock.sizing.search import TIE, checked_document, interval_document


@attrs.frozen(eq=False, kw_only=True)
class Admission:
    """The answer to a new query.

    Attributes
    ----------
    bounds
        What no sink may exceed.
    placement
        Of the new operators.
    before, after
        Estimates without and with the new operators.
    exhaustive
        Whether every placement of the new operators was considered, so that none is better.
    simulated
        Worst latency that the simulator measured (s), by sink, if it was asked.
    unknown
        Sinks that it may delay, of which nobody knows whether they keep their bound: no window before them ends.
    """

    bounds: Bounds
    placement: Placement
    before: Estimate | None
    after: Estimate
    exhaustive: bool
    simulated: Mapping[str, float] | None = None
    unknown: tuple[str, ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether every bound is known to hold with it."""
        return self.bounds.excess(self.after) <= TIE and not self._later and not self.unknown

    @property
    def breaks(self) -> tuple[str, ...]:
        """Sinks and hosts that would miss a bound, the worst first."""
        missed = self.bounds.missed(self.after)
        return (*missed, "simulation") if self._later and self.bounds.excess(self.after) <= TIE else missed

    @property
    def _later(self) -> bool:
        return any(worst > self.bounds.of(sink) + TIE for sink, worst in (self.simulated or {}).items())

    @property
    def _simulated(self) -> float | None:
        return None if self.simulated is None else max(self.simulated.values(), default=0.0)

    def document(self) -> Document:
        """Return the keys of ``penstock admit --json``."""
        old = {} if self.before is None else {name: self.before.told(name)["worst"] for name in self.before.sinks}
        return {
            "admitted": self.admitted,
            "latency": self.after.told()["worst"],
            "bound": self.bounds.latency,
            "sure": self.bounds.sure,
            **interval_document(self.after),
            "placement": dict(self.placement),
            "model": self.after.model,
            "before": None if self.before is None else self.before.told()["worst"],
            "bottleneck": self.after.bottleneck,
            "sinks": {
                name: {
                    "worst": self.after.told(name)["worst"],
                    "before": old.get(name),
                    **interval_document(self.after, name),
                }
                for name in self.after.sinks
            },
            "breaks": list(self.breaks),
            "unknown": list(self.unknown),
            "exhaustive": self.exhaustive,
            "error": {**attrs.asdict(self.after.error), "relative": self.after.error.relative},
            "notes": list(self.after.notes),
            **checked_document(self._simulated, holds=not self._later),
        }
