"""Looks at a run, and what is decided from them: the simulator counts and obeys, whoever steers it decides."""

from __future__ import annotations

import math

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, Link
from penstock.errors import InputError
from penstock.network import Network
from penstock.simulation import state as layout
from penstock.simulation.compile import MOVE, RESUME, Compiled, Control
from penstock.simulation.state import LINK, ROUND_ROBIN
from penstock.steering import Observation

STEER = "steer"


@attrs.frozen
class Moved:
    """An operator that has moved, and when it started nothing any more (s)."""

    time: float
    operator: str
    start: str
    end: str

    def document(self) -> dict[str, object]:
        """Return the move as ``penstock simulate --json`` shows it."""
        return {"time": self.time, "operator": self.operator, "from": self.start, "to": self.end}


class Watch:
    """What is known of a run beside its arrays: who steers it, what was counted at the last look, and what moved."""

    def __init__(self, run: Compiled, network: Network, cluster: Cluster, seed: int) -> None:
        self.cluster, self._network = cluster, network
        self.moved: list[Moved] = []
        self._sources = tuple(network.sources)
        self._capacity = np.array([host.capacity for host in cluster.hosts.values()])
        steer = run.options.steer
        self.tick = 0.0 if steer is None else steer.tick
        self._looks = 0
        self._decide = None if steer is None else steer.begin(network, cluster, seed)
        self._places = [{home} for home in run.state.units["host"].tolist()]
        self._busy, self._work = run.state.units["busy"].copy(), np.zeros(len(run.units))
        self._before: list[NDArray[np.int64]] = []
        if steer is not None and any("#" in name for name in run.units):
            raise InputError("operators with copies cannot be moved by a policy", at="--rebalance")

    def first(self) -> tuple[Control, ...]:
        """Return the first look, if the run is steered."""
        return () if self._decide is None else (Control(self.tick, 5, STEER, -1),)

    def look(self, run: Compiled, pending: list[Control], now: float) -> tuple[Control, ...]:
        """Return the moves that are decided now, and the next look."""
        assert self._decide is not None  # noqa: S101 -- looks come with somebody who steers
        self._looks += 1
        unit = {name: index for index, name in enumerate(run.units)}
        moves = self._decide(self._observed(run, pending, now))
        found = [
            Control(now, 2, MOVE, run.hosts.index(host), unit[name])
            for name, host in moves
            if run.hosts[int(run.state.units["host"][unit[name]])] != host
        ]
        return (*found, Control((self._looks + 1) * self.tick, 5, STEER, -1))

    def settle(self, run: Compiled) -> None:
        """Count the work done so far at the speed of the hosts where it was done."""
        s = run.state
        self._work += (s.units["busy"] - self._busy) * self._capacity[s.units["host"]]
        self._busy = s.units["busy"].copy()

    def _observed(self, run: Compiled, pending: list[Control], now: float) -> Observation:
        s = run.state
        self.settle(run)
        work, self._work = self._work, np.zeros(len(run.units))
        # What is scheduled is one ahead of what has entered; a trace counts what has entered.
        now_counts = [s.sources["number"] + (s.trace.size > 0), s.units["served"].copy(), _tried(run), _emitted(run)]
        before = self._before or [np.zeros_like(each) for each in now_counts]
        entered, served, tried, emitted = (b - a for a, b in zip(before, now_counts, strict=True))
        self._before = now_counts
        return Observation(
            at=now,
            period=self.tick,
            network=self._network,
            cluster=self.cluster,
            sources=self._sources,
            entered=entered,
            operators=run.units,
            served=served,
            work=work,
            tried=tried,
            emitted=emitted,
            placement={name: run.hosts[h] for name, h in zip(run.units, s.units["host"].tolist(), strict=True)},
            moving=frozenset(run.units[control.unit] for control in pending if control.kind == RESUME),
            down=frozenset(run.hosts[h] for h in np.flatnonzero(s.hosts["down"]).tolist()),
        )

    def before_move(self, run: Compiled, unit: int, target: int) -> Compiled:
        """Note a move that is about to happen, and return the run with the links that it will need."""
        s, now = run.state, float(run.state.g["now"][0])
        self.settle(run)
        home = int(s.units[unit]["host"])
        if home != target:
            self.moved.append(Moved(now, run.units[unit], run.hosts[home], run.hosts[target]))
        if self._decide is None:
            return run  # all moves were known before, and so were their links
        self._places[unit].add(target)
        # Also the hosts where neighbours have been: what they began there ends there.
        pairs: set[tuple[int, int]] = set()
        readers = s.inputs["unit"][s.outputs["input"]]
        ends = [(self._places[u], row) for u, row in enumerate(s.units)]
        ends += [({int(row["host"])}, row) for row in s.sources if row["host"] >= 0]
        for places, row in ends:
            for reader in readers[row["outputs"] : row["outputs"] + row["readers"]].tolist():
                if reader >= 0 and (places is self._places[unit] or reader == unit):
                    pairs.update((a, b) for a in places for b in self._places[reader] if a != b)
        return _linked(run, self.cluster, pairs - set(run.links))

    def crossing(self, start: int, end: int, queue: int) -> float:
        """Return how long the queue of a moving operator takes to cross (s), where a policy moved it."""
        if self._decide is None or start == end:
            return 0.0
        hosts = tuple(self.cluster.hosts)
        link = self.cluster.link(hosts[start], hosts[end])
        return link.delay + (queue / link.bandwidth if queue else 0.0)


