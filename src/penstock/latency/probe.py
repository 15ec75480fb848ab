"""When what queries read shows, at the points of a root that stand for all."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.latency.carried import Carried
from penstock.latency.shape import Batches

PROBES = 400
"""Points of a root that stand for all of its points at a sink, where quantiles are taken."""


@attrs.frozen(eq=False)
class Shown:
    """When the points of an inlet show: by batch of its query from and up to which point, start and visible (s)."""

    before: NDArray[np.int64]
    upto: NDArray[np.int64]
    begin: Array
    visible: Array
    progressive: bool

    @classmethod
    def of(cls, made: Carried, batches: Batches, inlet: int) -> Shown:
        """Return how an inlet was read by batches."""
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
class Probe:
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
    def of(cls, made: Carried, inlet: int, weight: Array) -> Probe:
        """Choose points of an inlet's root, evenly over what weighs."""
        root = made.roots[made.inlets[inlet].root]
        size = root.times.size
        segment = np.repeat(np.arange(len(root.period)), np.diff(root.edge))
        edges = np.linspace(0, size, min(size, PROBES) + 1).astype(np.int64)
        sums = np.interp(edges, root.edge, root.sums(weight)) if size else np.zeros(1)
        full = np.flatnonzero((np.diff(root.edge) > 0) & (weight > 0))
        points = (edges[:-1] + edges[1:]) // 2
        return cls(inlet, root.times, root.period, segment, weight > 0, points, np.diff(sums), root.edge[full])

    def latency(self, shown: Shown, series: Array) -> tuple[Array, Array, float]:
        """Return latencies (s) and weights of the probes and the worst of all; the series gets the worst by period."""
        worst = self.worst(shown, series)
        there = self.points < shown.last
        points = self.points[there]
        return shown.when(points) - self.times[points], self.weight[there], worst

    def worst(self, shown: Shown, series: Array) -> float:
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
