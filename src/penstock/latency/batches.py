"""What hosts make of batches, in one place, and the micro-batch recursion summarised as an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster, base_name
from penstock.errors import InputError
from penstock.files import Document
from penstock.latency.batching import Recursion
from penstock.latency.carried import Carried, carried
from penstock.latency.draws import AT_FIRST, DRAWS, Draws, by_chance, certain, draw, guessed, seen_later
from penstock.latency.estimate import UNTOLD, ErrorBar, Estimate, Quantiles, Spread, too_long
from penstock.latency.fragments import Fragment, fragments
from penstock.latency.mace import cost_error, cumulative_excess, described, furthest_behind
from penstock.latency.microbatch import COMMIT, READING, MicrobatchResult, arrived, predicted
from penstock.latency.shape import Pace
from penstock.latency.spread import HIGH, LOW, batch_draws, spread_of, worst_draws
from penstock.latency.steady import steady_state
from penstock.latency.tables import LONGEST
from penstock.latency.unended import unended
from penstock.load import LoadModel, Statistics
from penstock.load.fitting import host_of
from penstock.load.statistics import HostStatistics

BESIDES = 0.03
"""How far forecasts are off besides what is drawn, as a share: triggers, files and commits are late, too."""

FOLLOWED, FEWEST = 400_000, 20
"""Batches that draws follow at most (some seconds), and draws below which there is no interval."""

LEAST, MOST = 0.01, 0.5
"""By how much costs are raised at least and at most to see what their error does, as a share."""

NOTES = (
    "assumes batches that start at multiples of the trigger from the beginning of the rates",
    "leaves out links, and how batches of one size differ from each other",
)

UNMEASURED = "overhead not measured, so a batch's fixed cost is taken as 0 s: pass --statistics (penstock calibrate)"


POLLING = 0.01
"""Seconds between two looks for data where a trigger has no interval (``spark.sql.streaming.pollingDelay``)."""


def _looked(interval: float) -> float:
    return max(interval, POLLING)


@attrs.frozen(eq=False, kw_only=True)
class BatchHosts:
    """What the hosts of a cluster make of batches; every prediction, simulation and error bar of batches reads it.

    Attributes
    ----------
    trigger
        Interval of the micro-batches (s); with 0 a batch follows the other as soon as Spark looks for data, every
        `POLLING`.
    overhead, idle
        By host: seconds per batch, and per batch without input where that differs.
    state
        By operator: seconds that each batch of its query takes for its state.
    factor
        By host: seconds that a benchmark-core second of load takes, its in-place factor over its capacity.
    progressive
        Whether output appears evenly during a batch, as where Spark itself writes to Kafka, rather than at its end,
        as with both of penstock's hops.
    machines
        By name: hosts that share a machine, and on how many cores.
    statistics
        Where this comes from, with its errors.
    """

    trigger: float = attrs.field(converter=_looked)
    overhead: Mapping[str, float]
    idle: Mapping[str, float]
    factor: Mapping[str, float]
    state: Mapping[str, float] = attrs.field(factory=dict)
    progressive: bool = False
    machines: Mapping[str, tuple[tuple[str, ...], int]] = attrs.field(factory=dict)
    statistics: Statistics | None = None

    @classmethod
    def of(cls, statistics: Statistics | None, cluster: Cluster) -> BatchHosts:
        """Join what a cluster file says of its hosts with what was measured on them."""
        rows = {name: host_of(statistics, name) for name in cluster.hosts}
        return cls(
            trigger=cluster.spark.trigger,
            overhead={name: row.overhead for name, row in rows.items()},
            idle={name: row.idle for name, row in rows.items() if row.idle is not None},
            factor={name: rows[name].factor / host.capacity for name, host in cluster.hosts.items()},
            state={} if statistics is None else {n: row.overhead for n, row in statistics.operators.items()},
            machines={
                name: (tuple(host.name for host in cluster.hosts.values() if host.machine == name), cores)
                for name, cores in cluster.machines.items()
            },
            statistics=statistics,
        )

    def of_host(self, name: str) -> HostStatistics:
        """Return what was measured of a host, or else is taken."""
        return host_of(self.statistics, name)

    def for_state(self, operators: Iterable[str]) -> float:
        """Return the seconds that a batch of a query takes for the state of its operators."""
        return sum(self.state.get(base_name(name), 0.0) for name in operators)

    def fixed(self, placement: Mapping[str, str]) -> dict[str, float]:
        """Return by host the seconds per batch with the state of what is placed there."""
        return {
            host: each + self.for_state(name for name, place in placement.items() if place == host)
            for host, each in self.overhead.items()
        }

    def paced(self, cluster: Cluster) -> Cluster:
        """Return the cluster with capacities such that load over capacity is the time that it takes."""
        hosts = {name: attrs.evolve(host, capacity=1 / self.factor[name]) for name, host in cluster.hosts.items()}
        return attrs.evolve(cluster, hosts=hosts)

    def placed(
        self, model: LoadModel, placement: Mapping[str, str], keep: Mapping[str, float | Array] | None = None
    ) -> PlacedBatches:
        """Return the batch model of a placed network; ``keep`` holds keep fractions as of `microbatch`."""
        queries = fragments(model.network, placement)
        made = carried(model, queries, progressive=self.progressive, keep=keep, machines=self.machines)
        return PlacedBatches(self, model, placement, queries, made)


def in_time(cluster: Cluster, statistics: Statistics | None) -> tuple[Cluster, Statistics | None]:
    """Return hosts with capacities such that load over capacity is time, and statistics without their factors.

    So models that know nothing of factors have what was measured in place.
    """
    if statistics is None or all(row.factor == 1 for row in statistics.hosts.values()):
        return cluster, statistics
    hosts = {name: attrs.evolve(row, factor=1.0) for name, row in statistics.hosts.items()}
    return BatchHosts.of(statistics, cluster).paced(cluster), attrs.evolve(statistics, hosts=hosts)


@attrs.frozen(eq=False)
class PlacedBatches:
    """The one model of batches: what hosts make of a placed network under given rates, and how far off that may be."""

    hosts: BatchHosts
    model: LoadModel
    placement: Mapping[str, str]
    queries: Sequence[Fragment]
    made: Carried

    @property
    def batches(self) -> float:
        """About how many batches there are."""
        return len(self.queries) * self.model.rates.duration / self.hosts.trigger

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not known of its hosts."""
        if not any(self.hosts.overhead[name] for name in self.made.hosts):
            return (UNMEASURED,)
        return guessed(self.hosts.statistics, self.made.hosts)

    def run(
        self, slower: Mapping[str, Array] | None = None, dearer: Mapping[str, float] | None = None
    ) -> MicrobatchResult:
        """Predict the batches as the costs are known.

        Parameters
        ----------
        slower
            By host, by what its batches take longer in one interval of the trigger after another, where that is known.
        dearer
            By host, by how much its costs are higher than known, as a share.
        """
        more = dearer or {}
        factors = [self.hosts.factor[name] * (1 + more.get(name, 0.0)) for name in self.made.hosts]
        pace = self._pace(factors)
        if slower is not None:
            pace = pace._replace(noise=[slower.get(name, np.ones(1)) for name in self.made.hosts])
        return predicted(self.made, self.queries, pace, factors)

    def worst(self) -> dict[str, float]:
        """Return the worst latency (s) of each sink that gets tuples, and of each operator in which some end.

        Raises
        ------
        InputError
            If a batch would take as long as `LONGEST`.
        """
        batches = Recursion(self.made.shape).run(self._pace([self.hosts.factor[name] for name in self.made.hosts]))
        _check_length(float((batches.end - batches.start).max(initial=0.0)))
        found = {}
        for name, ways in (*self.made.sinks.items(), *self.made.ends.items()):
            _, latency, weight = arrived(self.made, batches, ways)
            if (weight > 0).any():
                found[name] = float(latency[weight > 0].max())
        return found

    def error_bar(self, result: MicrobatchResult, *, ends: bool = False) -> ErrorBar:
        """Return what an error of a host's costs does to the worst latency of what `run` predicts, by running it again.

        Of the hosts on whose costs it depends, that is the one with the largest backlog, else load. ``ends``: whether
        what ends in an operator counts.
        """
        worst, bars = _worst(result, ends), []
        for row, load, _ in furthest_behind(self._load(), self.model.period):
            name = self.made.hosts[row]
            error = cost_error(self.model, self.placement, name, self.hosts.statistics or Statistics())
            # As large as the error is: of less, whether one batch waits for another trigger decides.
            more = min(max(error, LEAST), MOST)
            change = abs(_worst(self.run(dearer={name: more}), ends) / worst - 1) if worst > 0 else 0.0
            bars.append(ErrorBar(name, load, error, change / more))
            if change > 0:
                return bars[-1]
        # A network without operators has no host that could be behind.
        return bars[0] if bars else ErrorBar(next(iter(self.hosts.factor)), 0.0, 0.0, 0.0)

    def _load(self) -> Array:
        """Return by host and period the share of its time that work takes, and a batch's fixed part at each trigger."""
        shape, pace = self.made.shape, self._pace([self.hosts.factor[name] for name in self.made.hosts])
        each = (np.asarray(pace.overhead, float)[shape.host] + np.asarray(pace.extra, float)) / pace.trigger
        fixed = np.bincount(shape.host, weights=each, minlength=len(self.made.hosts))
        # A batch begins when the one before has ended, so that fixed parts take no more than all of the time.
        load = np.tile(np.minimum(fixed, 1.0)[:, None], self.model.rates.periods)
        for inlet, first, last in zip(self.made.inlets, shape.inlet_work, shape.inlet_work[1:], strict=False):
            period, work = self.made.roots[inlet.root].period, np.diff(pace.work[first:last]) / self.model.period
            # The last windows end after the rates.
            during = period < self.model.rates.periods
            np.add.at(load[shape.host[inlet.query]], period[during], work[during])
        return load

    def spread(
        self,
        rng: np.random.Generator,
        *,
        scheduled: bool = True,
        count: int = DRAWS,
        ends: bool = False,
    ) -> Spread | None:
        """Predict again and again with costs as they may be; None where nothing is uncertain, or it takes too long.

        Parameters
        ----------
        rng
            Where chance comes from.
        scheduled
            Whether the rates begin at a multiple of the trigger.
        count
            How often, at most: less of long runs.
        ends
            Whether what ends in an operator counts in the whole.
        """
        if scheduled and certain(self.hosts.statistics, self.made.hosts):
            return None
        affordable = int(FOLLOWED / max(self.batches, 1.0))
        if affordable < min(FEWEST, count):
            return None
        count = min(count, affordable)
        names = self.made.hosts
        drawn = draw(self.model, self.placement, names, self.hosts.statistics, rng, count=count)
        drawn = drawn.in_phase() if scheduled else drawn
        factors = np.array([self.hosts.factor[name] for name in names])

        def pace(k: int) -> Pace:
            slow = drawn.factor[k] * drawn.speed[k]
            return self._pace(factors * slow, drawn, k)

        found = spread_of(*batch_draws(self.made, pace, len(drawn), self.model.rates.periods, ends=ends))
        known = {} if self.hosts.statistics is None else self.hosts.statistics.intervals
        return attrs.evolve(found, stretch={**AT_FIRST, **known})

    def outlook(
        self,
        now: float,
        horizons: Sequence[float],
        past: Mapping[str, Array],
        ahead: Mapping[str, Array],
        chance: Mapping[str, tuple[float, float]],
        rng: np.random.Generator,
    ) -> list[tuple[float, float, float]]:
        """Forecast the worst latency (s) of what enters in the next seconds: what is expected, p05 and p95.

        Parameters
        ----------
        now
            When the forecast is made (s).
        horizons
            How far it goes (s).
        past
            By host, array (3, intervals): what its batches took (s) in the known intervals of the trigger, what they
            should have taken, and the overhead in that.
        ahead
            By host, array (2, draws): by what batches, and their overhead besides, take longer from there on, as it may
            be; the first draw is what is expected.
        chance
            By host, how its batches differ by chance: jitter and residual.
        rng
            Where that chance comes from.
        """
        factors, hosts = [self.hosts.factor[name] for name in self.made.hosts], self.made.hosts
        spread = np.array([chance[name] for name in hosts]).reshape(-1, 2)
        base = self._pace(factors)._replace(jitter=spread[:, 0], residual=spread[:, 1])
        known = [past.get(name, np.zeros((3, 0))) for name in hosts]
        soon = np.stack([ahead[name] for name in hosts], axis=1)
        reading = np.concatenate([[1.0], seen_later(rng, soon.shape[2] - 1)])
        length = 8 + 4 * math.ceil(self.model.rates.duration / self.hosts.trigger)

        def pace(k: int) -> Pace:
            level, fixed = soon[:, :, k]
            # The past is what it was, whatever part of it is taken for overhead.
            been = [
                took / (expected + (over - 1) * part) for (took, expected, part), over in zip(known, fixed, strict=True)
            ]
            noise = [np.concatenate([row, np.full(length, now)]) for row, now in zip(been, level, strict=True)]
            drawn = [np.concatenate([np.zeros(row.size), (k > 0) * by_chance(rng, length)]) for row in been]
            fixed_part = {
                "overhead": base.overhead * fixed,
                "idle": base.idle * fixed,
                "extra": base.extra * fixed[self.made.shape.host],
            }
            return base._replace(**fixed_part, noise=noise, chance=drawn, reading=base.reading * float(reading[k]))

        series = worst_draws(self.made, pace, soon.shape[2], self.model.rates.periods)
        found = []
        for horizon in horizons:
            first, last = (int(at / self.model.period + 1e-9) for at in (now, now + horizon))
            found.append(_foretold(series[:, first : max(last, first + 1)].max(axis=1, initial=0.0)))
        return found

    def _pace(self, factors: Sequence[float] | Array, drawn: Draws | None = None, k: int = 0) -> Pace:
        """Return what batches take, as measured or in a draw."""
        hosts, names = self.hosts, self.made.hosts
        overhead = np.array([hosts.overhead[name] for name in names])
        idle = np.array([hosts.idle.get(name, hosts.overhead[name]) for name in names])
        extra = np.array([hosts.for_state(query.operators) for query in self.queries])
        if drawn is not None:
            longer = drawn.fixed[k] * drawn.speed[k]
            extra = extra * longer[self.made.shape.host]
            overhead, idle = (np.maximum(row + drawn.overhead[k], 0.0) * longer for row in (overhead, idle))
        return Pace(
            trigger=hosts.trigger,
            phase=0.0 if drawn is None else float(drawn.phase[k]) * hosts.trigger,
            overhead=overhead,
            idle=idle,
            work=self.made.seconds(factors, None if drawn is None else drawn.cost[k]),
            noise=[np.ones(1)] * len(names) if drawn is None else drawn.noise(k, hosts.trigger),
            reading=READING * (1.0 if drawn is None else float(drawn.reading[k])),
            commit=COMMIT,
            jitter=np.array([hosts.of_host(name).jitter for name in names]),
            residual=np.array([hosts.of_host(name).residual for name in names]),
            chance=[np.zeros(1)] * len(names) if drawn is None else list(drawn.chance[k]),
            extra=extra,
        )


