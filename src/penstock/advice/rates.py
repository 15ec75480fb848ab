"""A deployment under other rates than the recorded ones."""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.advice.values import Deployment

FINE = 10
"""Steps that a burst has at least."""


def grown(deployment: Deployment, factor: float) -> Deployment:
    """Return the deployment with all rates times a factor."""
    jobs = {
        name: attrs.evolve(job, rates=job.rates * factor, usual=job.rate * factor, waiting=job.waiting * factor)
        for name, job in deployment.jobs.items()
    }
    return attrs.evolve(deployment, jobs=jobs)


def with_burst(deployment: Deployment, factor: float, length: float) -> Deployment:
    """Return the deployment with a burst behind its rates: every query's mean rate times a factor, then as long again
    its mean rate.

    Parameters
    ----------
    length
        Of the burst (s).
    """
    parts = math.ceil(FINE * deployment.period / length)
    period = deployment.period / parts
    steps = round(length / period)
    jobs = {}
    for name, job in deployment.jobs.items():
        usual = np.full(steps, job.rate)
        rates = np.concatenate([np.repeat(job.rates, parts), factor * usual, usual])
        jobs[name] = attrs.evolve(job, rates=rates, usual=job.rate)
    return attrs.evolve(deployment, jobs=jobs, period=period, recorded=parts * deployment.periods)
