"""What a run adds up to, period by period, for those who look on."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.arrays import Ints
from penstock.files import Document
from penstock.steering import Observation


@attrs.frozen(eq=False)
class Totals:
    """Rows, and how busy hosts were, since the run began.

    Attributes
    ----------
    seconds
        That all periods took together; None where a version of penstock that did not count them began the run.
    streams, rows
        Names, and array (2, streams): rows that arrived, and that were dropped.
    sinks
        By sink: rows that became visible, the sum of their latencies (s), and the longest one.
    hosts
        By host: how long it worked (s); not told where ``seconds`` is None.
    """

    seconds: float | None = 0.0
    streams: tuple[str, ...] = ()
    rows: Ints = attrs.field(factory=lambda: np.zeros((2, 0), np.int64))
    sinks: Mapping[str, tuple[int, float, float]] = attrs.field(factory=dict)
    hosts: Mapping[str, float] = attrs.field(factory=dict)

    @classmethod
    def read(cls, document: Document | None) -> Totals:
        """Return the totals that `document` wrote, so that a controller which goes on counts on."""
        known = document or {"streams": {}, "sinks": {}}
        seconds = known.get("seconds") if document else 0.0
        return cls(
            seconds,
            tuple(known["streams"]),
            np.array([[row[key] for row in known["streams"].values()] for key in ("arrived", "dropped")], np.int64),
            {
                name: (row["count"], row["count"] * (row["mean"] or 0.0), row["worst"] or 0.0)
                for name, row in known["sinks"].items()
            },
            {name: row["busy"] * seconds for name, row in known["hosts"].items()} if seconds else {},
        )

    def counted_by(self, report: Document) -> Totals:
        """Return the totals with what a run's report counts besides: rows that came while nobody looked.

        Neither may have counted all: a report lacks what a batch that goes on has done so far.
        """
        latency = {name: row["latency"] for name, row in report["sinks"].items()}
        sinks = {name: {**row, "worst": row["max"]} for name, row in latency.items()}
        told = Totals.read({"streams": report["streams"], "sinks": sinks})
        names, mine = self._with(told.streams, np.zeros_like(told.rows))
        _, theirs = told._with(names, np.zeros_like(mine))
        most = {name: max(self.sinks.get(name, (0, 0.0, 0.0)), row) for name, row in told.sinks.items()}
        return attrs.evolve(self, streams=names, rows=np.maximum(mine, theirs), sinks={**self.sinks, **most})

    def after(self, seen: Observation) -> Totals:
        """Return the totals with one period more."""
        streams, rows, sinks, hosts = self.streams, self.rows, dict(self.sinks), dict(self.hosts)
        if seen.arrived is not None and seen.dropped is not None:
            streams, rows = self._with(seen.streams, np.stack([seen.arrived, seen.dropped]))
        for name, row in seen.latency.items():
            count, total, worst = sinks.get(name, (0, 0.0, 0.0))
            sinks[name] = count + row.count, total + row.count * (row.mean or 0.0), max(worst, row.worst or 0.0)
        for host, told in seen.hosts.items():
            if told.busy is not None:
                hosts[host] = hosts.get(host, 0.0) + told.busy * seen.period
        seconds = None if self.seconds is None else self.seconds + seen.period
        return Totals(seconds, streams, rows, sinks, hosts)

    def _with(self, streams: tuple[str, ...], rows: Ints) -> tuple[tuple[str, ...], Ints]:
        """Return names and rows with those of one period more, in which other streams may have come."""
        if streams == self.streams:
            return streams, self.rows + rows
        names = tuple(dict.fromkeys((*streams, *self.streams)))
        at, found = {name: k for k, name in enumerate(names)}, np.zeros((2, len(names)), np.int64)
        found[:, [at[name] for name in self.streams]] = self.rows
        found[:, : len(streams)] += rows
        return names, found

    def document(self) -> Document:
        """Return it for the state file; the 99th percentile of a whole run cannot be told from those of its periods."""
        return {
            "seconds": self.seconds,
            "streams": {
                name: {"arrived": arrived, "dropped": dropped}
                for name, arrived, dropped in zip(self.streams, *self.rows.tolist(), strict=True)
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
            "hosts": {name: {"busy": worked / self.seconds} for name, worked in self.hosts.items() if self.seconds},
        }