def _worst(result: MicrobatchResult, ends: bool) -> float:
    return Quantiles.of(*(result.with_ends() if ends else result).whole()[1:]).worst


def _foretold(worst: Array) -> tuple[float, float, float]:
    """Return what is expected, p05 and p95; the first draw is what is expected."""
    expected, low, high = float(worst[0]), *np.quantile(worst[1:], [LOW, HIGH])
    down, up = (math.hypot(max(side, 0.0), BESIDES * expected) for side in (expected - low, high - expected))
    return expected, expected - down, expected + up


def microbatch_estimate(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None = None
) -> Estimate:
    """Estimate latency by the recursion over Spark's micro-batches.

    Trigger and hop come from ``cluster.spark``, overhead and factor of each host from the statistics. The total also
    counts tuples that end in an operator.

    Raises
    ------
    InputError
        If the placement has replicas, which Spark does not run, or a batch would take as long as `LONGEST`.
    """
    without_replicas(placement)
    hosts = BatchHosts.of(statistics, cluster)
    placed = hosts.placed(model, placement)
    result = placed.run()
    _check_length(max((batch.duration for batch in result.batches), default=0.0))
    every = result.with_ends()
    total, series = Quantiles.of(*every.whole()[1:]), every.worst(model.period, model.rates.periods)
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    scale = np.array([hosts.factor[name] for name in cluster.hosts]) * capacity
    excess = cumulative_excess(model.host_load(placement, cluster) * scale[:, None], capacity, model.period)
    bar = placed.error_bar(result, ends=True)
    sinks = {name: Quantiles.of(row[1], row[2]) for name, row in result.sinks.items()}
    return Estimate(
        model="microbatch",
        period=model.period,
        total=total,
        tuples=Quantiles.of(*result.whole()[1:]),
        series=series,
        bottleneck=bar.host,
        excess=dict(zip(cluster.hosts, excess, strict=True)),
        sinks=sinks,
        error=bar,
        notes=(*NOTES, *placed.notes, *([] if total.weight else [UNTOLD])),
        statistics=described(statistics),
        steady=_steady(model, placement, hosts),
        unended=unended(sinks, model),
    )


def without_replicas(placement: Iterable[str]) -> None:
    """Refuse a placement with replicas.

    Raises
    ------
    InputError
        Naming the first one.
    """
    for name in placement:
        if base_name(name) != name:
            raise InputError(f"{name!r} is a replica", at="placement", hint="use --model mace for replicas")


def _check_length(duration: float) -> None:
    """Refuse a batch that the recursion may have cut off; times of this size are rounded."""
    if duration > 0.999 * LONGEST:
        raise too_long()


def _steady(model: LoadModel, placement: Mapping[str, str], hosts: BatchHosts) -> Document | None:
    if hosts.progressive or any(len(members) > cores for members, cores in hosts.machines.values()):
        return None
    queries = fragments(model.network, placement)
    found = steady_state(model, queries, trigger=hosts.trigger, overhead=hosts.overhead, factor=hosts.factor)
    return None if found is None else found.document()
