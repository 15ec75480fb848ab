"""Mace: the maximum cumulative excess as an estimate of latency (Chandramouli et al., sections III-VII)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import ArrayLike

from penstock.arrays import Array
from penstock.cluster import Cluster, base_name, hosts_by_operator
from penstock.files import Document
from penstock.latency.bounds import service_times, upper_bounds
from penstock.latency.estimate import ErrorBar, Estimate, Quantiles, episodes
from penstock.load import LoadModel, Statistics
from penstock.network import Network

NOTES = (
    "assumes hosts that serve the oldest stimulus first, tuple by tuple",
    "leaves out the service times of single tuples and the waiting of a host for a late upstream host",
)


def cumulative_excess(load: ArrayLike, capacity: ArrayLike, period: float) -> Array:
    """Return the cumulative excess CE_p = max(0, CE_{p-1} + (L_p − C)·w) of each row (definition 8).

    Parameters
    ----------
    load
        Array (hosts, periods), benchmark-core seconds per second.
    capacity
        Array (hosts,), benchmark cores.
    period
        Length w of a period (s).

    Returns
    -------
    ndarray, shape (hosts, periods)
        Benchmark-core seconds.
    """
    rows = np.asarray(load, float)
    # A reflected sum: one row of hosts at a time, since each period needs the one before.
    steps = np.ascontiguousarray(((rows - np.asarray(capacity, float)[:, None]) * period).T)
    excess = np.zeros(rows.shape[0])
    for row in steps:
        excess += row
        np.maximum(excess, 0.0, out=excess)
        row[:] = excess
    return np.ascontiguousarray(steps.T)


def mace_series(host_load: ArrayLike, capacities: ArrayLike, period: float) -> Array:
    """Return Mace_p, the largest cumulative excess over capacity of any host (definition 9), array (periods,) in s."""
    capacity = np.asarray(capacities, float)
    series: Array = (cumulative_excess(host_load, capacity, period) / capacity[:, None]).max(axis=0, initial=0.0)
    return series


def upstream(network: Network) -> dict[str, frozenset[str]]:
    """Return, for each operator, itself and the operators from which it derives."""
    found: dict[str, frozenset[str]] = {}
    for name, operator in network.operators.items():
        found[name] = frozenset([name]).union(*(found[given] for given in operator.inputs if given in found))
    return found


def mace(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None = None
) -> Estimate:
    """Estimate latency by Mace.

    Links with a bandwidth are further hosts whose cycles are tuples. With propagation delays a host's value is a lower
    bound: Mace plus the shortest delay of a path through it (section VII-B). Of ``bounds``, ``upper``, ``relaxed`` and
    ``any`` are those of `penstock.latency.bounds.Bounds`; ``printed`` is that of theorem 2, which several hosts can
    break.

    Returns
    -------
    Estimate
        The totals are over periods (section V-B), those of the sinks over their tuples.
    """
    network = model.network
    load = model.host_load(placement, cluster)
    names = list(cluster.hosts)
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    excess = cumulative_excess(load, capacity, model.period)
    links = _link_excess(model, placement, cluster)
    shortest, longest = _delays(network, placement, cluster)
    waits = {name: row / c for name, row, c in zip(names, excess, capacity, strict=True)}
    waits |= {name: row / bandwidth for name, (row, bandwidth) in links.items()}
    lower = {name: row + shortest.get(name, 0.0) for name, row in waits.items()}
    series = np.max(list(lower.values()), axis=0)
    worst = float(series.max(initial=0.0))
    used = {name: float(row.max(initial=0.0)) for name, row in lower.items()}
    busy = dict(zip(names, (load / capacity[:, None]).max(axis=1, initial=0.0), strict=True))
    bottleneck = max(sorted(used), key=lambda name: (used[name], busy.get(name, 0.0)))
    peaks = {name: float(row.max(initial=0.0)) for name, row in waits.items()}
    printed = max(peak + longest.get(name, 0.0) for name, peak in peaks.items())
    proved = upper_bounds(model, placement, cluster, peaks)
    service = 2 * service_times(network, cluster)
    notes: tuple[str, ...] = NOTES
    if len({placement[name] for name in placement}) > 1:
        notes += ("backlog that forms on one host after another adds up: see the model pipelined",)
    return Estimate(
        model="mace",
        period=model.period,
        total=Quantiles.of(series),
        series=series,
        bottleneck=bottleneck,
        excess=dict(zip(names, excess, strict=True)),
        links={name: row for name, (row, _) in links.items()},
        sinks=_sinks(model, placement, lower),
        bounds={"lower": worst, "printed": printed + model.period + service, **attrs.asdict(proved)},
        error=error_bar(model, placement, cluster, statistics),
        notes=notes,
        statistics=described(statistics),
        episodes=episodes(bottleneck, waits[bottleneck], model.period),
    )


def error_bar(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None
) -> ErrorBar:
    """Return the error bar e·ρ/(ρ−1) of the host with the largest excess, else of the one with the largest load.

    ρ is the mean load while the worst backlog builds; e adds the errors of the host and, weighted by load, of its
    operators, since errors of one calibration tend to have one cause. What was measured on a sample of n tuples adds
    the error √((1 − s)/(s·n)) of each selectivity s upstream.
    """
    known = statistics or Statistics()
    load = model.host_load(placement, cluster)
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    waits = cumulative_excess(load, capacity, model.period) / capacity[:, None]
    share = load / capacity[:, None]
    row = int(np.lexsort((share.max(axis=1), waits.max(axis=1)))[-1])
    name = list(cluster.hosts)[row]
    peak = int(waits[row].argmax())
    empty = np.flatnonzero(waits[row, :peak] == 0)
    first = int(empty[-1]) + 1 if empty.size else 0
    rho = float(share[row, first : peak + 1].mean()) if waits[row, peak] > 0 else float(share[row].max())
    here = [operator for operator, host in sorted(placement.items()) if host == name]
    weights = np.array([float(model.load_of(operator).mean()) for operator in here])
    every = dict(zip(model.network.operators, relative_errors(model.network, known), strict=True))
    errors = np.array([every[base_name(operator)] for operator in here])
    cost = float(weights @ errors / weights.sum()) if weights.sum() > 0 else 0.0
    cost += known.hosts[name].error if name in known.hosts else 0.0
    return ErrorBar(name, rho, cost, rho / (rho - 1) if rho > 1 and waits[row, peak] > 0 else 1.0)


def relative_errors(network: Network, known: Statistics) -> Array:
    """Return the relative error of each operator's load, array (operators,): see `error_bar`."""
    sampled = any(row.selectivity is not None and row.tuples for row in known.operators.values())
    before = upstream(network) if sampled else {}
    return np.array([_relative_error(name, before, known) for name in network.operators])


