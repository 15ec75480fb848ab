"""What a network, its placement and its statistics describe, as a deployment."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.advice.values import Deployment, Facts, Job
from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.files import suggest
from penstock.latency.batches import BatchHosts
from penstock.latency.fragments import fragments
from penstock.load import LoadModel, Statistics
from penstock.network import Network


def checked_weights(weights: Mapping[str, float], names: Mapping[str, object]) -> None:
    """Refuse weights of queries that are not there, and such as are no weights."""
    for name, weight in weights.items():
        if name not in names:
            raise InputError(f"{name!r} is no query", at="--weight", hint=suggest(name, names, "queries"))
        if not (np.isfinite(weight) and weight >= 0):
            raise InputError(f"expected a finite weight >= 0, got {weight}", at=f"--weight {name}")


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
    overheads, triggers, limits = (_by_operator(statistics, key) for key in ("overhead", "trigger", "limit"))
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
        stateful = any((one := network.operators[o]).stateful or one.state is not None for o in operators)
        cost = hosts.factor[host] * float(work.sum()) / max(float(rates.sum()), 1e-300)
        jobs[name] = Job(
            name=name,
            driver=host,
            overhead=overheads.get(name, hosts.overhead[host]),
            cost=cost,
            cost_error=cost * max(errors, default=0.0),
            cores=float(cluster.hosts[host].cores),
            trigger=triggers.get(name, hosts.trigger),
            limit=limits.get(name, float("inf")),
            rates=rates,
            weight=(weights or {}).get(name, 1.0),
            progressive=hosts.progressive,
            facts=Facts(
                reads=tuple(sorted(writer for writer in feeds if writer in network.sources)), stateful=stateful
            ),
        )
    checked_weights(weights or {}, jobs)
    used = {job.driver for job in jobs.values()}
    drivers = {name: float(host.cores) for name, host in cluster.hosts.items() if name in used}
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
