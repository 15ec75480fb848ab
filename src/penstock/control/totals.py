"""What a run adds up to, period by period, for those who look on."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from penstock.files import Document
from penstock.steering import Observation


@attrs.frozen(eq=False)
class Totals:
    """Rows since the run began.

    Attributes
    ----------
    streams
        By stream: rows that arrived, and that were dropped.
    sinks
        By sink: rows that became visible, the sum of their latencies (s), and the longest one.
    """

    streams: Mapping[str, tuple[int, int]] = attrs.field(factory=dict)
    sinks: Mapping[str, tuple[int, float, float]] = attrs.field(factory=dict)

    @classmethod
    def read(cls, document: Document | None) -> Totals:
        """Return the totals that `document` wrote, so that a controller which goes on counts on."""
        known = document or {"streams": {}, "sinks": {}}
        return cls(
            {name: (row["arrived"], row["dropped"]) for name, row in known["streams"].items()},
            {
                name: (row["count"], row["count"] * (row["mean"] or 0.0), row["worst"] or 0.0)
                for name, row in known["sinks"].items()
            },
        )

    def after(self, seen: Observation) -> Totals:
        """Return the totals with one period more."""
        streams, sinks = dict(self.streams), dict(self.sinks)
        if seen.arrived is not None and seen.dropped is not None:
            rows = zip(seen.streams, seen.arrived.tolist(), seen.dropped.tolist(), strict=True)
            for name, arrived, dropped in rows:
                before = streams.get(name, (0, 0))
                streams[name] = before[0] + arrived, before[1] + dropped
        for name, row in seen.latency.items():
            count, total, worst = sinks.get(name, (0, 0.0, 0.0))
            sinks[name] = count + row.count, total + row.count * (row.mean or 0.0), max(worst, row.worst or 0.0)
        return Totals(streams, sinks)

    def document(self) -> Document:
        """Return it for the state file; the 99th percentile of a whole run cannot be told from those of its periods."""
        return {
            "streams": {
                name: {"arrived": arrived, "dropped": dropped} for name, (arrived, dropped) in self.streams.items()
            },
            "sinks": {
                name: {
                    "count": count,
                    "mean": total / count if count else None,
                    "p99": None,
                    "worst": worst if count else None,
                }
                for name, (count, total, worst) in self.sinks.items()
            },
        }
