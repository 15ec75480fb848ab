"""Pipelined Mace: the backlog followed along the network, slice by slice of stimulus time.

The printed upper bound of Mace (Chandramouli et al., theorem 2) is false when backlog forms on one host and then on
another downstream. Here the tuples of a short slice of stimulus time are a fluid. Slices are taken oldest first, as
stimulus-time scheduling does, so each sees on every host the capacity that older ones leave; inside a slice the
operators follow each other in topological order. Hosts may therefore feed each other in a circle. This is checked
against simulation, not proved.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array, Bools
from penstock.cluster import Cluster, base_name, hosts_by_operator
from penstock.errors import InputError
from penstock.latency.bounds import capacity_of, grain
from penstock.latency.estimate import Estimate, Quantiles, episodes, rates_too_long, too_long
from penstock.latency.mace import cumulative_excess, described, error_bar, link_excess, waits_of
from penstock.latency.slices import followed
from penstock.load import LoadModel, Statistics

SLICE = 0.1
"""Longest slice of stimulus time (s)."""

FINER = 200_000
"""Stations times slices up to which slices are made shorter, to a fifth at most: below, that costs nothing."""

MOST = 2e8
"""Steps of time, over all hosts and links in use, that are followed at most: they take 16 bytes each."""

NOTES = (
    "assumes hosts that serve the oldest stimulus first; checked by simulation, not proved, for more than one host",
    "leaves out the service times of single tuples",
)


def pipelined(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None = None
) -> Estimate:
    """Estimate latency by pipelined Mace.

    Links with a bandwidth are stations too, whose cycles are tuples.

    Returns
    -------
    Estimate
        A period's value is that of its end, or a peak inside it, so that on one host the series is that of Mace. The
        total is over slices, and counts tuples that end in an operator; those of the sinks are over their tuples.

    Raises
    ------
    InputError
        If the placement has replicas, or the backlog is too long.
    """
    network, capacity = model.network, np.array([host.capacity for host in cluster.hosts.values()])
    for name in placement:
        if base_name(name) != name:
            raise InputError(f"{name!r} is a replica", at="placement", hint="use --model mace for replicas")
    stations = _stations(model, placement, cluster)
    # In place and end by end: a long run has a million slices, and a network hundreds of ends.
    late, tuples, width = _followed(model, stations)
    fine = late.shape[2] // model.rates.periods
    late -= (np.arange(late.shape[2]) + 1) * width
    late[late < 1e-12 * (model.rates.duration + 1)] = 0.0
    real = tuples > 0
    # Tuples that end in an operator have waited there, though nobody sees it.
    real |= np.repeat(stations.ended, fine, axis=1)[:, None]
    # Where nothing comes, the wait is that of a tuple that would: as in Mace, which knows hosts only.
    silent = np.logical_not(real.any(axis=(0, 1)))
    # Ends that never get any are as late as the links before them, and no tuple is.
    reached = real.any(axis=(1, 2), keepdims=True)
    silent = silent & (reached | ~reached.any())
    shown = np.zeros(late.shape[2])
    for waits, seen, none in zip(late, real, silent, strict=True):
        np.maximum(shown, np.where(seen | none, waits, 0.0).max(axis=0), out=shown)
    at_sinks = {}
    for name, sink in network.sinks.items():
        row = stations.ends.get(sink.input)
        if row is None:
            weight = np.repeat(model.arrivals[model.stream_index[f"{sink.input}->{name}"]], fine)
            at_sinks[name] = np.zeros(weight.size), weight
        else:
            share = next(s.share for s in network.outputs(sink.input) if s.reader == name)
            some = tuples[row] > 0  # most slices have fewer spans than there is room for
            at_sinks[name] = late[row][some], tuples[row][some] * share
    bar = error_bar(model, placement, cluster, statistics)
    excess = cumulative_excess(model.host_load(placement, cluster), capacity, model.period)
    series = _by_period(shown, fine)
    worst = float(series.max(initial=0.0))
    links = link_excess(model, placement, cluster)
    waiting = waits_of(cluster, excess, links)
    bottleneck = max((bar.host, *links), key=lambda name: float(waiting[name].max(initial=0.0)))
    return Estimate(
        model="pipelined",
        period=model.period,
        total=attrs.evolve(Quantiles.of(shown), worst=worst),
        units="slices",
        tuples=Quantiles.over(at_sinks.values()),
        series=series,
        bottleneck=bottleneck,
        excess=dict(zip(cluster.hosts, excess, strict=True)),
        links={name: row for name, (row, _) in links.items()},
        sinks={name: Quantiles.of(*row) for name, row in at_sinks.items()},
        bounds={"lower": worst, "upper": worst + width + _single(model, placement, cluster)},
        error=bar,
        notes=NOTES,
        statistics=described(statistics),
        episodes=episodes(bottleneck, waiting[bottleneck], model.period),
    )


def slices(period: float) -> int:
    """Return the slices of a period (s), where these are not made shorter."""
    return max(1, int(np.ceil(period / SLICE - 1e-9)))


def _single(model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> float:
    """Return what single tuples add to the fluid on all hosts and links together (s): see `penstock.latency.bounds`."""
    found = grain(model.network, hosts_by_operator(placement), cluster)
    return sum(found.lumps[name] / capacity_of(cluster, name) + found.steps[name] for name in found.lumps)


@attrs.frozen(eq=False, kw_only=True)
class Stations:
    """Operators on hosts and streams on links as the arrays that `penstock.latency.flow` reads; see there.

    Of hosts and links only those that are in use count. ``ends`` holds the rows of the operators whose tuples leave or
    end: what sinks read, and where `LoadModel.ends`; ``ended``, array (ends, periods), whether tuples end there.
    ``reach`` is how long backlog may last after the input (s).
    """

    resource: NDArray[np.int64]
    capacity: Array
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    writer: NDArray[np.int64]
    delay: Array
    cost: Array
    share: Array
    gain: Array
    join: NDArray[np.int64]
    sides: tuple[tuple[Array, Array], ...]
    load: Array
    end: NDArray[np.int64]
    ends: Mapping[str, int]
    ended: Bools
    reach: float


def _stations(model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> Stations:
    network, periods = model.network, model.rates.periods
    names, used = [*cluster.hosts], np.flatnonzero([name in placement.values() for name in cluster.hosts]).tolist()
    hosts = {names[place]: row for row, place in enumerate(used)}
    capacity = [cluster.hosts[name].capacity for name in hosts]
    sources = {name: -1 - row for row, name in enumerate(model.rates.sources)}
    links: dict[tuple[str, str], int] = {}
    carried: dict[tuple[str, str], Array] = {}
    station: dict[str, int] = {}
    crossing: dict[tuple[str, str, str], int] = {}
    rows: list[tuple[int, int, str | None]] = []
    inputs: list[tuple[int, float, float, float, Array]] = []
    sides: list[tuple[Array, Array]] = []
    joins: list[int] = []
    one = np.ones(periods)

    def place_of(name: str) -> str | None:
        return placement[name] if name in placement else network.sources[name].host

    for name, operator in network.operators.items():
        here = placement[name]
        made, gain = [], model.gain(name)
        for port, stream in enumerate(network.inputs(name)):
            start = place_of(stream.writer)
            link = cluster.link(start, here) if start is not None else cluster.link(here, here)
            origin = station[stream.writer] if stream.writer in station else sources[stream.writer]
            share = stream.share
            if start is not None and start != here and np.isfinite(link.bandwidth):
                # A tuple crosses once however many read it, but what a route divides crosses for itself.
                key = (stream.writer, here, name if share < 1 else "")
                if key not in crossing:
                    pair = (start, here)
                    if pair not in links:
                        links[pair] = len(capacity)
                        carried[pair] = np.zeros(periods)
                        capacity.append(link.bandwidth)
                    carried[pair] = carried[pair] + model.arrivals[model.stream_index[stream.name]]
                    crossing[key] = len(rows)
                    rows.append((links[pair], len(inputs), None))
                    inputs.append((origin, 0.0, 1.0, share, one))
                    joins.append(-1)
                origin, share = crossing[key], 1.0
            made.append((origin, link.delay, (operator.cost or ())[port], share, gain[port]))
        rows.append((hosts[here], len(inputs), name))
        inputs += made
        if operator.kind == "join" and operator.counts is not None:
            joins.append(len(sides))
            first, second = (model.arrivals[model.stream_index[s.name]] for s in network.inputs(name))
            sides.append((first, second))
        else:
            joins.append(-1)
        station[name] = len(rows) - 1
    load = np.vstack([model.host_load(placement, cluster)[used], *[carried[pair][None] for pair in links]])
    ends, ended = _ends(model)
    end = np.full(len(rows), -1, np.int64)
    for name, row in ends.items():
        end[station[name]] = row
    begins = np.array([row[1] for row in rows] + [len(inputs)], np.int64)
    full = np.array(capacity)
    waits = cumulative_excess(load, full, model.period) / full[:, None]
    reach = float(waits[:, -1].sum() + waits.max(initial=0.0) + sum(row[1] for row in inputs))
    return Stations(
        resource=np.array([row[0] for row in rows], np.int64),
        capacity=full,
        first=begins[:-1],
        count=np.diff(begins),
        writer=np.array([row[0] for row in inputs], np.int64),
        delay=np.array([row[1] for row in inputs]),
        cost=np.array([row[2] for row in inputs]),
        share=np.array([row[3] for row in inputs]),
        gain=np.array([row[4] for row in inputs]).reshape(len(inputs), periods),
        join=np.array(joins, np.int64),
        sides=tuple(sides),
        load=load,
        end=end,
        ends=ends,
        ended=ended,
        reach=reach,
    )


def _ends(model: LoadModel) -> tuple[dict[str, int], Bools]:
    """Return the rows of the operators whose tuples leave or end, and whether some end there in each period."""
    network = model.network
    over = {name: (model.ends(name) & (model.inflow(name) > 0)).any(axis=0) for name in network.operators}
    read = {sink.input for sink in network.sinks.values()}
    found = [name for name, some in over.items() if some.any() or name in read or not network.outputs(name)]
    ended = np.array([over[name] for name in found], bool).reshape(len(found), model.rates.periods)
    return {name: row for row, name in enumerate(found)}, ended


def _followed(model: LoadModel, stations: Stations) -> tuple[Array, Array, float]:
    """Return when spans of the slices have left, how many tuples, and the length of a slice (s)."""
    size, periods = max(1, stations.resource.size), model.rates.periods
    fine = slices(model.period)
    shorter = max(1, min(5, FINER // (size * periods * fine)))
    fine *= shorter
    width = model.period / fine
    if model.rates.duration / width * stations.capacity.size > MOST:
        raise rates_too_long(model.rates.duration, model.period, width)
    busy = stations.load / stations.capacity[:, None]
    slack = np.maximum(width, busy * width)
    after = np.empty((len(stations.sides), 2, periods * fine))
    for row, pair in enumerate(stations.sides):
        for side, series in enumerate(pair):
            after[row, side] = _next(np.repeat(series > 0, fine))
    reach = 1.1 * (model.rates.duration + stations.reach) + 10 * width
    while True:
        if reach / width * stations.capacity.size > MOST:
            raise too_long()
        left, tuples = followed(stations, model.rates.values, after, slack, width, int(reach / width) + 2)
        if np.isfinite(left).all():
            return left, tuples, width
        reach *= 2


def _next(some: NDArray[np.bool_]) -> Array:
    """Return for each slice the next one after it that has tuples; beyond the last one infinity."""
    found = np.full(some.size, np.inf)
    coming = np.inf
    for q in range(some.size - 1, -1, -1):
        found[q] = coming
        if some[q]:
            coming = q
    return found


def _by_period(fine: Array, parts: int) -> Array:
    """Return each period's last value, or the largest inside it where that exceeds both ends."""
    table = fine.reshape(-1, parts)
    last, inside = table[:, -1], table.max(axis=1)
    before = np.concatenate([[0.0], last[:-1]])
    series: Array = np.where(inside > np.maximum(before, last) + 1e-12, inside, last)
    return series
