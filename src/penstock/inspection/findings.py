"""What is worth knowing about a query: one function a kind, each with the numbers that make it say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.inspection.capacity import find_limit
from penstock.inspection.running import Running
from penstock.inspection.values import Finding, Query
from penstock.telemetry import STATE_COMMIT, Application, QueryLog
from penstock.units import human

ENOUGH = 8
"""Batches on each side of a comparison."""


@attrs.frozen(eq=False)
class Neighbours:
    """What else the logs tell.

    Attributes
    ----------
    logs
        All queries by name.
    running
        By application: when batches of its queries ran.
    """

    logs: Mapping[str, QueryLog]
    running: Mapping[str, Running]

    @classmethod
    def of(cls, logs: Mapping[str, QueryLog]) -> Neighbours:
        """Look at when the batches of each application's queries ran."""
        apps = dict.fromkeys(log.app for log in logs.values())
        return cls(logs, {app: Running.of([log.batches for log in logs.values() if log.app == app]) for app in apps})

    def during(self, log: QueryLog) -> Array:
        """Return how many batches of other queries ran during each batch of one, in the mean over its time."""
        own = Running.of([log.batches])
        return self.running[log.app].during(log.batches) - own.during(log.batches)


Look = Callable[[Query, Neighbours], Iterator[Finding]]


