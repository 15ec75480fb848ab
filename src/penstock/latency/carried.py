"""What each query of a placed network gets from each source and window, as `penstock.latency.batching` reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from penstock.arrays import Array, Ints
from penstock.latency.event_time import event_time, first_of, groups_of, homes, ints, lateness_of, outside
from penstock.latency.fragments import Fragment
from penstock.latency.shape import Shape
from penstock.load import LoadModel, growth_factor
from penstock.network import Operator, Stream

POINTS = 2e6
"""Points that stand for the tuples of all sources, at most; then a point is several tuples."""


@attrs.frozen(eq=False)
class Root:
    """Where tuples come from: a source, or an operator that puts out windows.

    Attributes
    ----------
    times, ends
        Array (points,): stimulus times (s), and for windows their ends.
    edge
        Array (segments + 1,): the first point of each segment, in which all points weigh the same.
    period
        Array (segments,): the period of the rates in which it lies.
    step
        Of windows the seconds from one to the next; else 0.
    """

    times: Array
    ends: Array
    edge: Ints
    period: Ints
    step: float = 0.0

    def sums(self, weight: Array) -> Array:
        """Return the sums by segment, from 0, of the weights of points, given by segment."""
        return np.concatenate([[0.0], np.cumsum(weight * np.diff(self.edge))])


@attrs.frozen(eq=False)
class Inlet:
    """A root as it reaches a query along one way: by a feed, or its own windows; ``parent``: at the query before."""

    query: int
    root: int
    feed: int
    parent: int
    weight: Array
    late: float = 0.0


@attrs.define(eq=False)
class Carried:
    """A placed network as the recursion reads it, and how its sinks are fed.

    Attributes
    ----------
    shape
        The arrays.
    roots, inlets
        In the order of the arrays.
    work
        By inlet and operator (a row of the model): benchmark-core seconds that the points make, by segment from 0,
        summed.
    sinks
        By sink: inlets of the query that feeds it, and by segment the weight of their points there.
    ends
        By operator in which points end (`LoadModel.ends`), likewise.
    hosts
        In the order of the arrays.
    """

    shape: Shape
    roots: list[Root]
    inlets: list[Inlet]
    work: list[dict[int, Array]]
    sinks: Mapping[str, list[tuple[int, Array]]]
    ends: Mapping[str, list[tuple[int, Array]]]
    hosts: list[str]

    def seconds(self, factor: Sequence[float] | Array, cost: Array | None = None) -> Array:
        """Return the seconds that the points of inlets take, by segment from 0, summed; one inlet after another.

        Parameters
        ----------
        factor
            By host.
        cost
            Array (operators,): what each operator's cost is of the model's.
        """
        first, host = self.shape.inlet_work, self.shape.host
        found = np.zeros(first[-1])
        for number, (inlet, rows) in enumerate(zip(self.inlets, self.work, strict=True)):
            total = found[first[number] : first[number + 1]]
            for operator, sums in rows.items():
                total += sums if cost is None else cost[operator] * sums
            total *= factor[host[inlet.query]]
        return found


def carried(
    model: LoadModel,
    fragments: Sequence[Fragment],
    *,
    progressive: bool = False,
    keep: Mapping[str, float | Array] | None = None,
    machines: Mapping[str, tuple[Sequence[str], float]] | None = None,
    points: float = POINTS,
) -> Carried:
    """Say what reaches the queries of a placed network, and what work it makes.

    Parameters
    ----------
    model
        The load model: rates, costs, selectivities.
    fragments
        The streaming queries.
    progressive
        Whether output appears evenly during a batch (Kafka) rather than at its end (directory).
    keep
        Keep fractions by stream: fixed, or one per period of the rates for what enters in it.
    machines
        By name: hosts that share a machine, and on how many cores. Every other host has its own.
    points
        How many points stand for the tuples of all sources, at most.
    """
    return _Builder(model, fragments, keep or {}, points).built(progressive, machines or {})


class _Builder:
    """Goes over the operators in topological order."""

    def __init__(
        self, model: LoadModel, fragments: Sequence[Fragment], keep: Mapping[str, float | Array], points: float
    ) -> None:
        self.model, self.network, self.fragments = model, model.network, fragments
        self.keep = {name: np.asarray(share, float) for name, share in keep.items()}
        self.late = lateness_of(model.network)
        self.home = homes(fragments)
        self.streams = {stream.name: stream for stream in model.network.streams}
        self.roots: list[Root] = []
        self.named: dict[str, int] = {}
        grain = max(1.0, float(model.rates.values.sum() * model.period) / points)
        # By writer: its inlets, and what each of their points weighs there, by segment.
        self.out: dict[str, dict[int, Array]] = {}
        self.ended: dict[str, list[tuple[int, Array]]] = {}
        self.inlets: list[Inlet] = []
        self.work: dict[tuple[int, int], Array] = {}
        self.feeds: dict[tuple[int, str], int] = {}
        for position, source in enumerate(model.rates.sources):
            self.named[source] = len(self.roots)
            self.roots.append(_source(model.rates.values[position], model.period, grain))
        self.grain = grain
        for name in self.network.operators:
            if name in self.home:
                self._operator(name)

    def _passes(self, weight: Array, root: int, stream: Stream) -> Array:
        """Return what weights become on a stream: its route's share of them, less what is dropped."""
        kept = self.keep.get(stream.name)
        weight = weight * stream.share if stream.share < 1 else weight
        if kept is not None:
            period = self.roots[root].period
            weight = weight * (kept[np.clip(period, 0, kept.size - 1)] if kept.ndim else kept)
        return weight

    def _inflow(self, stream: Stream, query: int) -> dict[int, Array]:
        """Return the inlets by which a stream reaches an operator, with the weight of their points."""
        if not outside(stream, query, self.fragments, self.home):
            return {i: self._passes(w, self.inlets[i].root, stream) for i, w in self.out[stream.writer].items()}
        feed = self.feeds.setdefault((query, stream.name), len(self.feeds))
        if stream.writer in self.network.sources:
            root = self.named[stream.writer]
            given = {-1: np.full(len(self.roots[root].period), self.grain)}
        else:
            given = self.out.get(stream.writer, {})
        found = {}
        for parent, weight in given.items():
            root = self.named[stream.writer] if parent < 0 else self.inlets[parent].root
            passed = self._passes(weight, root, stream)
            found[len(self.inlets)] = passed
            self.inlets.append(Inlet(query, root, feed, parent, passed))
        return found

    def _operator(self, name: str) -> None:
        operator, query = self.network.operators[name], self.home[name]
        row = list(self.network.operators).index(name)
        inputs = [self._inflow(stream, query) for stream in self.network.inputs(name)]
        for cost, given in zip(operator.cost or (0.0,) * len(inputs), inputs, strict=True):
            for inlet, weight in given.items():
                known = self.work.get((inlet, row))
                self.work[inlet, row] = cost * weight if known is None else known + cost * weight
        selectivity = operator.selectivity or (1.0,) * len(inputs)
        partners = self.model.partners(name)
        made: dict[int, Array] = {}
        for port, (share, given) in enumerate(zip(selectivity, inputs, strict=True)):
            for inlet, weight in given.items():
                more = weight * share
                if operator.kind == "join":
                    period = self.roots[self.inlets[inlet].root].period
                    more = more * partners[port, np.clip(period, 0, partners.shape[1] - 1)]
                if operator.growth is not None and operator.kind != "aggregate":
                    more = more * self._growth(operator, self.roots[self.inlets[inlet].root], weight)
                made[inlet] = made[inlet] + more if inlet in made else more
                over = np.where(more > 0, 0.0, weight) if self.network.outputs(name) else weight
                if over.any():
                    self.ended.setdefault(name, []).append((inlet, over))
        if operator.kind == "aggregate" and operator.window is not None:
            made = self._windows(operator, query, made)
        self.out[name] = made

    def _growth(self, operator: Operator, root: Root, weight: Array) -> Array:
        """Return what an operator puts out of what its kind says, by segment; each window counts by its own rows."""
        if root.step > 0 and operator.kind != "join":
            return growth_factor(operator, weight[None, :] / root.step)
        factor = growth_factor(operator, self.model.inflow(operator.name), self.model.period)
        return factor[np.clip(root.period, 0, factor.size - 1)]

    def _windows(self, operator: Operator, query: int, made: Mapping[int, Array]) -> dict[int, Array]:
        """Make a root of the windows of an operator."""
        length, slide, late = operator.window or 0.0, operator.step, self.late[operator.name]
        # Windows begin at multiples of the slide, whenever the rates do.
        ahead = self.model.rates.start % slide
        total: dict[int, float] = {}
        for inlet, weight in made.items():
            root = self.roots[self.inlets[inlet].root]
            if not root.times.size:
                continue
            sums = np.interp(np.arange(root.times.size + 1), root.edge, root.sums(weight)) if weight.size else None
            newest = np.unique(np.floor((root.times + ahead) / slide + 1e-9)).astype(np.int64)
            for number in _reached(newest, max(1, math.ceil(length / slide - 1e-9))).tolist():
                begin = number * slide - ahead
                end = begin + length
                low, high = np.searchsorted(root.times, [begin - 1e-9 * slide, end - 1e-9 * slide])
                if high > low and sums is not None:
                    total[number] = total.get(number, 0.0) + float(sums[high] - sums[low])
        numbers = sorted(total)
        ends = np.array([number * slide - ahead + length for number in numbers])
        times = ends + late
        period = np.clip((times / self.model.period + 1e-9).astype(np.int64), 0, None)
        self.named[operator.name] = len(self.roots)
        self.roots.append(Root(times, ends, np.arange(len(numbers) + 1), period, slide))
        rows = np.array([total[number] for number in numbers])
        share = (operator.selectivity or (1.0,))[0]
        if operator.growth is not None and share > 0:
            rows = rows * growth_factor(operator, rows[None, :] / (share * length))
        weight = rows * slide / length
        self.inlets.append(Inlet(query, self.named[operator.name], -1, -1, weight, late))
        return {len(self.inlets) - 1: weight}

    def built(self, progressive: bool, machines: Mapping[str, tuple[Sequence[str], float]]) -> Carried:
        """Return the arrays, with inlets ordered by query and feed, a query's own windows last."""
        feeds = sorted(self.feeds.items(), key=lambda item: (item[0][0], item[1]))
        number = {old: new for new, (_, old) in enumerate(feeds)}
        key = [(i.query, number.get(i.feed, len(feeds)), n) for n, i in enumerate(self.inlets)]
        order = [n for *_, n in sorted(key)]
        place = {old: new for new, old in enumerate(order)}
        inlets = [
            attrs.evolve(
                self.inlets[n], feed=number.get(self.inlets[n].feed, -1), parent=place.get(self.inlets[n].parent, -1)
            )
            for n in order
        ]
        sums = _Sums()
        weights = [sums.add(self.roots[i.root].sums(i.weight)) if progressive and i.parent >= 0 else -1 for i in inlets]
        work: list[dict[int, Array]] = [{} for _ in inlets]
        for (inlet, operator), seconds in self.work.items():
            work[place[inlet]][operator] = self.roots[self.inlets[inlet].root].sums(seconds)
        sinks = {
            name: [
                (place[i], self._passes(w, self.inlets[i].root, self.network.inputs(name)[0]))
                for i, w in self.out.get(sink.input, {}).items()
            ]
            for name, sink in self.network.sinks.items()
        }
        ends = {name: [(place[i], w) for i, w in ways] for name, ways in self.ended.items()}
        spans = [(0, 0)] * len(feeds)
        for n, each in enumerate(inlets):
            if each.feed >= 0:
                spans[each.feed] = (n if spans[each.feed] == (0, 0) else spans[each.feed][0], n + 1)
        waters = event_time(self.network, self.fragments, [name for name, _ in feeds], self.late)
        writers = [self.streams[name].writer for (_, name), _ in feeds]
        rows: dict[str, Any] = dict(
            **self._points(),
            inlet_root=ints(i.root for i in inlets),
            inlet_parent=ints(i.parent for i in inlets),
            inlet_weight=ints(weights),
            inlet_work=np.cumsum([0, *(self.roots[i.root].edge.size for i in inlets)]).astype(np.int64),
            inlet_late=np.array([i.late for i in inlets]),
            inlet_first=first_of((i.query for i in inlets), len(self.fragments)),
            own_first=ints(
                int(np.searchsorted([(i.query + (i.feed < 0) / 2) for i in inlets], q + 0.5))
                for q in range(len(self.fragments))
            ),
            feed_first=first_of((query for (query, _), _ in feeds), len(self.fragments)),
            feed_inlet=ints(span[0] for span in spans),
            feed_end=ints(span[1] for span in spans),
            sums=sums.all(),
            feed_source=ints(self.named[w] if w in self.network.sources else -1 for w in writers),
            feed_writer=ints(self.home.get(w, -1) for w in writers),
            **waters,
            **groups_of([fragment.host for fragment in self.fragments], machines),
        )
        shape = Shape(**rows, progressive=progressive)
        hosts = list(dict.fromkeys(fragment.host for fragment in self.fragments))
        return Carried(shape, self.roots, inlets, work, sinks, ends, hosts)

    def _points(self) -> dict[str, Array | Ints]:
        """Return the points of all roots, one after another."""
        roots, empty = self.roots, np.zeros(0)
        first = np.concatenate([[0], np.cumsum([len(root.edge) for root in roots])]).astype(np.int64)
        segments = [
            f + np.repeat(np.arange(len(root.period)), np.diff(root.edge))
            for f, root in zip(first, roots, strict=False)
        ]
        return {
            "times": np.concatenate([empty, *(root.times for root in roots)]),
            "ends": np.concatenate([empty, *(root.ends for root in roots)]),
            "segment": np.concatenate([empty, *segments]).astype(np.int64),
            "point_first": np.concatenate([[0], np.cumsum([root.times.size for root in roots])]).astype(np.int64),
            "segment_first": first,
            "edge": np.concatenate([empty, *(root.edge for root in roots)]).astype(np.int64),
        }


