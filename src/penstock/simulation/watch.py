"""Looks at a run, and what is decided from them: the simulator counts and obeys, whoever steers it decides."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Ints
from penstock.cluster import Cluster
from penstock.network import Network
from penstock.simulation import state as layout
from penstock.simulation.busy import busy
from penstock.simulation.compile import MOVE, RESUME, Compiled, Control, written
from penstock.simulation.gates import entered, held
from penstock.simulation.maps import Maps, linked, spread
from penstock.simulation.state import ROUND_ROBIN
from penstock.steering import HostSeen, LatencySeen, Observation


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
    """What is known of a run beside its arrays: what was counted at the last look, and what moved.

    Parameters
    ----------
    changing
        Whether operators will move by what is decided on the way, so that links are found when they are needed.
    """

    def __init__(self, run: Compiled, network: Network, cluster: Cluster, changing: bool) -> None:
        self.network, self.cluster = network, cluster
        self.moved: list[Moved] = []
        self.keep: Mapping[str, float] = dict(run.options.keep)
        self._changing = changing
        self._places = [{home} for home in run.state.units["host"].tolist()]
        self._busy, self._work = run.state.units["busy"].copy(), np.zeros(len(run.units))
        self._before: dict[str, Ints] = {}
        self._hosts = np.zeros(len(run.hosts))
        self._late: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []

    def arrived(self, sinks: NDArray[np.int64], latency: NDArray[np.float64]) -> None:
        """Note the latencies (s) of tuples that have reached sinks."""
        self._late.append((sinks, latency))

    def become(self, network: Network, cluster: Cluster, maps: Maps) -> None:
        """Go on with a network or cluster that has more than before."""
        self.network, self.cluster = network, cluster
        places = [{int(maps.hosts[host]) for host in places} for places in self._places]
        self._places = [{home} for home in maps.homes]
        for old, found in zip(maps.units.tolist(), places, strict=True):
            self._places[old] |= found
        units = maps.units, maps.counts.units
        streams = maps.streams, maps.counts.streams
        numbers = {
            "entered": (maps.sources, maps.counts.sources), "arrived": streams, "dropped": streams,
        }  # fmt: skip
        self._busy, self._work = spread(self._busy, *units), spread(self._work, *units)
        self._hosts = spread(self._hosts, maps.hosts, maps.counts.hosts)
        self._before = {name: spread(row, *numbers.get(name, units)) for name, row in self._before.items()}
        self._late = [(maps.sinks[sinks], values) for sinks, values in self._late]

    def fork(self) -> Watch:
        """Return a copy that goes on by itself."""
        other = copy.copy(self)
        other.moved, other._late, other._before = list(self.moved), list(self._late), dict(self._before)
        other._places, other._work = [set(places) for places in self._places], self._work.copy()
        return other

    def settle(self, run: Compiled) -> None:
        """Count the work done so far at the speed of the hosts where it was done."""
        s = run.state
        speed = s.hosts["speed"] * s.hosts["cores"]
        # That of a batch counts when its tuples do, at its start: what a tuple costs is the quotient of the two.
        self._work += (s.units["busy"] - self._busy) * speed[s.units["host"]]
        self._busy = s.units["busy"].copy()

    def look(self, run: Compiled, pending: list[Control], now: float, period: float) -> Observation:
        """Return what was counted in a period (s) that ends now."""
        s = run.state
        self.settle(run)
        work, self._work = self._work, np.zeros(len(run.units))
        streams = np.zeros((2, len(run.streams)), np.int64)
        for row, part in zip(streams, ("arrived", "dropped"), strict=True):
            np.add.at(row, s.inputs["stream"], s.inputs[part])
        count = self._since("entered", entered(s))
        hosts = busy(run, now)[1]
        busy_hosts, self._hosts = (hosts - self._hosts) / max(period, 1e-12), hosts.copy()
        waiting, behind = _waiting(run, now)
        batch, back = run.options.microbatch, _held_back(run)
        return Observation(
            at=now,
            period=period,
            network=self.network,
            cluster=self.cluster,
            sources=tuple(self.network.sources),
            entered=count,
            operators=run.units,
            served=self._since("served", s.units["served"]),
            work=work,
            tried=self._since("tried", _tried(run)),
            emitted=self._since("emitted", _emitted(run, back)),
            waiting=waiting,
            behind=behind,
            coming=None if batch is None else _by_reader(run, back),
            streams=run.streams,
            arrived=self._since("arrived", streams[0]),
            dropped=self._since("dropped", streams[1]),
            placement={name: run.hosts[h] for name, h in zip(run.units, s.units["host"].tolist(), strict=True)},
            moving=frozenset(run.units[control.unit] for control in moving(pending, now)),
            down=frozenset(run.hosts[h] for h in np.flatnonzero(s.hosts["down"]).tolist()),
            hosts={
                name: HostSeen(
                    busy=share,
                    overhead=None if batch is None else float(row["overhead"]),
                    rest=None if batch is None else max(0.0, float(row["until"]) - now),
                    speed=float(row["speed"] * row["cores"]) / self.cluster.hosts[name].capacity,
                )
                for name, share, row in zip(run.hosts, np.clip(busy_hosts, 0, 1).tolist(), s.hosts, strict=True)
            },
            latency=self._latency(run),
            keep=self.keep,
            limits={
                name: limit
                for name, limit in zip(self.network.sources, s.sources["limit"].tolist(), strict=True)
                if 0 < limit < math.inf
            },
            triggers={} if batch is None else dict(zip(run.hosts, s.hosts["trigger"].tolist(), strict=True)),
        )

    def _since(self, name: str, now: Ints) -> Ints:
        """Return how much more there is than at the look before."""
        before = self._before.get(name)
        self._before[name] = np.array(now)
        return np.array(now) if before is None else np.asarray(now - before)

    def _latency(self, run: Compiled) -> dict[str, LatencySeen]:
        rows, self._late = self._late, []
        sinks = np.concatenate([np.zeros(0, np.int64), *(row[0] for row in rows)])
        values = np.concatenate([np.zeros(0), *(row[1] for row in rows)])
        order = np.lexsort((values, sinks))
        values = values[order]
        ends = np.searchsorted(sinks[order], np.arange(len(run.sinks) + 1))
        total = np.concatenate([[0.0], np.cumsum(values)])
        found = {}
        for name, first, last in zip(run.sinks, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            count = last - first
            some: dict[str, float] = {}
            if count:
                p99 = float(values[first + min(count - 1, int(0.99 * count))])
                mean = float(total[last] - total[first]) / count
                some = {"mean": mean, "p99": p99, "worst": float(values[last - 1])}
            found[name] = LatencySeen(count=count, **some)
        return found

    def before_move(self, run: Compiled, unit: int, target: int) -> Compiled:
        """Note a move that is about to happen, and return the run with the links that it will need."""
        s, now = run.state, float(run.state.g["now"][0])
        self.settle(run)
        home = int(s.units[unit]["host"])
        if home != target:
            self.moved.append(Moved(now, run.units[unit], run.hosts[home], run.hosts[target]))
        if not self._changing:
            return run  # all moves were known before, and so were their links
        self._places[unit].add(target)
        return self.linked(run, unit)

    def linked(self, run: Compiled, only: int | None = None) -> Compiled:
        """Return the run with the links between all hosts where a writer and its reader have been.

        What a writer began on a host ends there. ``only``: the links to and from one unit.
        """
        s, pairs = run.state, set[tuple[int, int]]()
        source, writer, readers = written(s)
        touched = readers >= 0
        if only is not None:
            touched &= (readers == only) | (writer == only)
        for o in np.flatnonzero(touched).tolist():
            places = {int(s.sources["host"][source[o]])} if source[o] >= 0 else self._places[writer[o]]
            pairs.update((a, b) for a in places for b in self._places[readers[o]] if a != b and a >= 0)
        return linked(run, self.cluster, pairs)

    def crossing(self, start: int, end: int, queue: int) -> float:
        """Return how long the queue of a moving operator takes to cross (s), where a policy moved it."""
        if not self._changing or start == end:
            return 0.0
        hosts = tuple(self.cluster.hosts)
        link = self.cluster.link(hosts[start], hosts[end])
        return link.delay + (queue / link.bandwidth if queue else 0.0)


def moving(pending: Iterable[Control], now: float) -> list[Control]:
    """Return the controls of moves that are under way or begin now."""
    return [each for each in pending if each.kind == RESUME or (each.kind == MOVE and each.at <= now)]


def _waiting(run: Compiled, now: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how many tuples wait for each unit, and the age of the oldest that it has not yet finished (s)."""
    s = run.state
    mine = s.inputs["unit"] >= 0
    units, count = s.inputs["unit"][mine], len(run.units)
    waiting = (np.bincount(units, s.inputs["waiting"][mine], count) + held(s)[0]).astype(np.float64)
    nodes = s.nodes[: int(s.g["fresh"][0])]
    nodes = nodes[nodes["input"] >= 0]
    unit = s.inputs["unit"][nodes["input"]]
    behind = np.zeros(count)
    np.maximum.at(behind, unit[unit >= 0], now - nodes["stimulus"][unit >= 0])
    return waiting, behind


