"""What is deployed, from an inspection of logs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping

import attrs
import numpy as np

from penstock.advice.company import Alone, alone
from penstock.advice.planned import checked_weights
from penstock.advice.values import UNKNOWN, Deployment, Facts, Job
from penstock.arrays import Array, deviation
from penstock.errors import InputError
from penstock.files import suggest
from penstock.inspection import Inspection, Query, fit_batches
from penstock.inspection.arrivals import POLL, rate_series
from penstock.inspection.fit import UNTIMED
from penstock.inspection.fitted import Fit
from penstock.inspection.scheduled import Schedule, once_each, schedule
from penstock.telemetry import STATE_COMMIT, Application
from penstock.units import human

WAITED = 10.0
"""Rows that wait at the beginning are told of where they are more than come in so many seconds."""

PAUSED = 0.25
"""A query that did not run for this share of its time is told of."""

STEPS = 5_000_000
"""Steps of rates that all queries have at most, so that they stay in memory."""

ONCE = "one batch a run does not tell how its rows come; three runs that are evenly apart do"

ARRIVED = "rates are what the logs show: a query that never waited shows what it managed, not what arrived"

REAL_TIME = "in real-time mode rows leave while a batch runs, which no replay of batches tells"

KAFKA = re.compile(r"^Kafka|[.$]Kafka[^.$]*$", re.IGNORECASE)
"""A sink of Kafka, as Spark describes it: ``KafkaTable``, and in older versions with its classes before it."""

LIMITERS = (
    ("kafka", "maxOffsetsPerTrigger"),
    ("file", "maxFilesPerTrigger"),
    ("delta", "maxFilesPerTrigger"),
    ("cloudfiles", "cloudFiles.maxFilesPerTrigger"),
    ("rate", "rowsPerSecond"),
    ("textsocket", ""),
)
"""What limits a batch, by the beginning of a source's description; of others it is not known."""


def deployed(
    inspection: Inspection, weights: Mapping[str, float] | None = None, cores: Mapping[str, float] | None = None
) -> Deployment:
    """Return the deployment that logs show: queries by driver, with costs as they are without company.

    Parameters
    ----------
    weights
        Worth of a second of latency, by query; 1 where it is not given.
    cores
        Cores of drivers, by application, in place of those that the logs tell; without either it is 1.

    Raises
    ------
    InputError
        If a weight names no query or cores no application, or no query has durations that tell how long rows wait.
    """
    weights, cores = weights or {}, cores or {}
    checked_weights(weights, inspection.queries)
    prompt = [name for name, query in inspection.queries.items() if query.log.real_time]
    timed = {name: query for name, query in inspection.queries.items() if query.seconds.size and name not in prompt}
    known = {name: query for name, query in timed.items() if _rate_told(query)}
    if not known:
        alike = len(prompt) == len(inspection.queries)
        raise InputError(f"nothing to advise on: {REAL_TIME if alike else ONCE if timed else UNTIMED}")
    apps = dict.fromkeys(query.log.app for query in known.values())
    _checked_cores(cores, inspection.applications)
    edges, step = _edges(known.values())
    unknown = [app for app in apps if app not in cores and _told(inspection.applications.get(app)) is None]
    drivers, jobs = {}, {}
    for app in apps:
        application = inspection.applications.get(app)
        # Without executors in the log one core stands for all: then every two batches at once share it.
        drivers[app] = cores.get(app) or _told(application) or 1.0
        queries = {name: query for name, query in timed.items() if query.log.app == app}
        for name, own in alone(queries, drivers[app]).items():
            if name not in known:
                continue
            job = _job(queries[name], own, edges, weights.get(name, 1.0), application)
            # Which part of a batch the seconds of its tasks are depends on the cores.
            jobs[name] = attrs.evolve(job, facts=attrs.evolve(job.facts, commit=0.0)) if app in unknown else job
    left_out = {
        UNTIMED: [name for name in inspection.queries if name not in timed and name not in prompt],
        ONCE: [name for name in timed if name not in known],
        REAL_TIME: prompt,
    }
    untold = [name for name, job in jobs.items() if known[name].trigger is None and not job.scheduled]
    notes = (
        *_assumed(unknown),
        *_left_out(left_out),
        *_scheduled(jobs),
        *_untold(untold),
        *_doubtful([known[name] for name, job in jobs.items() if not job.scheduled]),
        *_joint([name for name, job in jobs.items() if job.joint]),
        *_paused(jobs, known),
        *_waiting(jobs),
        ARRIVED,
    )
    start, spans = float(edges[0]), _spans(inspection)
    return Deployment(jobs=jobs, drivers=drivers, period=step, start=start, spans=spans, notes=notes)


