"""What forecasts of a run rest on, and one forecast."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster
from penstock.latency.batches import BatchHosts
from penstock.load import Statistics, load_model
from penstock.network import Network
from penstock.running.drift import HORIZONS, Seen, Watch, history
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.running.job import Job


PERIOD = 1.0
"""Longest period of rates in a forecast (s): what enters in ten seconds is told by whole periods."""

BACK = 120.0
"""Seconds of a run that a forecast goes over again at least, to know what waits."""

BEYOND, FARTHEST = 20.0, 3600.0
"""Seconds of rates after the last horizon that a forecast needs at first, and at most where nobody knows their end."""

ALIGNED = 0.005
"""How far a multiple of the trigger may be from one of the period, as a share of it."""

AGAIN = 2000
"""Batches that a forecast goes over again at most where that is more than `BACK`: it is to take a second at most."""


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

    def forecast(
        self, now: float, watch: Watch, batches: Sequence[Seen], rng: np.random.Generator, begin: float | None = None
    ) -> list[Forecast]:
        """Forecast from a moment (s) on, by what is believed of the hosts then and the batches that had ended.

        The model goes over the last part of the run again, at the speeds that its batches had, and on from there: until
        all that enters before the last horizon is out, since what enters after it shares batches with that.

        Parameters
        ----------
        begin
            Where that part begins, if it is known: see `begin`.
        """
        hosts = BatchHosts.of(self.statistics, self.cluster)
        begin = self.begin(now, batches) if begin is None else begin
        if self.expected and self.rates.duration <= now:
            return []
        past = history(_since(begin, batches), hosts.trigger)
        ahead = {name: watch.ahead(name, now, rng) for name in dict.fromkeys(self.placement.values())}
        speeds = {name: watch.speed(name, now) for name in ahead}
        chance = {name: (speed.jitter, speed.residual) for name, speed in speeds.items()}
        here = now - round(begin / self.rates.period) * self.rates.period
        # Long enough for the most part: what does not suffice is more.
        beyond = max([BEYOND, *(4 * (batch.end - batch.start) for batch in batches[-10:])])
        while True:
            rates, keep = self._rates(begin, now, max(HORIZONS) + beyond)
            placed = hosts.placed(load_model(self.network, rates), self.placement, keep)
            told = placed.outlook(here, HORIZONS, past, ahead, chance, rng)
            # What is out before the rates end shared no batch with anything after them.
            latest, end = max(high for *_, high in told), self.rates.duration - rates.period / 2
            if latest <= beyond or (begin + rates.duration > end if self.expected else beyond >= FARTHEST):
                return [Forecast(now, horizon, *row) for horizon, row in zip(HORIZONS, told, strict=True)]
            beyond = 2 * latest if self.expected else min(2 * latest, FARTHEST)

    def begin(self, now: float, batches: Sequence[Seen], since: float = 0.0) -> float:
        """Return from when on (s) a forecast goes over a run again: the last moment at which nothing waited.

        It is `BACK` ago or more, and a multiple of the trigger and of the period of the rates. Nothing waits where no
        batch of any query is longer than a trigger. Where that is more than `AGAIN` batches ago, least waited.

        Parameters
        ----------
        batches
            That had ended, in that order; all that began from ``since`` on.
        since
            An earlier such moment; the answer where there is no later one.
        """
        trigger, period = BatchHosts.of(self.statistics, self.cluster).trigger, self.rates.period
        numbers = np.arange(math.ceil(since / trigger - 1e-6), math.floor((now - BACK) / trigger + 1e-6) + 1)
        moments = numbers * trigger
        moments = moments[np.abs(moments / period - np.rint(moments / period)) < ALIGNED]
        longest = np.zeros(moments.size)
        for rows in _by_query(batches):
            for batch, after in zip(rows, [*(each.start for each in rows[1:]), math.inf], strict=True):
                # What came meanwhile waits for the next batch, and what that puts out for one of another query.
                first, last = batch.start - trigger, max(after, batch.end) + 2 * trigger
                low, high = np.searchsorted(moments, [first + 1e-6 * trigger, last])
                longest[low:high] = np.maximum(longest[low:high], batch.end - batch.start)
        calm = moments[longest <= trigger * (1 + 1e-6)]
        found = float(calm[-1]) if calm.size else since
        soonest = min(batches[-AGAIN].start, now - BACK) if len(batches) > AGAIN else found
        late = moments >= soonest
        return float(moments[late][np.argmin(longest[late])]) if found < soonest and late.any() else found

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


def _since(begin: float, batches: Sequence[Seen]) -> list[Seen]:
    """Return the batches that started from a moment (s) on, in the time that begins there."""
    return [
        attrs.evolve(batch, start=batch.start - begin, end=batch.end - begin)
        for batch in batches
        if batch.start >= begin
    ]


def _by_query(batches: Sequence[Seen]) -> Iterator[list[Seen]]:
    """Go over the queries: the batches of each, in order."""
    found: dict[tuple[str, str], list[Seen]] = {}
    for batch in sorted(batches, key=lambda each: each.start):
        found.setdefault((batch.host, batch.query), []).append(batch)
    yield from found.values()
