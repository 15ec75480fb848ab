"""The recursion over micro-batches, tuple by tuple: the plain way, for hosts that run one query each."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.latency.fragments import Fragment
from penstock.latency.microbatch import COMMIT, READING, BatchEstimate, MicrobatchResult
from penstock.latency.tables import SOON
from penstock.load import LoadModel
from penstock.network import Network, Operator, Stream

Array = NDArray[np.float64]
Points = tuple[Array, Array]
"""Stimulus times (s) and weights (tuples)."""

NOTHING: Points = (np.zeros(0), np.zeros(0))


class _Query:
    """The state of one query during the recursion."""

    def __init__(self, network: Network, fragment: Fragment, feeds: Sequence[Stream]) -> None:
        self.fragment = fragment
        self.feeds = tuple(feeds)
        # From which feeds each operator derives: only these say how far its event time has come.
        self.derives: dict[str, frozenset[str]] = {}
        names = {stream.name for stream in feeds}
        for name in fragment.operators:
            given = network.inputs(name)
            outside = {stream.writer for stream in given if stream.name in names}
            inside = [self.derives[stream.writer] for stream in given if stream.name not in names]
            self.derives[name] = frozenset(outside).union(*inside)
        stateful = [self.derives[name] for name in fragment.operators if network.operators[name].stateful]
        self.watermarks = frozenset[str]().union(*stateful)
        self.waiting: dict[str, list[tuple[Array, Array, Array]]] = {stream.name: [] for stream in feeds}
        self.start, self.end = -math.inf, 0.0
        # How far event time has come on each feed, and at the end of the batch before.
        self.water: dict[str, float] = {}
        self.before: dict[str, float] = {}
        self.marks: dict[str, list[tuple[float, float]]] = {stream.writer: [] for stream in feeds}
        self.windows: dict[str, dict[float, tuple[float, float]]] = {}
        self.due = False

    def put(self, stream: str, visible: Array, stimulus: Array, weight: Array) -> None:
        if visible.size:
            self.waiting[stream].append((visible, stimulus, weight))

    def next_input(self) -> float:
        times = [parts[0][0][0] for parts in self.waiting.values() if parts]
        times += [marks[0][0] for marks in self.marks.values() if marks]
        return min(times, default=math.inf)

    def take(self, stream: str, until: float) -> Points:
        parts = self.waiting[stream]
        taken: list[Points] = []
        while parts and parts[0][0][0] <= until:
            visible, stimulus, weight = parts[0]
            end = int(np.searchsorted(visible, until, side="right"))
            taken.append((stimulus[:end], weight[:end]))
            if end < visible.size:
                parts[0] = (visible[end:], stimulus[end:], weight[end:])
                break
            parts.pop(0)
        if not taken:
            return NOTHING
        return np.concatenate([s for s, _ in taken]), np.concatenate([w for _, w in taken])


def microbatch(
    model: LoadModel,
    fragments: Sequence[Fragment],
    *,
    trigger: float,
    overhead: Mapping[str, float] | None = None,
    factor: Mapping[str, float] | None = None,
    idle: Mapping[str, float] | None = None,
    reading: float = READING,
    commit: float = COMMIT,
    progressive: bool = False,
    keep: Mapping[str, float | Array] | None = None,
) -> MicrobatchResult:
    """Predict every batch and every tuple's latency.

    Parameters
    ----------
    model
        The load model: rates, costs, selectivities.
    fragments
        The streaming queries; several on one host are served one batch at a time.
    trigger
        Interval of the micro-batches (s); multiples count from the beginning of the rates.
    overhead, factor
        By host: seconds per batch, and what in-place costs are of the model's costs.
    idle
        By host: seconds per batch without input, where they differ from the overhead.
    reading
        Seconds after its start at which a batch sees its input.
    commit
        Seconds between the output's becoming visible and the batch's end.
    progressive
        Whether output appears evenly during the batch (Kafka) rather than at its end (directory).
    keep
        Keep fractions by stream: fixed, or one per period of the rates for what enters in it.
    """
    overhead, factor, idle = overhead or {}, factor or {}, idle or {}
    passes = _Shares(model, keep or {})
    network = model.network
    queries = []
    for fragment in fragments:
        inside = set(fragment.operators)
        feeds = [
            stream
            for name in fragment.operators
            for stream in network.inputs(name)
            if stream.writer not in inside or stream.name in fragment.cuts
        ]
        queries.append(_Query(network, fragment, feeds))
    _feed_sources(model, queries, passes)
    lateness = _lateness(model)
    free: dict[str, float] = {}
    batches: list[BatchEstimate] = []
    arrived: dict[str, list[tuple[Array, Array, Array]]] = {name: [] for name in network.sinks}
    while True:
        starts = [_next_start(query, trigger, free.get(query.fragment.host, 0.0), reading) for query in queries]
        place = min(range(len(queries)), key=lambda k: (starts[k], k), default=-1)
        if place < 0 or starts[place] == math.inf:
            break
        query, start = queries[place], starts[place]
        host = query.fragment.host
        outputs, load, fed = _process(model, query, start + reading, lateness, passes)
        fixed = overhead.get(host, 0.0)
        duration = fixed + factor.get(host, 1.0) * load if fed else idle.get(host, fixed)
        end = start + duration
        query.start, query.end, free[host] = start, end, end
        batches.append(BatchEstimate(query.fragment.name, start, duration, load))
        visible = max(end - commit, start + reading + SOON * trigger)
        for stream, (stimulus, weight) in outputs.items():
            seen = np.full(stimulus.size, visible)
            if progressive and stimulus.size:
                seen = start + (visible - start) * np.cumsum(weight) / max(weight.sum(), 1e-300)
            if stream.reader in network.sinks:
                arrived[stream.reader].append((stimulus, seen - stimulus, weight))
            else:
                for other in queries:
                    if stream in other.feeds:
                        other.put(stream.name, seen, stimulus, weight)
        _announce(model, query, queries, visible, lateness)
    sinks = {
        name: tuple(np.concatenate(column) for column in zip(*parts, strict=True))
        if parts
        else (np.zeros(0), np.zeros(0), np.zeros(0))
        for name, parts in arrived.items()
    }
    return MicrobatchResult(tuple(batches), sinks)  # type: ignore[arg-type]


class _Shares:
    """What of a writer's points each of its streams carries: its route's share of them, less what is dropped."""

    def __init__(self, model: LoadModel, keep: Mapping[str, float | Array]) -> None:
        self.keep, self.period = {name: np.asarray(share, float) for name, share in keep.items()}, model.period

    def __call__(self, points: Points, stream: Stream) -> Points:
        stimulus, weight = points
        kept = self.keep.get(stream.name)
        if stream.share < 1:
            weight = weight * stream.share
        if kept is not None:
            place = np.clip((stimulus / self.period).astype(np.int64), 0, kept.size - 1)
            weight = weight * (kept[place] if kept.ndim else kept)
        return stimulus, weight


def _feed_sources(model: LoadModel, queries: Sequence[_Query], passes: _Shares) -> None:
    """Give queries the tuples of sources, evenly spaced within each period: tuple k when the rate's integral is k."""
    rates = model.rates
    total = float(rates.values.sum() * rates.period)
    grain = max(1.0, total / 2e6)
    for position, source in enumerate(rates.sources):
        edges = np.arange(rates.periods + 1) * rates.period
        counts = np.concatenate([[0.0], np.cumsum(rates.values[position] * rates.period)])
        numbers = np.arange(0.0, counts[-1] - 1e-6, grain)
        place = np.clip(np.searchsorted(counts, numbers + 1e-9, side="right") - 1, 0, rates.periods - 1)
        width = np.maximum(counts[place + 1] - counts[place], 1e-300)
        times = edges[place] + np.clip((numbers - counts[place]) / width, 0, 1) * rates.period
        for query in queries:
            for stream in query.feeds:
                if stream.writer == source:
                    _, weight = passes((times, np.full(times.size, grain)), stream)
                    query.put(stream.name, times, times, weight)