def _spans(inspection: Inspection) -> dict[str, tuple[float, float]]:
    return {
        name: (application.start, application.end)
        for name, application in inspection.applications.items()
        if application.end > application.start  # neither is NaN, which progress may leave
    }


def _edges(queries: Collection[Query]) -> tuple[Array, float]:
    """Return the edges of the steps of rates (s since the epoch) and the step, in which no burst is lost.

    Rows are told of by trigger, so triggers of a second and more are multiples of the step, and fire at its edges.
    """
    first = min(float(query.batches.start[0]) for query in queries)
    last = max(float(query.batches.start[-1]) for query in queries)
    waits = (round(1000 * max(query.trigger or 0.0, POLL)) for query in queries)
    step = max(math.gcd(*waits) / 1000, POLL)
    step *= max(math.ceil((last - first) * len(queries) / (STEPS * step)), 1)
    begin = math.floor(first / step) * step
    return begin + step * np.arange(max(math.ceil((last - begin) / step), 1) + 1.0), step


def _told(application: Application | None) -> float | None:
    """Return the cores of an application, if the log tells any."""
    cores = application.cores if application is not None else float("nan")
    return float(cores) if np.isfinite(cores) and cores > 0 else None


def _checked_cores(cores: Mapping[str, float], names: Mapping[str, object]) -> None:
    """Refuse cores of applications that are not there, and such as are no number of cores."""
    for name, count in cores.items():
        if name not in names:
            raise InputError(f"{name!r} is no application", at="--cores", hint=suggest(name, names, "applications"))
        if not (np.isfinite(count) and count > 0):
            raise InputError(f"expected a number of cores > 0, got {count:g}", at=f"--cores {name}")


def _assumed(apps: list[str]) -> Iterator[str]:
    if apps:
        yield (
            f"progress does not tell the driver's cores; 1 is assumed for {', '.join(apps)} "
            f"(say them with --cores {apps[0]}=N)"
        )


def _rate_told(query: Query) -> bool:
    """Whether the batches tell how fast rows come: those of a few runs of one batch each do not."""
    return not once_each(query.batches) or schedule(query.batches) is not None


def _left_out(by_reason: Mapping[str, list[str]]) -> Iterator[str]:
    for why, names in by_reason.items():
        if names:
            yield f"left out: {', '.join(names)}; {why}"


def _untold(names: list[str]) -> Iterator[str]:
    if names:
        yield (
            f"the trigger of {', '.join(names)} is not told, and replayed as none: with one that their batches do not "
            "fill, rows wait longer"
        )


def _doubtful(queries: list[Query]) -> Iterator[str]:
    for query in queries:
        if query.capacity.limit is not None and not query.capacity.sure:
            yield f"a limit of {query.capacity.limit:,.0f} rows may apply to {query.name}; it is replayed as none"


def _joint(names: list[str]) -> Iterator[str]:
    if names:
        yield (
            f"the limit of {', '.join(names)} is that of one of several sources, whose rows are replayed together: "
            "those of the limited one may wait longer, and no change of it is advised"
        )


def _scheduled(jobs: Mapping[str, Job]) -> Iterator[str]:
    for name, job in jobs.items():
        if job.scheduled:
            yield (
                f"{name} is run about every {human(job.trigger)} by a scheduler: its rows wait for the next run, which "
                "is replayed as one batch, and no trigger, limit or cores are advised"
            )


def _paused(jobs: Mapping[str, Job], queries: Mapping[str, Query]) -> Iterator[str]:
    for name, job in jobs.items():
        batches = queries[name].batches
        between = np.maximum(batches.start[1:] - batches.end[:-1], 0.0)[np.diff(batches.run) != 0]
        if not job.scheduled and between.sum() > PAUSED * (batches.start[-1] - batches.start[0]):
            yield f"{name} did not run for {human(between.sum())}: what came then counts from when it ran again"


def _waiting(jobs: Mapping[str, Job]) -> Iterator[str]:
    for name, job in jobs.items():
        if job.waiting > job.rate * max(job.trigger, WAITED):
            yield f"{job.waiting:,.0f} rows of {name} wait at first; their age is not told, and counts from there"


