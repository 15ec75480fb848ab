"""``hosts``: how many cores a driver needs."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from penstock.advice.kinds.common import known, on_driver
from penstock.advice.replay import replay
from penstock.advice.values import Aims, Deployment, Job, Proposal

FILLED = 0.75
"""A query that keeps this share of its driver's cores busy would use more of them."""

MOST = 8
"""Times the present cores up to which is searched."""

PARALLEL = 0.7
"""Of the ideal gain of a further core, the share that is taken as the least."""

SPARE = 0.8
"""With fewer cores than now the latency must stay within this share of the bound."""


def hosts(deployment: Deployment, aims: Aims) -> Iterator[Proposal]:
    """Propose the least cores with which every query of a driver keeps the bound.

    More cores help queries that run at once, and the rows of a query that fills those that there are: their cost falls
    by the share of the cores, the overhead stays. Without a bound nothing is proposed.
    """
    if aims.latency is None:
        return
    for driver, cores in deployment.drivers.items():
        if not known(deployment, driver):
            continue
        here = on_driver(deployment, driver)
        kept = _keeps(here, aims.latency)
        choices = range(1, int(np.ceil(cores))) if kept else range(int(cores) + 1, int(MOST * cores) + 1)
        bound = SPARE * aims.latency if kept else aims.latency
        new = next((count for count in choices if _keeps(with_cores(here, driver, count), bound)), None)
        if new is None:
            continue
        after = with_cores(deployment, driver, new)
        least = with_cores(deployment, driver, new, PARALLEL) if new > cores else None
        yield Proposal(
            kind="hosts",
            query=",".join(here.jobs),
            setting="cores",
            old=cores,
            new=float(new),
            unit="cores",
            why=f"with {_cores(new)}{'' if kept else ', if each helps in full,'} every query of the driver keeps "
            f"within {aims.latency:g} s; with {cores:.3g} " + ("there is room to spare" if kept else "one does not"),
            after=after,
            least=least,
            about=tuple(here.jobs),
            saves=cores - new,
            remark="" if kept else "the source needs at least as many partitions, or the cores stay idle",
        )


def _cores(count: int) -> str:
    return "one core" if count == 1 else f"{count} cores"


def _keeps(deployment: Deployment, bound: float) -> bool:
    return all(rows.latency.worst <= bound for rows in replay(deployment).values())


def with_cores(deployment: Deployment, driver: str, cores: float, share: float = 1.0) -> Deployment:
    """Return the deployment with another number of cores for a driver.

    Parameters
    ----------
    share
        Which share of the ideal gain comes true where cores are added.
    """
    old = deployment.drivers[driver]

    def changed(job: Job) -> Job:
        filled = job.cores >= FILLED * old
        if job.driver != driver or not (filled or job.cores > cores):
            return job
        wanted = cores if filled else min(job.cores, cores)
        ratio = job.cores / wanted
        part = 1 + share * (ratio - 1) if ratio < 1 else ratio
        return attrs.evolve(job, cost=job.cost * part, cost_error=job.cost_error * part, cores=wanted)

    jobs = {name: changed(job) for name, job in deployment.jobs.items()}
    return attrs.evolve(deployment, jobs=jobs, drivers={**deployment.drivers, driver: float(cores)})
