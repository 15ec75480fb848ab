"""How far off a prediction may be: the same prediction again and again, with what is not known drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.latency.batching import Recursion
from penstock.latency.carried import Carried
from penstock.latency.estimate import KEYS, Quantiles, Spread
from penstock.latency.shape import Batches, Pace

Array = NDArray[np.float64]

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
            here = [probe.latency(made, batches, series[k]) for probe in ways]
            if here:
                joined = _joined(here)
                sinks[name][k] = attrs.astuple(_summary(*joined))
                seen.append(joined)
        if seen:
            rows[k] = attrs.astuple(_summary(*_joined(seen)))
    return rows, sinks, series


def _joined(parts: list[tuple[Array, Array, float]]) -> tuple[Array, Array, float]:
    latency, weight, worst = zip(*parts, strict=True)
    return np.concatenate(latency), np.concatenate(weight), max(worst)


def _summary(latency: Array, weight: Array, worst: float) -> Quantiles:
    return attrs.evolve(Quantiles.of(latency, weight), worst=worst)


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

    def latency(self, made: Carried, batches: Batches, series: Array) -> tuple[Array, Array, float]:
        """Return latencies (s) and weights of the probes and the worst of all; the series gets the worst by period."""
        query = made.inlets[self.inlet].query
        mine, local = batches.of(query), self.inlet - made.shape.inlet_first[query]
        upto, visible, begin = batches.upto[mine, local], batches.visible[mine], batches.start[mine]
        last = int(upto[-1]) if upto.size else 0
        before = np.concatenate([[0], upto[:-1]]) if upto.size else upto

        def late(points: NDArray[np.int64]) -> Array:
            batch = np.searchsorted(upto, points, side="right")
            seen = visible[batch]
            if made.shape.progressive:
                done = (points + 1 - before[batch]) / (upto[batch] - before[batch])
                seen = begin[batch] + (seen - begin[batch]) * done
            return np.asarray(seen - self.times[points])

        there = self.points < last
        # Latency falls within a batch: the worst is that of a batch's first point, or a segment's.
        edges = [before[upto > before], self.first]
        if made.shape.progressive:
            edges.append(upto[upto > before] - 1)
        ends = np.concatenate(edges)
        ends = ends[ends < last]
        ends = ends[self.flows[self.segment[ends]]]
        worst = late(ends)
        inside = np.clip(self.period[self.segment[ends]], 0, series.size - 1)
        np.maximum.at(series, inside, worst)
        return late(self.points[there]), self.weight[there], float(worst.max(initial=0.0))
