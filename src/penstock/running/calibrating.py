"""Calibration in place: short bursts on all hosts at once, again until two of them agree or time is up.

Nothing here imports pyspark: the engine is handed in.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.files import Document
from penstock.latency.cores import beside
from penstock.latency.fragments import fragments
from penstock.load import LoadModel, Statistics, load_model
from penstock.load.fitting import Agreement, HostBatches, agreement, between, levelled, pooled, told, wander
from penstock.load.statistics import HostStatistics
from penstock.network import Network
from penstock.running.job import Job, execute
from penstock.running.prediction import Report
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.spark.run import Engine, Outcome

BUDGET = 120.0
"""Seconds that runs may take together, unless a host has had too few batches."""

MOST = 4
"""Runs after which no further one begins, even if a host has had too few batches."""

EACH, AGAIN = 4, 2
"""Bursts in the first run, and in further ones: hosts need not start and stop queries in between. In the very first,
code is still young."""

LEAD = 3
"""Seconds before the first burst of a run."""

SHAPE, LARGEST = (0.0, 0.4, 1.0, 1.0, 0.0, None, 0.0, 0.0, 0.0, 0.6, 0.0), 3.0
"""One burst, second by second, as a share of the highest rate, and how many seconds of it come at once, at most (None).

A host that is overloaded has batches much larger than an interval of the trigger brings, and these decide the worst
latency: without such a heap their cost would be extrapolated from small ones."""

BUSY, QUIET = 0.5, 5
"""Share of their time that hosts work in bursts, at most and by costs measured alone, which are higher in place: a host
that never catches up has a few large batches, and these do not tell overhead from cost. And by how many seconds quiet
bursts become longer for that, at most, before they become lower: a tuple costs less in a large batch."""

SHORTEST = 1.0
"""Interval of the micro-batches (s) down to which they follow each other faster than in the run to come."""


def faster(trigger: float) -> float:
    """Return the interval of the micro-batches (s) to calibrate with: more of them in less time tell as much each."""
    return min(trigger, SHORTEST)


def burst_rates(rates: Rates, quiet: int = 0, count: int = EACH) -> tuple[Rates, tuple[float, ...]]:
    """Return bursts to calibrate with: they make batches of many sizes, as large as those of the run to come.

    Parameters
    ----------
    rates
        Of the run to come.
    quiet
        Seconds without anything more behind each.
    count
        How many.

    Returns
    -------
    Rates
        Periods of 1 s: ``count`` times the `SHAPE`, above the median rate of each source. Where sources have their
        highest rates at different times, each has its share in what comes at once.
    tuple
        When each burst begins (s).
    """
    total = rates.values.sum(axis=0)
    middle = (float(np.median(total)) + float(total.max())) / 2
    heap = float(np.clip((total > middle).sum() * rates.period, 1.0, LARGEST))
    shape = np.array([*(heap if level is None else level for level in SHAPE), *[0.0] * quiet])
    most = rates.values.max(axis=1)
    share = float(total.max()) / max(float(most.sum()), 1e-12)
    values = {}
    for name, row, high in zip(rates.sources, rates.values, most, strict=True):
        low = float(np.median(row))
        once = low + max(share * float(high) - low, low) * shape
        values[name] = np.concatenate([np.full(LEAD, low), *[once] * count])
    return Rates.of(1.0, values), tuple(float(LEAD + number * len(shape)) for number in range(count))


def bursts_of(job: Job, network: Network, count: int = EACH) -> tuple[Rates, tuple[float, ...]]:
    """Return the bursts to calibrate a job with, and when each begins (s).

    They are those of `burst_rates`, so far apart, and then so much lower, that no host, or machine that hosts share, is
    busy for more than `BUSY` of the time.

    Parameters
    ----------
    network
        The job's, with costs measured alone.
    count
        How many.
    """
    if job.rates is None:
        raise ValueError("a burst needs the rates of the run to come")
    rates, _ = burst_rates(job.rates, count=count)
    longer = len(SHAPE) * (busiest(job, load_model(network, rates)) / BUSY - 1)
    rates, begins = burst_rates(job.rates, math.ceil(min(max(longer, 0.0), QUIET)), count)
    share = BUSY / max(BUSY, busiest(job, load_model(network, rates)))
    return attrs.evolve(rates, values=share * rates.values), begins


def busiest(job: Job, model: LoadModel) -> float:
    """Return which share of the time a job's hosts work, the most of any host and of any machine that hosts share."""
    hosts = job.cluster.hosts.values()
    busy = model.host_load(job.placement, job.cluster).mean(axis=1) / np.array([host.capacity for host in hosts])
    machines = job.cluster.machines.items()
    shared = [float(busy[[host.machine == name for host in hosts]].sum()) / cores for name, cores in machines]
    return float(max([*busy, *shared]))


def parts(batches: Mapping[str, HostBatches], begins: Sequence[float], at: float) -> list[dict[str, HostBatches]]:
    """Return the batches of a run's hosts burst by burst; those before the first belong to it.

    Parameters
    ----------
    begins
        When each burst begins (s).
    at
        When the run began (s), on the clock of all runs.
    """

    def within(row: HostBatches, low: float, high: float) -> HostBatches:
        chosen = row.where((low <= row.at) & (row.at < high))
        return attrs.evolve(chosen, at=chosen.at + at)

    edges = [-np.inf, *begins[1:], np.inf]
    return [{host: within(row, low, high) for host, row in batches.items()} for low, high in pairwise(edges)]


