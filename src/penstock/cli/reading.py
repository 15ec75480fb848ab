"""Reading what the commands are given: networks, clusters, placements, rates, keep fractions.

Imported inside the commands, so that ``--help`` does not wait for it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from penstock.cli.common import measuring, note
from penstock.cli.options import DURATION, NetworkOptions
from penstock.cluster import Cluster, Placement, base_name, read_cluster, read_placement
from penstock.errors import InputError, locating
from penstock.files import Document, Text, file_of, suggest
from penstock.load import LoadModel, Statistics, load_model, read_statistics
from penstock.load.setting import begun
from penstock.network import Network, read_network
from penstock.network.doubts import assumed_selectivities
from penstock.units import pairs
from penstock.workload import Rates, read_rates


def network_of(path: str) -> Network:
    """Read a network; what is doubtful in it is noted."""
    return read_network(path, lambda doubt: note(f"penstock: warning: {doubt}"))


def get_network(path: str, statistics: str | None = None) -> tuple[Network, Statistics]:
    """Read a network, completed by a statistics file; what is doubtful in it, and what is assumed, is noted."""
    network, known = network_of(path), Statistics() if statistics is None else read_statistics(statistics)
    return completed(network, known, statistics), known


def completed(network: Network, known: Statistics, statistics: str | None) -> Network:
    """Return a network with what a statistics file, read before, says of it; what is assumed is noted."""
    with locating(None if statistics is None else file_of(statistics)):
        network = known.check(network).complete(network)
    _note_assumed(network)
    return network


def _note_assumed(network: Network) -> None:
    names = [f"operators.{name}" for name in assumed_selectivities(network)]
    if names and not measuring():
        note(f"note: {', '.join(names)} {'has' if len(names) == 1 else 'have'} no selectivity; 1 is assumed")


def get_cluster(path: str | None, hosts: int | None, network: Network) -> Cluster:
    """Read the cluster, or make N equal hosts; the hosts that the network names must be in it."""
    if (path is None) == (hosts is None):
        raise InputError("expected one of --cluster FILE and --hosts N", at="cluster")
    if path is None:
        if hosts is None or not 1 <= hosts <= 1_000_000:
            raise InputError(f"expected 1 to 1000000 hosts, got {hosts}", at="--hosts")
        cluster = Cluster.uniform(hosts)
    else:
        cluster = read_cluster(path)
    network.check_hosts(cluster.hosts)
    return cluster


class Deployment(NamedTuple):
    """A network, what is known of it, and its cluster."""

    network: Network
    statistics: Statistics
    cluster: Cluster


def get_deployment(options: NetworkOptions) -> Deployment:
    """Read a network, what is known of it, and its cluster."""
    network, known = get_network(options.network, options.statistics)
    return Deployment(network, known, get_cluster(options.cluster, options.hosts, network))


def get_placement(given: str, network: Network, cluster: Cluster) -> Placement:
    """Read a placement that names every operator, obeys the pins and knows the hosts."""
    return fitting(read_placement(given), given, network, cluster)


def fitting(placement: Placement, given: str, network: Network, cluster: Cluster) -> Placement:
    """Return a placement, read before, if it names every operator, obeys the pins and knows the hosts."""
    with locating(file_of(given)):
        return placement.check(network.operators, cluster.hosts, network.pins)


def get_model(
    network: Network, rates: str, duration: float, period: float, known: Statistics | None = None
) -> LoadModel:
    """Read the rates and compute the load model; what is to be noted is as of `get_rates`."""
    expected = get_rates(network, rates, duration, period, known)
    with locating(file_of(rates)):
        return load_model(network, expected)


def get_rates(network: Network, rates: str, duration: float, period: float, known: Statistics | None = None) -> Rates:
    """Read the rates of exactly the network's sources, as a run has them.

    Costs that ``known`` could not tell from nothing are noted where they may matter to a plan for these rates.
    """
    expected = begun(given_rates(network, rates, duration, period), network)
    note_unresolved(
        network, known or Statistics(), {name: float(expected.of_source(name).max()) for name in network.sources}
    )
    return expected


def note_unresolved(network: Network, known: Statistics, rates: Mapping[str, float]) -> None:
    """Note costs that calibration could not tell from nothing, where they may matter to a plan for rates (tuples/s)."""
    from penstock.latency.draws import unresolved

    if any(row.resolution for row in known.operators.values()):
        for text in unresolved(load_model(network, Rates.constant(rates, 1.0)), known):
            note(f"note: {text}")


def given_rates(network: Network, rates: str, duration: float, period: float) -> Rates:
    """Read the rates of exactly the network's sources, which begin when their file says."""
    _note_assumed(network)  # Not every command reads its network here.
    read, file = read_rates(rates, duration, period), file_of(rates)
    if file is not None and duration != DURATION:
        note(f"note: --duration is how long inline rates last; those of {file} last as long as it says")
    elif file is None and not math.isclose(read.period, period, rel_tol=1e-6):
        note(f"note: {duration:g} s are no whole number of periods of {period:g} s: {read.period:g} s are taken")
    with locating(file):
        return read.check(network.sources, inline=file is None)


