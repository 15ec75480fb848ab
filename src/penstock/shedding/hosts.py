"""What each host of a tree knows of itself: its inputs, its streams, its load (Tatbul et al. sections 2 and 6).

Hosts form trees: each reads from at most one other. An *input* of a host is what it reads from one writer, a source or
an operator of its parent (``clicks@h1``): a tuple crosses once, however many operators read it there. A source that
enters further down the tree is an input of the hosts above too: they cannot thin it, but what they send on depends on
it, so its host announces its rate to them.

Two passes go along a tree before tables are made: a `Profile` from each host to its parent, and `Limits` back. They
carry what the paper's bottom-up pass for the feasibility triangle does (6.2.1), one number a host and input.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.shedding.program import Matrix, Program

FITS = 1 + 1e-9
"""Loads up to here fit, as in `Program.feasible`."""


@attrs.frozen(eq=False)
class HostPart:
    """One host's share of a placed network: the arcs that it can thin, in topological order.

    An arc is a stream that an operator of the host reads or that leads to a sink, or what one writer sends to a child.

    Attributes
    ----------
    host, parent
        Names; the parent is None at a root.
    children
        Names of the hosts that read from it.
    inputs
        What arrives, as ``writer@host``.
    arcs
        Array (arcs,): their numbers in the `Program`, -1 for what is sent to a child.
    streams
        Their names: ``writer->reader``, or ``writer@child``, which is the name of the child's input.
    thins
        The network's streams that each of them stands for.
    G, S
        Arrays (arcs, arcs), (arcs, inputs): what an arc offers, given kept rates and inputs.
    cost
        Array (arcs,): share of the host's usable capacity that a kept tuple per second takes.
    weight
        Array (arcs,): worth of a tuple per second that reaches a sink.
    sends
        For each child its streams, as positions in `arcs`.
    operators
        Of the host, in topological order: name, and positions of the arcs that it reads and writes.
    """

    host: str
    parent: str | None
    children: tuple[str, ...]
    inputs: tuple[str, ...]
    arcs: NDArray[np.int64]
    streams: tuple[str, ...]
    thins: tuple[tuple[str, ...], ...]
    G: Matrix
    S: Matrix
    cost: Matrix
    weight: Matrix
    sends: Mapping[str, tuple[int, ...]]
    operators: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]

    @property
    def plain(self) -> bool:
        """Whether no stream splits or merges, so that dropping at the inputs loses nothing."""
        once = ((self.G > 0).sum(axis=0) <= 1).all() and ((self.S > 0).sum(axis=0) <= 1).all()
        return bool(once and ((self.G > 0).sum(axis=1) <= 1).all())

    def flow(self, rates: Matrix, keep: Matrix | None = None) -> Matrix:
        """Return kept rates, array (arcs,) or (arcs, points), for rates (inputs,) or (inputs, points)."""
        G, S = (self.G, self.S) if keep is None else (self.G * keep[:, None], self.S * keep[:, None])
        return np.asarray(np.linalg.solve(np.eye(len(self.arcs)) - G, S @ rates), float)


@attrs.frozen(eq=False)
class Profile:
    """What a host tells its parent first: how its subtree is loaded when nothing is dropped.

    Attributes
    ----------
    inputs
        Its own, and the sources that enter below it.
    hosts
        Of the subtree, itself first.
    loads
        Array (hosts, inputs): share of capacity per tuple per second.
    useful
        The same when streams that are worth nothing are dropped.
    worth
        Array (inputs,): score per tuple per second when nothing is dropped.
    grids
        How many grids of rates the tables of the subtree are made from.
    """

    inputs: tuple[str, ...]
    hosts: tuple[str, ...]
    loads: Matrix
    useful: Matrix
    worth: Matrix
    grids: int


@attrs.frozen(eq=False)
class Limits:
    """What a host is told before it makes its table.

    Attributes
    ----------
    greatest
        Array (inputs,): no input will ever carry more (tuples/s).
    least
        No overload of the tree has an optimum below this score.
    grids
        How many grids all tables of the tree are made from: the loss below the smallest rates is divided by it.
    spread
        Two neighbours of a grid differ by this share.
    tail
        Share of `least` that may be lost below the smallest rates of all grids.
    tree
        Array (hosts of the tree, inputs): `Profile.useful` of the root in this host's inputs, where it sees every
        source of the tree and nothing splits or merges on the way; else None.
    """

    greatest: Matrix
    least: float
    grids: int
    spread: float
    tail: float
    tree: Matrix | None


def host_parts(program: Program) -> dict[str, HostPart]:
    """Divide a program among its hosts, parents before children.

    Raises
    ------
    InputError
        If hosts do not form trees, an operator has replicas, a link is limited, a join has a time window, or a stream
        drops nothing.
    """
    if program.products:
        raise InputError("d-fit needs a linear network, got a time-window join", at="--planner", hint="use exact")
    if program.hosts < len(program.limit):
        raise InputError("d-fit knows no limits of links", at="--planner", hint="use c-fit or exact")
    if program.whole:
        raise InputError(
            f"d-fit would drop in front of windows that would not be whole: {', '.join(sorted(program.whole))}",
            at="--planner",
            hint="use c-fit or exact",
        )
    place = {}
    for name, hosts in program.places.items():
        if len(hosts) > 1:
            raise InputError(f"d-fit needs each operator on one host, but {name} has replicas", at="--planner")
        place[name] = hosts[0]
    ends = [name.split("->") for name in program.streams]
    parent = _parents(place, ends)
    parts = {}
    for host in _ordered(program, place, parent):
        parts[host] = _part(program, place, host, parent.get(host))
    return parts


def _part(program: Program, place: Mapping[str, str], host: str, parent: str | None) -> HostPart:
    """Return one host's share of a program."""
    number = program.resources.index(host)
    read: list[tuple[int, str, tuple[str, ...], list[int]]] = []
    sent: dict[str, list[tuple[int, str]]] = {}
    for name, arc in sorted(zip(program.streams, program.arc.tolist(), strict=True), key=lambda row: row[1]):
        writer, reader = name.split("->")
        if place.get(reader) == host or (place.get(writer) == host and reader not in place):
            read.append((arc, name, (name,), [arc]))
        elif place.get(writer) == host:
            sent.setdefault(f"{writer}@{place[reader]}", []).append((arc, name))
    rows = sorted(
        [*read, *((-1, name, tuple(s for _, s in group), [a for a, _ in group]) for name, group in sent.items())],
        key=lambda row: row[3][0],
    )
    at = {arc: row for row, (arc, *_) in enumerate(rows) if arc >= 0}
    inputs: list[str] = []
    G, S = np.zeros((len(rows), len(rows))), np.zeros((len(rows), len(rows)))
    cost, weight = np.zeros(len(rows)), np.zeros(len(rows))
    for row, (arc, name, _, group) in enumerate(rows):
        writer, _, reader = name.partition("->")
        if arc >= 0 and place.get(writer) != host:
            given = f"{writer}@{host}"
            inputs += [given] if given not in inputs else []
            S[row, inputs.index(given)] = (
                _share(program, place, host, writer, arc) if writer in place else program.S[arc].max()
            )
        else:
            feeds = program.G[group].max(axis=0)
            for column in np.flatnonzero(feeds):
                G[row, at[int(column)]] = feeds[column]
        if place.get(reader) == host:
            cost[row] = program.K[number, arc] / program.limit[number]
        elif arc >= 0:
            weight[row] = program.weight[arc]
    names = tuple(name for _, name, *_ in rows)
    sends: dict[str, tuple[int, ...]] = {}
    for name in sent:
        child = name.partition("@")[2]
        sends[child] = (*sends.get(child, ()), names.index(name))
    ends = [name.replace("@", "->").split("->") for name in names]
    operators = tuple(
        (
            operator,
            tuple(row for row, (_, reader) in enumerate(ends) if reader == operator and rows[row][0] >= 0),
            tuple(row for row, (writer, _) in enumerate(ends) if writer == operator),
        )
        for operator in program.network.operators
        if place[operator] == host
    )
    return HostPart(
        host, parent, tuple(sorted(sends)), tuple(inputs), np.array([arc for arc, *_ in rows], np.int64), names,
        tuple(thins for _, _, thins, _ in rows), G, np.ascontiguousarray(S[:, : len(inputs)]), cost, weight, sends,
        operators,
    )  # fmt: skip