def _relative_error(name: str, before: Mapping[str, frozenset[str]], known: Statistics) -> float:
    """Return the relative error of an operator's load: of its cost, and of the selectivities before it."""
    cost = known.operators[name].error if name in known.operators else 0.0
    spread = 0.0
    for other in sorted(before.get(name, frozenset()) - {name}):
        row = known.operators.get(other)
        if row is not None and row.selectivity is not None and row.tuples > 0:
            share = float(np.mean(row.selectivity))
            spread += (1 - share) / (share * row.tuples) if 0 < share < 1 else 0.0
    return cost + float(np.sqrt(spread))


def described(statistics: Statistics | None) -> Document:
    """Return where the costs of an estimate come from."""
    if statistics is None or not statistics.operators:
        return {"costs": "network file"}
    return {
        "costs": "statistics file",
        "operators": sorted(statistics.operators),
        "measured": dict(statistics.measured),
    }


def _link_excess(model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> dict[str, tuple[Array, float]]:
    """Return the excess of each link with a bandwidth (tuples), and the bandwidth (tuples/s)."""
    found: dict[str, tuple[Array, float]] = {}
    if all(np.isinf(link.bandwidth) for link in (cluster.default_link, *cluster.links.values())):
        return found
    for (start, end), rate in model.link_traffic(placement).items():
        bandwidth = cluster.link(start, end).bandwidth
        if np.isfinite(bandwidth):
            row = cumulative_excess(rate[None], np.array([bandwidth]), model.period)[0]
            found[f"{start}->{end}"] = (row, bandwidth)
    return found


def _delays(
    network: Network, placement: Mapping[str, str], cluster: Cluster
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the least and the largest propagation delay of the paths from a source to a sink through each host (s)."""
    least: dict[str, float] = {}
    most: dict[str, float] = {}
    if cluster.free_links:
        return least, most

    def host(name: str) -> str | None:
        # Sinks use no link: a tuple has left when its operator has put it out.
        return placement[name] if name in network.operators else getattr(network.sources.get(name), "host", None)

    def delay(start: str, end: str) -> float:
        a, b = host(start), host(end)
        return cluster.link(a, b).delay if a is not None and b is not None else 0.0

    before = dict.fromkeys(network.sources, (0.0, 0.0))
    for name in network.operators:
        ends = [(before[s.writer], delay(s.writer, name)) for s in network.inputs(name)]
        before[name] = (min(b[0] + d for b, d in ends), max(b[1] + d for b, d in ends))
    after = dict.fromkeys(network.sinks, (0.0, 0.0))
    for name in reversed([*network.sources, *network.operators]):
        ends = [(after[s.reader], delay(name, s.reader)) for s in network.outputs(name)] or [((0.0, 0.0), 0.0)]
        after[name] = (min(a[0] + d for a, d in ends), max(a[1] + d for a, d in ends))
    for name in network.operators:
        low, high = before[name][0] + after[name][0], before[name][1] + after[name][1]
        at = placement[name]
        least[at], most[at] = min(least.get(at, np.inf), low), max(most.get(at, 0.0), high)
        for stream in network.outputs(name):
            other = host(stream.reader)
            if other is not None and other != at:
                link = f"{at}->{other}"
                far = delay(name, stream.reader)
                low = before[name][0] + far + after[stream.reader][0]
                high = before[name][1] + far + after[stream.reader][1]
                least[link], most[link] = min(least.get(link, np.inf), low), max(most.get(link, 0.0), high)
    return least, most


def _sinks(model: LoadModel, placement: Mapping[str, str], waits: Mapping[str, Array]) -> dict[str, Quantiles]:
    """Return for each sink the largest wait of the hosts and links on its way, over its tuples."""
    network, before = model.network, upstream(model.network)
    places = hosts_by_operator(placement)
    ends = {key: key.split("->") for key in waits}
    found = {}
    for name, sink in network.sinks.items():
        way = before.get(sink.input, frozenset())
        hosts = {host for operator in way for host in places[operator]}
        used = [row for key, row in waits.items() if hosts.issuperset(ends[key])]
        weight = model.arrivals[model.stream_index[f"{sink.input}->{name}"]]
        found[name] = Quantiles.of(np.max(used, axis=0) if used else np.zeros(weight.size), weight)
    return found
