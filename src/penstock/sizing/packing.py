"""How operators can share hosts within a bound: lower bounds, exact divisions, first fit, the cheapest mix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster, Host, Placement, alike
from penstock.errors import Infeasible
from penstock.latency.waits import worst_waits
from penstock.load import LoadModel
from penstock.sizing.fleet import Fleet
from penstock.sizing.search import TIE, Key, Search, Step
from penstock.units import size_text

NODES = 20_000
"""Loads of one host that the exact search weighs before it gives up its proof."""

SEARCHED = 60
"""Operators up to which divisions are searched; beyond, they are packed first fit."""


class Packing:
    """The operators, heaviest first, and how they can share hosts within the bound."""

    def __init__(self, model: LoadModel, fleet: Fleet, bound: float) -> None:
        network = model.network
        self.model, self.fleet, self.bound = model, fleet, bound
        mean = {name: float(value) for name, value in zip(network.operators, model.mean_load, strict=True)}
        pinned = [name for name in network.operators if network.operators[name].pin is not None]
        # Pinned ones first: they leave no choice.
        free = sorted((n for n in mean if n not in pinned), key=lambda name: (-mean[name], name))
        self.names = [*pinned, *free]
        self.pins = [network.operators[name].pin for name in self.names]
        self.load = [model.load_of(name) for name in self.names]
        self.mean = [mean[name] for name in self.names]
        self.state = np.array([network.operators[name].state or 0.0 for name in self.names])
        self.period = model.period
        self.complete = True
        self._total = model.load.sum(axis=0) if len(model.load) else np.zeros(model.rates.periods)

    def wait(self, load: Array, host: Host) -> float:
        """Return the worst wait of a host (s); infinite beyond a quota."""
        if host.quota < 1 and float(load.mean()) > host.usable * (1 + TIE):
            return np.inf
        return float(worst_waits(load[None], np.array([host.capacity]), self.period)[0])

    def alone(self) -> str | None:
        """Return why not even a host for each operator is enough, or None.

        What is not pinned may also run on a host on which the network insists.
        """
        like, named = self.fleet.like, self.fleet.named
        for row, pin in enumerate(self.pins):
            hosts = (*like, *named) if pin is None else (pin,)
            reasons: dict[str, None] = {}
            for host in hosts:
                reason = self._short(row, host, f"like {host!r}" if host in like else repr(host))
                if reason is None:
                    break
                reasons[reason] = None
            else:
                return "; ".join(reasons)
        return None

    def _short(self, row: int, host: str, kind: str) -> str | None:
        """Return why an operator misses the bound alone on a host, which messages call a host of this kind; or None."""
        name, machine, state = self.names[row], self.fleet.cluster.hosts[host], float(self.state[row])
        if state > machine.memory * (1 + TIE):
            kept, there = size_text(state), size_text(machine.memory)
            return f"{name!r} keeps {kept} of state, and a host {kind} has memory for {there}"
        wait = self.wait(self.load[row], machine)
        if wait <= self.bound + TIE:
            return None
        late = f"{name!r} alone on a host {kind} is {wait:.6g} s late, {wait - self.bound:.6g} s too much"
        return late if np.isfinite(wait) else f"{name!r} alone is beyond the quota of a host {kind}"

    def enough(self, capacity: float, quota: float = 1.0) -> bool:
        """Whether the load, divided perfectly over so many benchmark cores, meets the bound (CE is convex)."""
        if quota < 1 and float(self._total.mean()) > capacity * quota * (1 + TIE):
            return False
        return float(worst_waits(self._total[None], np.array([capacity]), self.period)[0]) <= self.bound + TIE

    def fewest(self) -> int:
        """Return a number of hosts below which no placement meets the bound."""
        if not self.names:
            return 0
        hosts = [self.fleet.cluster.hosts[name] for name in (*self.fleet.like, *self.fleet.named)]
        quota = max(host.quota for host in hosts)
        best = max(host.capacity for host in hosts)
        memory = max(host.memory for host in hosts)
        count = max(1, math.ceil(float(self.state.sum()) / memory * (1 - TIE)))
        while count < len(self.names) and not self.enough(count * best, quota):
            count += 1
        return count

    def divisions(self, made: Cluster, count: int, bound: float, *, even: bool = False) -> Iterator[Placement]:
        """Iterate over the placements on at most ``count`` hosts in which no host's worst wait exceeds a bound.

        Depth first, the heaviest operator first, each host that is like another only once. `complete` becomes false
        where the search stops before its end; large networks get one placement, first fit.

        Parameters
        ----------
        even
            Whether the host that is least loaded with an operator is tried first, rather than the first one.
        """
        if len(self.names) > SEARCHED:
            self.complete = False
            if (found := self.first_fit(made, count, bound)) is not None:
                yield found
            return
        hosts = list(made.hosts.values())
        spot = {host.name: index for index, host in enumerate(hosts)}
        apart = set(self.fleet.named) if not made.links else set(made.hosts)
        known = self.fleet.statistics(made)
        search = self._search(
            hosts,
            [range(len(hosts)) if pin is None else [spot[pin]] for pin in self.pins],
            alike(hosts, apart, None if known is None else known.hosts),
        )

        def judge(step: Step) -> tuple[Key, Key] | None:
            if step.spent:
                self.complete = False
            if step.spent or (step.fresh and step.used >= count):
                return None
            rank = (step.share,) if even else ()
            return ((), rank) if np.isinf(bound) or step.wait() <= bound + TIE else None

        for _, where in search.divisions(judge):
            yield Placement({name: hosts[h].name for name, h in zip(self.names, where, strict=True)})

    def _search(self, hosts: Sequence[Host], places: Sequence[Sequence[int]], kinds: list[int]) -> Search:
        """Return the search over empty hosts; those of one kind can be exchanged."""
        return Search(
            loads=np.array(self.load).reshape(len(self.names), self.model.rates.periods),
            places=places,
            capacity=np.array([host.capacity for host in hosts]),
            usable=np.array([host.usable if host.quota < 1 else np.inf for host in hosts]),
            base=np.zeros((len(hosts), self.model.rates.periods)),
            kinds=kinds,
            period=self.period,
            budget=NODES,
            state=self.state,
            room=np.array([host.memory for host in hosts]),
        )

    def first_fit(self, made: Cluster, count: int, bound: float) -> Placement | None:
        """Return the placement that gives each operator, heaviest first, the first host that stays within the bound."""
        hosts = list(made.hosts.values())
        capacity = np.array([host.capacity for host in hosts])
        usable = np.array([host.usable if host.quota < 1 else np.inf for host in hosts])
        spot = {host.name: index for index, host in enumerate(hosts)}
        total = np.zeros((len(hosts), self.model.rates.periods))
        level, used = np.zeros(len(hosts)), np.zeros(len(hosts), np.bool_)
        memory = np.array([host.memory for host in hosts]) * (1 + TIE)
        where = []
        for pin, load, mean, state in zip(self.pins, self.load, self.mean, self.state, strict=True):
            allowed = np.flatnonzero(used if used.sum() >= count else np.cumsum(~used) - ~used < 1)
            allowed = np.array([spot[pin]]) if pin is not None else allowed
            waits = worst_waits(total[allowed] + load, capacity[allowed], self.period)
            fits = allowed[
                (waits <= bound + TIE)
                & (level[allowed] + mean <= usable[allowed] * (1 + TIE))
                & (state <= memory[allowed])
            ]
            if not len(fits):
                return None
            total[fits[0]] += load
            level[fits[0]] += mean
            memory[fits[0]] -= state
            used[fits[0]] = True
            where.append(fits[0])
        return Placement({name: hosts[h].name for name, h in zip(self.names, where, strict=True)})

    def cheapest(self) -> tuple[Placement, float, bool]:
        """Return the cheapest placement on any mix of the types, its price, and whether none is cheaper."""
        fixed = [self.fleet.cluster.hosts[name] for name in self.fleet.named]
        # Of new hosts the cheapest type per benchmark core first.
        types = [self.fleet.cluster.hosts[name] for name in self.fleet.like]
        types.sort(key=lambda host: (host.price / host.capacity, host.price, host.name))
        hosts = [*fixed, *(host for host in types for _ in self.names)]
        spot = {host.name: index for index, host in enumerate(fixed)}
        first: dict[str, int] = {}
        search = self._search(
            hosts,
            [range(len(hosts)) if pin is None else [spot[pin]] for pin in self.pins],
            [n if n < len(fixed) else first.setdefault(host.name, n) for n, host in enumerate(hosts)],
        )
        floor, best = self.lower_price(), np.inf

        def judge(step: Step) -> tuple[Key, Key] | None:
            host = hosts[step.host]
            price = (step.before or (0.0,))[0] + (host.price if step.fresh else 0.0)
            fresh = step.fresh and step.host >= len(fixed)
            if price >= best - TIE or best <= floor + TIE or (step.spent and not fresh):
                return None
            return ((price,), (float(fresh),)) if step.wait() <= self.bound + TIE else None

        places = None
        for (best, *_), places in search.divisions(judge, better=True):  # noqa: B007
            pass
        if places is None:
            reason = f"no mix of hosts like {', '.join(self.fleet.like)} is enough for {self.bound:g} s"
            raise Infeasible(reason, hosts=None, lower_bound=None)
        opened = list(dict.fromkeys(places))
        kinds = [*fixed, *(hosts[host] for host in opened if host >= len(fixed))]
        numbers = {host: n for n, host in enumerate([*range(len(fixed)), *(h for h in opened if h >= len(fixed))])}
        where = [numbers[host] for host in places]
        return self._named(kinds, where), float(best), search.budget > 0 or best <= floor + TIE

    def _named(self, kinds: list[Host], places: list[int]) -> Placement:
        """Give the hosts of a mix their names: those the network insists on keep theirs."""
        names: list[str] = [host.name for host in kinds[: len(self.fleet.named)]]
        counts: dict[str, int] = {}
        for host in kinds[len(names) :]:
            fresh = self.fleet.names(host.name, counts.get(host.name, 0) + len(names) + 1)
            names.append(next(name for name in fresh if name not in names))
            counts[host.name] = counts.get(host.name, 0) + 1
        return Placement({name: names[place] for name, place in zip(self.names, places, strict=True)})

    def lower_price(self) -> float:
        """Return a price below which no mix meets the bound: of so many cores as the perfectly divided load needs."""
        types = [self.fleet.cluster.hosts[name] for name in (*self.fleet.like, *self.fleet.named)]
        quota = max(host.quota for host in types)
        low, high = 0.0, float(self._total.max(initial=0.0)) / min(quota, 1.0) + TIE
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if middle > 0 and self.enough(middle, quota) else (middle, high)
        return low * min(host.price / host.capacity for host in types)
