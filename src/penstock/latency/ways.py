"""The ways of tuples over hosts and links, and what these are late by where nothing waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster, hosts_by_operator
from penstock.load import LoadModel
from penstock.network import Network, Stream

Best: TypeAlias = Callable[[Iterable[float]], float]
"""The least or the largest."""

APART = 16
"""Delays by which the tuples of a stream are told apart, at most; beyond, the nearest are taken for the later one."""


def upstream(network: Network) -> dict[str, frozenset[str]]:
    """Return, for each operator, itself and the operators from which it derives."""
    found: dict[str, frozenset[str]] = {}
    for name, operator in network.operators.items():
        found[name] = frozenset([name]).union(*(found[given] for given in operator.inputs if given in found))
    return found


@attrs.frozen(eq=False)
class Ways:
    """Which hosts and links tuples pass on their ways to each end, and the propagation delays of these ways.

    Ends are sinks, and operators in which tuples end: that nobody reads, or that put nothing out for an input.

    Attributes
    ----------
    least
        By end the least delay (s) of a way through each host or link ``a->b``. Streams without a tuple are no ways, but
        for an end that gets none.
    tuples
        By end, and by the delay (s) of the ways on which they come, the tuples/s that it gets, arrays (periods,).
    longest
        By host and link the largest delay of a way through it (s); none where links have none.
    """

    least: Mapping[str, Mapping[str, float]]
    tuples: Mapping[str, Mapping[float, Array]]
    longest: Mapping[str, float]

    @classmethod
    def of(cls, model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> Ways:
        """Follow all ways."""
        return _Follower(model, placement, cluster).ways()

    def shortest(self) -> dict[str, float]:
        """Return the least delay (s) of a way through each host and link, to the ends that get tuples if any does.

        Whose tuples wait there is not known.
        """
        idle = {end for end, found in self.tuples.items() if not found}
        found: dict[str, float] = {}
        for end in self.least.keys() - idle or idle:
            for place, delay in self.least[end].items():
                found[place] = min(found.get(place, delay), delay)
        return found

    def unhindered(self) -> list[Array]:
        """Return how late the last tuples of each end are where nothing waits (s), arrays (periods,)."""
        return [np.where(come > 0, delay, 0.0) for found in self.tuples.values() for delay, come in found.items()]


class _Follower:
    """Follows the ways of tuples through a network."""

    def __init__(self, model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> None:
        self.model, self.network, self.cluster, self.free = model, model.network, cluster, cluster.free_links
        copies = hosts_by_operator(placement)
        self.places = {name: sorted(set(hosts)) for name, hosts in copies.items()}
        self.places |= {name: [row.host] if row.host is not None else [] for name, row in self.network.sources.items()}
        self.first = {name: copies[name][0] for name in self.network.operators}
        self.first |= {name: row.host for name, row in self.network.sources.items() if row.host is not None}
        self.rows = {name: row for row, name in enumerate(self.network.operators)}
        self.some = {name: bool((model.arrivals[row] > 0).any()) for name, row in model.stream_index.items()}

    def ways(self) -> Ways:
        """Return all ways."""
        network, before = self.network, upstream(self.network)
        near = {busy: self._before(min, only=busy) for busy in (False, True)}
        far = {} if self.free else self._before(max)
        tuples = self._prompt() if self.free else self._apart(near[True])
        least, longest = {}, dict[str, float]()
        for end, found in tuples.items():
            operator, busy = network.sinks[end].input if end in network.sinks else end, bool(found)
            way = sorted(before.get(operator, ()), key=self.rows.__getitem__, reverse=True)
            least[end] = self._through(way, operator, near[busy], min, only=busy)
            for place, delay in self._through(way, operator, far, max).items() if far else ():
                longest[place] = max(longest.get(place, 0.0), delay)
        return Ways(least, tuples, longest)

    def _prompt(self) -> dict[str, dict[float, Array]]:
        """Return the tuples/s of each end where no link has a delay; those inside the network then tell nothing."""
        ends = [*self.network.sinks, *(name for name in self.network.operators if not self.network.outputs(name))]
        return {name: _few([(0.0, self.model.inflow(name).sum(axis=0))]) for name in ends}

    def _apart(self, least: Mapping[str, float]) -> dict[str, dict[float, Array]]:
        """Return the tuples/s of each end by the delay of their ways, arrays (periods,).

        What a join or a window puts out is as old as the last of what made it: it has the ``least`` delay there.
        """
        network = self.network
        out = {name: {0.0: row} for name, row in zip(self.model.rates.sources, self.model.rates.values, strict=True)}
        ends: dict[str, dict[float, Array]] = {}
        for name, operator in network.operators.items():
            made: list[tuple[float, Array]] = []
            over: list[tuple[float, Array]] = []
            rows = zip(network.inputs(name), self.model.gain(name), self.model.ends(name), strict=True)
            for stream, gain, ends_here in rows:
                for delay, come in self._along(stream, out).items():
                    made.append((least[name] if operator.stateful else delay, come * gain))
                    if ends_here.any():
                        over.append((delay, come * ends_here))
            out[name], ended = _few(made), _few(over)
            if ended or not network.outputs(name):
                ends[name] = ended
        return {name: _few(self._along(network.inputs(name)[0], out).items()) for name in network.sinks} | ends

    def _along(self, stream: Stream, out: Mapping[str, Mapping[float, Array]]) -> dict[float, Array]:
        """Return the tuples/s that reach a stream's reader, by the delay of their ways (s)."""
        more = self._delay(stream.writer, stream.reader)
        return {delay + more: tuples * stream.share for delay, tuples in out[stream.writer].items()}

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


def _few(parts: Iterable[tuple[float, Array]]) -> dict[float, Array]:
    """Return the tuples of each delay together, for few delays (s), and only those that there are."""
    found: dict[float, Array] = {}
    for delay, tuples in sorted(parts, key=lambda part: part[0]):
        # Sums of the same delays in another order are the same.
        last = next(reversed(found), -np.inf)
        near = last if delay - last <= 1e-12 else delay
        if tuples.any():
            found[near] = found[near] + tuples if near in found else tuples
    while len(found) > APART:
        delays = [*found]
        _, early, late = min((b - a, a, b) for a, b in pairwise(delays))
        found[late] = found[late] + found.pop(early)
    return found
