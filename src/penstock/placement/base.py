"""What every placement algorithm reads and gives: a problem, and the same problem as plain arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, Placement, base_name, copies_of
from penstock.errors import Infeasible, InputError
from penstock.latency.batches import in_time
from penstock.load import LoadModel, Statistics, expand_replicas

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TIE = 1e-9
"""Scores, and loads in benchmark cores, that differ by less are the same."""

MOST_COPIES = 1000
"""Copies of an operator that are placed at most."""


def check_copies(count: int) -> None:
    """Raise `InputError` for a number of copies of each operator that is not placed."""
    if not 1 <= count <= MOST_COPIES:
        raise InputError(f"expected 1 to {MOST_COPIES} copies of each operator, got {count}", at="--replicas")


@attrs.frozen(eq=False)
class Problem:
    """A placement problem: which operators, on which hosts, from where.

    Attributes
    ----------
    model
        The load model.
    cluster
        Hosts, quotas and links.
    previous
        The placement that is to be improved, or None.
    pins
        Hosts that operators must stay on.
    replicas
        Copies of each operator that are to be placed (1: the operator alone).
    """

    model: LoadModel
    cluster: Cluster
    previous: Placement | None = None
    pins: Mapping[str, str] = attrs.field(factory=dict)
    replicas: int = 1

    def __attrs_post_init__(self) -> None:
        check_copies(self.replicas)

    @classmethod
    def of(
        cls,
        model: LoadModel,
        cluster: Cluster,
        statistics: Statistics | None,
        previous: Placement | None = None,
        replicas: int = 1,
    ) -> Problem:
        """Return the problem of a network with its pins, on hosts as fast as statistics say that they are in place.

        Of a previous placement those replicas count that there are to be still.
        """
        in_place, _ = in_time(cluster, statistics)
        if previous is not None:
            names = expand_replicas(model.network, replicas)
            previous = Placement({name: previous[name] for name in names if name in previous})
        return cls(model, in_place, previous, model.network.pins, replicas)

    @property
    def names(self) -> tuple[str, ...]:
        """What is to be placed: operators and their replicas ``operator#2``, …"""
        return expand_replicas(self.model.network, self.replicas)

    def held(self, theta: float) -> Problem:
        """Return the problem in which the floor(theta·m) operators of least mean load stay where they are.

        Source: Wang et al., section 4.2 (periodic optimisation).
        """
        if not 0 <= theta <= 1:
            raise InputError(f"expected a share from 0 to 1, got {theta}", at="--theta")
        if theta == 0:
            return self
        if self.previous is None:
            raise InputError("theta holds operators where they were", at="--theta", hint="pass --previous")
        arrays = as_arrays(self)
        count = len(arrays.names)
        light = arrays.names[count - math.floor(theta * count + TIE) :]
        held = {name: self.previous[name] for name in light if name in self.previous}
        return attrs.evolve(self, pins={**held, **self.pins})


