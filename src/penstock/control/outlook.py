"""The forecasts of a run, each from what was known when it was made, beside what came."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster
from penstock.control.forecast import DRAWS, HORIZONS, Drift, Seen, Watch, history
from penstock.files import Document
from penstock.latency.batches import BatchHosts
from penstock.latency.cores import alone
from penstock.latency.fragments import fragments
from penstock.load import Statistics, load_model
from penstock.load.counted import work_of
from penstock.network import Network
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.control.job import Job
    from penstock.spark.run import Batch, Outcome

EVERY, MOST, FOLLOWED = 10.0, 30, 400_000
"""Seconds between two forecasts; how many a run has, and batches they follow, at most: else they are further apart."""

PERIOD = 1.0
"""Longest period of rates in a forecast (s): what enters in ten seconds is told by whole periods."""

BACK = 120.0
"""Seconds of a run that a forecast goes over again to know what waits."""


@attrs.frozen
class Forecast:
    """A forecast of the worst latency (s) of what enters in the seconds after ``time``, up to ``horizon``."""

    time: float
    horizon: float
    predicted: float
    low: float
    high: float
    measured: float | None = None


class Batches(Protocol):
    """Micro-batches that have ended, of a run that is over or goes on."""

    @property
    def batches(self) -> Sequence[Batch]:
        """All of them, or the last."""

    @property
    def epoch(self) -> float:
        """When the run began (s since 1970)."""


def seen(
    network: Network, cluster: Cluster, placement: Mapping[str, str], statistics: Statistics, run: Batches
) -> list[Seen]:
    """Return a run's batches, as they ended, with what they would have taken as measured before.

    Parameters
    ----------
    network
        With every cost known.
    """
    hosts = BatchHosts.of(statistics, cluster)
    queries = {fragment.name: fragment for fragment in fragments(network, placement)}
    host_of = {name: fragment.host for name, fragment in queries.items()}
    machines = {name: machine for machine, (members, _) in hosts.machines.items() for name in members}
    groups: dict[str, list[Batch]] = {}
    for batch in run.batches:
        if batch.known and batch.query in host_of:
            host = host_of[batch.query]
            groups.setdefault(machines.get(host, f"host {host}"), []).append(batch)
    found = []
    for name, batches in groups.items():
        cores = float(hosts.machines[name][1]) if name in hosts.machines else 1.0
        took = alone([(batch.start, batch.start + batch.duration) for batch in batches], cores)
        for batch, own in zip(batches, took, strict=True):
            host = host_of[batch.query]
            fixed = hosts.overhead[host] if batch.rows else hosts.idle.get(host, hosts.overhead[host])
            fixed += hosts.for_state(queries[batch.query].operators)
            expected = fixed + hosts.factor[host] * work_of(network, batch.counts)
            start = batch.start - run.epoch
            core = core_of(batch, hosts.of_host(host).speed)
            found.append(Seen(host, start, start + batch.duration, own, expected, fixed, core))
    return sorted(found, key=lambda each: each.end)


def core_of(batch: Batch, calibrated: float | None) -> float | None:
    """Return how fast a batch's core was, as a share of what it was while calibrated; None where either is unknown."""
    if calibrated is None or not batch.speed:
        return None
    return float(np.mean([steps for _, steps in batch.speed])) / calibrated


