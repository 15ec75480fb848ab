"""The busiest part of what was recorded, so that replays stay short."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.advice.values import Deployment

BATCHES = 5000
"""Batches of a query that are replayed at most; of a longer log, the busiest part is."""


def busiest(deployment: Deployment, most: int = BATCHES) -> Deployment:
    """Return the deployment over the busiest part of its rates, such that no query has more than `most` batches."""
    apart = [max(job.trigger, job.overhead, 0.05) for job in deployment.jobs.values()]
    wanted = int(most * min(apart, default=1.0) / deployment.period)
    if wanted >= deployment.periods or wanted < 1:
        return deployment
    load = sum((job.load() for job in deployment.jobs.values()), np.zeros(deployment.periods))
    sums = np.concatenate([[0.0], np.cumsum(load)])
    at = int(np.argmax(sums[wanted:] - sums[:-wanted]))
    jobs = {name: attrs.evolve(job, rates=job.rates[at : at + wanted].copy()) for name, job in deployment.jobs.items()}
    return attrs.evolve(deployment, jobs=jobs, start=deployment.start + at * deployment.period)
