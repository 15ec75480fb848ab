"""What is deployed, from an inspection of logs or from the files of a network."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.advice.values import Deployment, Facts, Job
from penstock.arrays import Array
from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.files import suggest
from penstock.inspection import Inspection, Query, fit_batches
from penstock.inspection.arrivals import rate_series
from penstock.latency.batches import BatchHosts
from penstock.latency.fragments import fragments
from penstock.load import LoadModel, Statistics
from penstock.network import Network
from penstock.telemetry import STATE_COMMIT, Application

LIMITERS = (("file", "maxFilesPerTrigger"), ("delta", "maxFilesPerTrigger"), ("rate", "rowsPerSecond"))
"""What limits a batch, by the beginning of a source's description; else Kafka's ``maxOffsetsPerTrigger``."""

BATCHES = 5000
"""Batches of a query that are replayed at most; of a longer log, the busiest part is."""


def deployed(inspection: Inspection, weights: Mapping[str, float] | None = None) -> Deployment:
    """Return the deployment that logs show: queries by driver, with costs as they are without company.

    Parameters
    ----------
    weights
        Worth of a second of latency, by query; 1 where it is not given.

    Raises
    ------
    InputError
        If a weight names no query.
    """
    weights = weights or {}
    checked_weights(weights, inspection.queries)
    first = min(float(query.batches.start[0]) for query in inspection.queries.values())
    last = max(float(query.batches.start[-1]) for query in inspection.queries.values())
    edges = first + inspection.period * np.arange(max(int(np.ceil((last - first) / inspection.period)), 1) + 1.0)
    drivers, jobs = {}, {}
    for app in dict.fromkeys(query.log.app for query in inspection.queries.values()):
        application = inspection.applications.get(app)
        cores = application.cores if application is not None else float("nan")
        # Without executors in the log one core stands for all: then every two batches at once share it.
        drivers[app] = float(cores) if np.isfinite(cores) and cores > 0 else 1.0
        queries = {name: inspection.queries[name] for name in inspection.of_application(app)}
        used = {name: _cores(query, drivers[app]) for name, query in queries.items()}
        slowed = _slowed(queries, used, drivers[app])
        for name, query in queries.items():
            rates = rate_series(query.batches, query.arrivals, edges).sum(axis=0)
            jobs[name] = _job(query, slowed[name], rates, (used[name], weights.get(name, 1.0)), application)
    return Deployment(jobs=jobs, drivers=drivers, period=inspection.period, start=first)


def checked_weights(weights: Mapping[str, float], names: Mapping[str, object]) -> None:
    """Refuse weights of queries that are not there, and such as are no weights."""
    for name, weight in weights.items():
        if name not in names:
            raise InputError(f"{name!r} is no query", at="--weight", hint=suggest(name, names, "queries"))
        if not (np.isfinite(weight) and weight >= 0):
            raise InputError(f"expected a finite weight >= 0, got {weight}", at=f"--weight {name}")


def _job(query: Query, slowed: Array, rates: Array, told: tuple[float, float], application: Application | None) -> Job:
    cores, weight = told
    batches, done = query.batches, query.warm
    fit = fit_batches(batches.rows[done], batches.duration[done] / slowed[done])
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
        cores=cores,
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


def _wanted(queries: Mapping[str, Query], used: Mapping[str, float]) -> tuple[Array, Array]:
    """Return the times at which batches begin or end, and the cores that are wanted from each on."""
    times = np.unique(np.concatenate([np.concatenate([q.batches.start, q.batches.end]) for q in queries.values()]))
    change = np.zeros(times.size)
    for name, query in queries.items():
        np.add.at(change, np.searchsorted(times, query.batches.start), used[name])
        np.add.at(change, np.searchsorted(times, query.batches.end), -used[name])
    return times, np.cumsum(change)


def _slowed(queries: Mapping[str, Query], used: Mapping[str, float], cores: float) -> dict[str, Array]:
    """Return, of each query's batches, how many times as long they took as alone: the cores that were wanted at the
    time over those that there are, in the mean over the batch.
    """
    times, wanted = _wanted(queries, used)
    # How far a batch gets in a time is that time over how slow all are.
    progress = np.concatenate([[0.0], np.cumsum(np.diff(times) / np.maximum(wanted[:-1] / cores, 1.0))])
    found = {}
    for name, query in queries.items():
        done = np.interp(query.batches.end, times, progress) - np.interp(query.batches.start, times, progress)
        found[name] = query.batches.duration / np.maximum(np.minimum(done, query.batches.duration), 1e-9)
    return found


def _cores(query: Query, cores: float) -> float:
    """Return how many cores a query's batches keep busy while they run: seconds of its tasks over its own.

    What it had while others ran may be too little: the batches that had most count. All cores where no tasks are told.
    """
    batches = query.batches
    told = query.warm & (batches.tasks > 0) & (batches.duration > 0) & np.isfinite(batches.task_seconds)
    if not told.any():
        return cores
    share = batches.task_seconds[told] / batches.duration[told]
    return float(np.clip(np.quantile(share, 0.9), 0.05, cores))


def busiest(deployment: Deployment, most: int = BATCHES) -> Deployment:
    """Return the deployment over the busiest part of its rates, such that no query has more than `most` batches."""
    apart = [max(job.trigger, job.overhead, 0.05) for job in deployment.jobs.values()]
    wanted = int(most * min(apart, default=1.0) / deployment.period)
    if wanted >= deployment.periods or wanted < 1:
        return deployment
    load = sum((job.load() for job in deployment.jobs.values()), np.zeros(deployment.periods))
    sums = np.concatenate([[0.0], np.cumsum(load)])
    at = int(np.argmax(sums[wanted:] - sums[:-wanted]))
    jobs = {name: attrs.evolve(job, rates=job.rates[at : at + wanted].copy()) for name, job in deployment.jobs.items()}
    return attrs.evolve(deployment, jobs=jobs, start=deployment.start + at * deployment.period)


def planned(
    model: LoadModel,
    cluster: Cluster,
    placement: Mapping[str, str],
    statistics: Statistics,
    weights: Mapping[str, float] | None = None,
) -> Deployment:
    """Return the deployment that a network, its placement and its statistics describe: each fragment is a query.

    Each query is looked at by itself: its rows come as if everything upstream were instantaneous.

    Raises
    ------
    InputError
        If a weight names no query.
    """
    hosts = BatchHosts.of(statistics, cluster)
    network = model.network
    overheads, triggers = (_by_operator(statistics, key) for key in ("overhead", "trigger"))
    jobs = {}
    for name, host, operators in _queries(network, placement, triggers):
        feeds = {
            stream.writer: stream.name
            for operator in operators
            for stream in network.inputs(operator)
            if stream.writer not in operators
        }
        rates = sum((model.arrivals[model.stream_index[stream]] for stream in feeds.values()), np.zeros(1))
        work = sum((model.load_of(operator) for operator in operators), np.zeros(1))
        errors = [statistics.operators[o].error for o in operators if o in statistics.operators]
        cost = hosts.factor[host] * float(work.sum()) / max(float(rates.sum()), 1e-300)
        jobs[name] = Job(
            name=name,
            driver=host,
            overhead=overheads.get(name, hosts.overhead[host]),
            cost=cost,
            cost_error=cost * max(errors, default=0.0),
            trigger=triggers.get(name, hosts.trigger),
            rates=rates,
            weight=(weights or {}).get(name, 1.0),
            progressive=hosts.progressive,
            facts=Facts(reads=tuple(sorted(writer for writer in feeds if writer in network.sources))),
        )
    checked_weights(weights or {}, jobs)
    drivers = {host: 1.0 for host in cluster.hosts if any(job.driver == host for job in jobs.values())}
    return Deployment(jobs=jobs, drivers=drivers, period=model.period, start=model.rates.start)


def _by_operator(statistics: Statistics, key: str) -> dict[str, float]:
    """Return what `penstock inspect` measured of each query, where the statistics are its own."""
    table = statistics.measured.get(key)
    if statistics.measured.get("by") != "penstock inspect" or not isinstance(table, Mapping):
        return {}
    return {str(name): float(value) for name, value in table.items() if value is not None}


def _queries(
    network: Network, placement: Mapping[str, str], own: Mapping[str, float]
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return name, host and operators of each query: operators that were queries of their own stay so."""
    if own:
        return [(name, placement[name], (name,)) for name in network.operators]
    return [
        (part.operators[0] if len(part.operators) == 1 else part.name, part.host, part.operators)
        for part in fragments(network, placement)
    ]
