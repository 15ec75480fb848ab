"""What advice is about and what it says, as frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.errors import InputError
from penstock.files import Document

UNKNOWN = "rows per batch"
"""Stands for the option that limits a batch where it is not known, or whether there is one."""


@attrs.frozen(eq=False, kw_only=True)
class Facts:
    """What the logs tell of a query besides rates and costs; evidence for advice on its state and its sources.

    Attributes
    ----------
    reads
        Its sources, as Spark describes them.
    shares
        Share of the rows that each of them has; empty if not told.
    stateful
        Whether it keeps state from batch to batch.
    partitions
        Of its state, ``spark.sql.shuffle.partitions``; NaN if not told.
    commit
        Seconds of tasks that a batch commits state for (the sum over its tasks).
    state_rows, state_bytes
        In its state at the end.
    provider
        Class of the state store; empty if not told.
    """

    reads: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    stateful: bool = False
    partitions: float = float("nan")
    commit: float = 0.0
    state_rows: float = 0.0
    state_bytes: float = 0.0
    provider: str = ""


@attrs.frozen(eq=False, kw_only=True)
class Job:
    """One streaming query as the replay sees it.

    Attributes
    ----------
    name, driver
        The query, and the driver that it runs on.
    overhead, cost
        Seconds a batch and seconds a row, while nothing else runs on the driver.
    overhead_error, cost_error
        Their standard errors (s; s a row).
    spread
        Scale of the relative differences between batches of one size.
    shortest
        No batch is shorter than this (s): where overhead and cost could not be told, the typical one.
    trigger
        Interval of the trigger (s); 0: the next batch begins when the last one has ended.
    phase
        A time at which the trigger fires (s since the epoch).
    limit
        Most rows of a batch; infinite without a limit.
    cores
        Cores of the driver that its batches keep busy while their tasks run.
    tasks
        Share of the overhead in which tasks run; in the rest the driver plans and writes its logs.
    rates
        Rows a second that arrive in each period, shape ``(periods,)``.
    waiting
        Rows that wait when the rates begin; their latency counts from then.
    usual
        Mean rows a second where the rates are too coarse for it, or hold more, such as a burst; None: their mean.
    weight
        What a second of its latency is worth beside that of other queries.
    progressive
        Whether its rows become visible evenly during a batch (Kafka sink) rather than at its end.
    limiter
        Name of the reader's option that limits a batch, as Spark calls it, or `UNKNOWN`; empty if it has none.
    recorded
        Median seconds of the recorded batches; None without a record.
    certain
        Whether overhead and cost could be told; if not, the cost is the most that it can be.
    joint
        Whether its limit is that of one of several sources: a replay takes the rows of all together, and does not tell
        how long those of this one wait.
    scheduled
        Whether a scheduler runs it now and then; its trigger is how far its runs are apart, and a run is one batch.
    origin
        The query whose errors it shares, if it takes the place of another; empty: its own.
    facts
        What else is known.
    """

    name: str
    driver: str
    overhead: float
    cost: float
    overhead_error: float = 0.0
    cost_error: float = 0.0
    spread: float = 0.0
    shortest: float = 0.0
    trigger: float = 0.0
    phase: float = 0.0
    limit: float = float("inf")
    cores: float = 1.0
    tasks: float = 1.0
    rates: Array
    waiting: float = 0.0
    usual: float | None = None
    weight: float = 1.0
    progressive: bool = False
    limiter: str = "maxOffsetsPerTrigger"
    recorded: float | None = None
    certain: bool = True
    joint: bool = False
    scheduled: bool = False
    origin: str = ""
    facts: Facts = attrs.field(factory=Facts)

    @property
    def measured(self) -> bool:
        """Whether a replay tells how long its rows wait."""
        return self.certain and not self.joint

    @property
    def advisable(self) -> bool:
        """Whether its batches can be advised on: it always runs, and a replay tells how long its rows wait."""
        return self.measured and not self.scheduled

    @property
    def known_as(self) -> str:
        """Whose errors it shares."""
        return self.origin or self.name

    @property
    def rate(self) -> float:
        """Usual rows a second: the mean from the first period with rows to the last."""
        if self.usual is not None:
            return self.usual
        there = np.flatnonzero(self.rates > 0)
        return float(self.rates[there[0] : there[-1] + 1].mean()) if there.size else 0.0

    def seconds(self, rows: float) -> float:
        """Return the seconds of a batch of so many rows, alone on its driver."""
        return max(self.overhead + self.cost * rows, self.shortest)

    def load(self) -> Array:
        """Return the cores that it keeps busy in each period, shape ``(periods,)``: rows and, each trigger, overhead.

        Without a trigger only the rows count: how often the overhead is paid depends on the load itself.
        """
        fixed = self.overhead / max(self.trigger, self.overhead) if self.trigger and self.overhead else 0.0
        return np.asarray(self.cores * (self.cost * self.rates + self.tasks * fixed * (self.rates > 0)))

    def wanted(self, rows: Array) -> Array:
        """Return the cores that batches of so many rows keep busy, in the mean over each."""
        work = self.cost * rows
        fixed = np.maximum(self.overhead, self.shortest - work)
        return np.asarray(self.cores * (self.tasks * fixed + work) / np.maximum(fixed + work, 1e-12))


@attrs.frozen(eq=False, kw_only=True)
class Deployment:
    """Queries, the drivers that they run on, and what arrives.

    Attributes
    ----------
    jobs
        By name of the query.
    drivers
        Cores by name of the driver.
    period
        Step of the rates (s).
    start
        Begin of the rates (s since the epoch).
    recorded
        How many periods come from the record, before a burst; None: all.
    spans
        By driver: when it began and ended (s since the epoch), where the record tells.
    notes
        What had to be assumed.
    """

    jobs: Mapping[str, Job]
    drivers: Mapping[str, float]
    period: float
    start: float = 0.0
    recorded: int | None = None
    spans: Mapping[str, tuple[float, float]] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()

    def on(self, driver: str) -> tuple[str, ...]:
        """Return the names of a driver's queries."""
        return tuple(name for name, job in self.jobs.items() if job.driver == driver)

    def having(self, name: str, **changes: Any) -> Deployment:
        """Return it with another setting of one query."""
        return attrs.evolve(self, jobs={**self.jobs, name: attrs.evolve(self.jobs[name], **changes)})

    def without(self, name: str) -> Deployment:
        """Return it without one query."""
        return attrs.evolve(self, jobs={other: job for other, job in self.jobs.items() if other != name})

    @property
    def periods(self) -> int:
        """Number of periods."""
        return max((job.rates.size for job in self.jobs.values()), default=0)


