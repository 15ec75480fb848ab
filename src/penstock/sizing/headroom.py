"""Headroom: by which factor the rates can grow before a latency bound is missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np

from penstock.errors import TooLong
from penstock.latency.waits import linear
from penstock.load import LoadModel, load_model
from penstock.workload import Rates

MOST = 1e6
"""A factor from which on the bound counts as never missed."""


def rescaled(model: LoadModel, factors: Mapping[str, float]) -> LoadModel:
    """Return the load model with the rates of some sources times a factor."""
    column = np.array([factors.get(name, 1.0) for name in model.rates.sources])
    values = model.rates.values * column[:, None]
    rates = Rates.of(model.period, dict(zip(model.rates.sources, values, strict=True)), model.rates.start)
    if not linear(model):
        return load_model(model.network, rates)
    return attrs.evolve(
        model, rates=rates, arrivals=model.stream_coefficients @ values, load=model.coefficients @ values
    )


def headroom(
    model: LoadModel, bound: float, worst: Callable[[LoadModel], float], *, error: float = 1e-6
) -> tuple[float | None, dict[str, float | None]]:
    """Return the largest factor on all rates, and on those of each source alone, that keeps the bound.

    By bisection on the latency model itself. Below 1: the bound is missed already, and rates would have to fall.

    Parameters
    ----------
    bound
        Latency (s).
    worst
        The latency model: worst latency (s) of a load model. Where it refuses a backlog as too long, the bound is
        missed.
    error
        Relative error of the factors.

    Returns
    -------
    factor, dict
        Together, and by source; None where no factor misses the bound, 0 where none keeps it.
    """

    def largest(names: tuple[str, ...]) -> float | None:
        def keeps(factor: float) -> bool:
            try:
                return worst(rescaled(model, dict.fromkeys(names, factor))) <= bound + 1e-9
            except TooLong:
                return False

        if not model.rates.values[[model.rates.sources.index(name) for name in names]].any():
            return None
        low, high = 0.0, 1.0
        if keeps(high):
            while keeps(2 * high):
                high *= 2
                if high > MOST:
                    return None
            low, high = high, 2 * high
        elif not keeps(0.0):
            return 0.0
        while high - low > error * high and high > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if keeps(middle) else (low, middle)
        return low

    sources = model.rates.sources
    return largest(sources), {name: largest((name,)) for name in sources}
