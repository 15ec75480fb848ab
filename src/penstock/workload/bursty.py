"""The bursty workloads of Chandramouli et al. (section IX): events of a source, and operators by the hundred."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EDGES = np.linspace(0.2, 2.0, 21)
"""Of the twenty ranges of selectivity."""


def zipf(count: int, power: float) -> Floats:
    """Return the probabilities of Zipf's law."""
    share = np.arange(1, count + 1) ** -power
    return np.asarray(share / share.sum())


class Drawn(NamedTuple):
    """The workload before it is scaled to a level.

    Array (5, periods) of the sources' rates, 1 or 10; arrays (operators,) of the source that each operator reads,
    whether it is high when the source is low, and the factor on its load.
    """

    sources: Floats
    reader: NDArray[np.int64]
    against: NDArray[np.bool_]
    selectivity: Floats

    def loads(self, mean: float) -> Floats:
        """Return the load of the operators, array (operators, periods), of so much in all in the mean."""
        series = np.where(self.against[:, None], 11.0 - self.sources[self.reader], self.sources[self.reader])
        load = series * self.selectivity[:, None]
        return np.asarray(load * (mean / load.mean(axis=1).sum()))


def draw(operators: int, rng: np.random.Generator, periods: int) -> Drawn:
    """Draw the workload of Figure 12: bursty sources, and operators that read one of them."""
    sources = np.empty((5, periods))
    for row in sources:
        at, high = 0, bool(rng.random() < 0.2)
        while at < periods:
            span = max(1, round(rng.exponential(5 if high else 20)))
            row[at : at + span] = 10.0 if high else 1.0
            at, high = at + span, not high
    reader = rng.choice(5, operators, p=zipf(5, 1.0))
    against = rng.random(operators) < 0.1
    low = rng.choice(20, operators, p=zipf(20, 1.5))
    return Drawn(sources, reader, against, rng.uniform(EDGES[low], EDGES[low + 1]))


def events(count: int, rng: np.random.Generator, high: float = 600.0) -> Floats:
    """Return the times (s) of events of the paper's on-off load: rates 100 to 1, durations 1 to 3, both exponential."""
    times: list[Floats] = []
    at, made, busy = 0.0, 0, False
    while made < count:
        span = float(rng.exponential(12.0 if busy else 36.0))
        rate = high if busy else high / 100
        gaps = rng.exponential(1 / rate, int(2 * span * rate) + 20).cumsum()
        inside = at + gaps[gaps < span]
        times.append(inside)
        at, made, busy = at + span, made + inside.size, not busy
    return np.concatenate(times)[:count]
