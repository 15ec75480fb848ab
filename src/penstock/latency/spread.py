"""How far off a prediction may be: the same prediction again and again, with what is not known drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from penstock.arrays import Array
from penstock.latency.batching import Recursion
from penstock.latency.carried import Carried
from penstock.latency.estimate import KEYS, Quantiles, Spread
from penstock.latency.probe import Probe, Shown
from penstock.latency.shape import Pace

LOW, HIGH = 0.05, 0.95
"""The interval: in nine of ten cases the truth lies inside."""


def spread_of(rows: Array, sinks: Mapping[str, Array], series: Array) -> Spread:
    """Return the interval of draws.

    Parameters
    ----------
    rows, sinks
        Arrays (draws, 4): worst, p99, p50 and mean (s), of all sinks and by sink.
    series
        Array (draws, periods): worst latency (s) of what enters in each period.
    """

    def pairs(drawn: Array) -> dict[str, tuple[float, float]]:
        low, high = np.quantile(drawn, [LOW, HIGH], axis=0)
        return {key: (float(a), float(b)) for key, a, b in zip(KEYS, low, high, strict=True)}

    low, high = np.quantile(series, [LOW, HIGH], axis=0)
    return Spread(
        draws=len(rows),
        total=pairs(rows),
        sinks={name: pairs(each) for name, each in sinks.items()},
        low=low,
        high=high,
    )


def batch_draws(
    made: Carried, pace: Callable[[int], Pace], count: int, periods: int, *, ends: bool = False
) -> tuple[Array, dict[str, Array], Array]:
    """Follow the batches of a placed network once for each draw; return what `spread_of` takes.

    Parameters
    ----------
    made
        The placed network.
    pace
        What batches take in a draw.
    count
        How many draws.
    periods
        Of the rates.
    ends
        Whether what ends in an operator counts in the whole.
    """
    every = {**made.sinks, **(made.ends if ends else {})}
    probes = {name: [Probe.of(made, inlet, weight) for inlet, weight in ways] for name, ways in every.items()}
    rows, series = np.zeros((count, 4)), np.zeros((count, periods))
    sinks = {name: np.zeros((count, 4)) for name in made.sinks}
    recursion = Recursion(made.shape)
    for k in range(count):
        batches = recursion.run(pace(k))
        seen = []
        for name, ways in probes.items():
            here = [probe.latency(Shown.of(made, batches, probe.inlet), series[k]) for probe in ways]
            if here:
                seen.append(_joined(here))
            if here and name in sinks:
                sinks[name][k] = _summary(*seen[-1])
        if seen:
            rows[k] = _summary(*_joined(seen))
    return rows, sinks, series


def worst_draws(made: Carried, pace: Callable[[int], Pace], count: int, periods: int) -> Array:
    """Return only the series of `batch_draws`: array (draws, periods), the worst latency (s) of what enters in each."""
    probes = [Probe.of(made, inlet, weight) for ways in made.sinks.values() for inlet, weight in ways]
    series, recursion = np.zeros((count, periods)), Recursion(made.shape)
    for k in range(count):
        batches = recursion.run(pace(k))
        for probe in probes:
            probe.worst(Shown.of(made, batches, probe.inlet), series[k])
    return series


def _joined(parts: list[tuple[Array, Array, float]]) -> tuple[Array, Array, float]:
    latency, weight, worst = zip(*parts, strict=True)
    return np.concatenate(latency), np.concatenate(weight), max(worst)


def _summary(latency: Array, weight: Array, worst: float) -> list[float]:
    return [*(Quantiles.of(latency, weight).by_key() | {"worst": worst}).values()]
