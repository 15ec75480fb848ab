"""Several independent runs, and what they say together."""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

import attrs
import numpy as np

from penstock.cluster import Cluster
from penstock.network import Network
from penstock.simulation.options import Arrivals, Options, Recording
from penstock.simulation.passing import packed, unpacked
from penstock.simulation.result import SimulationResult
from penstock.simulation.run import simulate
from penstock.workload import Rates


@attrs.frozen(eq=False)
class Job:
    """A run that differs from its siblings by its seed only; it can be pickled."""

    network: Network
    cluster: Cluster
    placement: Mapping[str, str]
    arrivals: Rates | Arrivals
    options: Options = attrs.field(factory=Options)

    def run(self, seed: int, record: Recording | None = None) -> SimulationResult:
        """Simulate with a seed."""
        options = attrs.evolve(self.options, seed=seed)
        return simulate(self.network, self.cluster, dict(self.placement), self.arrivals, options, record=record)

    def packed(self, result: SimulationResult) -> bytes:
        """Return a result as data that another process can send back."""
        return packed(result)

    def unpacked(self, content: bytes) -> SimulationResult:
        """Return the result that another process has sent."""
        return unpacked(content)


@attrs.frozen(eq=False)
class _Task:
    job: Job

    def __call__(self, seed: int) -> SimulationResult:
        return self.job.run(seed)


def repeat(job: Job, seeds: Sequence[int], workers: int | None = None) -> Iterator[SimulationResult]:
    """Yield the results of independent runs, in the order of the seeds.

    Parameters
    ----------
    job
        What to run.
    seeds
        One per run.
    workers
        Processes; None: one per usable core; 1: this process.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(workers or usable, len(seeds))
    if count <= 1:
        yield from map(job.run, seeds)
        return
    # Processes that start afresh inherit no threads, whatever the caller has started.
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_Task(job), seeds)


def summary(results: Iterable[SimulationResult], confidence: float = 0.95) -> dict[str, dict[str, float]]:
    """Return mean and confidence interval of the latencies' mean, p50, p99 and max over runs.

    Returns
    -------
    dict
        By statistic: ``mean``, ``low`` and ``high`` (Student's t over the runs; nan for a single run).
    """
    from scipy.stats import t

    runs = [dict(result.latency) for result in results]
    found = {}
    for key in ("mean", "p50", "p99", "max"):
        values = np.array([run[key] for run in runs])
        half = math.nan
        if len(values) > 1:
            half = float(t.ppf((1 + confidence) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
        mean = float(values.mean())
        found[key] = {"mean": mean, "low": mean - half, "high": mean + half}
    return found
