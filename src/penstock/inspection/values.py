"""What an inspection finds, as frozen values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.files import Document, plain
from penstock.inspection.fitted import Fit
from penstock.telemetry import Application, Batches, QueryLog


@attrs.frozen(kw_only=True)
class Finding:
    """Something worth knowing about a query or an application, with its evidence.

    Attributes
    ----------
    kind
        One of `penstock.inspection.findings.KINDS`.
    about
        Name of the query, or identifier of the application.
    says
        One sentence for people.
    evidence
        The numbers behind it, by name; seconds, rows and shares.
    other
        Name of another query that has the greatest part in it.
    """

    kind: str
    about: str
    says: str
    evidence: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    other: str | None = None


def alike(findings: Iterable[Finding]) -> list[tuple[str, list[str], str]]:
    """Return findings that say the same as one: kind, what it is about, and what it says, in the order of the first."""
    found: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        found.setdefault((finding.kind, finding.says), []).append(finding.about)
    return [(kind, about, says) for (kind, says), about in found.items()]


@attrs.frozen(kw_only=True)
class Capacity:
    """What a query could bear.

    Attributes
    ----------
    headroom
        By which factor the mean rate can grow before the query falls behind for good; None where the data cannot tell.
    least
        What it is at least, where `headroom` is None; None without batches.
    catch_up
        Seconds from the end of an outage of an hour until the query is as it was; None where it never is, or where the
        data cannot tell.
    limit
        Most rows that a batch takes (``maxOffsetsPerTrigger`` and its like), where batches show one.
    sure
        Whether `limit` is one for sure: where no source tells what waits, it may be chance.
    """

    headroom: float | None = None
    least: float | None = None
    catch_up: float | None = None
    limit: float | None = None
    sure: bool = True


@attrs.frozen(eq=False, kw_only=True)
class Query:
    """One streaming query, measured from its logs.

    Attributes
    ----------
    log
        What was read, with the batches of the inspected time only.
    warm
        Mask of the batches that ran warm; the fit reads only these.
    fit
        Seconds of a batch by its rows.
    trigger
        Interval of the trigger (s); 0 where batches follow each other as soon as there is data; None where the log
        cannot tell.
    arrivals
        Rows that arrived before each batch and after the one before it, shape ``(sources, batches)``.
    rate, rate_max
        Rows a second: the mean, and the most over `Inspection.period`; NaN of a single batch.
    busy
        Share of the time in which a batch ran.
    lag_rows, lag_seconds
        At the last batch: rows that waited, and how many seconds of input these are; without offsets the seconds
        between the youngest event time and the batch. NaN where the log does not tell.
    capacity
        Headroom and what belongs to it.
    parts
        Mean seconds a batch by Spark's name (``addBatch`` includes the sink; ``stateCommit`` lies within it).
    """

    log: QueryLog
    warm: NDArray[np.bool_]
    fit: Fit
    trigger: float | None
    arrivals: Array
    rate: float
    rate_max: float
    busy: float
    lag_rows: float
    lag_seconds: float
    capacity: Capacity
    parts: Mapping[str, float]

    @property
    def name(self) -> str:
        """Name of the query."""
        return self.log.name

    @property
    def batches(self) -> Batches:
        """The batches of the inspected time."""
        return self.log.batches

    @property
    def seconds(self) -> Array:
        """How long its batches took (s), of those whose duration is told: progress may be written without."""
        return np.asarray(self.batches.duration[self.batches.duration > 0])

    @property
    def restarts(self) -> int:
        """How often it was started again within the inspected time; starts that found nothing to do do not count."""
        failed = {number for number, run in enumerate(self.log.runs) if run.error is not None}
        return max(len(failed | set(self.batches.run.tolist())) - 1, 0)

    def document(self) -> Document:
        """Return what ``penstock inspect --json`` prints of the query."""
        batches, fit = self.batches, self.fit
        state = bool(self.log.state)
        return {
            "app": self.log.app,
            "batches": len(batches),
            "rows": int(batches.rows.sum()),
            "trigger": self.trigger,
            "overhead": fit.overhead,
            "cost": fit.cost,
            "error": fit.error,
            "reason": fit.reason,
            "cost_most": fit.cost_most,
            "spread": fit.spread if fit.overhead is not None else None,
            "seconds": _summary(self.seconds),
            "rate": {"mean": self.rate, "max": self.rate_max},
            "busy": self.busy if self.seconds.size else None,
            "lag": {"rows": self.lag_rows, "seconds": self.lag_seconds},
            "state": {
                "rows": int(batches.state_rows[-1]) if state else 0,
                "bytes": int(batches.state_bytes[-1]) if state else 0,
            },
            "late": int(batches.late.sum()),
            "headroom": self.capacity.headroom,
            "headroom_least": self.capacity.least,
            "catch_up": self.capacity.catch_up,
            "limit": self.capacity.limit,
            "restarts": self.restarts,
            "parts": dict(self.parts),
            "sources": list(self.log.sources),
            "sink": self.log.sink,
            "since": float(batches.start[0]),
            "until": float(batches.end.max()),
        }


def _summary(seconds: Array) -> dict[str, float | None]:
    """Return mean, quantiles and maximum; None without any."""
    if not seconds.size:
        return dict.fromkeys(("mean", "p50", "p99", "max"))
    p50, p99 = np.quantile(seconds, (0.5, 0.99))
    return {"mean": float(seconds.mean()), "p50": float(p50), "p99": float(p99), "max": float(seconds.max())}


@attrs.frozen(eq=False, kw_only=True)
class Inspection:
    """All queries and applications of the logs, and what is worth knowing about them.

    Attributes
    ----------
    queries, applications
        By name, and by identifier.
    findings
        The weightiest first.
    period
        Step of the rate series (s).
    warnings, skipped
        What was read in part, and what not at all.
    """

    queries: Mapping[str, Query]
    applications: Mapping[str, Application]
    findings: tuple[Finding, ...]
    period: float
    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def notices(self, most: int = 10) -> list[str]:
        """Return what was read in part or not at all in a few sentences; those for the same reason are one."""
        told = list(self.warnings[:most])
        if len(self.warnings) > most:
            told.append(f"and {len(self.warnings) - most} more like this (--json names all)")
        reasons: dict[str, list[str]] = {}
        for line in self.skipped:
            name, _, reason = line.partition(": ")
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            more = ", …" if len(names) > 3 else ""
            kind = "queries" if names[0].startswith("query ") else "files"
            what = names[0] if len(names) == 1 else f"{len(names)} {kind} ({', '.join(names[:3])}{more})"
            told.append(f"skipped {what}: {reason if len(names) == 1 else re.sub('^it ', 'each ', reason)}")
        return told

    def of_application(self, identifier: str) -> tuple[str, ...]:
        """Return the names of an application's queries."""
        return tuple(name for name, query in self.queries.items() if query.log.app == identifier)

    def document(self) -> Document:
        """Return what ``penstock inspect --json`` prints."""
        told: Document = {
            "queries": {name: query.document() for name, query in self.queries.items()},
            "apps": {
                name: {
                    "name": application.name,
                    "version": application.version or None,
                    "queries": list(self.of_application(name)),
                    "cores": application.cores,
                    "busy": application.task_seconds / (application.cores * (application.end - application.start))
                    if application.end > application.start and application.cores > 0
                    else None,
                }
                for name, application in self.applications.items()
            },
            "period": self.period,
            "findings": [
                {"kind": f.kind, "about": f.about, "says": f.says, "evidence": dict(f.evidence), "other": f.other}
                for f in self.findings
            ],
            "warnings": list(self.warnings),
            "skipped": list(self.skipped),
        }
        shown: Document = plain(told)
        return shown