def _lateness(model: LoadModel) -> dict[str, float]:
    found = {name: source.lateness for name, source in model.network.sources.items()}
    for name, operator in model.network.operators.items():
        found[name] = max(found[given] for given in operator.inputs)
    return found


def _next_start(query: _Query, trigger: float, free: float, reading: float) -> float:
    """Return when the query's next batch starts."""
    multiple = (math.floor(query.start / trigger + 1e-9) + 1) * trigger if query.start > -math.inf else 0.0
    earliest = max(query.end, multiple)
    if not query.due:
        news = query.next_input() - reading
        if news == math.inf:
            return math.inf
        if news > earliest:
            earliest = max(earliest, math.ceil(news / trigger - 1e-9) * trigger)
    return max(earliest, free)


def _process(
    model: LoadModel, query: _Query, until: float, lateness: Mapping[str, float], passes: _Shares
) -> tuple[dict[Stream, Points], float, bool]:
    """Take the input of one batch through the query's operators; return its outputs, its load, if it had input."""
    network = model.network
    feeds = {stream.name: query.take(stream.name, until) for stream in query.feeds}
    fed = any(stimulus.size for stimulus, _ in feeds.values())
    query.before = dict(query.water)
    for stream in query.feeds:
        stimulus = feeds[stream.name][0]
        if stream.writer in network.sources and stimulus.size:
            query.water[stream.writer] = max(query.water.get(stream.writer, 0.0), float(stimulus[-1]))
    for writer, marks in query.marks.items():
        while marks and marks[0][0] <= until:
            fed = True
            query.water[writer] = max(query.water.get(writer, 0.0), marks.pop(0)[1])
    made: dict[str, Points] = {}
    outputs: dict[Stream, Points] = {}
    load = 0.0
    for name in query.fragment.operators:
        operator = network.operators[name]
        inputs = [
            feeds[stream.name] if stream.name in feeds else passes(made[stream.writer], stream)
            for stream in network.inputs(name)
        ]
        load += sum(cost * float(w.sum()) for cost, (_, w) in zip(operator.cost or (), inputs, strict=True))
        made[name] = _output(model, query, operator, inputs, lateness[name])
        for stream in network.outputs(name):
            internal = stream.reader in query.fragment.operators and stream.name not in query.fragment.cuts
            if not internal:
                outputs[stream] = passes(made[name], stream)
    passed = _watermark(query.watermarks, query.water, lateness)
    query.due = any(bool(windows) and min(windows) <= passed for windows in query.windows.values())
    return outputs, load, fed