@attrs.frozen(kw_only=True)
class Aims:
    """What the asker wants.

    Attributes
    ----------
    latency
        Bound of the worst latency of every query (s); None: as little as possible.
    """

    latency: float | None = None

    def __attrs_post_init__(self) -> None:
        if self.latency is not None and not 0 < self.latency < math.inf:
            raise InputError(f"expected a finite time > 0 s, got {self.latency:g}", at="--latency")

    def misses(self, worst: float) -> float:
        """Return by how many seconds a latency misses the bound; without a bound, the latency itself."""
        return worst if self.latency is None else max(worst - self.latency, 0.0)


@attrs.frozen(eq=False, kw_only=True)
class Proposal:
    """One change, before it is judged.

    Attributes
    ----------
    kind, query, setting, old, new
        Which setting of which query (or queries, comma between) changes, from what to what.
    unit
        What the values count: ``rows``, ``s``, ``cores``, ``partitions``; empty for names.
    why
        The evidence, in one sentence without a full stop.
    after
        The deployment with the change, and where its effect is not sure, `least`: with the least of it.
    about, becomes
        Queries whose rows are looked at before and after.
    saves
        Cores that become free.
    costs
        Weighted seconds beyond the bound that the change itself takes.
    also
        Further settings that belong to the change.
    remark
        What to mind.
    """

    kind: str
    query: str
    setting: str
    old: float | str | None
    new: float | str
    unit: str = ""
    why: str
    after: Deployment
    least: Deployment | None = None
    about: tuple[str, ...]
    becomes: tuple[str, ...] | None = None
    saves: float = 0.0
    costs: float = 0.0
    also: Mapping[str, float | str] = attrs.field(factory=dict)
    remark: str = ""