def _tried(run: Compiled) -> NDArray[np.int64]:
    """Return what each unit's selectivity is a share of: pairs that a join has tried, or tuples served."""
    s = run.state
    tried = s.units["served"].copy()
    joins = s.units["kind"] == layout.JOIN
    if joins.any():
        pairs = np.bincount(s.inputs["unit"][s.inputs["unit"] >= 0], s.inputs["count"][s.inputs["unit"] >= 0])
        tried[joins] = pairs[joins].astype(np.int64)
    return tried


def _emitted(run: Compiled) -> NDArray[np.int64]:
    """Return what each unit has put out: all of it is on each of its streams, or spread over them by a route."""
    s = run.state
    arrived = s.inputs["arrived"][s.outputs["input"]]
    total = np.concatenate([[0], np.cumsum(arrived)])
    first, last = s.units["outputs"], s.units["outputs"] + s.units["readers"]
    some = s.units["readers"] > 0
    at = np.where(some, first, 0)
    routed = some & (s.outputs["routed"][at] > 0) if s.outputs.size else some
    single = np.where(some, arrived[at], 0) if s.outputs.size else np.zeros_like(first)
    found: NDArray[np.int64] = np.where(routed, total[last] - total[first], single).astype(np.int64)
    return found


def everywhere(run: Compiled) -> Compiled:
    """Return a run in which any operator may come to any host: every host knows a turn for each."""
    s = run.state
    if run.options.steer is None or s.g["policy"][0] != ROUND_ROBIN:
        return run
    count, wide = len(run.units), max(1, -(-len(run.units) // 64))
    members = layout.table(len(run.hosts) * count, layout.MEMBER)
    members["unit"] = np.tile(np.arange(count), len(run.hosts))
    s.hosts["members"], s.hosts["size"] = np.arange(len(run.hosts)) * count, count
    s.hosts["words"], s.hosts["wide"] = np.arange(len(run.hosts)) * wide, wide
    s.units["position"] = np.arange(count)
    words = layout.table(len(run.hosts) * wide, layout.WORD)
    return attrs.evolve(run, state=s._replace(members=members, words=words).addressed())


def _in_flight(link: Link) -> int:
    """Return how many tuples a link carries at a time, as for the links that are known from the start."""
    volume = link.delay * link.bandwidth if link.delay > 0 else math.inf
    return 2**62 if volume > 2**61 else max(1, math.floor(volume + layout.EPSILON))


def _linked(run: Compiled, cluster: Cluster, pairs: set[tuple[int, int]]) -> Compiled:
    """Return the run with more links; they stay in order, so that the kernel finds them."""
    if not pairs:
        return run
    s = run.state
    order = sorted({**run.links, **dict.fromkeys(pairs, -1)})
    found = {pair: index for index, pair in enumerate(order)}
    table = layout.table(len(order), layout.LINKS)
    moved = np.array([found[pair] for pair in run.links], np.int64)  # in the order of the old numbers
    table[moved] = s.links
    for pair in pairs:
        link = cluster.link(run.hosts[pair[0]], run.hosts[pair[1]])
        table[found[pair]] = (*pair, link.delay, _in_flight(link), 0, 0, -1, -1, -1, -1)
    known = s.outputs["link"] >= 0
    s.outputs["link"][known] = moved[s.outputs["link"][known]]
    heap = layout.table(s.heap.size + len(pairs), layout.EVENT)
    heap[: s.heap.size] = s.heap
    waiting = heap[: int(s.g["heaped"][0])]
    flights = waiting["key"] >> 56 == LINK
    waiting["index"][flights] = moved[waiting["index"][flights]]
    return attrs.evolve(run, links=found, state=s._replace(links=table, heap=heap).addressed())