def _watermark(writers: Collection[str], water: Mapping[str, float], lateness: Mapping[str, float]) -> float:
    return min((water.get(writer, -math.inf) - lateness[writer] for writer in writers), default=-math.inf)


def _output(model: LoadModel, query: _Query, operator: Operator, inputs: Sequence[Points], lateness: float) -> Points:
    selectivity = operator.selectivity or (1.0,) * len(inputs)
    if operator.kind == "aggregate" and operator.window is not None:
        return _windows(query, operator, inputs[0], selectivity[0], lateness)
    if operator.kind == "join":
        inputs = [
            (stimulus, weight * _partners(model, operator, port, stimulus))
            for port, (stimulus, weight) in enumerate(inputs)
        ]
    if len(inputs) == 1:
        return inputs[0][0], inputs[0][1] * selectivity[0]
    stimulus = np.concatenate([s for s, _ in inputs])
    weight = np.concatenate([w * share for share, (_, w) in zip(selectivity, inputs, strict=True)])
    order = np.argsort(stimulus, kind="stable")
    return stimulus[order], weight[order]


def _partners(model: LoadModel, operator: Operator, port: int, stimulus: Array) -> Array:
    """Return how many earlier tuples of the other input are in a join's window at given times."""
    other = model.partners(operator.name)[port]
    return np.asarray(other[np.clip((stimulus / model.period).astype(np.int64), 0, other.size - 1)])


def _windows(query: _Query, operator: Operator, points: Points, selectivity: float, lateness: float) -> Points:
    """Put tuples into windows, and return the results of those that the watermark has passed.

    Spark uses the watermark of the batches before, so that a window ends at least one batch after its last tuple.
    """
    windows = query.windows.setdefault(operator.name, {})
    length = operator.window or 0.0
    slide = operator.slide or length
    stimulus, weight = points
    if stimulus.size:
        first = np.floor(stimulus / slide + 1e-9)
        for back in range(max(1, round(length / slide))):
            ends = (first - back) * slide + length
            for end in np.unique(ends):
                inside = ends == end
                had, youngest = windows.get(float(end), (0.0, -math.inf))
                windows[float(end)] = (had + float(weight[inside].sum()), max(youngest, float(stimulus[inside].max())))
    water = min((query.before.get(writer, -math.inf) for writer in query.watermarks), default=-math.inf) - lateness
    done = sorted(end for end in windows if end <= water)
    if not done:
        return NOTHING
    rows = [windows.pop(end) for end in done]
    times = np.array([max(youngest, end + lateness) for end, (_, youngest) in zip(done, rows, strict=True)])
    return times, np.array([had for had, _ in rows]) * selectivity * slide / length


def _announce(
    model: LoadModel, query: _Query, queries: Sequence[_Query], visible: float, lateness: Mapping[str, float]
) -> None:
    """Tell the readers of a query's logs how far event time has come."""
    for name in query.fragment.operators:
        readers = [
            other
            for other in queries
            for stream in other.feeds
            if stream.writer == name and (other is not query or stream.name in query.fragment.cuts)
        ]
        if not readers:
            continue
        if _behind(model, query, name):
            water = _watermark(query.watermarks, query.before, lateness) + lateness[name]
        else:
            water = _watermark(query.derives[name], query.water, lateness) + lateness[name]
        for other in dict.fromkeys(readers):
            marks = other.marks[name]
            last = marks[-1][1] if marks else other.water.get(name, -math.inf)
            if water > last:
                marks.append((visible, water))


def _behind(model: LoadModel, query: _Query, name: str) -> bool:
    """Whether a stateful operator of the query lies before or at an operator."""
    operator = model.network.operators[name]
    return operator.stateful or any(
        given in query.fragment.operators and _behind(model, query, given) for given in operator.inputs
    )