@attrs.frozen(eq=False)
class Bursts:
    """The bursts so far: each host's batches in each of them, and whether the last two agree.

    Attributes
    ----------
    batches
        By burst and host.
    agreement
        Of the last two.
    """

    batches: tuple[Mapping[str, HostBatches], ...] = ()
    agreement: Agreement = attrs.field(factory=lambda: Agreement(False, {}))

    def after(self, batches: Mapping[str, HostBatches]) -> Bursts:
        """Return the bursts with one more."""
        every = (*self.batches, batches)
        return Bursts(every, agreement(every))

    def used(self, host: str, pace: float | None = None) -> tuple[HostBatches, HostBatches]:
        """Return the batches of a host from which overhead and cost are told, and those whose level counts.

        The level of the last two bursts where these agree, else that of the last, since code was warming up before. The
        earlier ones are brought to it; the very first, whose code is youngest, counts only where batches are too few.

        Parameters
        ----------
        pace
            Speed of the core (steps/s) for which they are told; None: as they were.
        """
        rows = [burst[host].at_pace(pace) for burst in self.batches]
        count = 2 if self.agreement.done else 1
        while count < len(rows) and not any(map(len, rows[-count:])):
            count += 1
        last = pooled(rows[-count:])
        warm, all_of_them = (levelled(rows[first:-count], last) for first in (1, 0))
        return warm if warm.telling else all_of_them, last

    @property
    def telling(self) -> bool:
        """Whether each host's batches tell overhead from cost."""
        return all(self.used(host)[0].telling for host in self.batches[-1])

    def told(self) -> dict[str, HostStatistics]:
        """Return what the batches tell of each host.

        Raises
        ------
        EngineError
            If a host has too few of them, or all of one size.
        """
        from penstock.spark.calibrate import too_few

        found = {}
        every = {host: pooled([burst[host] for burst in self.batches]) for host in self.batches[-1]}
        wandering = wander(list(every.values()))
        for host, seen in every.items():
            batches, counting = self.used(host, seen.pace)
            known = told(batches, seen.pace)
            if known is None:
                raise too_few(host, len(batches))
            two = [burst[host].at_pace(known.speed) for burst in self.batches if len(burst[host])][-2:]
            unrest = math.hypot(max(known.unrest, between(two, known)), counting.doubt(known))
            found[host] = attrs.evolve(known, unrest=unrest, wander=wandering)
        return found

    def measured(self) -> Document:
        """Return how it went, for the statistics."""
        return {"bursts": len(self.batches), "agreed": self.agreement.done, "apart": dict(self.agreement.apart)}


def calibrate_in_place(
    engine: Engine,
    job: Job,
    alone: Statistics,
    tell: Report,
    *,
    budget: float = BUDGET,
    clock: Callable[[], float] = time.monotonic,
) -> Statistics:
    """Run bursts on a job's hosts, all at once, until two agree; return the statistics with what they tell.

    Parameters
    ----------
    job
        What is going to run: its rates give the burst, its folder holds those of the bursts.
    alone
        Of the first pass, with every cost: factors are what these become in place.
    tell
        Told what is being done, and how much of it is done.
    budget
        Seconds that runs may take together, unless a host has had too few batches.
    clock
        Tells the time (s).

    Raises
    ------
    EngineError
        If a host has too few batches, or all of one size.
    """
    from penstock.spark.calibrate import host_batches, measured_selectivities, measured_state

    pace, priced = faster(job.cluster.spark.trigger), alone.complete(job.network, override=True)
    bursts, begin, outcomes = Bursts(), clock(), []
    for number in range(MOST):
        trace, begins = bursts_of(job, priced, AGAIN if number else EACH)
        started = clock()
        folder = os.path.join(os.fspath(job.folder), f"bursts{number}")
        tell("calibrating in place", min(0.9, (started - begin) / budget))
        outcome = execute(
            engine, attrs.evolve(job, folder=folder, rates=trace, trigger=pace), lambda _what, _share: None
        )
        outcomes.append(outcome)
        if number == 0:
            alone = measured_state(alone, job.cluster, job.placement, outcome)
        batches = host_batches(alone, priced, job.cluster, job.placement, outcome)
        for burst in parts(batches, begins, started - begin):
            bursts = bursts.after(burst)
        # Another burst would take as long as each of these.
        late = clock() - begin + AGAIN * (clock() - started) / len(begins) > budget
        if bursts.telling and (bursts.agreement.done or late):
            break
    measured = {
        **alone.measured,
        "pass": "alone, then in place",
        **bursts.measured(),
        "beside": together(priced, job.placement, outcomes),
        "seconds": clock() - begin,
    }
    return attrs.evolve(measured_selectivities(alone, priced, outcome, trace), hosts=bursts.told(), measured=measured)


def together(network: Network, placement: Mapping[str, str], outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return how fast the core of each host is while others work, as a share of what it is while none does."""
    host_of = {fragment.name: fragment.host for fragment in fragments(network, placement)}
    moments: dict[str, list[tuple[float, float]]] = {host: [] for host in host_of.values()}
    spans: dict[str, list[tuple[float, float]]] = {host: [] for host in host_of.values()}
    for batch in (batch for outcome in outcomes for batch in outcome.batches):
        moments[host_of[batch.query]] += batch.speed
        spans[host_of[batch.query]].append((batch.start, batch.start + batch.duration))
    return beside(moments, spans)


def said(measured: Document) -> str:
    """Say how the calibration in place went."""
    apart = ", ".join(f"{host} {gap:.1%}" for host, gap in measured["apart"].items())
    ended = "agreed" if measured["agreed"] else "did not agree in time"
    both = ", ".join(f"{host}'s is {share:.2f}" for host, share in measured["beside"].items())
    return (
        f"calibrated in place by {measured['bursts']} bursts in {measured['seconds']:.0f} s; what batches took in the "
        f"last two {ended}: apart by {apart}"
        + (f"; cores while others work: {both} times as fast as else" if both else "")
    )
