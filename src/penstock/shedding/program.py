"""The linear program of a placed network (Tatbul et al. section 3).

One variable per *arc*: the rate that its drop operator lets through. Arcs are the network's streams and, in front of
a link of limited bandwidth, the crossing that the readers there share (one after another where some of them share more
links than others). With ``y`` the kept rates and ``r`` the source
rates::

    maximise  weight · y   subject to   0 <= y <= G y + S r,   K y <= limit

``G`` is strictly triangular: what an arc's writer puts out, given what it reads. These are the paper's prefix
variables (equations 4-8) in units of rate, so that splits, unions and joins need no case of their own. ``K`` holds the
load constraints (1) of the hosts and the bandwidth of the links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, hosts_by_operator
from penstock.errors import InputError
from penstock.network import Network, Operator

Matrix = NDArray[np.float64]
Link = tuple[str, str]

TOLERANCE = 1e-9
"""Relative: loads that add up to exactly the usable capacity fit."""


@attrs.frozen(eq=False)
class Program:
    """The linear program of a placed network; see the module.

    Attributes
    ----------
    network
        With every cost known.
    sources
        Their names, ordered by name: the columns of ``S``.
    streams
        Names of the network's streams, ``writer->reader``, in the network's order.
    resources
        Hosts by name, then links ``a->b`` of limited bandwidth.
    hosts
        How many of the resources are hosts.
    G, S, K, limit, weight
        Arrays (arcs, arcs), (arcs, sources), (resources, arcs), (resources,), (arcs,). Arcs are in topological order.
    arc
        Array (streams,): the arc of each stream.
    capacity
        Array (hosts,): benchmark cores, to show loads as shares.
    products
        Output arcs of joins with a time window, which no linear program holds exactly: (arc, left arc, right arc,
        factor), the arc offers factor · left · right; see `penstock.shedding.optimum`.
    places
        Hosts of each operator, more than one where it has replicas.
    left
        Array (hosts,): share of their usable capacity that ``limit`` allows; see `penstock.shedding.room`.
    whole
        Streams that drop nothing; see `penstock.shedding.whole`.
    """

    network: Network
    sources: tuple[str, ...]
    streams: tuple[str, ...]
    resources: tuple[str, ...]
    hosts: int
    G: Matrix
    S: Matrix
    K: Matrix
    limit: Matrix
    weight: Matrix
    arc: NDArray[np.int64]
    capacity: Matrix
    products: tuple[tuple[int, int, int, float], ...]
    places: Mapping[str, tuple[str, ...]]
    left: Matrix
    whole: frozenset[str] = frozenset()

    @property
    def arcs(self) -> int:
        """How many variables there are."""
        return len(self.weight)

    def leaving(self, left: Matrix) -> Program:
        """Return the program in which plans may fill a share of the usable capacity of hosts, array (hosts,)."""
        limit = np.array(self.limit)
        limit[: self.hosts] *= left
        limit.setflags(write=False)
        return attrs.evolve(self, limit=limit, left=self.left * left)

    def flow(self, rates: Matrix, keep: Mapping[str, float] | None = None) -> Matrix:
        """Return the kept rate of each arc when each stream keeps its share.

        Parameters
        ----------
        rates
            Array (sources,), tuples per second.
        keep
            Keep fractions by stream; a stream that is not named keeps everything.
        """
        share = np.ones(self.arcs)
        for name, value in (keep or {}).items():
            share[self.arc[self.streams.index(name)]] = value
        return self.limited(rates, lambda arc, offered: share[arc] * offered)

    def limited(self, rates: Matrix, kept: Callable[[int, float], float]) -> Matrix:
        """Return the kept rates when ``kept(arc, offered)`` says what an arc lets through."""
        y = np.zeros(self.arcs)
        base = self.S @ rates
        products = {arc: (left, right, factor) for arc, left, right, factor in self.products}
        for arc in range(self.arcs):
            offered = base[arc] + self.G[arc, :arc] @ y[:arc]
            if arc in products:
                left, right, factor = products[arc]
                offered += factor * y[left] * y[right]
            y[arc] = kept(arc, float(offered))
        return y

    def offered(self, rates: Matrix, y: Matrix) -> Matrix:
        """Return what arrives in front of each arc's drop operator."""
        out: Matrix = self.S @ rates + self.G @ y
        for arc, left, right, factor in self.products:
            out[arc] += factor * y[left] * y[right]
        return out

    def load(self, y: Matrix) -> Matrix:
        """Return the load of each host as a share of its capacity."""
        used: Matrix = (self.K @ y)[: self.hosts] / self.capacity
        return used

    def feasible(self, y: Matrix) -> bool:
        """Whether no host and no link carries more than it may."""
        return bool(np.all(self.K @ y <= self.limit * (1 + TOLERANCE) + 1e-15))

    def score(self, y: Matrix) -> float:
        """Return the total weighted throughput."""
        return float(self.weight @ y)

    def keep(self, rates: Matrix, y: Matrix) -> dict[str, float]:
        """Return the keep fraction of each stream that drops something.

        What nothing arrives at drops nothing.
        """
        base, y = self.flow(rates), np.maximum(y, 0.0)
        # A crossing passes on what its readers keep: their own drops are what a plan can set.
        own = np.ones(self.arcs, bool)
        own[self.arc] = False
        passed = self.offered(rates, y)
        for arc in np.flatnonzero(own):
            for reader in np.flatnonzero(self.G[:, arc]):
                passed[reader] = self.G[reader, arc] * passed[arc]
        found: dict[str, float] = {}
        for name, arc in zip(self.streams, self.arc, strict=True):
            if base[arc] > 0 and passed[arc] > 0:
                share = min(1.0, float(y[arc] / passed[arc]))
                if share < 1 - 1e-12:
                    found[name] = share if share > 1e-15 else 0.0
        return found