def _reached(newest: Ints, count: int) -> Ints:
    """Return the numbers of the windows that hold a point, given those of the newest and how many hold each."""
    # Of each those that hold no older point: all between, and at most as many as hold one.
    fresh = np.minimum(np.diff(newest, prepend=newest[0] - count), count)
    last = np.cumsum(fresh) - 1
    numbers: Ints = np.arange(last[-1] + 1) + np.repeat(newest - last, fresh)
    return numbers


def _source(rate: Array, period: float, grain: float) -> Root:
    """Return the points of a source, evenly spaced within each period: point k when the rate's integral is k grains."""
    counts = np.concatenate([[0.0], np.cumsum(rate * period)])
    edges = np.arange(rate.size + 1) * period
    numbers = np.arange(0.0, counts[-1] - 1e-6, grain)
    place = np.clip(np.searchsorted(counts, numbers + 1e-9, side="right") - 1, 0, rate.size - 1)
    width = np.maximum(counts[place + 1] - counts[place], 1e-300)
    times = edges[place] + np.clip((numbers - counts[place]) / width, 0, 1) * period
    edge = np.searchsorted(place, np.arange(rate.size + 1))
    return Root(times, np.zeros(times.size), edge.astype(np.int64), np.arange(rate.size))


class _Sums:
    """Sums by segment, one after another."""

    def __init__(self) -> None:
        self.parts: list[Array] = []
        self.size = 0

    def add(self, part: Array) -> int:
        self.parts.append(part)
        self.size += part.size
        return self.size - part.size

    def all(self) -> Array:
        return np.concatenate([np.zeros(0), *self.parts])
