"""Calibration in place: a short burst again and again, until two of them agree or time is up.

Nothing here imports pyspark: the engine is handed in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from penstock.control.chain import Report
from penstock.control.job import Job, execute
from penstock.load import Statistics
from penstock.load.fitting import Agreement, HostBatches, agreement, pooled, told
from penstock.network import Network
from penstock.workload import Rates

BUDGET = 120.0
"""Seconds after which no further burst begins."""

MOST = 6
"""Bursts after which no further one begins, even if a host has had too few batches."""

LENGTH, TRIGGERS = 20.0, 12
"""Seconds, and intervals of the trigger, that one burst with the quiet around it takes at least."""


def burst_rates(rates: Rates, trigger: float) -> Rates:
    """Return one burst to calibrate with: it makes batches of many sizes, as large as those of the run to come.

    Parameters
    ----------
    rates
        Of the run to come.
    trigger
        Interval of the micro-batches (s).

    Returns
    -------
    Rates
        Periods of 1 s: the median rate of each source, a step, a burst as high and long as the highest, and a step.
    """
    count = round(max(LENGTH, TRIGGERS * trigger))
    total = rates.values.sum(axis=0)
    middle = (float(np.median(total)) + float(total.max())) / 2
    above = float((total > middle).sum() * rates.period)
    long = round(float(np.clip(above, 2.0, count / 3)))
    shape = np.zeros(count)
    for begin, length, level in ((0.15, 1, 0.5), (0.3, long, 1.0), (0.85, 1, 0.7)):
        start = int(begin * count)
        shape[start : start + length] = level
    values = {}
    for name, row in zip(rates.sources, rates.values, strict=True):
        low, high = float(np.median(row)), float(row.max())
        values[name] = low + (max(high, 2 * low) - low) * shape
    return Rates.of(1.0, values)


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
        work = {host: max(float(burst[host].load.max(initial=0.0)) for burst in every) for host in sorted(batches)}
        answers = [{host: told(row) for host, row in burst.items()} for burst in every[-2:]]
        return Bursts(every, agreement(answers, work))

    def used(self, host: str) -> HostBatches:
        """Return the batches of a host that count: those of the last two bursts where these agree.

        Else those of all but the first, which warms up, and of all where that are too few.
        """
        choices = [self.batches[-2:]] if self.agreement.done else []
        choices += [self.batches[1:], self.batches] if len(self.batches) > 1 else [self.batches]
        every = [pooled([burst[host] for burst in choice]) for choice in choices]
        return next((batches for batches in every if batches.telling), every[-1])

    @property
    def telling(self) -> bool:
        """Whether each host's batches tell overhead from cost."""
        return all(self.used(host).telling for host in self.batches[-1])

    def measured(self) -> dict[str, Any]:
        """Return how it went, for the statistics."""
        return {"bursts": len(self.batches), "agreed": self.agreement.done, "apart": dict(self.agreement.apart)}


def calibrate_in_place(
    engine: Any,
    job: Job,
    priced: Network,
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
    priced
        Its network with every cost: factors are what these become in place.
    alone
        Of the first pass.
    tell
        Told what is being done, and how much of it is done.
    budget
        Seconds after which no further burst begins; two are run in any case, and more while a host has had too few
        batches.
    clock
        Tells the time (s).

    Raises
    ------
    EngineError
        If a host has too few batches, or all of one size.
    """
    from penstock.spark.calibrate import host_batches, measured_selectivities, too_few

    if job.rates is None:
        raise ValueError("a burst needs the rates of the run to come")
    trace, bursts, begin, longest = burst_rates(job.rates, job.cluster.spark.trigger), Bursts(), clock(), 0.0
    while True:
        number, started = len(bursts.batches), clock()
        folder = os.path.join(os.fspath(job.folder), f"burst{number}")
        part = min(0.9, (started - begin) / budget)
        tell("calibrating in place", part)
        outcome = execute(engine, attrs.evolve(job, folder=folder, rates=trace), lambda _what, _share: None)
        bursts = bursts.after(host_batches(priced, job.cluster, job.placement, outcome))
        longest = max(longest, clock() - started)
        late = clock() - begin + longest > budget
        if (bursts.agreement.done or (late and number >= 1)) and (bursts.telling or number + 1 >= MOST):
            break
    hosts = {}
    for host in bursts.batches[-1]:
        batches = bursts.used(host)
        known = told(batches)
        if known is None:
            raise too_few(host, len(batches))
        # Between two bursts a host's speed changes as between two stretches of one.
        apart = bursts.agreement.apart.get(host, 0.0) / 2**0.5
        hosts[host] = attrs.evolve(known, unrest=max(known.unrest, apart))
    measured = {**alone.measured, "pass": "alone, then in place", **bursts.measured()}
    return attrs.evolve(measured_selectivities(alone, priced, outcome, trace), hosts=hosts, measured=measured)
