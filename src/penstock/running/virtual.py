"""Runs in virtual time, from their request to their document: what the command ``simulate`` answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO

import numpy as np

from penstock.arrays import Records
from penstock.cluster import Cluster, with_copies
from penstock.files import Document, atomic
from penstock.latency.batches import BatchHosts
from penstock.load import load_model
from penstock.load.setting import begun
from penstock.running.prediction import Report, interval
from penstock.simulation import Job, Recording, SimulationResult, Steering, repeat, summary
from penstock.workload import Rates

PICTURED = 200
"""Samples in the picture of a run, if it ends with its input; twice as many at most."""


def once(job: Job, seed: int, tell: Report, trace: str | None = None, plot: str | None = None) -> SimulationResult:
    """Simulate one run.

    Parameters
    ----------
    tell
        Told how far virtual time has come.
    trace, plot
        Files for the rows at the sinks, and for a picture of the run.
    """
    from penstock.simulation.plot import plot as draw

    end = _span(job)
    with ExitStack() as files:
        write = None
        if trace is not None:
            write = _writer(files.enter_context(atomic(trace)), sorted(job.network.sinks))
        record = Recording(
            trace=True if plot is not None else write or False,
            sample=None if plot is None else end / PICTURED,
            most=2 * PICTURED,
            progress=lambda reached: tell("simulating", min(reached / end, 1.0)),
        )
        result = job.run(seed, record)
        if plot is not None:
            if write is not None and result.trace is not None:
                write(result.trace)
            draw(plot, result)
    return result


def several(job: Job, seeds: range, *, on_spark: bool = False) -> list[SimulationResult]:
    """Simulate a run for each seed, on all cores of this process or in one Spark job."""
    if not on_spark:
        return list(repeat(job, seeds))
    from penstock.spark.fanout import fan_out
    from penstock.spark.hosts import EmbeddedHost

    with EmbeddedHost("simulations", cores=min(len(seeds), os.cpu_count() or 1)) as host:
        return fan_out(host.session(), job, seeds)


def report(job: Job, results: Sequence[SimulationResult], seeds: range, hosts: BatchHosts | None = None) -> Document:
    """Return what runs say: the first in full, several together, and beside them what a model expects.

    Parameters
    ----------
    hosts
        What the hosts make of batches, where they work in batches: the model's interval is added.
    """
    first = results[0]
    document = {"network": job.network.name, "policy": job.options.policy, "seed": seeds[0], **first.document()}
    if hosts is not None:
        document |= _expected(hosts, job, seeds[0])
    if job.options.steer is not None:
        document["statistics"] = _told(job.options.steer, job.placement, job.cluster, first)
    if len(results) > 1:
        document["repeated"] = {
            "latency": summary(results),
            "runs": [
                {"seed": seed, "latency": dict(one.latency), **one.totals, "balanced": one.balanced}
                for seed, one in zip(seeds, results, strict=True)
            ],
        }
    return document


def _expected(hosts: BatchHosts, job: Job, seed: int) -> Document:
    """Return what the model of batches says the latency may be where the statistics are off by their errors."""
    left_out = job.options.shed is not None or with_copies(job.placement) or job.network.unpriced
    if not isinstance(job.arrivals, Rates) or left_out:
        return {}
    model = load_model(job.network, begun(job.arrivals, job.network))
    placed = hosts.placed(model, job.placement, job.options.keep)
    return interval(placed, placed.run(), np.random.default_rng(seed)).document()


def _told(
    steer: Steering, placement: Mapping[str, str], cluster: Cluster, result: SimulationResult
) -> dict[str, dict[str, float]]:
    """Return what hosts send for each decision of a policy, and in the mean per second, once all has moved."""
    from penstock.running.rebalance import Rebalance

    if not isinstance(steer, Rebalance):
        return {}
    after = {**placement, **{move.operator: move.end for move in result.moves}}
    sent = steer.statistics_bytes(after, cluster.hosts)
    return {host: {"bytes": count, "rate": count / steer.every} for host, count in sent.items()}


def _span(job: Job) -> float:
    """Return about how long a run is (s)."""
    arrivals = job.arrivals
    end = arrivals.duration if isinstance(arrivals, Rates) else float(arrivals.times[-1])
    return float(job.options.duration or end) or 1.0


def _writer(file: IO[str], sinks: Sequence[str]) -> Callable[[Records], None]:
    """Return what writes rows at the sinks to a file of comma-separated values."""
    file.write("sink,stimulus,egress\n")

    def write(rows: Records) -> None:
        for stimulus, egress, sink in rows.tolist():
            file.write(f"{sinks[sink]},{stimulus:.12f},{egress:.12f}\n")

    return write