@attrs.frozen(eq=False, kw_only=True)
class Arrays:
    """A problem as arrays, in the order in which ties are broken: by falling mean load, then by name.

    Attributes
    ----------
    names, hosts
        Of the m operators (and replicas) and the n hosts (by name).
    load
        Array (m, k): load series in benchmark cores.
    mean
        Array (m,): mean load.
    capacity, usable
        Arrays (n,): benchmark cores of each host, and capacity times quota.
    fixed, previous
        Arrays (m,): the host that an operator must stay on, or was on; -1 where there is none, as before for a copy
        that comes anew.
    base, part
        Arrays (m,): which operator this is a copy of, and which connected part of the network it belongs to.
    writer, reader, rate
        Arrays (e,): the streams between operators, and their mean rate. An end that is no operator but has a host
        (a source or sink) is ``~host``, a negative number.
    sender
        Array (e,): who sends on each stream, a number of its own for each operator and each source: sources may share a
        host, and what several readers on one host share crosses once for each sender. None: the writer.
    shared
        Array (e,): whether the stream carries the writer's whole output, so that readers on one host share it.
    delay, bandwidth
        Arrays (n, n) of the links, in s and tuples/s; None where all links are free.
    state, memory
        Arrays (m,) and (n,): bytes of state that operators keep, and that each host can hold; None where no host has a
        bound.
    period
        Length of a period (s).
    lift
        Factor on all quotas while placing: above 1 only where quotas that cannot be kept may be exceeded.
    """

    names: tuple[str, ...]
    hosts: tuple[str, ...]
    load: Floats
    mean: Floats
    capacity: Floats
    usable: Floats
    fixed: Ints
    previous: Ints
    base: Ints
    part: Ints
    writer: Ints
    reader: Ints
    rate: Floats
    shared: NDArray[np.bool_]
    delay: Floats | None = None
    bandwidth: Floats | None = None
    state: Floats | None = None
    memory: Floats | None = None
    period: float = 1.0
    lift: float = 1.0
    sender: Ints | None = None

    @property
    def senders(self) -> Ints:
        """Who sends on each stream, array (e,)."""
        return self.writer if self.sender is None else self.sender

    @property
    def limit(self) -> Floats:
        """What each host may carry, array (n,): ``usable``, or more where quotas are lifted."""
        return self.usable if self.lift == 1.0 else self.usable * self.lift

    def over_memory(self, where: Ints) -> Floats:
        """Return the bytes of state that each host would have too much of, array (n,)."""
        if self.state is None or self.memory is None:
            return np.zeros(len(self.hosts))
        kept = np.bincount(where[where >= 0], self.state[where >= 0], len(self.hosts))
        over: Floats = np.where(kept > self.memory * (1 + TIE), kept - self.memory, 0.0)
        return over

    @classmethod
    def of(
        cls,
        load: Floats,
        capacity: Floats,
        *,
        fixed: Ints | None = None,
        previous: Ints | None = None,
        part: Ints | None = None,
        period: float = 1.0,
    ) -> Arrays:
        """Return a problem without names and streams, for networks that are too large to be objects.

        Parameters
        ----------
        load
            Array (m, k), in any order. Row r becomes operator ``str(r)``; see ``names`` for where it went.
        capacity
            Array (n,).
        """
        load = np.asarray(load, np.float64)
        count = len(load)
        mean = load.mean(axis=1) if load.shape[1] else np.zeros(count)
        rank = ranked(mean, np.arange(count))
        none = np.full(count, -1, np.int64)
        empty = np.zeros(0, np.int64)
        return cls(
            names=tuple(map(str, rank)),
            hosts=tuple(map(str, range(len(capacity)))),
            load=np.ascontiguousarray(load[rank]),
            mean=mean[rank],
            capacity=np.asarray(capacity, np.float64),
            usable=np.asarray(capacity, np.float64),
            fixed=none if fixed is None else fixed[rank],
            previous=none if previous is None else previous[rank],
            base=np.arange(count),
            part=np.arange(count) if part is None else part[rank],
            writer=empty,
            reader=empty,
            rate=np.zeros(0),
            shared=np.zeros(0, np.bool_),
            period=period,
        )

    def placement(self, where: Ints) -> Placement:
        """Return the placement that an array (m,) of host numbers means."""
        return Placement({name: self.hosts[host] for name, host in zip(self.names, where, strict=True)})

    def where(self, placement: Mapping[str, str]) -> Ints:
        """Return the host numbers, array (m,), of a placement; -1 where it does not name an operator."""
        row = {name: index for index, name in enumerate(self.hosts)}
        return np.array([row[placement[name]] if name in placement else -1 for name in self.names], np.int64)

    def host_load(self, where: Ints) -> Floats:
        """Return the load series of the hosts, array (n, k), not divided by capacity."""
        total = np.zeros((len(self.hosts), self.load.shape[1]))
        np.add.at(total, where, self.load)
        return total

    def host_mean(self, where: Ints) -> Floats:
        """Return the mean load of the hosts, array (n,), not divided by capacity."""
        return np.bincount(where, weights=self.mean, minlength=len(self.hosts)).astype(np.float64)

    def subset(self, operators: Ints, hosts: Ints) -> Arrays:
        """Return the problem of some operators on some hosts; streams to the others are left out."""
        row = np.full(len(self.names), -1, np.int64)
        row[operators] = np.arange(len(operators))
        column = np.full(len(self.hosts), -1, np.int64)
        column[hosts] = np.arange(len(hosts))
        inside = [
            index
            for index in range(len(self.rate))
            if self.writer[index] >= 0
            and self.reader[index] >= 0
            and row[self.writer[index]] >= 0
            and row[self.reader[index]] >= 0
        ]

        def of(places: Ints) -> Ints:
            chosen = places[operators]
            return np.where(chosen >= 0, column[chosen], -1)

        grid = np.ix_(hosts, hosts)
        return attrs.evolve(
            self,
            names=tuple(self.names[index] for index in operators),
            hosts=tuple(self.hosts[index] for index in hosts),
            load=np.ascontiguousarray(self.load[operators]),
            mean=self.mean[operators],
            capacity=self.capacity[hosts],
            usable=self.usable[hosts],
            fixed=of(self.fixed),
            previous=of(self.previous),
            base=self.base[operators],
            part=self.part[operators],
            writer=row[self.writer[inside]],
            reader=row[self.reader[inside]],
            rate=self.rate[inside],
            shared=self.shared[inside],
            sender=None,
            delay=None if self.delay is None else self.delay[grid],
            bandwidth=None if self.bandwidth is None else self.bandwidth[grid],
            state=None if self.state is None else self.state[operators],
            memory=None if self.memory is None else self.memory[hosts],
        )


