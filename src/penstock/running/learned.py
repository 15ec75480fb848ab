"""What a run teaches: the rates that came, and statistics as its batches show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.errors import EngineError
from penstock.load import Statistics
from penstock.network import Network
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.running.job import Job
    from penstock.spark.run import Outcome


def learned(job: Job, outcome: Outcome, rates: Rates | None) -> Statistics:
    """Return statistics as a job's run showed them: overhead and factor of its hosts, selectivities.

    Rates that were expected say when tuples came, its batches how many. Its beginning does not count as far as its
    batches show that code was young: the rule of all calibration in place. In real-time mode factors are those of hosts
    where rows queued, once their code was no longer young.

    Raises
    ------
    EngineError
        If a host had too few batches, or all of one size, and nothing is known of it; in real-time mode if rows queued
        nowhere.
    """
    from penstock.spark.calibrate import calibrate_by_queues, calibrate_in_place

    network = job.network
    came = measured_rates(network, outcome, even=bool(job.real_time))
    if came is None:
        raise EngineError("nothing to learn from: no tuple came")
    if rates is not None:
        rates = rates.until(came.duration)
        came = Rates.of(rates.period, {name: _as_many(rates, came, name) for name in rates.sources}, rates.start)
    if job.real_time:
        return calibrate_by_queues(attrs.evolve(job.setting, rates=came), outcome, job.young)
    return calibrate_in_place(job.statistics, network, job.cluster, job.placement, outcome, came)


def _as_many(rates: Rates, came: Rates, source: str) -> Array:
    """Return the rates of a source (tuples/s, by period), such that they are as many tuples as came."""
    row = rates.of_source(source)
    scaled: Array = row * (came.of_source(source).sum() * came.period / max(row.sum() * rates.period, 1e-300))
    return scaled


def measured_rates(network: Network, outcome: Outcome, *, even: bool = False) -> Rates | None:
    """Return the rates at which tuples of sources came, from the batches of a run; None if there were none.

    They begin when the run did, as all that is predicted of it. What came before that counts in the first period.

    ``even``: they came evenly while a batch lasted, as in real-time mode, and not all before it.
    """
    batches = [b for b in outcome.batches if b.rows]
    if not batches:
        return None
    # Of a run that noted no beginning, with its first rows.
    begin = outcome.epoch or min(b.start for b in batches)
    length = max(int(max(b.start + even * b.duration for b in batches) - begin), 0) + 1
    values = {name: np.zeros(length) for name in network.sources}
    for name in network.sources:
        # Every reader of a source sees all of it: one of its streams is enough.
        stream = next((stream.name for stream in network.outputs(name)), "")
        for batch in batches:
            first, last = (
                int(np.clip(at - begin, 0, length - 1)) for at in (batch.start, batch.start + even * batch.duration)
            )
            values[name][first : last + 1] += batch.counts.get(stream, (0, 0))[0] / (last + 1 - first)
    return Rates.of(1.0, values, begin)
