"""What forecasts of a run rest on, and one forecast."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster
from penstock.control.forecast import HORIZONS, Seen, Watch, history
from penstock.latency.batches import BatchHosts
from penstock.load import Statistics, load_model
from penstock.network import Network
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.control.job import Job


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
        Of the sources, by period; they start when the run began (s since 1970), or at 0 as long as that is not known.
    expected
        Whether these rates were known before; else a forecast goes on with the mean of the last ten seconds.
    keep
        Keep fractions by stream.
    young
        Seconds in which the code of its hosts is young.
    """

    network: Network
    cluster: Cluster
    placement: Mapping[str, str]
    statistics: Statistics
    rates: Rates
    expected: bool = True
    keep: Mapping[str, float | Array] = attrs.field(factory=dict)
    young: float = 0.0

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
            young=job.young,
        )

    def since(self, epoch: float) -> Course:
        """Return the course of a run that began at a time (s since 1970): windows end at multiples of their slide."""
        return attrs.evolve(self, rates=attrs.evolve(self.rates, start=epoch))

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
        return Rates.of(period, values, self.rates.start + begin), keep