def _tried(run: Compiled) -> NDArray[np.int64]:
    """Return what each unit's selectivity is a share of: pairs that a join has tried, or tuples served."""
    s = run.state
    tried = s.units["served"].copy()
    joins = s.units["kind"] == layout.JOIN
    if joins.any():
        pairs = np.bincount(s.inputs["unit"][s.inputs["unit"] >= 0], s.inputs["count"][s.inputs["unit"] >= 0])
        tried[joins] = pairs[joins].astype(np.int64)
    return tried


def _emitted(run: Compiled, back: Ints) -> NDArray[np.int64]:
    """Return what each unit has put out: all of it is on each of its streams, or spread over them by a route.

    What a batch holds back (``back``, by output) counts, as the tuples that it was made of count as served.
    """
    s = run.state
    arrived = s.inputs["arrived"][s.outputs["input"]] + back
    total = np.concatenate([[0], np.cumsum(arrived)])
    first, last = s.units["outputs"], s.units["outputs"] + s.units["readers"]
    some = s.units["readers"] > 0
    at = np.where(some, first, 0)
    routed = some & (s.outputs["routed"][at] > 0) if s.outputs.size else some
    single = np.where(some, arrived[at], 0) if s.outputs.size else np.zeros_like(first)
    found: NDArray[np.int64] = np.where(routed, total[last] - total[first], single).astype(np.int64)
    return found