@attrs.frozen(eq=False, kw_only=True)
class Course:
    """What forecasts rest on.

    Attributes
    ----------
    network
        With every cost known.
    cluster, placement, statistics
        Of the run.
    rates
        Of the sources, by period.
    expected
        Whether these rates were known before; else a forecast goes on with the mean of the last ten seconds.
    keep
        Keep fractions by stream.
    """

    network: Network
    cluster: Cluster
    placement: Mapping[str, str]
    statistics: Statistics
    rates: Rates
    expected: bool = True
    keep: Mapping[str, float | Array] = attrs.field(factory=dict)

    @classmethod
    def of(cls, job: Job, rates: Rates, keep: Mapping[str, float | Array]) -> Course:
        """Return the course of a job, with rates in periods of at most `PERIOD`."""
        parts = max(1, math.ceil(rates.period / PERIOD - 1e-9))
        values = {name: np.repeat(rates.of_source(name), parts) for name in rates.sources}
        fine = {
            n: np.repeat(row, parts) if isinstance(row, np.ndarray) and row.ndim else row for n, row in keep.items()
        }
        return cls(
            network=job.statistics.complete(job.network),
            cluster=job.cluster,
            placement=job.placement,
            statistics=job.statistics,
            rates=Rates.of(rates.period / parts, values, rates.start),
            expected=job.rates is not None,
            keep=fine,
        )

    def forecast(self, now: float, watch: Watch, batches: Sequence[Seen], rng: np.random.Generator) -> list[Forecast]:
        """Forecast from a moment (s) on, by what is believed of the hosts then and the batches that had ended.

        The model goes over the last part of the run again, at the speeds that its batches had, and on from there.
        """
        hosts = BatchHosts.of(self.statistics, self.cluster)
        trigger, period = hosts.trigger, self.rates.period
        begin = max(0.0, math.floor((now - BACK) / trigger) * trigger)
        if abs(begin / period - round(begin / period)) > 1e-6:
            begin = 0.0
        rates, keep = self._rates(begin, now, max(HORIZONS))
        if rates.periods * period <= now - begin:
            return []
        placed = hosts.placed(load_model(self.network, rates), self.placement, keep)
        shifted = [
            attrs.evolve(batch, start=batch.start - begin, end=batch.end - begin)
            for batch in batches
            if batch.start >= begin
        ]
        past = history(shifted, trigger)
        ahead = {name: watch.ahead(name, now, rng) for name in placed.made.hosts}
        speeds = {name: watch.speed(name, now) for name in placed.made.hosts}
        chance = {name: (speed.jitter, speed.residual) for name, speed in speeds.items()}
        told = placed.outlook(now - begin, HORIZONS, past, ahead, chance, rng)
        return [Forecast(now, horizon, *row) for horizon, row in zip(HORIZONS, told, strict=True)]

    def _rates(self, begin: float, now: float, ahead: float) -> tuple[Rates, dict[str, float | Array]]:
        """Return rates and keep fractions from a moment on until a time ahead of now, as far as they are known now."""
        period = self.rates.period
        first, here = round(begin / period), max(1, math.floor(now / period + 1e-9))
        last = min(self.rates.periods, math.ceil((now + ahead) / period)) if self.expected else here
        values = {name: self.rates.of_source(name)[first:last] for name in self.rates.sources}
        if not self.expected:
            back, more = max(1, round(10 / period)), math.ceil(ahead / period)
            values = {name: np.concatenate([row, np.full(more, row[-back:].mean())]) for name, row in values.items()}
        keep = {n: row[first:last] if isinstance(row, np.ndarray) and row.ndim else row for n, row in self.keep.items()}
        return Rates.of(period, values), keep


def forecasts(
    course: Course, batches: Sequence[Seen], rng: np.random.Generator
) -> tuple[list[Forecast], tuple[Drift, ...]]:
    """Return the forecasts of a run, each made with what was known at its time, and where its hosts drifted.

    Parameters
    ----------
    batches
        Of the run, as they ended, from the beginning of the rates on.
    """
    hosts = BatchHosts.of(course.statistics, course.cluster)
    watch, told = Watch.of(hosts), []
    span = min(course.rates.duration, BACK) + max(HORIZONS)
    each = len(fragments(course.network, course.placement)) * span / hosts.trigger * (DRAWS + 1)
    every = max(EVERY, course.rates.duration / min(MOST, max(3.0, FOLLOWED / each)))
    count = 0
    for number in range(1, math.ceil(course.rates.duration / every)):
        now = number * every
        while count < len(batches) and batches[count].end <= now:
            watch = watch.after(batches[count])
            count += 1
        if count:
            told += course.forecast(now, watch, batches[:count], rng)
    for batch in batches[count:]:
        watch = watch.after(batch)
    return told, watch.drifts


def slower(batches: Iterable[Seen]) -> dict[str, float]:
    """Return by host how many times as long its batches took as had been measured before."""
    took: dict[str, tuple[float, float]] = {}
    for batch in batches:
        own, expected = took.get(batch.host, (0.0, 0.0))
        took[batch.host] = own + batch.duration, expected + batch.expected
    return {host: own / expected for host, (own, expected) in took.items() if own > 0 and expected > 0}


def reported(course: Course, batches: Sequence[Seen], outcome: Outcome, rng: np.random.Generator) -> Document:
    """Return the keys ``forecast``, ``drift`` and ``drifts`` of a run's report."""
    told, drifts = forecasts(course, batches, rng)
    names = sorted(outcome.stimulus)
    stimulus = np.concatenate([np.zeros(0), *(outcome.stimulus[name] for name in names)]) - outcome.epoch
    return {
        "forecast": [attrs.asdict(each) for each in with_measured(told, stimulus, outcome.latency())],
        "drift": bool(drifts),
        "drifts": [attrs.asdict(drift) for drift in drifts],
    }


def with_measured(told: Iterable[Forecast], stimulus: Array, latency: Array) -> list[Forecast]:
    """Return forecasts with what was measured: the worst latency (s) of what entered then; None where nothing did."""
    found = []
    for each in told:
        inside = (stimulus >= each.time) & (stimulus < each.time + each.horizon)
        found.append(attrs.evolve(each, measured=float(latency[inside].max()) if inside.any() else None))
    return found
