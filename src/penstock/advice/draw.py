"""One possible truth: how far the fits are off, how batches differ, how much of a change comes true."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.advice.values import Job
from penstock.arrays import Array


@attrs.frozen(eq=False)
class Draw:
    """One possible truth.

    Attributes
    ----------
    errors
        By query, how many standard errors its overhead and its cost are from the fit.
    noise
        By query, factors on the seconds of its successive batches.
    share
        How much of a change's uncertain effect comes true, 0 to 1.
    """

    errors: Mapping[str, tuple[float, float]] = attrs.field(factory=dict)
    noise: Mapping[str, Array] = attrs.field(factory=dict)
    share: float = 0.5

    def line(self, job: Job) -> tuple[float, float]:
        """Return overhead and cost of a query (s; s a row)."""
        a, b = self.errors.get(job.known_as, (0.0, 0.0))
        return max(job.overhead + a * job.overhead_error, 0.0), max(job.cost + b * job.cost_error, 0.05 * job.cost)


def drawn(jobs: Mapping[str, Job], rng: np.random.Generator, length: int = 997) -> Draw:
    """Draw a possible truth from the errors of the fits, and the differences between batches of one size."""
    errors, noise = {}, {}
    for name, job in jobs.items():
        errors[name] = (float(rng.standard_normal()), float(rng.standard_normal()))
        noise[name] = np.exp(job.spread * np.clip(rng.standard_normal(length), -3.0, 3.0))
    return Draw(errors, noise, float(rng.random()))