def get_keep(given: str | None, network: Network, *, copies: bool = False) -> dict[str, float]:
    """Read keep fractions from a JSON file ``{"keep": {"a->b": 0.4}}``, or inline from ``a->b=0.4``.

    Parameters
    ----------
    copies
        Whether a stream may lead to a replica, ``a->b#2``.
    """
    if given is None:
        return {}
    source = None
    if "->" in given and not os.path.exists(given):
        table: Document = dict(pairs(given, "--keep", "stream=fraction", "clicks->views=0.4"))
    else:
        file = Text(given)
        source, document = file.name, file.json()
        table = document.get("keep") if isinstance(document, dict) else None  # type: ignore[assignment]
        if not isinstance(table, dict):
            raise InputError('expected {"keep": {"a->b": 0.4}}', file=source, at="keep")
    streams = [stream.name for stream in network.streams]
    for name, fraction in table.items():
        if (base_name(name) if copies else name) not in streams:
            raise InputError(
                "is no stream of the network", file=source, at=f"keep.{name}", hint=suggest(name, streams, "streams")
            )
        numeric = isinstance(fraction, int | float) and not isinstance(fraction, bool)
        if not numeric or not 0 <= fraction <= 1:
            raise InputError(f"expected a fraction 0..1, got {fraction!r}", file=source, at=f"keep.{name}")
    return {name: float(fraction) for name, fraction in sorted(table.items())}


def decide_placement(
    deployed: Deployment,
    placement: str | None,
    algorithm: str | None,
    rates: Rates | None,
    seed: int,
    *,
    overload: bool = False,
) -> Placement:
    """Read a placement, or let an algorithm decide it; without rates, for sources that bring equally much.

    Parameters
    ----------
    overload
        Whether hosts may be filled beyond their quotas where they must be: under control what is too much is dropped,
        or gets a host more. Without rates nothing is known of how much there is in all, so that quotas only guide.
    """
    if algorithm is not None:
        from penstock.placement import algorithm as known

        known(algorithm)  # names one that is none, also where nothing is left to decide
    network, statistics, cluster = deployed
    if placement is not None:
        return get_placement(placement, network, cluster)
    if len(cluster.hosts) == 1:
        return Placement(dict.fromkeys(network.operators, next(iter(cluster.hosts))))
    import numpy as np

    from penstock.latency.batches import in_time
    from penstock.placement import Problem, Terms, place

    name = algorithm or "correlation"
    model = _even_load(network, in_time(cluster, statistics)[0], name) if rates is None else load_model(network, rates)
    terms = Terms(overload=overload or rates is None)
    return place(Problem.of(model, cluster, statistics), name, np.random.default_rng(seed), terms).placement


UNWEIGHED = ("random", "connected")
"""Placement algorithms that answer also where costs are not known."""

HALF = 0.5
"""Share of the cluster that is assumed to be busy where no rates are known."""


def _even_load(network: Network, cluster: Cluster, algorithm: str) -> LoadModel:
    """Return the load where all sources bring equally much, and half of the cluster is busy; it is noted."""
    if algorithm in UNWEIGHED and network.unpriced:
        alike = [attrs.evolve(each, cost=(1.0,) * len(each.inputs)) for each in network.operators.values()]
        network = network.having(alike)
    if algorithm != "random":
        note("note: operators are placed for equal rates of all sources; --rates says what comes")
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 1.0), 1.0))
    usable, load = sum(host.usable for host in cluster.hosts.values()), float(model.mean_load.sum())
    return load_model(network, model.rates.scaled(HALF * usable / load)) if load > 0 else model
