"""Provisioning: the fewest hosts, or the cheapest mix of them, for a latency bound, with a certificate."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, Host, Placement
from penstock.errors import Infeasible, InputError
from penstock.files import suggest
from penstock.latency.estimate import Estimate
from penstock.latency.models import above_backlog, model_of
from penstock.latency.waits import worst_waits
from penstock.load import LoadModel, Statistics

Array = NDArray[np.float64]

TIE = 1e-9
"""Seconds of latency, and benchmark cores, that differ by less are the same."""

NODES = 20_000
"""Loads of one host that the exact search weighs before it gives up its proof."""

LEAVES = 400
"""Divisions that a model slower than Mace weighs for one number of hosts, likewise."""

SEARCHED = 60
"""Operators up to which divisions are searched; beyond, they are packed first fit."""

STEPS = 8
"""Numbers of hosts tried one after another by an algorithm; after that the step doubles, and is bisected."""

Place = Callable[[Cluster], Placement]
"""A placement algorithm on a given cluster; it may raise `Infeasible`."""


@attrs.frozen(eq=False, kw_only=True)
class Provision:
    """The answer to how many hosts are enough.

    Attributes
    ----------
    hosts
        How many run operators.
    bound
        The latency that was asked for (s).
    estimate
        Of the placement.
    placement, cluster
        Where the operators run, and on which hosts.
    lower_bound
        No placement on fewer hosts meets the bound.
    mix, price, lower_price
        Hosts by the one they are like; their price per hour; no mix is cheaper than ``lower_price``.
    """

    hosts: int
    bound: float
    estimate: Estimate
    placement: Placement
    cluster: Cluster
    lower_bound: int
    mix: Mapping[str, int]
    price: float
    lower_price: float

    def document(self) -> dict[str, Any]:
        """Return the keys of ``penstock provision --json``."""
        used = sorted(set(self.placement.values()))
        return {
            "hosts": self.hosts,
            "worst": self.estimate.total.worst,
            "bound": self.bound,
            "placement": dict(self.placement),
            "lower_bound": self.lower_bound,
            "least": self.lower_bound == self.hosts,
            "mix": dict(self.mix),
            "price": self.price,
            "lower_price": self.lower_price,
            "capacity": {name: self.cluster.hosts[name].capacity for name in used},
            "model": self.estimate.model,
            "bottleneck": self.estimate.bottleneck,
            "error": {**attrs.asdict(self.estimate.error), "relative": self.estimate.error.relative},
            "notes": list(self.estimate.notes),
        }


@attrs.frozen(eq=False)
class Fleet:
    """Hosts that may be taken: those that the network names, and as many as needed like some others.

    Attributes
    ----------
    cluster
        The given cluster: its links hold for its hosts, its default link for the further ones.
    like
        Names of hosts of the cluster that further ones are like.
    named
        Hosts on which the network insists, by pins or where its sources and sinks are.
    """

    cluster: Cluster
    like: tuple[str, ...]
    named: tuple[str, ...]

    @classmethod
    def of(cls, model: LoadModel, cluster: Cluster, like: Sequence[str]) -> Fleet:
        """Check the names."""
        for name in like:
            if name not in cluster.hosts:
                raise InputError(
                    f"{name!r} is no host of the cluster", at="--host-like", hint=suggest(name, cluster.hosts, "hosts")
                )
        if not like or len(set(like)) < len(like):
            raise InputError(f"expected different hosts, got {','.join(like) or 'none'}", at="--host-like")
        network = model.network
        named = {operator.pin for operator in network.operators.values()}
        named |= {end.host for table in (network.sources, network.sinks) for end in table.values()}
        return cls(cluster, tuple(like), tuple(sorted(name for name in named if name is not None)))

    def names(self, like: str, count: int) -> list[str]:
        """Return names for hosts like one: itself, those of the cluster that are equal to it, then new ones."""
        model = self.cluster.hosts[like]
        found = [like]
        if len(self.like) == 1:
            same = [name for name, host in self.cluster.hosts.items() if attrs.evolve(host, name=like) == model]
            found += [name for name in same if name != like]
        split = re.fullmatch(r"(.*?)(\d*)", like)
        stem, first = (split[1], int(split[2])) if split and split[2] else (f"{like}-", 1)
        for number in itertools.count(first + 1):
            if len(found) >= count:
                break
            if f"{stem}{number}" not in self.cluster.hosts:
                found.append(f"{stem}{number}")
        return found[:count]

    def hosts(self, counts: Mapping[str, int]) -> Cluster:
        """Return the cluster of the named hosts and so many like each type (a named host counts as one)."""
        made = {name: self.cluster.hosts[name] for name in self.named}
        for like in self.like:
            for name in self.names(like, counts.get(like, 0)):
                made[name] = attrs.evolve(self.cluster.hosts[like], name=name)
        links = {pair: link for pair, link in self.cluster.links.items() if made.keys() >= set(pair)}
        return Cluster.of(made.values(), self.cluster.default_link, links, self.cluster.spark)

    def statistics(self, known: Statistics | None, cluster: Cluster) -> Statistics | None:
        """Return the statistics in which hosts that are new have those of the host that they are like."""
        if known is None or not known.hosts:
            return known
        hosts = dict(known.hosts)
        for like in self.like:
            if like in known.hosts:
                for name in self.names(like, len(cluster.hosts)):
                    hosts.setdefault(name, known.hosts[like])
        return attrs.evolve(known, hosts=hosts)


def provision(
    model: LoadModel,
    cluster: Cluster,
    like: Sequence[str],
    bound: float,
    *,
    name: str = "mace",
    place: Place | None = None,
    improve: Place | None = None,
    statistics: Statistics | None = None,
) -> Provision:
    """Find the fewest hosts, or with several types the cheapest mix, whose latency is at most a bound.

    Small networks are searched exactly, so that the number is the least. Large ones are packed first fit by falling
    load, and otherwise placed by ``improve``, from the lower bound upwards.

    Parameters
    ----------
    cluster, like
        Hosts, and the names of those that further ones are like.
    bound
        Latency (s).
    name
        Of the latency model.
    place
        Algorithm that has to be used; None: the best of what is known here.
    improve
        Algorithm to try where packing needs more than the lower bound.

    Raises
    ------
    Infeasible
        If no number of hosts is enough.
    """
    fleet = Fleet.of(model, cluster, like)
    decide = model_of(name)

    def estimate(placement: Placement, made: Cluster) -> Estimate:
        return decide(model, placement, made, fleet.statistics(statistics, made))

    work = _Work(model, fleet, bound)
    exact = name == "mace" and cluster.free_links
    if len(like) > 1:
        if not exact or place is not None:
            raise InputError(
                "several types of hosts are mixed by the model mace, without links and --algorithm",
                at="--host-like",
                hint="name one host",
            )
        placement, price, proved = work.cheapest()
        made = work.cluster_of(placement)
        found, lower = estimate(placement, made), work.lower_price()
        return _answer(fleet, found, placement, made, bound, work.fewest(), price if proved else lower)
    backlog = above_backlog(name, model.network)
    lower = work.fewest() if backlog else 1
    alone = work.alone()
    if exact and alone is not None:
        raise Infeasible(alone, hosts=None, lower_bound=None)
    most = max(len(model.network.operators), 1)

    def fits(count: int) -> tuple[Placement, Cluster, Estimate] | None:
        made = fleet.hosts({like[0]: count})
        for trial in _trials(work, made, count, exact, backlog, place, improve):
            found = estimate(trial, made)
            if found.total.worst <= bound + TIE:
                return trial, made, found
        return None

    answer, proved = _least(fits, min(lower, most), most)
    if answer is None:
        raise Infeasible(
            f"no number of hosts like {like[0]!r} is enough for {bound:g} s by the model {name}"
            + (f": {alone}" if alone else ""),
            hosts=None,
            lower_bound=None,
        )
    placement, made, found = answer
    sure = exact and place is None and proved and work.complete
    used = len(set(placement.values()))
    return _answer(fleet, found, placement, made, bound, used if sure else min(lower, used), None)


def _answer(
    fleet: Fleet,
    found: Estimate,
    placement: Placement,
    made: Cluster,
    bound: float,
    lower: int,
    lower_price: float | None,
) -> Provision:
    used = sorted(set(placement.values()))
    mix: dict[str, int] = {}
    for name in used:
        kind = next((like for like in fleet.like if name in fleet.names(like, len(made.hosts))), name)
        mix[kind] = mix.get(kind, 0) + 1
    price = sum(made.hosts[name].price for name in used)
    least = lower * fleet.cluster.hosts[fleet.like[0]].price if lower_price is None else lower_price
    return Provision(
        hosts=len(used),
        bound=bound,
        estimate=found,
        placement=placement,
        cluster=made,
        lower_bound=min(lower, len(used)),
        mix=dict(sorted(mix.items())),
        price=price,
        lower_price=min(least, price),
    )


def _least(
    fits: Callable[[int], tuple[Placement, Cluster, Estimate] | None], low: int, most: int
) -> tuple[tuple[Placement, Cluster, Estimate] | None, bool]:
    """Return what fits on the least number found, and whether every smaller one was tried."""
    for count in range(low, min(low + STEPS, most + 1)):
        if (found := fits(count)) is not None:
            return found, True
    below, step = low + STEPS - 1, STEPS
    while below < most:
        count = min(below + step, most)
        found = fits(count)
        if found is not None:
            high, answer = count, found
            while high - below > 1:
                middle = (below + high) // 2
                found = fits(middle)
                if found is None:
                    below = middle
                else:
                    high, answer = middle, found
            return answer, False
        below, step = count, 2 * step
    return None, False


def _trials(
    work: _Work, made: Cluster, count: int, exact: bool, backlog: bool, place: Place | None, improve: Place | None
) -> Any:
    """Iterate over placements worth an estimate on so many hosts."""
    if place is not None:
        try:
            yield place(made)
        except Infeasible:
            return
        return
    if not backlog:
        # The model may wait less than the backlog says: nothing is cut off.
        yield from itertools.islice(work.divisions(made, count, np.inf), LEAVES)
        return
    limit = 1 if exact else LEAVES
    any_found = False
    for trial in itertools.islice(work.divisions(made, count, work.bound), limit):
        any_found = True
        yield trial
    if work.complete and not any_found:
        return
    if not (exact and any_found) and improve is not None:
        try:
            yield improve(made)
        except Infeasible:
            return


class _Work:
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
        self.period = model.period
        self.complete = True
        self._total = model.load.sum(axis=0) if len(model.load) else np.zeros(model.rates.periods)

    def wait(self, load: Array, host: Host) -> float:
        """Return the worst wait of a host (s); infinite beyond a quota."""
        if host.quota < 1 and float(load.mean()) > host.usable * (1 + TIE):
            return np.inf
        return float(worst_waits(load[None], np.array([host.capacity]), self.period)[0])

    def alone(self) -> str | None:
        """Return why not even a host for each operator is enough, or None."""
        host = self.fleet.cluster.hosts[self.fleet.like[0]]
        for name, pin, load in zip(self.names, self.pins, self.load, strict=True):
            machine = host if pin is None else self.fleet.cluster.hosts[pin]
            wait = self.wait(load, machine)
            if wait > self.bound + TIE:
                kind = f"like {machine.name!r}" if pin is None else repr(pin)
                late = f"{name!r} alone on a host {kind} is {wait:.6g} s late, {wait - self.bound:.6g} s too much"
                return late if np.isfinite(wait) else f"{name!r} alone is beyond the quota of a host {kind}"
        return None

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
        count = 1
        while count < len(self.names) and not self.enough(count * best, quota):
            count += 1
        return count

    def divisions(self, made: Cluster, count: int, bound: float) -> Any:
        """Iterate over the placements on at most ``count`` hosts in which no host's worst wait exceeds a bound.

        Depth first, the heaviest operator first, each host that is like another only once. `complete` becomes false
        where the search stops before its end; large networks get one placement, first fit.
        """
        if len(self.names) > SEARCHED:
            self.complete = False
            if (found := self.first_fit(made, count, bound)) is not None:
                yield found
            return
        hosts = list(made.hosts.values())
        spot = {host.name: index for index, host in enumerate(hosts)}
        named = set(self.fleet.named)
        total = [np.zeros(self.model.rates.periods) for _ in hosts]
        members = [0] * len(hosts)
        where: list[int] = []
        left = NODES

        def options(index: int) -> list[int]:
            pin = self.pins[index]
            if pin is not None:
                return [spot[pin]]
            fresh: set[Any] = set()
            chosen = []
            for position, host in enumerate(hosts):
                if not members[position] and host.name not in named and not made.links:
                    kind = (host.capacity, host.quota, host.cores)
                    if kind in fresh:
                        continue
                    fresh.add(kind)
                chosen.append(position)
            return chosen

        def descend(index: int) -> Any:
            nonlocal left
            if index == len(self.names):
                yield Placement({name: hosts[h].name for name, h in zip(self.names, where, strict=True)})
                return
            for position in options(index):
                if not members[position] and sum(map(bool, members)) >= count:
                    continue
                if left <= 0:
                    self.complete = False
                    return
                left -= 1
                before = total[position]
                trial = before + self.load[index]
                if np.isfinite(bound) and self.wait(trial, hosts[position]) > bound + TIE:
                    continue
                total[position] = trial
                members[position] += 1
                where.append(position)
                yield from descend(index + 1)
                where.pop()
                members[position] -= 1
                total[position] = before

        yield from descend(0)

    def first_fit(self, made: Cluster, count: int, bound: float) -> Placement | None:
        """Return the placement that gives each operator, heaviest first, the first host that stays within the bound."""
        hosts = list(made.hosts.values())
        capacity = np.array([host.capacity for host in hosts])
        usable = np.array([host.usable if host.quota < 1 else np.inf for host in hosts])
        spot = {host.name: index for index, host in enumerate(hosts)}
        total = np.zeros((len(hosts), self.model.rates.periods))
        level, used = np.zeros(len(hosts)), np.zeros(len(hosts), np.bool_)
        where = []
        for pin, load, mean in zip(self.pins, self.load, self.mean, strict=True):
            allowed = np.flatnonzero(used if used.sum() >= count else np.cumsum(~used) - ~used < 1)
            allowed = np.array([spot[pin]]) if pin is not None else allowed
            waits = worst_waits(total[allowed] + load, capacity[allowed], self.period)
            fits = allowed[(waits <= bound + TIE) & (level[allowed] + mean <= usable[allowed] * (1 + TIE))]
            if not len(fits):
                return None
            total[fits[0]] += load
            level[fits[0]] += mean
            used[fits[0]] = True
            where.append(fits[0])
        return Placement({name: hosts[h].name for name, h in zip(self.names, where, strict=True)})

    def cheapest(self) -> tuple[Placement, float, bool]:
        """Return the cheapest placement on any mix of the types, its price, and whether none is cheaper."""
        types = [self.fleet.cluster.hosts[name] for name in self.fleet.like]
        best: list[Any] = [np.inf, None]
        floor = self.lower_price()
        left = NODES
        fixed = [self.fleet.cluster.hosts[name] for name in self.fleet.named]
        opened: list[tuple[Host, bool]] = [(host, False) for host in fixed]
        total = [np.zeros(self.model.rates.periods) for _ in fixed]
        where: list[int] = []

        def descend(index: int, price: float) -> None:
            nonlocal left
            if price >= best[0] - TIE or best[0] <= floor + TIE:
                return
            if index == len(self.names):
                best[0], best[1] = price, ([host for host, _ in opened], list(where))
                return
            pin = self.pins[index]
            choices = [
                (host.price if not taken else 0.0, position)
                for position, (host, taken) in enumerate(opened)
                if pin in (None, host.name)
            ]
            for extra, position in choices:
                if left <= 0:
                    return
                left -= 1
                trial = total[position] + self.load[index]
                if self.wait(trial, opened[position][0]) > self.bound + TIE:
                    continue
                before, state = total[position], opened[position]
                total[position], opened[position] = trial, (state[0], True)
                where.append(position)
                descend(index + 1, price + extra)
                where.pop()
                total[position], opened[position] = before, state
            if pin is not None:
                return
            # A new host: the cheapest type per benchmark core first.
            for kind in sorted(types, key=lambda host: (host.price / host.capacity, host.price, host.name)):
                if left <= 0 and best[1] is not None:
                    return
                left -= 1
                if self.wait(self.load[index], kind) > self.bound + TIE:
                    continue
                opened.append((kind, True))
                total.append(self.load[index])
                where.append(len(opened) - 1)
                descend(index + 1, price + kind.price)
                where.pop()
                total.pop()
                opened.pop()

        descend(0, 0.0)
        if best[1] is None:
            late = [self.wait(load, kind) for load in self.load[:1] for kind in types]
            raise Infeasible(
                f"no mix is enough: {self.names[0]!r} alone is {min(late):.6g} s late on the best of "
                f"{', '.join(self.fleet.like)}",
                hosts=None,
                lower_bound=None,
            )
        kinds, places = best[1]
        return self._named(kinds, places), float(best[0]), left > 0 or best[0] <= floor + TIE

    def _named(self, kinds: list[Host], places: list[int]) -> Placement:
        """Give the hosts of a mix their names: those the network insists on keep theirs."""
        names: list[str] = [host.name for host in kinds[: len(self.fleet.named)]]
        counts: dict[str, int] = {}
        for host in kinds[len(names) :]:
            fresh = self.fleet.names(host.name, counts.get(host.name, 0) + len(names) + 1)
            names.append(next(name for name in fresh if name not in names))
            counts[host.name] = counts.get(host.name, 0) + 1
        return Placement({name: names[place] for name, place in zip(self.names, places, strict=True)})

    def cluster_of(self, placement: Placement) -> Cluster:
        """Return the hosts of a mix."""
        used = set(placement.values())
        made: dict[str, Host] = {}
        for name in used:
            if name in self.fleet.named:
                made[name] = self.fleet.cluster.hosts[name]
        for like in self.fleet.like:
            for name in self.fleet.names(like, len(used) + len(self.fleet.named) + 1):
                if name in used and name not in made:
                    made[name] = attrs.evolve(self.fleet.cluster.hosts[like], name=name)
        return Cluster.of(made.values(), self.fleet.cluster.default_link, {}, self.fleet.cluster.spark)

    def lower_price(self) -> float:
        """Return a price below which no mix meets the bound: of so many cores as the perfectly divided load needs."""
        types = [self.fleet.cluster.hosts[name] for name in (*self.fleet.like, *self.fleet.named)]
        quota = max(host.quota for host in types)
        low, high = 0.0, float(self._total.max(initial=0.0)) / min(quota, 1.0) + TIE
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if middle > 0 and self.enough(middle, quota) else (middle, high)
        return low * min(host.price / host.capacity for host in types)


def curve(
    answer: Callable[[float], Provision], bounds: Sequence[float]
) -> list[tuple[float, int | None, int | None, float | None]]:
    """Return bound, hosts, lower bound and price for several bounds; None where no number of hosts is enough."""
    rows: list[tuple[float, int | None, int | None, float | None]] = []
    for bound in bounds:
        try:
            found = answer(bound)
            rows.append((bound, found.hosts, found.lower_bound, found.price))
        except Infeasible:
            rows.append((bound, None, None, None))
    return rows
