"""What enters in a slice of time passes through queries that share their hosts, in steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import lru_cache

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster
from penstock.latency.estimate import rates_too_long, too_long
from penstock.load import LoadModel
from penstock.network import Network

STEP = 0.1
"""Longest step of time, and slice of stimulus time (s)."""

LIMIT = 2_000_000
"""Operators times steps that are followed at most."""

KEPT = 1024
"""Queries in a period whose work is kept for the next tuples."""

_Exit = tuple[str, str | None, int]
"""An operator, who reads it outside of its query (None: its tuples end there), and the port."""


def shares(demand: Array, capacity: float) -> Array:
    """Return how a capacity is divided equally among those who can use it, array (queries,).

    Nobody gets more than it asks for; what it leaves goes to the others in equal parts.

    Examples
    --------
    >>> shares(np.array([0.1, 2.0, 2.0]), 1.0).tolist()
    [0.1, 0.45, 0.45]
    """
    given = np.zeros(demand.size)
    left, others = capacity, demand.size
    for row in np.argsort(demand, kind="stable"):
        given[row] = min(demand[row], left / others)
        left -= given[row]
        others -= 1
    return given


@attrs.define(eq=False)
class _Parcel:
    """Tuples of one slice in front of an operator: their work in the query, and when the last is there (s)."""

    slice: int
    operator: str
    port: int
    tuples: float
    work: float
    ready: float


class Fluid:
    """The state of all queries during the run."""

    def __init__(self, model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> None:
        self.model, self.placement, self.cluster = model, placement, cluster
        self.network: Network = model.network
        part = {name: number for number, query in enumerate(self.network.queries) for name in query}
        self.home = {name: (placement[name], part[name]) for name in self.network.operators}
        self.members: dict[tuple[str, int], list[str]] = {}
        for name, home in self.home.items():
            self.members.setdefault(home, []).append(name)
        inside = {(s.reader, s.port): self.home.get(s.writer) == self.home.get(s.reader) for s in self.network.streams}
        self.entered = {to for to, whole in inside.items() if not whole}
        self.behind = lru_cache(KEPT)(self._behind)
        self.gain = {name: model.gain(name) for name in self.network.operators}
        self.ends = {name: model.ends(name) for name in self.network.operators}
        self.fine = max(1, int(np.ceil(model.period / STEP - 1e-9)))
        self.width = model.period / self.fine
        self.slices = model.rates.periods * self.fine
        # Hosts in the order of the network, so that a step's output mostly reaches its readers in the same step.
        self.waiting: dict[str, dict[int, deque[_Parcel]]] = {}
        for host, number in self.home.values():
            self.waiting.setdefault(host, {}).setdefault(number, deque())
        self.coming: dict[int, list[_Parcel]] = {}
        self.found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in self.network.sinks}
        self.ended: list[tuple[int, float, float]] = []

    def run(self) -> None:
        """Find by sink the slices, latencies (s) and tuples that reach it, and those of tuples that end before one."""
        k = 0
        most = LIMIT // max(1, len(self.network.operators))
        if self.slices > most:
            raise rates_too_long(self.model.rates.duration, self.model.period, self.width)
        while k < self.slices or self.coming or any(any(rows.values()) for rows in self.waiting.values()):
            if k > most:
                raise too_long()
            if k < self.slices:
                self._enter(k)
            for host, rows in self.waiting.items():
                self._collect(k)
                self._serve(k, rows, self.cluster.hosts[host].capacity)
            self._collect(k)
            k += 1

    def _enter(self, k: int) -> None:
        for row, source in enumerate(self.model.rates.sources):
            tuples = float(self.model.rates.values[row, k // self.fine]) * self.width
            host = self.network.sources[source].host
            for stream in self.network.outputs(source) if tuples > 0 else ():
                if stream.reader in self.network.sinks:
                    self.found[stream.reader].append((k, 0.0, tuples))
                else:
                    far = self.cluster.link(host, self.placement[stream.reader]).delay if host else 0.0
                    self._send(k, k, stream.reader, stream.port, tuples, (k + 1) * self.width + far)

    def _send(self, now: int, q: int, reader: str, port: int, tuples: float, ready: float) -> None:
        step = max(now, int(np.ceil(ready / self.width - 1e-9)) - 1)
        work = tuples * self.behind(self.home[reader], q // self.fine)[reader, port][0]
        self.coming.setdefault(step, []).append(_Parcel(q, reader, port, tuples, work, ready))

    def _collect(self, k: int) -> None:
        for parcel in self.coming.pop(k, ()):
            host, number = self.home[parcel.operator]
            self.waiting[host][number].append(parcel)

    def _serve(self, k: int, rows: Mapping[int, deque[_Parcel]], capacity: float) -> None:
        """Serve each query of a host for its share of one step."""
        demand = np.array([sum(parcel.work for parcel in queue) for queue in rows.values()])
        room = capacity * self.width
        given = shares(demand, room)
        # Alone or together, those who work do so until the step's work or the step is done.
        span = min(self.width, float(demand.sum()) / capacity)
        for queue, part, asked in zip(rows.values(), given.tolist(), demand.tolist(), strict=True):
            used = 0.0
            while queue:
                parcel = queue[0]
                if asked > part and used + parcel.work > part * (1 + 1e-12):
                    # Cut: what is served of it leaves the work of the rest; its tuples leave with the last of them.
                    parcel.work -= part - used
                    break
                used += parcel.work
                queue.popleft()
                at = max(parcel.ready, k * self.width + (span * used / part if part > 0 else 0.0))
                self._leave(k, parcel, at)

    def _leave(self, k: int, parcel: _Parcel, at: float) -> None:
        """Hand on what a query puts out of a parcel."""
        _, out = self.behind(self.home[parcel.operator], parcel.slice // self.fine)[parcel.operator, parcel.port]
        late = at - (parcel.slice + 1) * self.width
        for (name, reader, port), share in out.items():
            tuples = parcel.tuples * share
            if reader is None:
                self.ended.append((parcel.slice, late, tuples))
            elif reader in self.network.sinks:
                self.found[reader].append((parcel.slice, late, tuples))
            else:
                far = self.cluster.link(self.placement[name], self.placement[reader]).delay
                self._send(k, parcel.slice, reader, port, tuples, at + far)

    def _behind(self, home: tuple[str, int], period: int) -> dict[tuple[str, int], tuple[float, dict[_Exit, float]]]:
        """Return by operator and port at which a query is entered the work there that a tuple makes, and what leaves.

        Each operator asks its readers only: ways that part and meet again are too many to be followed one by one.
        """
        known: dict[tuple[str, int], tuple[float, dict[_Exit, float]]] = {}
        for name in reversed(self.members[home]):
            for port, cost in enumerate(self.network.operators[name].cost or ()):
                work, out = cost, dict[_Exit, float]()
                if self.ends[name][port, period]:
                    out[name, None, port] = 1.0
                for stream in self.network.outputs(name):
                    made, to = float(self.gain[name][port, period]) * stream.share, (stream.reader, stream.port)
                    more, further = known.get(to, (0.0, {(name, *to): 1.0}))
                    work += made * more
                    for way, tuples in further.items() if made > 0 else ():
                        out[way] = out.get(way, 0.0) + made * tuples
                known[name, port] = work, out
        return {to: known[to] for to in known.keys() & self.entered}
