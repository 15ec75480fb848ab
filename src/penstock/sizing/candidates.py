"""Where the operators of a new query may go: the search for the placement that delays the least."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np

from penstock.cluster import Cluster, Placement, alike, base_name
from penstock.errors import Infeasible
from penstock.latency.estimate import Estimate
from penstock.latency.waits import capacities, host_loads, shares, worst_waits
from penstock.load import LoadModel, Statistics
from penstock.network import Network
from penstock.sizing.search import TIE, Key, Search, Step

ROWS = 20_000
"""Loads of one host that a search weighs for more than two operators, before it takes the best that it has."""

ESTIMATES = 300
"""Estimates of whole placements by a slow model, likewise."""

INTERVALS = 20
"""Placements whose interval is drawn, at most, to find one that fits by it."""

Weighed = tuple[float, tuple[int, ...]]
"""An excess (s), and the hosts of the new operators that have it."""

Doubt = Callable[[Estimate, Mapping[str, str]], Estimate]
"""Gives the estimate of a placement of the new operators its interval."""


class Candidates:
    """Where new operators may go, and what that makes of the hosts' worst waits."""

    def __init__(
        self,
        loads: LoadModel,
        network: Network,
        new: tuple[str, ...],
        placement: Placement,
        cluster: Cluster,
        statistics: Statistics | None = None,
    ) -> None:
        self.cluster, self.hosts = cluster, tuple(cluster.hosts)
        self.period = loads.period
        rows = {name: row for row, name in enumerate(self.hosts)}
        self.capacity, self.share = capacities(cluster), shares(cluster)
        where = np.full(len(network.operators), len(rows), np.int64)
        for copy, host in placement.items():
            if "#" not in copy:
                where[loads.operator_index[copy]] = rows[host]
        self.base = host_loads(loads, where, len(rows) + 1)[:-1]
        for copy, host in placement.items():
            if "#" in copy:
                self.base[rows[host]] += loads.load_of(copy)
        # The heaviest first: what fits nowhere is found soon. Equal loads by name.
        mean = {name: float(loads.load_of(name).mean()) for name in new}
        self.new = tuple(sorted(new, key=lambda name: (-mean[name], name)))
        self.load = [loads.load_of(name) for name in self.new]
        self.mean = np.array([mean[name] for name in self.new])
        self.level = self.base.mean(axis=1)
        self.waits = worst_waits(self.base, self.capacity, self.period)
        self.state = np.array([network.operators[name].state or 0.0 for name in self.new])
        self.hold = np.array([host.memory for host in cluster.hosts.values()])
        for name, host in placement.items():
            self.hold[rows[host]] -= network.operators[base_name(name)].state or 0.0
        self.alike = self._alike(network, set(placement.values()), statistics)
        self.kinds: dict[int, list[int]] = {}
        for index, kind in enumerate(self.alike):
            self.kinds.setdefault(kind, []).append(index)
        pins = [network.operators[name].pin for name in self.new]
        self.allowed = [
            [h for h in range(len(rows)) if pin in (None, self.hosts[h]) and self._room(h, mean[name], state)]
            for name, pin, state in zip(self.new, pins, self.state, strict=True)
        ]
        for name, places in zip(self.new, self.allowed, strict=True):
            if not places:
                raise Infeasible(
                    f"no host has room for {name!r} (load {mean[name]:.6g}) within its quota and memory",
                    admitted=False, latency=None, placement={},
                )  # fmt: skip
        self.with_one = [
            worst_waits(self.base + load, self.capacity, self.period) if len(self.new) else self.waits
            for load in self.load
        ]

    def named(self, where: Mapping[int, int]) -> dict[str, str]:
        """Return hosts by operator, for numbers of both."""
        return {self.new[index]: self.hosts[host] for index, host in where.items()}

    def _added(self, hosts: tuple[int, ...]) -> dict[str, str]:
        return self.named(dict(enumerate(hosts)))

    def _room(self, host: int, load: float, state: float) -> bool:
        room = self.level[host] + load <= self.share[host] * (1 + TIE)
        return bool(room and (state == 0 or state <= self.hold[host]))

    def _alike(self, network: Network, taken: set[str], statistics: Statistics | None) -> list[int]:
        """Number the hosts so that empty ones that can be exchanged for each other share a number."""
        named = {host for _, host in network.named_hosts}
        apart = set(self.hosts) if self.cluster.links else named | taken
        return alike(self.cluster.hosts.values(), apart, None if statistics is None else statistics.hosts)

    def by_waits(self) -> tuple[dict[int, int], bool]:
        """Return the placement of least worst wait over all hosts, by branch and bound.

        Among equals the one whose own hosts wait least, then the one that loads its hosts least, then by name.
        """
        floor = float(self.waits.max(initial=0.0))
        search = Search(
            loads=np.array(self.load).reshape(len(self.load), self.base.shape[1]),
            places=self.allowed,
            capacity=self.capacity,
            usable=self.share,
            base=self.base,
            kinds=self.alike,
            period=self.period,
            budget=np.inf if len(self.new) <= 2 else ROWS,
            known=self.with_one,
            state=self.state,
            room=self.hold,
        )

        def judge(step: Step) -> tuple[Key, Key]:
            wait = step.wait()
            _, own, full = step.before or (0.0, 0.0, 0.0)
            own = max(own, wait)
            return (max(floor, own), own, max(full, step.share)), (wait, step.share, step.host)

        best = None
        for _, best in search.divisions(judge, better=True):  # noqa: B007
            pass
        if best is None:
            raise self._no_division()
        return dict(enumerate(best)), search.budget > 0

    def _no_division(self) -> Infeasible:
        return Infeasible(
            f"no division of {', '.join(self.new)} keeps every host within its quota and memory",
            admitted=False, latency=None, placement={},
        )  # fmt: skip

    def by_estimates(
        self,
        trial: Callable[[Mapping[str, str]], float],
        estimate: Callable[[Mapping[str, str]], Estimate],
        bound: float | None,
        excess: Callable[[Estimate], float],
        doubt: Doubt | None = None,
    ) -> tuple[dict[int, int], Estimate, bool]:
        """Return the placement of least excess by a model of whole placements, and whether none can be better.

        Candidates come in the order of their hosts' worst waits, and a ``trial`` says the excess of each. With a
        ``bound`` (s) the model never answers less than those waits, so that the search ends at the first candidate
        that cannot be better. With a ``doubt`` those that fit by the prediction are given their intervals, the best
        first, until one fits by its interval.
        """
        few = len(self.new) <= 2
        listed = few or math.prod(len(places) for places in self.allowed) <= ROWS
        if listed:
            trials = [
                (self._waits_of(hosts), hosts)
                for hosts in itertools.product(*self.allowed)
                if self._fits(hosts) and self._first_of_alike(hosts)
            ]
        else:
            start = tuple(self.by_waits()[0].values())
            trials = [(self._waits_of(start), start)]
        best: Weighed | None = None
        fitting: list[Weighed] = []

        def weigh(hosts: tuple[int, ...]) -> bool:
            nonlocal best
            value = trial(self._added(hosts))
            if doubt is not None and value <= TIE:
                fitting.append((value, hosts))
            if best is None or value < best[0] - TIE:
                best = (value, hosts)
                return True
            return False

        exhaustive = listed
        for number, (wait, hosts) in enumerate(sorted(trials)):
            # In doubt the best prediction need not be what fits, so that all that may fit are weighed.
            beaten = -np.inf if best is None else max(best[0], 0.0 if doubt else best[0]) - TIE
            if bound is not None and best is not None and wait - bound >= beaten:
                break
            if number == ESTIMATES and not few:
                exhaustive = False
                break
            weigh(hosts)
        if best is None:
            raise self._no_division()
        if not exhaustive:
            self._descend(weigh, lambda: best[1] if best else ())
        if doubt is None or not fitting:
            return dict(enumerate(best[1])), estimate(self._added(best[1])), exhaustive
        hosts, found, every = self._doubted(fitting, lambda added: doubt(estimate(added), added), excess)
        return dict(enumerate(hosts)), found, exhaustive and every

    def _doubted(
        self,
        fitting: list[Weighed],
        surely: Callable[[Mapping[str, str]], Estimate],
        excess: Callable[[Estimate], float],
    ) -> tuple[tuple[int, ...], Estimate, bool]:
        """Return the first that fits by its interval, else the one that misses least; and whether all were drawn."""
        drawn: list[tuple[float, tuple[int, ...], Estimate]] = []
        for _, hosts in sorted(fitting, key=lambda row: row[0])[:INTERVALS]:
            found = surely(self._added(hosts))
            drawn.append((excess(found), hosts, found))
            if drawn[-1][0] <= TIE:
                return hosts, found, True
        _, hosts, found = min(drawn, key=lambda row: row[0])
        return hosts, found, len(drawn) == len(fitting)

    def _descend(self, weigh: Callable[[tuple[int, ...]], bool], now: Callable[[], tuple[int, ...]]) -> None:
        """Move one operator at a time, to the hosts where it alone would wait least, while that helps."""
        left, better = ESTIMATES, True
        while better and left > 0:
            better = False
            for index, places in enumerate(self.allowed):
                for host in sorted(places, key=lambda h: (self.with_one[index][h], h))[:8]:
                    trial = (*now()[:index], host, *now()[index + 1 :])
                    if trial != now() and left > 0 and self._fits(trial):
                        left -= 1
                        better = weigh(trial) or better

    def _fits(self, hosts: tuple[int, ...]) -> bool:
        here = {host: [i for i, other in enumerate(hosts) if other == host] for host in hosts}
        return all(
            self._room(host, float(self.mean[mine].sum()), float(self.state[mine].sum())) for host, mine in here.items()
        )

    def _first_of_alike(self, hosts: tuple[int, ...]) -> bool:
        """Whether the hosts of one kind are taken in their order, so that of equal placements one is weighed."""
        taken: dict[int, list[int]] = {}
        for host in dict.fromkeys(hosts):
            taken.setdefault(self.alike[host], []).append(host)
        return all(members == self.kinds[kind][: len(members)] for kind, members in taken.items())

    def _waits_of(self, hosts: tuple[int, ...]) -> float:
        waits = [float(self.waits.max(initial=0.0))]
        for host in dict.fromkeys(hosts):
            here = [index for index, other in enumerate(hosts) if other == host]
            if len(here) == 1:
                waits.append(float(self.with_one[here[0]][host]))
            else:
                load = self.base[host] + sum(self.load[index] for index in here)
                waits.append(float(worst_waits(load[None], self.capacity[[host]], self.period)[0]))
        return max(waits)
