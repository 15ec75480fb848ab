"""Mace: the maximum cumulative excess as an estimate of latency (Chandramouli et al., sections III-VII)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs
import numpy as np
from numpy.typing import ArrayLike

from penstock.arrays import Array, Bools
from penstock.cluster import Cluster, base_name, hosts_by_operator
from penstock.files import Document
from penstock.latency.bounds import service_times, upper_bounds
from penstock.latency.estimate import ErrorBar, Estimate, Quantiles, episodes
from penstock.load import LoadModel, Statistics
from penstock.load.fitting import host_of
from penstock.network import Network

Best: TypeAlias = Callable[[Iterable[float]], float]
"""The least or the largest."""

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
    bound: Mace plus the shortest delay of a path through it to a sink that gets tuples (section VII-B). Sinks use no
    link: a tuple has left when its operator has put it out. Each sink is as late as what waits on its own ways, whoever
    waits there, and may so exceed that bound. Of ``bounds``, ``upper``, ``relaxed`` and ``any`` are those of
    `penstock.latency.bounds.Bounds`; ``printed`` is that of theorem 2, which several hosts can break.

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
    bottleneck = max(sorted(used), key=lambda name: (used[name], busy.get(name, 0.0)))
    peaks = {name: float(row.max(initial=0.0)) for name, row in waits.items()}
    printed = max(peak + ways.longest.get(name, 0.0) for name, peak in peaks.items())
    proved = upper_bounds(model, placement, cluster, peaks)
    service = 2 * service_times(network, placement, cluster)
    late = _late(model, ways, waits)
    notes: tuple[str, ...] = NOTES
    if len({placement[name] for name in placement}) > 1:
        notes += ("backlog that forms on one host after another adds up: see the model pipelined",)
    return Estimate(
        model="mace",
        period=model.period,
        total=Quantiles.of(series),
        units="periods",
        tuples=Quantiles.over(late.values()),
        series=series,
        bottleneck=bottleneck,
        excess=dict(zip(names, excess, strict=True)),
        links={name: row for name, (row, _) in links.items()},
        sinks={name: Quantiles.of(*row) for name, row in late.items()},
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
    """Return hosts, first those with the largest backlog and then those with the largest load.

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
    for row in np.lexsort((load.max(axis=1), waits.max(axis=1)))[::-1].tolist():
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


