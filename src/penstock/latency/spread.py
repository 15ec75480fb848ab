"""How far off a prediction may be: the same prediction again and again, with what is not known drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.latency.batching import Recursion
from penstock.latency.carried import Carried
from penstock.latency.estimate import KEYS, Quantiles, Spread
from penstock.latency.shape import Batches, Pace

LOW, HIGH = 0.05, 0.95
"""The interval: in nine of ten cases the truth lies inside."""

PROBES = 400
"""Points of a root that stand for all of its points at a sink, where quantiles are taken."""


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
    made: Carried, pace: Callable[[int], Pace], count: int, periods: int
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
    """
    probes = {name: [_Probe.of(made, inlet, weight) for inlet, weight in ways] for name, ways in made.sinks.items()}
    rows, series = np.zeros((count, 4)), np.zeros((count, periods))
    sinks = {name: np.zeros((count, 4)) for name in probes}
    recursion = Recursion(made.shape)
    for k in range(count):
        batches = recursion.run(pace(k))
        seen = []
        for name, ways in probes.items():
            here = [probe.latency(_Shown.of(made, batches, probe.inlet), series[k]) for probe in ways]
            if here:
                joined = _joined(here)
                sinks[name][k] = attrs.astuple(_summary(*joined))
                seen.append(joined)
        if seen:
            rows[k] = attrs.astuple(_summary(*_joined(seen)))
    return rows, sinks, series


def worst_draws(made: Carried, pace: Callable[[int], Pace], count: int, periods: int) -> Array:
    """Return only the series of `batch_draws`: array (draws, periods), the worst latency (s) of what enters in each."""
    probes = [_Probe.of(made, inlet, weight) for ways in made.sinks.values() for inlet, weight in ways]
    series, recursion = np.zeros((count, periods)), Recursion(made.shape)
    for k in range(count):
        batches = recursion.run(pace(k))
        for probe in probes:
            probe.worst(_Shown.of(made, batches, probe.inlet), series[k])
    return series


def _joined(parts: list[tuple[Array, Array, float]]) -> tuple[Array, Array, float]:
    latency, weight, worst = zip(*parts, strict=True)
    return np.concatenate(latency), np.concatenate(weight), max(worst)


def _summary(latency: Array, weight: Array, worst: float) -> Quantiles:
    return attrs.evolve(Quantiles.of(latency, weight), worst=worst)


@attrs.frozen(eq=False)
class _Shown:
    """When the points of an inlet show: by batch of its query from and up to which point, start and visible (s)."""

    before: NDArray[np.int64]
    upto: NDArray[np.int64]
    begin: Array
    visible: Array
    progressive: bool

    @classmethod
    def of(cls, made: Carried, batches: Batches, inlet: int) -> _Shown:
        query = made.inlets[inlet].query
        mine = batches.of(query)
        upto = batches.upto[mine, inlet - made.shape.inlet_first[query]]
        before = np.concatenate([[0], upto[:-1]]) if upto.size else upto
        return cls(before, upto, batches.start[mine], batches.visible[mine], made.shape.progressive)

    @property
    def last(self) -> int:
        """How many points there are."""
        return int(self.upto[-1]) if self.upto.size else 0

    def when(self, points: NDArray[np.int64]) -> Array:
        """Return when points show (s)."""
        batch = np.searchsorted(self.upto, points, side="right")
        seen = self.visible[batch]
        if self.progressive:
            done = (points + 1 - self.before[batch]) / (self.upto[batch] - self.before[batch])
            seen = self.begin[batch] + (seen - self.begin[batch]) * done
        return seen


@attrs.frozen(eq=False)
class _Probe:
    """Points of a root that stand for the others at a sink: evenly chosen ones, and the first of each segment."""

    inlet: int
    times: Array
    period: NDArray[np.int64]
    segment: NDArray[np.int64]
    flows: NDArray[np.bool_]
    points: NDArray[np.int64]
    weight: Array
    first: NDArray[np.int64]

    @classmethod
    def of(cls, made: Carried, inlet: int, weight: Array) -> _Probe:
        root = made.roots[made.inlets[inlet].root]
        size = root.times.size
        segment = np.repeat(np.arange(len(root.period)), np.diff(root.edge))
        edges = np.linspace(0, size, min(size, PROBES) + 1).astype(np.int64)
        sums = np.interp(edges, root.edge, root.sums(weight)) if size else np.zeros(1)
        full = np.flatnonzero((np.diff(root.edge) > 0) & (weight > 0))
        points = (edges[:-1] + edges[1:]) // 2
        return cls(inlet, root.times, root.period, segment, weight > 0, points, np.diff(sums), root.edge[full])

    def latency(self, shown: _Shown, series: Array) -> tuple[Array, Array, float]:
        """Return latencies (s) and weights of the probes and the worst of all; the series gets the worst by period."""
        worst = self.worst(shown, series)
        there = self.points < shown.last
        points = self.points[there]
        return shown.when(points) - self.times[points], self.weight[there], worst

    def worst(self, shown: _Shown, series: Array) -> float:
        """Return the worst latency (s); the series gets the worst by period."""
        full = shown.upto > shown.before
        # Latency falls within a batch: the worst is that of a batch's first point, or a segment's.
        edges = [shown.before[full], self.first]
        if shown.progressive:
            edges.append(shown.upto[full] - 1)
        ends = np.concatenate(edges)
        ends = ends[ends < shown.last]
        segment = self.segment[ends]
        flows = self.flows[segment]
        ends, segment = ends[flows], segment[flows]
        late = shown.when(ends) - self.times[ends]
        np.maximum.at(series, np.clip(self.period[segment], 0, series.size - 1), late)
        return float(late.max(initial=0.0))