def build_program(network: Network, cluster: Cluster, placement: Mapping[str, str]) -> Program:
    """Write down the linear program of a placed network.

    Parameters
    ----------
    network
        Every operator needs a cost; a missing selectivity is 1.
    cluster
        Usable capacity is capacity · quota; links of limited bandwidth count the tuples that cross.
    placement
        Each replica ``operator#2`` reads, and pays for, every tuple.

    Raises
    ------
    InputError
        If a cost is missing or a weight is negative.
    """
    _check(network)
    copies = hosts_by_operator(placement)
    places = {name: sorted(set(copies.get(name, ()))) for name in network.operators}
    arcs, arc_of = _arcs(network, _crossings(network, cluster, {**places, **_ends(network)}))
    G, S, products = _flows(network, arcs, arc_of)
    links = sorted({pair for arc in arcs for pair in arc.links})
    hosts = list(cluster.hosts)
    K, weight = np.zeros((len(hosts) + len(links), len(arcs))), np.zeros(len(arcs))
    for row, crossing in enumerate(arcs):
        for pair in crossing.links:
            K[len(hosts) + links.index(pair), row] = 1.0
    for name, row in arc_of.items():
        writer, _, reader = name.partition("->")
        if reader in network.sinks:
            weight[row] = network.sinks[reader].weight
            continue
        operator = network.operators[reader]
        price = (operator.cost or ())[operator.inputs.index(writer)]
        for host in copies.get(reader, ()):
            K[hosts.index(host), row] += price
    limit = np.array([cluster.hosts[host].usable for host in hosts] + [cluster.link(*pair).bandwidth for pair in links])
    names = tuple(stream.name for stream in network.streams)
    arc = np.array([arc_of[name] for name in names], np.int64)
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    for array in (G, S, K, limit, weight, arc, capacity):
        array.setflags(write=False)
    return Program(
        network=network,
        sources=tuple(network.sources),
        streams=names,
        resources=(*hosts, *(f"{a}->{b}" for a, b in links)),
        hosts=len(hosts),
        G=G,
        S=S,
        K=K,
        limit=limit,
        weight=weight,
        arc=arc,
        capacity=capacity,
        products=products,
        places={name: tuple(rows) for name, rows in places.items()},
        left=np.ones(len(hosts)),
    )


def _check(network: Network) -> None:
    """Refuse a network without a cost, or with a negative weight."""
    network.check_costs()
    for sink in network.sinks.values():
        if sink.weight < 0:
            raise InputError(f"expected a weight of at least 0, got {sink.weight:g}", at=f"sinks.{sink.name}.weight")


def _ends(network: Network) -> dict[str, list[str]]:
    """Return the hosts of sources and sinks, as far as they have one."""
    ends = [*((each.name, each.host) for each in network.sources.values())]
    ends += ((each.name, each.host) for each in network.sinks.values())
    return {name: [] if host is None else [host] for name, host in ends}


class _Arc(NamedTuple):
    """What a writer puts out for some readers: one stream, or a crossing of limited links that they share.

    ``parent``: the number of the crossing of which it takes a part; None where it takes of the writer itself.
    """

    writer: str
    readers: tuple[str, ...]
    links: tuple[Link, ...] = ()
    parent: int | None = None