def _job(query: Query, own: Alone, edges: Array, weight: float, application: Application | None) -> Job:
    batches, done = query.batches, query.warm
    # A replay has no batches without rows, such as those that only move a watermark on.
    filled = done & (batches.rows > 0)
    fit = fit_batches(batches.rows[done], own.seconds[done])
    known = fit.overhead is not None and fit.cost is not None
    overhead, cost = _line(fit, batches.rows[done])
    limit = query.capacity.limit if query.capacity.sure else None
    job = Job(
        name=query.name,
        driver=query.log.app,
        overhead=overhead,
        cost=cost,
        overhead_error=(fit.overhead_error or 0.0) if known else 0.0,
        cost_error=fit.cost_error or 0.0,
        spread=min(fit.spread if known else _spread(own.seconds[filled], fit.typical), 0.5),
        shortest=0.0 if known or not fit.batches else fit.typical,
        trigger=query.trigger or 0.0,
        limit=limit or float("inf"),
        cores=own.cores,
        tasks=own.tasks,
        rates=rate_series(batches, query.arrivals, edges, query.trigger, at_restart=True).sum(axis=0),
        usual=query.rate if query.rate > 0 else None,
        waiting=float(np.nan_to_num(batches.lag[0])),
        weight=weight,
        progressive=bool(KAFKA.search(query.log.sink)),
        limiter=_limiter(query.log.sources),
        recorded=float(np.median(batches.duration[filled])) if filled.any() else None,
        certain=known,
        joint=limit is not None and int((query.arrivals.sum(axis=1) > 0).sum()) > 1,
        facts=_facts(query, application),
    )
    runs = schedule(batches)
    return job if runs is None else _by_runs(job, runs, query, edges)


def _line(fit: Fit, rows: Array) -> tuple[float, float]:
    """Return overhead and cost; where they could not be told, the most that a row costs, and what this leaves."""
    if fit.cost is not None or fit.cost_most is None:
        return fit.overhead or 0.0, fit.cost or 0.0
    # An overhead in which the cost is lost is that of a batch of the middle size, rows included.
    return max((fit.overhead or 0.0) - fit.cost_most * float(np.median(rows[rows > 0])), 0.0), fit.cost_most


def _spread(seconds: Array, typical: float) -> float:
    """Return the scale of the relative differences between batches of which no fit tells."""
    return deviation(seconds / typical - 1) if seconds.size else 0.0


def _by_runs(job: Job, runs: Schedule, query: Query, edges: Array) -> Job:
    """Return a query on a schedule: a run is a batch, with the rows that came since the run before."""
    return attrs.evolve(
        job,
        overhead=job.overhead * runs.batches,
        overhead_error=job.overhead_error * runs.batches,
        shortest=job.shortest * runs.batches,
        trigger=runs.apart,
        phase=runs.phase,
        limit=float("inf"),
        joint=False,
        rates=rate_series(*runs.counted(query.batches, query.arrivals), edges).sum(axis=0),
        usual=None,
        waiting=0.0,
        progressive=False,
        recorded=float(np.median(runs.sums(query.batches.duration))),
        scheduled=True,
    )


def _limiter(reads: tuple[str, ...]) -> str:
    """Return the option that limits the batches of sources; empty where there is none.

    Examples
    --------
    >>> _limiter(("FileStreamSource[file:/in]",)), _limiter(("KafkaV2[Subscribe[clicks]]",))
    ('maxFilesPerTrigger', 'maxOffsetsPerTrigger')
    """
    kind = reads[0].lower() if reads else ""
    return next((option for begin, option in LIMITERS if kind.startswith(begin)), UNKNOWN)


def _facts(query: Query, application: Application | None) -> Facts:
    settings = application.settings if application is not None else {}
    commit = query.batches.parts.get(STATE_COMMIT)
    state = bool(query.log.state)
    # What a program sets itself is not among the settings: they tell nothing of what they leave out.
    partitions = str(query.log.partitions or settings.get("spark.sql.shuffle.partitions", "nan"))
    came = query.arrivals.sum(axis=1)
    return Facts(
        reads=query.log.sources,
        shares=tuple((came / max(float(came.sum()), 1.0)).tolist()),
        stateful=state,
        partitions=float(partitions) if state and partitions.replace(".", "").isdigit() else float("nan"),
        commit=float(np.median(commit[query.warm])) if state and commit is not None and query.warm.any() else 0.0,
        state_rows=float(query.batches.state_rows[-1]) if state else 0.0,
        state_bytes=float(query.batches.state_bytes[-1]) if state else 0.0,
        provider=query.log.store or settings.get("spark.sql.streaming.stateStore.providerClass", ""),
    )
