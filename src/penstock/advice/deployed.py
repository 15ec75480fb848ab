"""What is deployed, from an inspection of logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from penstock.advice.company import Alone, alone
from penstock.advice.planned import checked_weights
from penstock.advice.values import Deployment, Facts, Job
from penstock.arrays import Array
from penstock.errors import InputError
from penstock.files import suggest
from penstock.inspection import Inspection, Query, fit_batches
from penstock.inspection.arrivals import rate_series
from penstock.inspection.fit import UNTIMED
from penstock.telemetry import STATE_COMMIT, Application

LIMITERS = (("file", "maxFilesPerTrigger"), ("delta", "maxFilesPerTrigger"), ("rate", "rowsPerSecond"))
"""What limits a batch, by the beginning of a source's description; else Kafka's ``maxOffsetsPerTrigger``."""


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
        If a weight names no query or cores no application, or no query has durations.
    """
    weights, cores = weights or {}, cores or {}
    checked_weights(weights, inspection.queries)
    timed = {name: query for name, query in inspection.queries.items() if query.seconds.size}
    if not timed:
        raise InputError(f"nothing to advise on: {UNTIMED}")
    apps = dict.fromkeys(query.log.app for query in timed.values())
    _checked_cores(cores, inspection.applications)
    first = min(float(query.batches.start[0]) for query in timed.values())
    last = max(float(query.batches.start[-1]) for query in timed.values())
    edges = first + inspection.period * np.arange(max(int(np.ceil((last - first) / inspection.period)), 1) + 1.0)
    drivers, jobs = {}, {}
    for app in apps:
        application = inspection.applications.get(app)
        # Without executors in the log one core stands for all: then every two batches at once share it.
        drivers[app] = cores.get(app) or _told(application) or 1.0
        queries = {name: query for name, query in timed.items() if query.log.app == app}
        for name, own in alone(queries, drivers[app]).items():
            query = queries[name]
            rates = rate_series(query.batches, query.arrivals, edges).sum(axis=0)
            jobs[name] = _job(query, own, rates, weights.get(name, 1.0), application)
    unknown = [app for app in apps if app not in cores and _told(inspection.applications.get(app)) is None]
    left_out = [name for name in inspection.queries if name not in timed]
    notes = (*_assumed(unknown), *_left_out(left_out))
    return Deployment(jobs=jobs, drivers=drivers, period=inspection.period, start=first, notes=notes)


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


def _left_out(names: list[str]) -> Iterator[str]:
    if names:
        yield f"left out: {', '.join(names)}; {UNTIMED}"


def _job(query: Query, own: Alone, rates: Array, weight: float, application: Application | None) -> Job:
    batches, done = query.batches, query.warm
    fit = fit_batches(batches.rows[done], own.seconds[done])
    known = fit.overhead is not None
    progressive = query.log.sink.lower().startswith("kafka")
    reads = query.log.sources
    return Job(
        name=query.name,
        driver=query.log.app,
        overhead=fit.overhead or 0.0,
        cost=(fit.cost or 0.0) if known else (fit.cost_most or 0.0),
        overhead_error=fit.overhead_error or 0.0,
        cost_error=fit.cost_error or 0.0,
        spread=min(fit.spread, 0.5) if known else 0.0,
        trigger=query.trigger or 0.0,
        limit=query.capacity.limit or float("inf"),
        cores=own.cores,
        tasks=own.tasks,
        rates=rates,
        weight=weight,
        progressive=progressive,
        limiter=_limiter(reads),
        recorded=float(np.median(batches.duration[done])) if done.any() else None,
        certain=known,
        facts=_facts(query, application),
    )


def _limiter(reads: tuple[str, ...]) -> str:
    """Return the option that limits the batches of sources.

    Examples
    --------
    >>> _limiter(("FileStreamSource[file:/in]",)), _limiter(("KafkaV2[Subscribe[clicks]]",))
    ('maxFilesPerTrigger', 'maxOffsetsPerTrigger')
    """
    kind = reads[0].lower() if reads else ""
    return next((option for begin, option in LIMITERS if kind.startswith(begin)), "maxOffsetsPerTrigger")


def _facts(query: Query, application: Application | None) -> Facts:
    settings = application.settings if application is not None else {}
    commit = query.batches.parts.get(STATE_COMMIT)
    state = bool(query.log.state)
    partitions = settings.get("spark.sql.shuffle.partitions", "200" if settings else "nan")
    return Facts(
        reads=query.log.sources,
        partitions=float(partitions) if state and partitions.replace(".", "").isdigit() else float("nan"),
        commit=float(np.median(commit[query.warm])) if state and commit is not None and query.warm.any() else 0.0,
        state_rows=float(query.batches.state_rows[-1]) if state else 0.0,
        state_bytes=float(query.batches.state_bytes[-1]) if state else 0.0,
        provider=settings.get("spark.sql.streaming.stateStore.providerClass", ""),
    )
