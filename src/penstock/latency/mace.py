"""Mace: the maximum cumulative excess as an estimate of latency (Chandramouli et al., sections III-VII)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import ArrayLike

from penstock.arrays import Array
from penstock.cluster import Cluster, base_name
from penstock.files import Document
from penstock.latency.bounds import service_times, upper_bounds
from penstock.latency.estimate import ErrorBar, Estimate, Quantiles, episodes
from penstock.latency.ways import Ways, upstream
from penstock.load import LoadModel, OperatorStatistics, Statistics
from penstock.load.fitting import TOLD, hidden, host_of
from penstock.network import Network, Operator

NOTES = (
    "assumes hosts that serve the oldest stimulus first, tuple by tuple",
    "leaves out the service times of single tuples and the waiting of a host for a late upstream host",
)

RUNNING = "takes joins with a time window to have met the first rates before, so that no lower bound is proved"
"""What to say where pairs are of rates that nobody gave."""


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


def mace(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None = None
) -> Estimate:
    """Estimate latency by Mace.

    Links with a bandwidth are further hosts whose cycles are tuples. With propagation delays a host's value is a lower
    bound: Mace plus the shortest delay of a path through it to a sink that gets tuples (section VII-B). So is the delay
    alone of any way on which tuples come. Sinks use no link: a tuple has left when its operator has put it out. Each
    sink is as late as what waits on its own ways, whoever waits there, and may so exceed that bound. Of
    ``bounds``, ``upper``, ``relaxed`` and ``any`` are those of `penstock.latency.bounds.Bounds`; ``printed`` is that of
    theorem 2, which several hosts can break.

    Returns
    -------
    Estimate
        The total is over periods (section V-B), those of the sinks are over their tuples.
    """
    network = model.network
    load = model.host_load(placement, cluster)
    names = list(cluster.hosts)
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    excess = cumulative_excess(load, capacity, model.period)
    links = link_excess(model, placement, cluster)
    ways = Ways.of(model, placement, cluster)
    waits = waits_of(cluster, excess, links)
    shortest = ways.shortest()
    lower = {name: row + shortest.get(name, 0.0) for name, row in waits.items()}
    series = np.max([*lower.values(), *ways.unhindered()], axis=0)
    worst = float(series.max(initial=0.0))
    used = {name: float(row.max(initial=0.0)) for name, row in lower.items()}
    busy = dict(zip(names, (load / capacity[:, None]).max(axis=1, initial=0.0), strict=True))
    peaks = {name: float(row.max(initial=0.0)) for name, row in waits.items()}
    # Where nothing waits, delays say nothing of a host.
    late = used if any(peaks.values()) else {}
    bottleneck = max(sorted(used), key=lambda name: (late.get(name, 0.0), busy.get(name, 0.0)))
    printed = max(peak + ways.longest.get(name, 0.0) for name, peak in peaks.items())
    proved = upper_bounds(model, placement, cluster, peaks)
    service = 2 * service_times(network, placement, cluster)
    at_sinks = {name: late_at(ways, name, waits) for name in network.sinks}
    notes: tuple[str, ...] = NOTES
    timed = any(operator.within for operator in network.operators.values())
    notes += (RUNNING,) if timed else ()
    if len({placement[name] for name in placement}) > 1:
        notes += ("backlog that forms on one host after another adds up: see the model pipelined",)
    return Estimate(
        model="mace",
        period=model.period,
        total=Quantiles.of(series),
        units="periods",
        tuples=Quantiles.over(at_sinks.values()),
        series=series,
        bottleneck=bottleneck,
        excess=dict(zip(names, excess, strict=True)),
        links={name: row for name, (row, _) in links.items()},
        sinks={name: Quantiles.of(*row) for name, row in at_sinks.items()},
        bounds={"lower": None if timed else worst, "printed": printed + model.period + service, **attrs.asdict(proved)},
        error=error_bar(model, placement, cluster, statistics),
        notes=notes,
        statistics=described(statistics),
        episodes=episodes(bottleneck, waits[bottleneck], model.period),
    )


def error_bar(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None
) -> ErrorBar:
    """Return the error bar e·ρ/(ρ−1) of the host with the largest excess, else of the one with the largest load.

    ρ is the mean load while the worst backlog builds, e the `cost_error`; of hosts that are equally far behind it is
    that with the largest e.
    """
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    load = model.host_load(placement, cluster) / capacity[:, None]
    first, *others = furthest_behind(load, model.period)
    names, known = list(cluster.hosts), statistics or Statistics()
    equal = [first, *(each for each in others if np.allclose(load[each[0]], load[first[0]], rtol=1e-9, atol=0.0))]
    errors = [cost_error(model, placement, names[row], known) for row, *_ in equal]
    cost = max(errors)
    row, rho, late = equal[errors.index(cost)]
    name = names[row]
    return ErrorBar(name, rho, cost, rho / (rho - 1) if rho > 1 and late else 1.0)


def furthest_behind(load: Array, period: float) -> list[tuple[int, float, bool]]:
    """Return hosts, first those with the largest backlog and then those with the largest load, of equals the first.

    Parameters
    ----------
    load
        Array (hosts, periods), as a share of what each host can do.
    period
        Length of a period (s).

    Returns
    -------
    list
        Of each host its row, its mean load while its worst backlog builds, else its largest, and whether it has any.
    """
    waits = cumulative_excess(load, np.ones(len(load)), period)
    found = []
    for row in np.lexsort((-load.max(axis=1), -waits.max(axis=1))).tolist():
        peak = int(waits[row].argmax())
        empty = np.flatnonzero(waits[row, :peak] == 0)
        first = int(empty[-1]) + 1 if empty.size else 0
        late = bool(waits[row, peak] > 0)
        found.append((row, float(load[row, first : peak + 1].mean() if late else load[row].max()), late))
    return found


def cost_error(model: LoadModel, placement: Mapping[str, str], host: str, known: Statistics) -> float:
    """Return the relative error of the costs on a host, as the statistics say.

    It adds the errors of the host and, weighted by load, of its operators, since errors of one calibration tend to have
    one cause. What was measured on a sample of n tuples adds the error √((1 − s)/(s·n)) of each selectivity s upstream.
    """
    here = [operator for operator, place in sorted(placement.items()) if place == host]
    weights = np.array([float(model.load_of(operator).mean()) for operator in here])
    every = dict(zip(model.network.operators, relative_errors(model.network, known), strict=True))
    errors = np.array([every[base_name(operator)] for operator in here])
    cost = float(weights @ errors / weights.sum()) if weights.sum() > 0 else 0.0
    return cost + host_of(known, host).error


def relative_errors(network: Network, known: Statistics) -> Array:
    """Return the relative error of each operator's load, array (operators,): see `cost_error`."""
    sampled = any(row.selectivity is not None and row.tuples for row in known.operators.values())
    before = upstream(network) if sampled else {}
    return np.array([_relative_error(operator, before, known) for operator in network.operators.values()])


