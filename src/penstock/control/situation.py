"""What a policy decides from: what is seen, what is known, what is wanted, and what would come of a plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

import attrs
import numpy as np

from penstock.cluster import Cluster, base_name
from penstock.control.flow import Floats, Flow, Ints
from penstock.control.goals import Goals
from penstock.control.growing import growing_from
from penstock.control.knowledge import Knowledge
from penstock.files import Document
from penstock.load import LoadModel, load_model
from penstock.network import Network
from penstock.steering import Observation
from penstock.workload import Rates

BATCH = 0.3
"""Share of the latency bound that the batches on the longest way may take together: a tuple waits for the end of the
one before its own as well, and what waits besides is worked off within the rest."""

LARGE, SHORT = 0.4, 1.25
"""That share where batches would be mostly overhead, and how long they are at least, as a multiple of it."""


@attrs.frozen(eq=False, kw_only=True)
class Situation:
    """One moment of a running network.

    Attributes
    ----------
    seen
        The newest observation.
    known
        What was learned until now.
    flow
        The network that runs, laid out.
    goals
        What is wanted.
    moved
        When each operator has moved last (s).
    acted
        When each policy has last made a plan that moves something (s).
    draining
        Hosts that are to become empty.
    noted
        What each policy has noted last for itself.
    """

    seen: Observation
    known: Knowledge
    flow: Flow
    goals: Goals
    moved: Mapping[str, float] = attrs.field(factory=dict)
    acted: Mapping[str, float] = attrs.field(factory=dict)
    draining: frozenset[str] = frozenset()
    noted: Mapping[str, Document] = attrs.field(factory=dict)

    @property
    def now(self) -> float:
        """The engine's time (s)."""
        return self.seen.at

    @property
    def network(self) -> Network:
        """What runs."""
        return self.seen.network

    @property
    def ready(self) -> bool:
        """Whether enough has been seen to decide: some rates, and the cost of every operator."""
        return self.known.looks >= 2 and not np.isnan(self.costs[0]).any()

    @cached_property
    def costs(self) -> tuple[Floats, Floats]:
        """Cost and selectivity of every input, arrays (inputs,)."""
        return self.known.costs(self.flow)

    @cached_property
    def rates(self) -> Floats:
        """The last rates of the sources, array (sources, k)."""
        return self.known.series(self.network)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that may run something: not down, by name."""
        return tuple(name for name in self.seen.cluster.hosts if name not in self.seen.down)

    @cached_property
    def usable(self) -> Floats:
        """What each of ``hosts`` can work off, in benchmark cores: capacity x quota x speed, without batch overhead.

        A host with much to do begins a batch where the last one ends, so that batches become longer than the interval:
        as long as the latency bound allows, and the longer they are the less their overhead counts.
        """
        hosts = [(self.seen.cluster.hosts[name], self.seen.hosts.get(name)) for name in self.hosts]
        speed = [1.0 if seen is None or seen.speed is None else seen.speed for _, seen in hosts]
        whole = np.array([host.usable for host, _ in hosts]) * speed
        # Without batches they take no time.
        found: Floats = whole * (1 - self.fixed / np.where(self.longest > 0, self.longest, np.inf))
        return found

    @cached_property
    def longest(self) -> Floats:
        """How long the batches of all queries of each of ``hosts`` may become (s), array (hosts,); 0: it has none."""
        allowed = self.allowed
        triggers = np.array([self.seen.triggers.get(name, -1.0) for name in self.hosts])
        twice = np.minimum(2 * self.fixed, LARGE / BATCH * allowed)
        longest = np.maximum.reduce([triggers, np.full(triggers.size, allowed), twice, SHORT * self.fixed])
        return np.where(triggers >= 0, longest, 0.0)

    @property
    def allowed(self) -> float:
        """How long a batch may be (s) for those on the longest way to keep the latency bound together."""
        return BATCH * self.goals.bound / self.hops

    @cached_property
    def rest(self) -> Floats:
        """How long (s) the batch of each of ``hosts`` will still take with what does not count as waiting any more.

        Array (hosts,); nan where it counts until the batch ends, or there are none.
        """
        seen = [self.seen.hosts.get(name) for name in self.hosts]
        return np.array([np.nan if row is None or row.rest is None else row.rest for row in seen])

    @cached_property
    def fixed(self) -> Floats:
        """Seconds besides tuples of a batch of each query of ``hosts``, or of one where a host has none."""
        queries = Counter(unit.host for unit in self.seen.units if not unit.real_time)
        count = np.array([max(1, queries[name]) for name in self.hosts])
        # As many run at once as there are cores.
        share = count / np.minimum([self.seen.cluster.hosts[name].cores for name in self.hosts], count)
        found: Floats = self._overhead * share
        return found

    @cached_property
    def _overhead(self) -> Floats:
        """Seconds of one batch of one query on each of ``hosts`` besides its tuples, array (hosts,).

        Where nobody has seen them, as on a host that has nothing to do, they will be as long as on the others.
        """
        seen = [self.seen.hosts.get(name) for name in self.hosts]
        known = np.array([np.nan if row is None or row.overhead is None else row.overhead for row in seen])
        told = ~np.isnan(known)
        return np.where(told, known, known[told].mean() if told.any() else 0.0)

    @cached_property
    def hops(self) -> int:
        """The most batches that a tuple passes one after another: each host's, or each query's where they are known."""
        sources, count = len(self.network.sources), len(self.network.operators)
        place = np.zeros(count, np.int64)
        place[self.base[::-1]] = (self._query if self.seen.units else self._here)[::-1]
        passed = np.ones(sources + count, np.int64)
        for level in self.flow.level:
            writer, reader = self.flow.writer[level] - sources, self.flow.reader[level]
            further = (writer >= 0) & (place[np.maximum(writer, 0)] != place[reader])
            np.maximum.at(passed, sources + reader, passed[sources + writer] + further)
        return int(passed.max(initial=1))

    @cached_property
    def base(self) -> Ints:
        """The operator of each row of ``seen.operators``, for a replica that of the first copy."""
        if self.seen.operators == tuple(self.network.operators):
            return np.arange(len(self.seen.operators))
        row = {name: k for k, name in enumerate(self.network.operators)}
        return np.array([row[base_name(name) if "#" in name else name] for name in self.seen.operators], np.int64)

    @cached_property
    def row(self) -> dict[str, int]:
        """The place of each of ``seen.operators`` in them."""
        return {name: k for k, name in enumerate(self.seen.operators)}

    @cached_property
    def unit(self) -> Ints:
        """The number of what each of ``seen.operators`` moves with, array (operators and replicas,).

        It moves with its unit, or with a part of that which can go on as a unit of its own.
        """
        if not self.seen.units:
            return np.arange(len(self.seen.operators))
        return self._numbered(part for each in self.seen.units for part in each.parts or (each.operators,))

    @cached_property
    def _query(self) -> Ints:
        return self._numbered(each.operators for each in self.seen.units)

    def _numbered(self, groups: Iterable[tuple[str, ...]]) -> Ints:
        """Return the number of the group that each of ``seen.operators`` is in, or one of its own."""
        number = {name: k for k, group in enumerate(groups) for name in group}
        alone = len(number)
        return np.array([number.get(name, alone + k) for k, name in enumerate(self.seen.operators)], np.int64)

    @cached_property
    def first(self) -> Ints:
        """One row of ``seen.operators`` for each unit: those that a decision names units by, array (units,)."""
        rows: Ints = np.unique(self.unit, return_index=True)[1]
        return rows

    @cached_property
    def mover(self) -> Ints:
        """With which of `first` each of ``seen.operators`` moves: its place there, array (operators and replicas,)."""
        return np.asarray(np.unique(self.unit, return_inverse=True)[1], np.int64)

    def together(self, placement: Mapping[str, str]) -> dict[str, str]:
        """Return a placement with everything that moves with what it names; the first name of a unit counts."""
        if not self.seen.units:
            return dict(placement)
        target: dict[int, str] = {}
        for name, host in placement.items():
            if name in self.row:
                target.setdefault(int(self.unit[self.row[name]]), host)
        found = {name: host for name, host in placement.items() if name not in self.row}
        place = np.full(int(self.unit.max(initial=-1)) + 1, len(target))
        place[[*target]] = np.arange(len(target))
        order = np.argsort(place[self.unit], kind="stable")
        for k in order[: np.count_nonzero(place[self.unit] < len(target))].tolist():
            found[self.seen.operators[k]] = target[int(self.unit[k])]
        return found

    def moving(self, names: Iterable[str]) -> int:
        """Return how many units some operators are."""
        if not self.seen.units:
            return len(set(names))
        return len({int(self.unit[self.row[name]]) for name in names if name in self.row})

    def summed(self, rows: Floats) -> Floats:
        """Return a quantity by unit, the rows in the order of ``first``, from one by operator and replica."""
        if not self.seen.units:
            return rows
        total = np.zeros((self.first.size, *rows.shape[1:]))
        np.add.at(total, self.mover, rows)
        return total

    @property
    def load(self) -> Floats:
        """Load of each operator under the last rates, if nothing were dropped, array (operators, k)."""
        return self._run[0]

    @property
    def arrivals(self) -> Floats:
        """Rate of each input under the last rates (tuples/s), if nothing were dropped, array (inputs, k)."""
        return self._run[1]

    @cached_property
    def _run(self) -> tuple[Floats, Floats, Floats]:
        return self.run()

    @cached_property
    def _remembered(self) -> Floats:
        """The rates of late that joins with a time window still meet rows of, and the last ones, array (sources, k)."""
        looks = math.ceil(max((within for *_, within in self.flow.product), default=0.0) / self.seen.period)
        return self.known.series(self.network, looks + self.rates.shape[1])

    def run(
        self, keep: Mapping[str, float] | None = None, rates: Floats | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return what `Flow.run` does under the last rates, or in one period after them under others.

        Parameters
        ----------
        keep
            Keep fractions by stream.
        rates
            Array (sources,), tuples/s; None: those of the last periods.
        """
        series, last = self._remembered, self.rates.shape[1]
        if rates is not None:
            series, last = np.column_stack([series if self.flow.product else series[:, :0], rates]), 1
        load, arrivals, put = self.flow.run(series, *self.costs, keep, self.seen.period)
        return load[:, -last:], arrivals[:, -last:], put[:, -last:]

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.hosts)}

    @cached_property
    def _here(self) -> Ints:
        number, now = self._number, self.seen.placement
        return np.array([number.get(now[name], -1) for name in self.seen.operators], np.int64)

    def where(self, placement: Mapping[str, str] | None = None) -> Ints:
        """Return the number in ``hosts`` of each of ``seen.operators``, -1 on dead ones, after some have moved."""
        found = self._here.copy()
        for name, host in (placement or {}).items():
            if name in self.row:
                found[self.row[name]] = self._number.get(host, -1)
        return found

    def host_load(self, where: Ints, keep: Mapping[str, float] | None = None, rates: Floats | None = None) -> Floats:
        """Return the load series of ``hosts`` in benchmark cores, array (hosts, k).

        Parameters
        ----------
        where, keep
            Where operators are, and keep fractions by stream.
        rates
            Array (sources,), tuples/s, of a single period; None: those of the last ones.
        """
        load = self.load if rates is None and not keep else self.run(keep, rates)[0]
        placed = where >= 0
        there, rows, count = where[placed], self.base[placed], len(self.hosts)
        columns = [np.bincount(there, column[rows], count) for column in load.T]
        return np.stack(columns, axis=1) if columns else np.zeros((count, 0))

    def shares(self, where: Ints | None = None) -> Floats:
        """Return the mean load of ``hosts`` as a share of what they can work off, array (hosts,)."""
        mean: Floats = self.host_load(self.where() if where is None else where).mean(axis=1) / self.usable
        return mean

    @cached_property
    def backlog(self) -> Floats:
        """Work for each operator of what waits there and before it, under the keep fractions of now."""
        return self.backlog_under(self.seen.keep)

    def backlog_under(self, keep: Mapping[str, float]) -> Floats:
        """Return the work for each operator of what waits there, before it and on the way, in benchmark-core seconds,
        array (operators and replicas,), if keep fractions are those.

        A tuple that waits at the first operator of a chain is work for all of them. What the batches that run have done
        of it is none any more.
        """
        if self.seen.waiting is None:
            return np.zeros(len(self.seen.operators))
        coming = 0.0 if self.seen.coming is None else self.seen.coming
        whole = self._work_of(self.seen.waiting + coming, keep)
        if not self._worked.any():
            return whole
        here = self._work_of(self.seen.waiting, keep, self._place)
        return whole - here * self._done(here)

    def _work_of(self, waiting: Floats, keep: Mapping[str, float], group: Ints | None = None) -> Floats:
        """Return the work for each operator of what waits there and before it, array (operators and replicas,).

        ``group``: array (network operators,); what waits in another group than the operator's does not count.
        """
        cost, count = np.zeros(len(self.network.operators)), len(self.network.operators)
        means = self.known.means(self.flow)  # what waits is of all inputs
        np.add.at(cost, self.flow.reader, np.nan_to_num(means[0]))
        cost /= np.maximum(self.flow.ports, 1)
        waiting = np.nan_to_num(waiting)
        if keep and self.seen.undecided:
            open_here = np.array([name in self.seen.undecided for name in self.network.operators], bool)
            waiting = waiting * np.where(open_here, self.flow.taken(keep), 1.0)[self.base]
        copies = np.maximum(np.bincount(self.base, minlength=count), 1)
        each = np.bincount(self.base, waiting, count) / copies
        coming = self.flow.follows(each, np.nan_to_num(means[1]), keep, group)
        found: Floats = (waiting + coming[self.base]) * cost[self.base]
        return found

    @cached_property
    def _worked(self) -> Floats:
        """What the batches that run have worked beyond their overhead, array (hosts,), benchmark-core seconds."""
        took, running = np.zeros(len(self.hosts)), np.zeros(len(self.hosts))
        for unit in self.seen.units:
            host = self._number.get(unit.host)
            if host is None or unit.since is None:
                continue
            took[host] += max(0.0, unit.since - self._overhead[host])
            running[host] += 1
        capacity = np.array([self.seen.cluster.hosts[name].capacity for name in self.hosts])
        worked: Floats = took / np.maximum(running, 1) * capacity
        return worked

    def _done(self, here: Floats) -> Floats:
        """Return the share of each operator's work that running batches have done, array (operators and replicas,).

        ``here``: work of what waits at the operator's own host. A batch's rows count as waiting until it ends.
        """
        share = np.minimum(self._worked / np.maximum(self._by_host(self._here, here), 1e-12), 1.0)
        return np.append(share, 0.0)[self._here]  # nothing is done on hosts that are down, which have the number -1

    @cached_property
    def _place(self) -> Ints:
        """The host of each operator of the network, that of the first copy, array (network operators,)."""
        place = np.full(len(self.network.operators), -1, np.int64)
        place[self.base[::-1]] = self._here[::-1]
        return place

    def host_backlog(self, where: Ints, keep: Mapping[str, float] | None = None) -> Floats:
        """Return the work that waits at each of ``hosts`` and before it, in benchmark-core seconds, array (hosts,).

        Parameters
        ----------
        keep
            Keep fractions by stream; None: those of now.
        """
        return self._by_host(where, self.backlog if keep is None else self.backlog_under(keep))

    def host_queue(self, keep: Mapping[str, float]) -> Floats:
        """Return the work that waits at each of ``hosts``, not before it, under keep fractions, array (hosts,)."""
        if self.seen.waiting is None:
            return np.zeros(len(self.hosts))
        here = self._work_of(self.seen.waiting, keep, self._place)
        return self._by_host(self._here, here * (1 - self._done(here)))

    def _by_host(self, where: Ints, rows: Floats) -> Floats:
        placed = where >= 0
        return np.bincount(where[placed], rows[placed], len(self.hosts)).astype(np.float64)

    def fed_by(self, values: Floats) -> Floats:
        """Return the most of a quantity, array (hosts,), at those from which each of ``hosts`` gets tuples; 0: none."""
        sources = len(self.network.sources)
        inner = self.flow.writer >= sources
        writer, reader = self._place[self.flow.writer[inner] - sources], self._place[self.flow.reader[inner]]
        across = (writer != reader) & (writer >= 0) & (reader >= 0)
        found = np.zeros(len(self.hosts))
        np.maximum.at(found, reader[across], values[writer[across]])
        return found

    def waits(self, where: Ints, keep: Mapping[str, float] | None = None) -> Floats:
        """Return how long a tuple would wait at each of ``hosts``, now and over the horizon, array (hosts, steps), s.

        Cumulative excess (Chandramouli et al., section III) with what waits now as its beginning, under the last
        rates over and over.
        """
        load, usable = self.host_load(where, keep), self.usable
        step = self.seen.period
        count = max(1, round(self.goals.horizon / step))
        excess = np.empty((len(usable), count + 1))
        excess[:, 0] = self.host_backlog(where, keep)
        series = load[:, np.arange(count) % load.shape[1]]
        for k in range(count):
            excess[:, k + 1] = np.maximum(0.0, excess[:, k] + (series[:, k] - usable) * step)
        return excess / usable[:, None]

    def worst(self, where: Ints | None = None, keep: Mapping[str, float] | None = None) -> float:
        """Return the longest wait at a host over the horizon (s)."""
        return float(self.waits(self.where() if where is None else where, keep).max(initial=0.0))

    @cached_property
    def passing(self) -> Floats:
        """Weighted sink tuples per second that depend on each operator and replica, array (operators and replicas,)."""
        selectivity = self.costs[1]
        sources = len(self.network.sources)
        out = self._run[2].mean(axis=1) * self.flow.worth(selectivity)
        found: Floats = out[sources:][self.base]
        return found

    def score(self, keep: Mapping[str, float] | None = None, rates: Floats | None = None) -> float:
        """Return the weighted tuples per second that reach the sinks when streams keep shares of their tuples.

        Parameters
        ----------
        rates
            Array (sources,), tuples/s; None: those of the last periods.
        """
        out = self.run(keep, rates)[2].mean(axis=1)
        number = {name: k for k, name in enumerate((*self.network.sources, *self.network.operators))}
        total = 0.0
        for sink in self.network.sinks.values():
            stream = self.network.inputs(sink.name)[0]
            total += sink.weight * stream.share * out[number[sink.input]] * (keep or {}).get(stream.name, 1.0)
        return total

    def priced(self) -> Network:
        """Return the network with what its operators cost and put out of late; outputs grow from the rates of then."""
        known = self.known.by_input(self.flow)
        network = known.complete(self.network, override=True)
        learned = {name for name, row in known.operators.items() if row.selectivity is not None}
        if not any(network.operators[name].growth for name in learned):
            return network
        rates = self.known.learned_at(self.network, self.seen.period)
        arrivals = self.flow.run(rates[:, None], *self.costs, self.seen.keep)[1][:, 0]
        return growing_from(network, learned, self.known.paced(self.flow, arrivals))

    def model(self, network: Network | None = None) -> LoadModel:
        """Return the load model of a network (this one) under the last rates."""
        graph = network or self.priced()
        known = dict(zip(self.network.sources, self.rates, strict=True))
        nothing = np.zeros(self.rates.shape[1])
        return load_model(graph, Rates.of(self.seen.period, {s: known.get(s, nothing) for s in graph.sources}))

    def cluster(self, hosts: Mapping[str, float] | None = None) -> Cluster:
        """Return the cluster of ``hosts`` at what they can work off now; ``hosts`` gives other amounts by name."""
        old, given = self.seen.cluster, dict(zip(self.hosts, self.usable.tolist(), strict=True))
        given |= hosts or {}
        # What works faster than its capacity says can do more than that.
        capacity = {name: max(old.hosts[name].capacity, given[name]) for name in self.hosts}
        return old.having(
            attrs.evolve(old.hosts[name], capacity=most, quota=max(1e-9, given[name] / most))
            for name, most in capacity.items()
        )