def _share(program: Program, place: Mapping[str, str], host: str, writer: str, arc: int) -> float:
    """Return which part of what a writer sends to a host goes to an arc: 1 for the fullest one."""
    group = [
        int(other)
        for name, other in zip(program.streams, program.arc, strict=True)
        if name.startswith(f"{writer}->") and place.get(name.partition("->")[2]) == host
    ]
    most = float(program.G[group].max(initial=0.0))
    return float(program.G[arc].max()) / most if most > 0 else 0.0


def _parents(place: Mapping[str, str], ends: list[list[str]]) -> dict[str, str]:
    """Return the host that each host reads from."""
    parent: dict[str, str] = {}
    for writer, reader in ends:
        above, below = place.get(writer), place.get(reader)
        if above is not None and below is not None and above != below and parent.setdefault(below, above) != above:
            raise InputError(
                f"d-fit needs hosts that form a tree, but {below} reads from two hosts",
                at="--planner",
                hint="use c-fit or exact",
            )
    for host in parent:
        seen, at = {host}, parent.get(host)
        while at is not None:
            if at in seen:
                raise InputError(
                    "d-fit needs hosts that form a tree, but they feed each other in a circle",
                    at="--planner",
                    hint="use c-fit or exact",
                )
            seen.add(at)
            at = parent.get(at)
    return parent