def _held_back(run: Compiled) -> Ints:
    """Return how many tuples batches that run hold back for each output."""
    inside = run.state.nodes["input"][: int(run.state.g["fresh"][0])]
    found: Ints = np.bincount(-2 - inside[inside <= -2], minlength=len(run.state.outputs))
    return found


def _by_reader(run: Compiled, outputs: Ints) -> NDArray[np.float64]:
    """Return the sum of a number by output over those that each unit reads."""
    reader = run.state.inputs["unit"][run.state.outputs["input"]]
    inner = reader >= 0
    return np.bincount(reader[inner], outputs[inner], len(run.units)).astype(np.float64)


def everywhere(run: Compiled) -> Compiled:
    """Return a run in which any operator may come to any host: every host knows a place for each."""
    s = run.state
    if s.g["policy"][0] < ROUND_ROBIN and run.options.microbatch is None:
        return run
    count, wide = len(run.units), max(1, -(-len(run.units) // 64))
    members = layout.table(len(run.hosts) * count, layout.MEMBER)
    members["unit"], members["began"] = np.tile(np.arange(count), len(run.hosts)), -1.0
    s.hosts["members"], s.hosts["size"] = np.arange(len(run.hosts)) * count, count
    s.hosts["words"], s.hosts["wide"] = np.arange(len(run.hosts)) * wide, wide
    s.units["position"] = np.arange(count)
    words = layout.table(len(run.hosts) * wide, layout.WORD)
    return attrs.evolve(run, state=s._replace(members=members, words=words).addressed())