def ranked(mean: Floats, names: NDArray[np.generic]) -> Ints:
    """Return the order by falling mean load, then name; loads that differ by rounding only are equal."""
    scale = float(mean.max(initial=0.0)) or 1.0
    return np.lexsort((names, -np.round(mean / scale, 11)))


def as_arrays(problem: Problem) -> Arrays:
    """Return the problem as arrays.

    Raises
    ------
    InputError
        If the previous placement does not name every operator, or a pin names a stranger.
    """
    model, cluster, network = problem.model, problem.cluster, problem.model.network
    hosts = {name: index for index, name in enumerate(cluster.hosts)}
    named = problem.names
    bases = [model.operator_index[base_name(name)] for name in named]
    mean = model.mean_load[bases]
    rank = ranked(mean, np.array(named))
    names = tuple(named[index] for index in rank)
    base = np.array([bases[index] for index in rank], np.int64)
    previous = np.full(len(names), -1, np.int64)
    fixed = np.full(len(names), -1, np.int64)
    for index, name in enumerate(names):
        if problem.previous is not None and name in problem.previous:
            previous[index] = _host(problem.previous[name], hosts, f"previous.{name}")
        elif problem.previous is not None and "#" not in name:  # further copies come anew
            raise InputError(f"operator {name!r} has no host", at="--previous", hint=f"add {name}=HOST")
        if name in problem.pins:
            fixed[index] = _host(problem.pins[name], hosts, f"operators.{name}.pin")
    parts = {name: number for number, query in enumerate(network.queries) for name in query}
    part = np.array([parts[base_name(name)] for name in names], np.int64)
    usable = np.array([host.usable for host in cluster.hosts.values()])
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    writer, reader, rate, shared, sender = _streams(problem, names, hosts)
    delay, bandwidth = links_between(cluster, hosts)
    memory = np.array([host.memory for host in cluster.hosts.values()])
    bounded = bool(np.isfinite(memory).any())
    kept = np.array([network.operators[base_name(name)].state or 0.0 for name in names])
    return Arrays(
        names=names,
        hosts=tuple(hosts),
        load=np.ascontiguousarray(model.load[base]),
        mean=model.mean_load[base],
        capacity=capacity,
        usable=usable,
        fixed=fixed,
        previous=previous,
        base=base,
        part=part,
        writer=writer,
        reader=reader,
        rate=rate,
        shared=shared,
        delay=delay,
        bandwidth=bandwidth,
        state=kept if bounded else None,
        memory=memory if bounded else None,
        period=model.period,
        sender=sender,
    )


