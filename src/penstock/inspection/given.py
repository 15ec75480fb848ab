"""How long batches take where it is known about what their rows cost: the fit is drawn towards that."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array
from penstock.inspection.fitted import Fit
from penstock.inspection.regression import start, weights

NOISE, ALREADY = 0.1, 4
"""Relative standard deviation of batches of the same size before any is seen, and as how many batches that counts."""

FEW = 1.5
"""Factor on errors: with as few batches as a fit of late has, they come out too small, by as much in simulated ones."""

FAR = 3.0
"""Standard deviations beyond which a cost that is given seems to be of another machine, and counts less."""


def fit_given(sizes: Array, seconds: Array, doubt: float) -> Fit:
    """Fit ``seconds = overhead + factor · size``, of which the factor is about 1 before any batch is seen.

    What batches of about the same size cannot tell apart, the given costs do: overhead is then what they leave. Batches
    of different sizes outweigh them. The estimate is that of least squares with one more observation, of the factor
    (Bayesian, with a prior of Cauchy's shape), reweighted by Tukey's biweight; neither part is negative.

    Parameters
    ----------
    sizes
        Seconds that each batch should take by the costs that are given, shape ``(batches,)``, positive.
    seconds
        What each took, less than which no batch can, shape ``(batches,)``.
    doubt
        Relative standard deviation of the given costs.

    Examples
    --------
    >>> alike = fit_given(np.full(9, 0.3), np.full(9, 0.5), 0.3)
    >>> round(alike.overhead, 6), round(alike.cost, 6)
    (0.2, 1.0)
    >>> told = fit_given(np.linspace(0.1, 2, 20), 0.1 + 1.5 * np.linspace(0.1, 2, 20), 0.3)
    >>> round(told.overhead, 1), round(told.cost, 1)
    (0.1, 1.5)
    """
    count = sizes.size
    overhead, factor = max(0.0, float(np.median(seconds - sizes))), 1.0
    # Costs that are far off fit badly, which is no noise.
    least = weights(sizes, seconds, *start(sizes, seconds))[1]
    for _ in range(100):
        before = overhead, factor
        weight, scale = weights(sizes, seconds, overhead, factor)
        noise = float(np.sqrt((count * min(scale, least) ** 2 + ALREADY * NOISE**2) / (count + ALREADY)))
        weight = weight / (FEW * noise) ** 2
        prior = 1 / (doubt**2 + ((factor - 1) / FAR) ** 2)
        precision = np.array([[weight.sum(), weight @ sizes], [weight @ sizes, weight @ sizes**2 + prior]])
        known = np.array([weight @ seconds, weight @ (sizes * seconds) + prior])
        overhead, factor = (float(each) for each in np.linalg.solve(precision, known))
        if overhead < 0:
            overhead, factor = 0.0, float(known[1] / precision[1, 1])
        factor = max(0.0, factor)
        if abs(overhead - before[0]) + abs(factor - before[1]) < 1e-9:
            break
    overhead_error, factor_error = np.sqrt(np.diag(np.linalg.inv(precision)))
    return Fit(
        batches=count, typical=float(np.median(seconds)), overhead=overhead, overhead_error=float(overhead_error),
        cost=factor, cost_error=float(factor_error), spread=noise,
    )  # fmt: skip
