"""What Spark's micro-batches do to latency: a recursion over batches and hosts.

A batch of a query starts at the later of the end of the previous one and the next multiple of the trigger after its
start; without new input it waits for a later multiple. It takes what is visible at its start, lasts
``overhead + factor · Σ tuples · cost`` (without input, to end windows, ``idle``) where it has its host for itself, and
its output becomes visible at its end (less the commit), at sinks and in the logs that other queries read; however short
it is, not to batches that start with it. Queries of
one host share its time: the fixed parts of their batches and the tasks of one go on side by side, the tasks of others
wait for their turn; hosts that are more than their machine has cores share these. Left out: how batches of one size
differ from each other, garbage collection, and what queries take from each other's caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.latency.batching import Recursion
from penstock.latency.carried import Carried
from penstock.latency.estimate import Quantiles
from penstock.latency.fragments import Fragment
from penstock.latency.shape import Batches, Pace

READING, COMMIT = 0.0012, 0.010
"""Seconds from a batch's start until it sees its input, and from the output's becoming visible to the batch's end."""


@attrs.frozen(eq=False)
class BatchEstimate:
    """One predicted batch: times in s from the beginning of the rates, ``load`` in benchmark-core seconds."""

    query: str
    start: float
    duration: float
    load: float


@attrs.frozen(eq=False)
class MicrobatchResult:
    """Predicted batches, and per sink when tuples enter (s), their latency (s) and weight (tuples).

    ``ends`` has the same of tuples that end in an operator, where nobody measures them.
    """

    batches: tuple[BatchEstimate, ...]
    sinks: Mapping[str, tuple[Array, Array, Array]]
    ends: Mapping[str, tuple[Array, Array, Array]] = attrs.field(factory=dict)

    def with_ends(self) -> MicrobatchResult:
        """Return the same with what ends in an operator beside what reaches sinks."""
        return attrs.evolve(self, sinks={**self.sinks, **self.ends})

    def whole(self) -> tuple[Array, Array, Array]:
        """Return stimulus, latency and weight over all sinks."""
        parts = [self.sinks[name] for name in sorted(self.sinks)]
        if not parts:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        stimulus, latency, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        return stimulus, latency, weight

    def quantiles(self) -> Quantiles:
        """Summarise the latency over all sinks."""
        return Quantiles.of(*self.whole()[1:])

    def worst(self, period: float, periods: int) -> Array:
        """Return the worst latency (s) of what enters in each period (s), array (periods,)."""
        stimulus, latency, weight = self.whole()
        series, there = np.zeros(periods), weight > 0
        place = np.clip((stimulus[there] / period + 1e-9).astype(np.int64), 0, periods - 1)
        np.maximum.at(series, place, latency[there])
        return series


def predicted(made: Carried, fragments: Sequence[Fragment], pace: Pace, factors: Sequence[float]) -> MicrobatchResult:
    """Return the batches of a placed network, and what they make of its sinks' latencies.

    Parameters
    ----------
    made
        The placed network.
    pace
        What batches take.
    factors
        By host: the factors that are in it.
    """
    batches = Recursion(made.shape).run(pace)
    names = [fragment.name for fragment in fragments]
    load = batches.work / np.asarray(factors)[made.shape.host[batches.query]]
    columns = (batches.query, batches.start, batches.end - batches.start, load)
    told = tuple(
        BatchEstimate(names[query], start, duration, work)
        for query, start, duration, work in zip(*(column.tolist() for column in columns), strict=True)
    )
    sinks, ends = (
        {name: arrived(made, batches, ways) for name, ways in each.items()} for each in (made.sinks, made.ends)
    )
    return MicrobatchResult(told, sinks, ends)


def arrived(made: Carried, batches: Batches, ways: Sequence[tuple[int, Array]]) -> tuple[Array, Array, Array]:
    """Return when the tuples of a sink enter (s), their latency (s) and weight."""
    shape = made.shape
    start, visible_at = batches.start, batches.visible
    found = [(np.zeros(0),) * 3]
    for inlet, weight in ways:
        query, root = made.inlets[inlet].query, made.roots[made.inlets[inlet].root]
        mine = batches.of(query)
        upto = batches.upto[mine, inlet - shape.inlet_first[query]]
        points = np.arange(int(upto[-1]) if upto.size else 0)
        batch = mine[np.searchsorted(upto, points, side="right")]
        stimulus = root.times[points]
        visible = visible_at[batch]
        if shape.progressive:
            shown = _shown(made, batches, ways, query, stimulus, batch)
            visible = start[batch] + (visible - start[batch]) * shown
        segment = np.repeat(np.arange(len(root.period)), np.diff(root.edge))[points]
        found.append((stimulus, visible - stimulus, weight[segment]))
    stimulus, latency, weights = (np.concatenate(column) for column in zip(*found, strict=True))
    return stimulus, latency, weights


def _shown(
    made: Carried,
    batches: Batches,
    ways: Sequence[tuple[int, Array]],
    query: int,
    stimulus: Array,
    batch: NDArray[np.int64],
) -> Array:
    """Return which share of its batch's output at a sink has appeared with each tuple, the oldest stimulus first."""
    mine = batches.of(query)
    shown, total = np.zeros(stimulus.size), np.zeros(stimulus.size)
    number = np.searchsorted(mine, batch)
    for inlet, weight in ways:
        root = made.roots[made.inlets[inlet].root]
        local = inlet - made.shape.inlet_first[query]
        upto = np.concatenate([[0], batches.upto[mine, local]])
        sums = np.interp(np.arange(root.times.size + 1), root.edge, root.sums(weight))
        low, high = upto[number], upto[number + 1]
        at = np.clip(np.searchsorted(root.times, stimulus, side="right"), low, high)
        shown += sums[at] - sums[low]
        total += sums[high] - sums[low]
    return shown / np.maximum(total, 1e-300)