Interval = tuple[float, float, float]
"""Low, middle and high: quantiles 5, 50 and 95 % over draws."""


@attrs.frozen(kw_only=True)
class Latency:
    """Latency of rows (s), each figure with its interval."""

    p50: Interval
    p99: Interval
    worst: Interval

    def document(self) -> dict[str, list[float]]:
        """Return it as lists."""
        return {name: list(getattr(self, name)) for name in ("p50", "p99", "worst")}


@attrs.frozen(eq=False, kw_only=True)
class Advice:
    """One change that pays, with its expected effect.

    Attributes
    ----------
    proposal
        The change.
    before, after
        Latency of the rows of `Proposal.about` under the recorded settings and under the advice.
    gain
        Seconds of worst latency (beyond the bound, where there is one) that it saves, weighted, over all queries.
    """

    proposal: Proposal
    before: Latency
    after: Latency
    gain: Interval

    def document(self) -> Document:
        """Return what ``penstock advise --json`` prints of it."""
        proposal = self.proposal
        return {
            "kind": proposal.kind,
            "query": proposal.query,
            "setting": proposal.setting,
            "from": proposal.old,
            "to": proposal.new,
            "unit": proposal.unit or None,
            "also": dict(proposal.also),
            "why": proposal.why,
            "remark": proposal.remark or None,
            "before": self.before.document(),
            "after": self.after.document(),
            "gain": list(self.gain),
            "saves": {"cores": proposal.saves},
            "about": list(proposal.about),
        }


@attrs.frozen(eq=False, kw_only=True)
class Report:
    """All advice, and what it was found from.

    Attributes
    ----------
    deployment
        As it was replayed, burst included.
    advice
        The best first.
    latency
        By query, under the recorded settings.
    growth
        By factor on all rates, by query: p99, worst latency (s) and busy share, in the middle of the draws.
    correlation
        Load correlation between queries, in the order of the deployment, shape ``(jobs, jobs)``.
    notes
        What the replay leaves out.
    """

    deployment: Deployment
    advice: tuple[Advice, ...]
    latency: Mapping[str, Latency]
    growth: Mapping[float, Mapping[str, Mapping[str, float]]]
    correlation: Array
    aims: Aims
    notes: tuple[str, ...] = ()

    @property
    def none(self) -> str:
        """What no advice means: of some queries changes cannot be judged."""
        judged = all(job.advisable for job in self.deployment.jobs.values())
        return f"no change of a setting{'' if judged else ' that can be judged'} pays"

    def document(self) -> Document:
        """Return what ``penstock advise --json`` prints."""
        names = list(self.deployment.jobs)
        return {
            "advice": [advice.document() for advice in self.advice],
            "queries": {
                name: {
                    **self.latency[name].document(),
                    "driver": job.driver,
                    "overhead": job.overhead,
                    "cost": job.cost,
                    "trigger": job.trigger,
                    "limit": None if np.isinf(job.limit) else job.limit,
                    "cores": job.cores,
                    "rate": {"mean": job.rate, "max": float(job.rates.max())},
                    "certain": job.certain,
                }
                for name, job in self.deployment.jobs.items()
            },
            "drivers": dict(self.deployment.drivers),
            "growth": [
                {"factor": factor, "queries": {name: dict(row) for name, row in rows.items()}}
                for factor, rows in self.growth.items()
            ],
            "correlation": {
                name: {other: float(self.correlation[i, j]) for j, other in enumerate(names)}
                for i, name in enumerate(names)
            },
            "latency": self.aims.latency,
            "notes": list(self.notes),
        }