def _ordered(program: Program, place: Mapping[str, str], parent: Mapping[str, str]) -> list[str]:
    """Return the hosts in use, each after its parent."""

    def depth(host: str) -> int:
        return 1 + depth(parent[host]) if host in parent else 0

    used = set(place.values())
    return sorted((host for host in program.resources[: program.hosts] if host in used), key=depth)


def profile_of(part: HostPart, below: Mapping[str, Profile]) -> Profile:
    """Return what a host tells its parent, from what its children told it."""
    announced = tuple(name for child in part.children for name in below[child].inputs if name not in part.streams)
    inputs, own = (*part.inputs, *announced), len(part.inputs)
    worth = worth_of(part, below)
    every, good = part.flow(np.eye(own)), part.flow(np.eye(own), (worth > 0).astype(float))
    hosts = [part.host]
    loads, useful = [_padded(part.cost @ every, inputs)], [_padded(part.cost @ good, inputs)]
    at_inputs = _padded(worth @ part.S, inputs)
    for child in part.children:
        told = below[child]
        hosts += told.hosts
        loads.extend(told.loads @ carried(part, told, inputs, every))
        useful.extend(told.useful @ carried(part, told, inputs, good))
        for name, value in zip(told.inputs, told.worth, strict=True):
            if name not in part.streams:
                at_inputs[inputs.index(name)] = value
    merges = sum(max(0, len(reads) - 1) for _, reads, _ in part.operators)
    grids = int((part.weight > 0).sum()) + merges + sum(below[child].grids for child in part.children)
    return Profile(inputs, tuple(hosts), np.array(loads), np.array(useful), at_inputs, grids if part.children else own)


def carried(part: HostPart, told: Profile, inputs: tuple[str, ...], flow: Matrix) -> Matrix:
    """Return what arrives at each input of a child per tuple of each input, array (child's inputs, inputs).

    Parameters
    ----------
    flow
        Array (arcs, own inputs): what passes each arc of the host.
    """
    to = np.zeros((len(told.inputs), len(inputs)))
    for row, name in enumerate(told.inputs):
        if name not in part.streams:
            to[row, inputs.index(name)] = 1.0
        else:
            to[row, : len(part.inputs)] = flow[part.streams.index(name)]
    return to


def one_to_one(part: HostPart, to: Matrix) -> bool:
    """Whether every input of a host is, but for a factor, one of the child's and the other way round."""
    once = ((to > 0).sum(axis=0) == 1).all() and ((to > 0).sum(axis=1) == 1).all()
    return part.plain and bool(once)


def greatest_rates(part: HostPart, limits: Limits) -> Matrix:
    """Return the most that each arc can carry, array (arcs,)."""
    most = np.zeros(len(part.arcs))
    for row in range(len(most)):
        offered = part.G[row] @ most + part.S[row] @ limits.greatest[: len(part.inputs)]
        most[row] = min(offered, 1 / part.cost[row]) if part.cost[row] > 0 else offered
    return most


def worth_of(part: HostPart, below: Mapping[str, Profile]) -> Matrix:
    """Return what a tuple on each arc is worth when nothing is dropped behind it, array (arcs,)."""
    worth = part.weight.copy()
    for child, rows in part.sends.items():
        told = below[child]
        for row in rows:
            worth[row] = told.worth[told.inputs.index(part.streams[row])]
    for row in range(len(worth) - 1, -1, -1):
        worth[row] += part.G[:, row] @ worth
    return worth


def _padded(row: Matrix, inputs: tuple[str, ...]) -> Matrix:
    return np.concatenate([row, np.zeros(len(inputs) - len(row))])


def root_limits(profile: Profile, upto: Mapping[str, float], spread: float, tail: float) -> Limits:
    """Return the limits of a root, from its profile and the greatest rate of each source.

    Overload scaled down until it fits leaves a host full, so no optimum is below the least worth of a full host; an
    input that is worth nothing does not count, since it is dropped first.
    """
    counts = (profile.useful > 0) & (profile.worth > 0)
    ratio = np.divide(np.broadcast_to(profile.worth, counts.shape), profile.useful, where=counts,
                      out=np.full(counts.shape, np.inf))  # fmt: skip
    greatest = np.array([upto[name.partition("@")[0]] for name in profile.inputs])
    return Limits(greatest, float(ratio.min(initial=np.inf)), profile.grids, spread, tail, profile.useful)


def child_limits(part: HostPart, limits: Limits, told: Profile, inputs: tuple[str, ...]) -> Limits:
    """Return what a host tells a child, from its own limits (for ``inputs``) and the child's profile."""
    most = greatest_rates(part, limits)
    greatest = np.array(
        [
            most[part.streams.index(name)] if name in part.streams else limits.greatest[inputs.index(name)]
            for name in told.inputs
        ]
    )
    tree = None
    to = carried(part, told, inputs, part.flow(np.eye(len(part.inputs))))
    if limits.tree is not None and one_to_one(part, to):
        tree = limits.tree @ np.where(to > 0, 1 / np.where(to > 0, to, 1.0), 0.0).T
    return attrs.evolve(limits, greatest=greatest, tree=tree)