def _arcs(
    network: Network, limited: Mapping[str, Mapping[tuple[str, ...], Sequence[Link]]]
) -> tuple[list[_Arc], dict[str, int]]:
    """Return the arcs in topological order, writer after writer, and the number of each stream's by its name."""
    arcs: list[_Arc] = []
    arc_of: dict[str, int] = {}
    for writer in (*network.sources, *network.operators):
        crossings: dict[str, int] = {}
        for readers, links in limited[writer].items():
            # Its readers share the crossing before it, if any of them had one.
            arcs.append(_Arc(writer, readers, tuple(links), crossings.get(readers[0])))
            crossings |= dict.fromkeys(readers, len(arcs) - 1)
        for stream in network.outputs(writer):
            arc_of[stream.name] = len(arcs)
            arcs.append(_Arc(writer, (stream.reader,), (), crossings.get(stream.reader)))
    return arcs, arc_of


def _flows(
    network: Network, arcs: Sequence[_Arc], arc_of: Mapping[str, int]
) -> tuple[Matrix, Matrix, tuple[tuple[int, int, int, float], ...]]:
    """Return what arcs offer per tuple of other arcs and of sources, `Program.G` and ``S``, and of joins' products."""
    sources = tuple(network.sources)
    G, S = np.zeros((len(arcs), len(arcs))), np.zeros((len(arcs), len(sources)))
    products: list[tuple[int, int, int, float]] = []
    shares = {(stream.writer, stream.reader): stream.share for stream in network.streams}
    parts = [max(shares[arc.writer, reader] for reader in arc.readers) for arc in arcs]
    for row, ((writer, _, _, parent), share) in enumerate(zip(arcs, parts, strict=True)):
        if parent is not None:
            G[row, parent] = share / parts[parent] if parts[parent] > 0 else 0.0
            continue
        if writer in network.sources:
            S[row, sources.index(writer)] = share
            continue
        operator = network.operators[writer]
        inputs = [arc_of[f"{given}->{writer}"] for given in operator.inputs]
        for given, factor in zip(inputs, _factors(operator), strict=True):
            G[row, given] += share * factor
        if operator.kind == "join" and operator.counts is None:
            factor = share * sum(operator.selectivity or (1.0, 1.0)) * (operator.within or 0.0)
            products.append((row, inputs[0], inputs[1], factor))
    return G, S, tuple(products)


def _factors(operator: Operator) -> list[float]:
    """Output per input tuple of each input; 0 for a time-window join, which is a product."""
    selectivity = list(operator.selectivity or (1.0,) * len(operator.inputs))
    if operator.kind != "join":
        return selectivity
    if operator.counts is None:
        return [0.0, 0.0]
    first, second = operator.counts
    return [selectivity[0] * second, selectivity[1] * first]


def _meet(some: set[str], others: set[str]) -> bool:
    """Whether two sets have something in common, and neither is part of the other."""
    return some & others not in (set(), some, others)


def _crossings(
    network: Network, cluster: Cluster, places: Mapping[str, list[str]]
) -> dict[str, dict[tuple[str, ...], list[Link]]]:
    """Return for each writer its crossings, by readers the limited links that lead to all of them, wide ones first.

    Each link is in one crossing: a tuple crosses once, for whoever reads it there. Readers of two crossings read both,
    or those of one are among those of the other; crossings that would meet otherwise are one. Where a writer has a
    route, each reader gets tuples of its own, and has a crossing of its own.
    """
    routed = {name for name, operator in network.operators.items() if operator.route is not None}
    found: dict[str, dict[tuple[str, ...], list[Link]]] = {}
    for writer in (*network.sources, *network.operators):
        order = [stream.reader for stream in network.outputs(writer)]
        readers: dict[Link, set[str]] = {}
        for reader in order:
            for start in places[writer]:
                for end in places[reader]:
                    if start != end and math.isfinite(cluster.link(start, end).bandwidth):
                        readers.setdefault((start, end), set()).add(reader)
        found[writer] = {}
        if writer in routed:
            for link, some in sorted(readers.items()):
                for reader in sorted(some, key=order.index):
                    found[writer].setdefault((reader,), []).append(link)
            continue
        while pair := next((pair for pair in combinations(readers.values(), 2) if _meet(*pair)), None):
            whole = pair[0] | pair[1]
            readers = {link: whole if some in pair else some for link, some in readers.items()}
        for link, some in sorted(readers.items(), key=lambda item: (-len(item[1]), item[0])):
            found[writer].setdefault(tuple(sorted(some, key=order.index)), []).append(link)
    return found