def links_between(cluster: Cluster, hosts: Iterable[str]) -> tuple[Floats | None, Floats | None]:
    """Return delay (s) and bandwidth (tuples/s) from host to host, arrays (hosts, hosts); None where links are free."""
    if cluster.free_links:
        return None, None
    names = list(hosts)
    pairs = [[cluster.link(start, end) for end in names] for start in names]
    delay = np.array([[link.delay for link in row] for row in pairs])
    return delay, np.array([[link.bandwidth for link in row] for row in pairs])


def _host(name: str, hosts: Mapping[str, int], at: str) -> int:
    if name not in hosts:
        raise InputError(f"{name!r} is no host of the cluster", at=at)
    return hosts[name]


def _streams(
    problem: Problem, names: Iterable[str], hosts: Mapping[str, int]
) -> tuple[Ints, Ints, Floats, NDArray[np.bool_], Ints]:
    """Return the streams between operators, and those of sources and sinks that have a host, and who sends on them."""
    network, model = problem.model.network, problem.model
    row = {name: index for index, name in enumerate(names)}
    copies = {name: [row[copy] for copy in each] for name, each in copies_of(row).items()}
    ends = {source.name: source.host for source in network.sources.values()}
    ends |= {sink.name: sink.host for sink in network.sinks.values()}

    def places(name: str) -> list[int]:
        if name in copies:
            return copies[name]
        host = ends[name]
        return [] if host is None else [~hosts[host]]

    rates = model.arrivals.mean(axis=1).tolist()
    number = {name: ~index for index, name in enumerate(network.sources)}
    rows = [
        (start, end, rates[model.stream_index[stream.name]], stream.share == 1, number.get(stream.writer, start))
        for stream in network.streams
        for start in places(stream.writer)
        for end in places(stream.reader)
        if start >= 0 or end >= 0
    ]
    return (
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.float64),
        np.array([row[3] for row in rows], np.bool_),
        np.array([row[4] for row in rows], np.int64),
    )


class Algorithm(Protocol):
    """Decides where operators run; a pure function of the problem and the generator's state."""

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator, array (m,).

        Raises
        ------
        Infeasible
            Naming the host or link that is short, and by how much.
        """
        ...


def short(arrays: Arrays, where: Ints | None = None) -> Infeasible:
    """Return the answer no: which host is short, by how much, or that all of them together are."""
    demand, supply = float(arrays.mean.sum()), float(arrays.usable.sum())
    if demand > supply * (1 + TIE):
        return Infeasible(
            f"the operators need {demand:.6g} benchmark cores, the {len(arrays.hosts)} hosts have {supply:.6g} "
            f"(capacity times quota): short by {demand - supply:.6g}"
        )
    if where is not None:
        mean = arrays.host_mean(where)
        worst = int(np.argmax(mean - arrays.usable))
        return Infeasible(
            f"host {arrays.hosts[worst]!r} would carry {mean[worst]:.6g} of {arrays.usable[worst]:.6g} benchmark cores "
            f"(capacity times quota): short by {mean[worst] - arrays.usable[worst]:.6g}"
        )
    largest = arrays.mean[0]
    return Infeasible(
        f"no division found that fits; the largest operator {arrays.names[0]!r} needs {largest:.6g} benchmark cores, "
        f"the largest host {arrays.hosts[int(np.argmax(arrays.usable))]!r} has {arrays.usable.max():.6g}"
    )
