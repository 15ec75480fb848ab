"""``source``: what several queries of a driver read twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs
import numpy as np

from penstock.advice.values import Aims, Deployment, Job, Proposal
from penstock.units import human

SHARED = re.compile(r"^(Kafka|FileStreamSource|Delta|Kinesis|EventHubs|Pulsar|Iceberg|CloudFiles)", re.IGNORECASE)
"""Sources that several queries can read as one: a topic, a folder."""

ALIKE = 0.2
"""Rates that differ by at most this share of their sum are those of one source."""

WORK_MOST = 0.3
"""Of the rows' cost, the share that reading may be."""


def source(deployment: Deployment, aims: Aims) -> Iterator[Proposal]:
    """Propose one query for several of a driver that read the same source, with one sink each in ``foreachBatch``.

    Only of queries without state: in ``foreachBatch`` a batch is a table of its own, and knows nothing of those before.
    One batch then pays the overhead once: that of the most costly query. How much of a row's cost is reading cannot be
    told, so between nothing and `WORK_MOST` of the others' costs is taken to be saved.
    """
    groups: dict[tuple[str, str, float], list[Job]] = {}
    for job in deployment.jobs.values():
        told = job.facts.reads
        if not job.advisable or job.facts.stateful:
            continue
        if len(told) == 1 and (SHARED.match(told[0]) or "[" not in told[0]) and np.isinf(job.limit):
            groups.setdefault((job.driver, told[0], job.trigger), []).append(job)
    for (driver, reads, trigger), jobs in groups.items():
        first = jobs[0]
        jobs = [job for job in jobs if _alike(job, first)]
        if len(jobs) < 2:
            continue
        names = tuple(job.name for job in jobs)
        after, least = (_joined(deployment, jobs, share) for share in (WORK_MOST, 0.0))
        overhead = sum(job.overhead for job in jobs) - max(job.overhead for job in jobs)
        cores = sum(job.cores * job.tasks for job in jobs) / len(jobs)
        pace = max(trigger, max(job.overhead for job in jobs), 1e-3)
        yield Proposal(
            kind="source",
            query=",".join(names),
            setting="foreachBatch",
            old=f"{len(jobs)} queries that read {_short(reads)}",
            new="one query with a sink for each",
            why=f"{len(jobs)} queries of driver {driver} read {_short(reads)}; as one they would save "
            f"{human(overhead)} of overhead a batch and read every row once",
            after=after,
            least=least,
            about=names,
            becomes=(",".join(names),),
            saves=cores * overhead / pace if trigger else 0.0,
            remark="persist each batch before the first sink; the sinks then succeed or fail together",
        )


def _alike(job: Job, first: Job) -> bool:
    apart = np.abs(job.rates - first.rates).sum()
    return bool(apart <= ALIKE * max(job.rates.sum(), first.rates.sum(), 1e-9)) and job.rate > 0


def _joined(deployment: Deployment, jobs: list[Job], saved: float) -> Deployment:
    most = max(jobs, key=lambda job: job.cost)
    rest = sum(job.cost for job in jobs) - most.cost
    name = ",".join(job.name for job in jobs)
    joined = attrs.evolve(
        most,
        name=name,
        origin=most.known_as,
        overhead=max(job.overhead for job in jobs),
        cost=most.cost + (1 - saved) * rest,
        cores=max(job.cores for job in jobs),
        weight=sum(job.weight for job in jobs),
        progressive=False,
    )
    left = {other: job for other, job in deployment.jobs.items() if job not in jobs}
    return attrs.evolve(deployment, jobs={**left, name: joined})


def _short(reads: str) -> str:
    return reads if len(reads) <= 60 else reads[:59] + "…"