def _relative_error(operator: Operator, before: Mapping[str, frozenset[str]], known: Statistics) -> float:
    """Return the relative error of an operator's load: of its cost, and of the selectivities before it."""
    name, mine = operator.name, known.operators.get(operator.name, OperatorStatistics())
    cost = max(mine.error, hidden(mine, operator.cost) / TOLD)
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


def link_excess(model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> dict[str, tuple[Array, float]]:
    """Return the excess of each link with a bandwidth (tuples), and the bandwidth (tuples/s)."""
    if all(np.isinf(link.bandwidth) for link in (cluster.default_link, *cluster.links.values())):
        return {}
    traffic = model.link_traffic(placement)
    limited = {pair: cluster.link(*pair).bandwidth for pair in traffic}
    limited = {pair: bandwidth for pair, bandwidth in limited.items() if np.isfinite(bandwidth)}
    if not limited:
        return {}
    rows = cumulative_excess(np.stack([traffic[pair] for pair in limited]), [*limited.values()], model.period)
    ends = [f"{start}->{end}" for start, end in limited]
    return dict(zip(ends, zip(rows, limited.values(), strict=True), strict=True))


def waits_of(cluster: Cluster, excess: Array, links: Mapping[str, tuple[Array, float]]) -> dict[str, Array]:
    """Return how long what waits takes, by host and link, arrays (periods,), s.

    Parameters
    ----------
    excess
        Array (hosts, periods), benchmark-core seconds.
    links
        See `link_excess`.
    """
    waits = {name: row / host.capacity for (name, host), row in zip(cluster.hosts.items(), excess, strict=True)}
    return waits | {name: row / bandwidth for name, (row, bandwidth) in links.items()}


def late_at(ways: Ways, sink: str, waits: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return how late the tuples of a sink are (s), and how many, by period for each delay of their ways.

    They are late by this delay, or by the largest wait of the hosts and links on the sink's ways with the least delay
    of a way through it: whose tuples wait there is not known.
    """
    parts = ways.tuples[sink]
    rows = [(waits[place], delay) for place, delay in ways.least[sink].items() if place in waits]
    behind = np.max([np.where(wait > 0, wait + delay, 0.0) for wait, delay in rows], axis=0) if rows else 0.0
    late = [np.maximum(behind, np.full(tuples.size, delay)) for delay, tuples in parts.items()]
    return np.concatenate([np.zeros(0), *late]), np.concatenate([np.zeros(0), *parts.values()])