def failed(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether its last run ended in an exception."""
    run = query.log.runs[-1]
    if run.error is not None:
        yield Finding(kind="failed", about=query.name, says=f"its last run ended in an exception: {run.error}")


def behind(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether rows pile up at its sources, or it never waits for any."""
    lag, start = query.batches.lag, query.batches.start
    told = ~np.isnan(lag)
    if told.sum() >= 2 * ENOUGH:
        thirds = [float(np.median(part)) for part in np.array_split(lag[told], 3)]
        if thirds[2] > 1.5 * thirds[0] and thirds[0] <= thirds[1] <= thirds[2] and query.lag_seconds > 1:
            hour = (thirds[2] - thirds[0]) / ((start[told][-1] - start[told][0]) * 2 / 3) * 3600
            yield Finding(
                kind="behind",
                about=query.name,
                says=f"it falls behind: {thirds[2]:,.0f} rows wait, {hour:,.0f} more each hour "
                f"({human(query.lag_seconds)} of input)",
                evidence={"before": thirds[0], "after": thirds[2], "rows_per_hour": hour},
            )
            return
    # Without a trigger a query that keeps up also runs back to back: each batch takes all that has come.
    keeps_up = told.any() and float(np.median(lag[told])) == 0 and not (query.capacity.headroom or np.inf) < 1
    if not query.trigger and query.busy > 0.9 and len(query.batches) >= ENOUGH and not keeps_up:
        unknown = "" if told.any() else "; the rate shown is what was managed, not what arrived"
        yield Finding(
            kind="behind",
            about=query.name,
            says=f"batches run back to back, to catch up or because they cannot keep up{unknown}",
            evidence={"busy": query.busy},
        )


def overrun(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether batches take longer than the trigger's interval, once it has started."""
    there = query.warm & (query.batches.rows > 0)
    if not query.trigger or there.sum() < ENOUGH:
        return
    share = float((query.batches.duration[there] > query.trigger).mean())
    if share >= 0.05:
        yield Finding(
            kind="overrun",
            about=query.name,
            says=f"{share:.0%} of its batches take longer than the trigger's {human(query.trigger)}",
            evidence={"share": share, "trigger": query.trigger},
        )


def limited(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether its batches are cut off at a number of rows."""
    limit = find_limit(query.batches, query.arrivals)
    if limit is None:
        return
    sources = query.log.sources
    of = f" of {sources[limit.source]}" if len(sources) > 1 else ""
    applies = "applies" if limit.sure else "may apply; its source does not tell what waits"
    yield Finding(
        kind="limit",
        about=query.name,
        says=f"{limit.share:.0%} of its batches have {limit.own:,.0f} rows{of}: a limit such as maxOffsetsPerTrigger "
        f"{applies}",
        evidence={"limit": limit.own, "share": limit.share},
    )


def contention(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether its batches take longer while other queries of the application run theirs."""
    batches = query.batches
    together = beside.during(query.log)
    there = query.warm & (batches.rows > 0) & (batches.duration > 0)
    if not there.any():
        return
    ratio = np.divide(batches.duration, query.fit.seconds(batches.rows), out=np.ones(len(batches)), where=there)
    # Short batches of a light query beside it do not make a batch crowded: half of its time must be shared.
    alone, crowded = there & (together < 0.25), there & (together >= 0.5)
    if alone.sum() < ENOUGH or crowded.sum() < ENOUGH:
        return
    factor = float(np.median(ratio[crowded]) / np.median(ratio[alone]))
    if factor < 1.15 or _rank_sum(ratio[crowded], ratio[alone]) > 1e-3:
        return
    others = {n: log for n, log in beside.logs.items() if n != query.name and log.app == query.log.app}
    shared = {name: float(Running.of([log.batches]).during(batches)[crowded].sum()) for name, log in others.items()}
    worst = max(shared, key=lambda name: shared[name])
    yield Finding(
        kind="contention",
        about=query.name,
        says=f"its batches take {factor:.2g} times as long while other queries of the driver run theirs "
        f"(mostly {worst!r}); {crowded.sum()} batches beside others, {alone.sum()} alone",
        evidence={"factor": factor, "crowded": float(crowded.sum()), "alone": float(alone.sum())},
        other=worst,
    )


def _rank_sum(one: Array, other: Array) -> float:
    """Return the chance that values of `one` are by luck as much larger (Mann and Whitney 1947, normal limit)."""
    ranks = np.argsort(np.argsort(np.concatenate([one, other]), kind="stable"), kind="stable")
    m, n = one.size, other.size
    wins = float(ranks[:m].sum()) - m * (m - 1) / 2
    deviation = math.sqrt(m * n * (m + n + 1) / 12)
    return math.erfc((wins - m * n / 2) / deviation / math.sqrt(2)) / 2


def state_growth(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether its state grows without coming to rest."""
    rows = query.batches.state_rows[query.warm]
    start = query.batches.start[query.warm]
    if rows.size < 4 * ENOUGH // 2 or rows.max() < 1000:
        return
    quarters = [float(np.median(part)) for part in np.array_split(rows, 4)]
    rising = all(after > before for before, after in pairwise(quarters))
    last, first = quarters[3] - quarters[2], max(quarters[1] - quarters[0], 1.0)
    # State behind a watermark fills up and then stays: its growth slows down.
    if not rising or quarters[3] < 1.2 * quarters[0] or last < 0.4 * first:
        return
    hour = (quarters[3] - quarters[0]) / max(float(start[-1] - start[0]) * 0.75, 1e-9) * 3600
    size = float(query.batches.state_bytes[-1])
    yield Finding(
        kind="state-growth",
        about=query.name,
        says=f"its state keeps growing: from {rows[0]:,.0f} to {rows[-1]:,.0f} rows "
        f"({size / 2**20:,.0f} MiB), about {hour:,.0f} rows an hour",
        evidence={"before": float(rows[0]), "after": float(rows[-1]), "rows_per_hour": hour, "bytes": size},
    )


def skew(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether one task of a batch keeps the others waiting."""
    batches = query.batches
    told = query.warm & ~np.isnan(batches.slowest) & (batches.duration > 0)
    if told.sum() < ENOUGH:
        return
    slowest, typical, took = batches.slowest[told], batches.typical[told], batches.duration[told]
    ratio = float(np.median(slowest / np.maximum(typical, 1e-3)))
    share = float(np.median((slowest - typical) / took))
    if ratio >= 2 and share >= 0.1:
        yield Finding(
            kind="skew",
            about=query.name,
            says=f"its batches are skewed: the slowest task runs {ratio:.2g} times as long as the others of its "
            f"stage, which is {share:.0%} of a batch",
            evidence={"ratio": ratio, "share": share, "batches": float(told.sum())},
        )


def state_commit(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether committing the state is a large part of its tasks' time; both add up over the tasks."""
    part, tasks = query.batches.parts.get(STATE_COMMIT), query.batches.task_seconds
    told = query.warm & (tasks > 0)  # False for NaN, where the log has no tasks
    if part is None or told.sum() < ENOUGH:
        return
    share = float(np.median(part[told] / tasks[told]))
    if share >= 0.3:
        yield Finding(
            kind="state-commit",
            about=query.name,
            says=f"committing its state takes {min(share, 1.0):.0%} of its tasks' time: fewer shuffle partitions or "
            "RocksDB with changelog checkpoints make it cheaper",
            evidence={"share": share},
        )


def late_rows(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether rows came too late for its watermark."""
    late, rows = float(query.batches.late.sum()), float(query.batches.rows.sum())
    if late <= 0:
        return
    # Before a windowed aggregation sees them, Spark has made one of all rows of a group in a task.
    grouped = any("statestoresave" in name.lower() for name in query.log.state)
    share = late / max(rows, 1.0)
    yield Finding(
        kind="late",
        about=query.name,
        says=f"at least {late:,.0f} rows came behind the watermark and were dropped (Spark counts groups, not rows)"
        if grouped
        else f"{late:,.0f} rows came behind the watermark and were dropped ({share:.2%} of what it read)",
        evidence={"rows": late} if grouped else {"rows": late, "share": share},
    )


def rereads(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether each of its batches reads the source several times."""
    times = query.log.times_read
    if times > 1:
        remedy = ": persist it in foreachBatch" if "foreachbatch" in query.log.sink.lower() else ""
        yield Finding(
            kind="rereads",
            about=query.name,
            says=f"each batch is read {times} times{remedy}; Spark adds these up, and here its rows are counted once",
            evidence={"times": float(times)},
        )


def real_time(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether it runs in real-time mode, in which most figures have no meaning."""
    if query.log.real_time:
        yield Finding(
            kind="real-time",
            about=query.name,
            says="it runs in real-time mode: rows leave while a batch runs, so how long batches take tells nothing of "
            "latency, cost or headroom",
        )


def warm_up(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether its first batches were slower; they are left out of the fit."""
    cold = ~query.warm & (query.batches.rows > 0)
    if not cold.any():
        return
    took, first = query.batches.duration, int(np.argmax(cold))
    before = took[:first][~query.warm[:first]]
    longer = f", and one without rows before it: {human(before.max())}" if (before > 2 * took[first]).any() else ""
    ratio = float(np.median(took[cold] / query.fit.seconds(query.batches.rows)[cold]))
    yield Finding(
        kind="warm-up",
        about=query.name,
        says=f"its first {_batches(int(cold.sum()))} after a start took {ratio:.2g} times as long as later ones of "
        f"that size (the first: {human(float(took[first]))}{longer}); the fit leaves them out",
        evidence={"batches": float(cold.sum()), "factor": ratio, "first": float(took[first])},
    )


def restarted(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Whether it was started again."""
    if not query.restarts:
        return
    errors = [run.error for run in query.log.runs[:-1] if run.error is not None]
    fresh = len(query.log.ids) - 1
    batches = query.batches
    again = np.flatnonzero(np.diff(batches.run))
    pause = float(max(batches.start[again + 1] - batches.end[again], default=0.0))
    yield Finding(
        kind="restart",
        about=query.name,
        says=f"it was restarted {_times(query.restarts)}"
        + (f", {_times(fresh)} on a new checkpoint" if fresh else "")
        + (f", after {len(errors)} error{'s' if len(errors) > 1 else ''}" if errors else "")
        + (f"; the longest pause was {human(max(pause, 0.0))}" if again.size else ""),
        evidence={"restarts": float(query.restarts), "errors": float(len(errors)), "pause": max(pause, 0.0)},
    )


def _batches(count: int) -> str:
    return "batch" if count == 1 else f"{count} batches"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def untold(query: Query, beside: Neighbours) -> Iterator[Finding]:
    """Why overhead or cost could not be told."""
    if query.fit.reason is not None:
        missing = "overhead and cost" if query.fit.overhead is None else "cost"
        yield Finding(kind="no-fit", about=query.name, says=f"no {missing}: {query.fit.reason}")


def dynamic_allocation(application: Application) -> Iterator[Finding]:
    """Whether an application's executors came and went while it ran."""
    when, cores = application.changes.T if len(application.changes) else (np.zeros(0), np.zeros(0))
    # Each attempt of an application begins without executors, and that it gets them is no news.
    attempt = np.maximum(np.searchsorted(application.attempts, when, side="right") - 1, 0)
    since = when - np.asarray(application.attempts)[attempt]
    same = np.diff(attempt, prepend=-1) == 0
    lost = (np.diff(cores, prepend=0.0) < 0) & same
    if not ((since > 120).any() or lost.any()) or len(cores) < 2:
        return
    settled = cores[(since > 30) | (np.arange(cores.size) == cores.size - 1)]
    yield Finding(
        kind="dynamic-allocation",
        about=application.id,
        says=f"executors came and went: {int(settled.min())} to {int(cores.max())} cores, lost {int(lost.sum())} "
        "times; costs are means over all of it",
        evidence={"least": float(settled.min()), "most": float(cores.max()), "lost": float(lost.sum())},
    )


LOOKS: tuple[Look, ...] = (
    failed, behind, overrun, limited, contention, state_growth, skew, state_commit, rereads, late_rows, warm_up,
    restarted, untold,
)  # fmt: skip
"""The weightiest first."""

REAL_TIME: tuple[Look, ...] = (failed, real_time, state_growth, late_rows, restarted)
"""What is looked for in real-time mode, whose batches last as long as the trigger says."""

KINDS = (
    "failed", "real-time", "behind", "overrun", "limit", "contention", "state-growth", "skew", "state-commit",
    "rereads", "late", "dynamic-allocation", "warm-up", "restart", "no-fit",
)  # fmt: skip
"""The kinds of findings, the weightiest first."""


def find_all(
    queries: Mapping[str, Query], beside: Neighbours, applications: Mapping[str, Application]
) -> tuple[Finding, ...]:
    """Return all findings, the weightiest kinds first, and by name within them."""
    found = [
        finding
        for query in queries.values()
        for look in (REAL_TIME if query.log.real_time else LOOKS)
        for finding in look(query, beside)
    ]
    found += [finding for application in applications.values() for finding in dynamic_allocation(application)]
    return tuple(sorted(found, key=lambda finding: (KINDS.index(finding.kind), finding.about)))