def link_excess(model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> dict[str, tuple[Array, float]]:
    """Return the excess of each link with a bandwidth (tuples), and the bandwidth (tuples/s)."""
    if all(np.isinf(link.bandwidth) for link in (cluster.default_link, *cluster.links.values())):
        return {}
    traffic = model.link_traffic(placement, sinks=False)
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


@attrs.frozen(eq=False)
class Ways:
    """Which hosts and links tuples pass on their ways to each sink, and the propagation delays of these ways.

    Attributes
    ----------
    least
        By sink, and by operator that nobody reads, the least delay (s) of a way through each host or link ``a->b``.
        Streams without a tuple are no ways, but for an end that gets none.
    busy
        By end, whether it gets tuples, array (periods,).
    longest
        By host and link the largest delay of a way through it (s); none where links have none.
    """

    least: Mapping[str, Mapping[str, float]]
    busy: Mapping[str, Bools]
    longest: Mapping[str, float]

    @classmethod
    def of(cls, model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> Ways:
        """Follow all ways."""
        return _Follower(model, placement, cluster).ways()

    def shortest(self) -> dict[str, float]:
        """Return the least delay (s) of a way through each host and link, to an end that gets tuples if there is one.

        Whose tuples wait there is not known.
        """
        idle = {end for end, periods in self.busy.items() if not periods.any()}
        found: dict[str, float] = {}
        for ends in (self.least.keys() - idle, idle):
            near: dict[str, float] = {}
            for end in ends:
                for place, delay in self.least[end].items():
                    near[place] = min(near.get(place, delay), delay)
            found = near | found
        return found

    def unhindered(self) -> list[Array]:
        """Return the delay (s) that the tuples of each end have at least where nothing waits, arrays (periods,)."""
        return [np.where(self.busy[end], min(ways.values(), default=0.0), 0.0) for end, ways in self.least.items()]


class _Follower:
    """Follows the ways of tuples through a network."""

    def __init__(self, model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> None:
        self.network, self.cluster, self.free = model.network, cluster, cluster.free_links
        copies = hosts_by_operator(placement)
        self.places = {name: sorted(set(hosts)) for name, hosts in copies.items()}
        self.places |= {name: [row.host] if row.host is not None else [] for name, row in self.network.sources.items()}
        self.first = {name: copies[name][0] for name in self.network.operators}
        self.first |= {name: row.host for name, row in self.network.sources.items() if row.host is not None}
        self.rows = {name: row for row, name in enumerate(self.network.operators)}
        self.periods = {name: model.arrivals[row] > 0 for name, row in model.stream_index.items()}
        self.some = {name: bool(periods.any()) for name, periods in self.periods.items()}

    def ways(self) -> Ways:
        """Return all ways."""
        network, before = self.network, upstream(self.network)
        ends = {sink.name: (sink.input, self.periods[f"{sink.input}->{sink.name}"]) for sink in network.sinks.values()}
        for name in network.operators:
            if not network.outputs(name):
                inputs = [self.periods[stream.name] for stream in network.inputs(name)]
                ends[name] = name, np.any(inputs, axis=0)
        near = {busy: self._before(min, only=busy) for busy in (False, True)}
        far = {} if self.free else self._before(max)
        least, longest = {}, dict[str, float]()
        for end, (operator, periods) in ends.items():
            busy = bool(periods.any())
            way = sorted(before.get(operator, ()), key=self.rows.__getitem__, reverse=True)
            least[end] = self._through(way, operator, near[busy], min, only=busy)
            for place, delay in self._through(way, operator, far, max).items() if far else ():
                longest[place] = max(longest.get(place, 0.0), delay)
        return Ways(least, {end: periods for end, (_, periods) in ends.items()}, longest)

    def _delay(self, start: str, end: str) -> float:
        if self.free:
            return 0.0
        a, b = self.first.get(start), self.first.get(end)
        return 0.0 if a is None or b is None else self.cluster.link(a, b).delay

    def _before(self, best: Best, *, only: bool = False) -> dict[str, float]:
        """Return the delay of the best way from a source to each operator (s); ``only``: over streams with tuples."""
        found = dict.fromkeys(self.network.sources, 0.0)
        for name in self.network.operators:
            streams = self.network.inputs(name)
            busy = [stream for stream in streams if self.some[stream.name]] if only else []
            found[name] = best(found[s.writer] + self._delay(s.writer, name) for s in busy or streams)
        return found

    def _through(
        self, way: Sequence[str], last: str, before: Mapping[str, float], best: Best, *, only: bool = False
    ) -> dict[str, float]:
        """Return the delay of the best way to an operator through each host and link (s); ``way``: the last first."""
        found: dict[str, float] = {}
        after = {last: 0.0}

        def passed(place: str, delay: float) -> None:
            found[place] = best((found.get(place, delay), delay))

        for name in way:
            if name not in after:
                continue
            for host in self.places[name]:
                passed(host, before[name] + after[name])
            for stream in self.network.inputs(name):
                if only and not self.some[stream.name]:
                    continue
                writer, rest = stream.writer, self._delay(stream.writer, name) + after[name]
                after[writer] = best((after.get(writer, rest), rest))
                for start in self.places[writer]:
                    for end in self.places[name]:
                        if start != end:
                            passed(f"{start}->{end}", before[writer] + rest)
        return found


def _late(model: LoadModel, ways: Ways, waits: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
    """Return for each sink the largest wait (s) of the hosts and links on its ways, with their delays, and its tuples.

    Each of them arrays (periods,).
    """
    found = {}
    for name, sink in model.network.sinks.items():
        weight = model.arrivals[model.stream_index[f"{sink.input}->{name}"]]
        rows = [waits[place] + delay for place, delay in ways.least[name].items() if place in waits]
        found[name] = np.max(rows, axis=0) if rows else np.zeros(weight.size), weight
    return found
