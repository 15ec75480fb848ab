"""What a run has shown, as frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Records
from penstock.files import Document
from penstock.shedding.live import Taken, described
from penstock.simulation.busy import busy
from penstock.simulation.compile import Compiled
from penstock.simulation.lists import walk
from penstock.simulation.state import COUNTS
from penstock.simulation.watch import Moved

EXACT = 1 << 22
"""Up to so many sink tuples the quantiles are exact; beyond, to the relative width of a bin."""
_BINS = 1 << 13  # per factor of 2: relative width 1e-4
_NONE = -(1 << 24)  # the bin of results without latency, below all others


class Latencies:
    """Collects latencies: every value up to a limit, counts in logarithmic bins beyond."""

    def __init__(self, sinks: int) -> None:
        self._count = np.zeros(sinks, np.int64)
        self._sum = np.zeros(sinks)
        self._max = np.zeros(sinks)
        self._values: list[tuple[NDArray[np.int32], NDArray[np.float64]]] = []
        self._kept = 0
        self._bounds = np.zeros(0, np.int64)
        self._bins: list[dict[int, int]] | None = None
        self._min = np.full(sinks, np.inf)  # of what is counted in bins

    def add(self, sinks: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        """Add the latencies (s) of tuples at sinks."""
        if len(self._count) == 1:
            self._count += len(values)
            self._sum += values.sum()
            self._max = np.maximum(self._max, values.max(initial=0.0))
        else:
            self._count += np.bincount(sinks, minlength=len(self._count))
            self._sum += np.bincount(sinks, values, minlength=len(self._count))
            np.maximum.at(self._max, sinks, values)
        if self._bins is not None:
            self._bin(sinks, values)
            return
        self._values.append((sinks.copy(), values))
        self._kept += len(values)
        if self._kept > EXACT:
            self._bins = [{} for _ in self._count]
            for part in self._values:
                self._bin(*part)
            self._values = []

    def become(self, places: NDArray[np.int64], count: int) -> None:
        """Make room for more sinks; ``places`` says which number each of the present ones has from now on."""
        for name, nothing in (("_count", 0), ("_sum", 0.0), ("_max", 0.0), ("_min", np.inf)):
            before = getattr(self, name)
            grown = np.full(count, nothing, before.dtype)
            grown[places] = before
            setattr(self, name, grown)
        self._labelled()
        self._values = [(places[sinks].astype(np.int32), values) for sinks, values in self._values]
        if self._bins is not None:
            bins: list[dict[int, int]] = [{} for _ in range(count)]
            for place, table in zip(places.tolist(), self._bins, strict=True):
                bins[place] = table
            self._bins = bins

    def _bin(self, sinks: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        assert self._bins is not None  # noqa: S101
        np.minimum.at(self._min, sinks, values)
        places = np.full(len(values), _NONE)
        some = values > 0
        places[some] = np.round(np.log2(values[some]) * _BINS)
        for sink in np.unique(sinks).tolist():
            table = self._bins[sink]
            found, counts = np.unique(places[sinks == sink], return_counts=True)
            for place, count in zip(found.tolist(), counts.tolist(), strict=True):
                table[place] = table.get(place, 0) + count

    def _labelled(self) -> None:
        """Give values that were sorted their sinks back: sorted, they are kept without."""
        if self._bounds.size and self._values:
            sinks = np.repeat(np.arange(self._bounds.size - 1), np.diff(self._bounds)).astype(np.int32)
            self._values[0] = (sinks, self._values[0][1])
        self._bounds = np.zeros(0, np.int64)

    def _sorted(self) -> NDArray[np.float64]:
        """Return all values by sink, and note where each sink's begin."""
        if len(self._values) > 1 or not self._bounds.size:
            self._labelled()
            sinks = np.concatenate([sinks for sinks, _ in self._values])
            values = np.concatenate([values for _, values in self._values])
            if len(self._count) > 1:
                values = values[np.argsort(sinks, kind="stable")]
            self._values = [(sinks[:0], values)]
            self._bounds = np.concatenate(([0], np.cumsum(self._count)))
        return self._values[0][1]

    def summary(self, sink: int | None = None) -> dict[str, float]:
        """Return mean, p50, p99, max (s) and count, at one sink or at all."""
        which = slice(None) if sink is None else slice(sink, sink + 1)
        count = int(self._count[which].sum())
        if count == 0:
            return {"mean": math.nan, "p50": math.nan, "p99": math.nan, "max": math.nan, "count": 0}
        if self._bins is None:
            chosen = self._sorted() if sink is None else self._sorted()[self._bounds[sink] : self._bounds[sink + 1]]
            p50, p99 = np.quantile(chosen, (0.5, 0.99)).tolist()
        else:
            merged: dict[int, int] = {}
            for table in self._bins[which]:
                for place, number in table.items():
                    merged[place] = merged.get(place, 0) + number
            places = np.array(sorted(merged))
            running = np.cumsum([merged[place] for place in places.tolist()])
            found = places[[np.searchsorted(running, q * (count - 1), side="right") for q in (0.5, 0.99)]]
            middle = np.where(found == _NONE, 0.0, np.exp2(found / _BINS))
            p50, p99 = np.clip(middle, self._min[which].min(), self._max[which].max()).tolist()
        return {
            "mean": float(self._sum[which].sum()) / count,
            "p50": float(p50),
            "p99": float(p99),
            "max": float(self._max[which].max()),
            "count": count,
        }


@attrs.frozen(eq=False)
class Series:
    """Samples of the hosts over time.

    Attributes
    ----------
    times
        Array (samples,), seconds.
    queued
        Array (hosts, samples): tuples that wait for each host.
    busy
        Array (hosts, samples): share of the time since the sample before that each host worked.
    """

    times: NDArray[np.float64]
    queued: NDArray[np.int64]
    busy: NDArray[np.float64]


@attrs.frozen(eq=False, kw_only=True)
class SimulationResult:
    """The result of a run. Times in seconds, rows keyed by name.

    Attributes
    ----------
    latency
        ``mean``, ``p50``, ``p99``, ``max`` and ``count`` over the sink tuples after the warm-up (nan where there
        is none).
    sinks
        The same by sink.
    operators
        By operator and replica: ``served``, ``wait`` (mean seconds queued before service) and ``busy`` (share of
        its host's time).
    hosts
        ``busy`` (share of the time).
    links
        By pair: ``sent`` (crossings) and ``queued`` (tuples on the link or waiting for it now).
    streams
        ``arrived``, ``delivered``, ``dropped``, ``consumed``, ``queued``, ``lost``.
    totals
        The sums over all streams.
    balanced
        Whether arrived = delivered + dropped + consumed + queued + lost on every stream.
    duplicates
        Copies from replicas that were removed.
    end
        When the run ended (s).
    events
        How many events happened.
    trace
        Array of records ``stimulus``, ``egress``, ``sink`` (number in ``sinks``), if it was asked for.
    log
        Array of records ``time``, ``kind``, ``index``, ``identity`` of every event, if it was asked for.
    series
        Queues and load of the hosts over time, if samples were asked for.
    shed
        What each look into the plan table found, if there is one.
    moves
        Operators that have moved, in order.
    """

    latency: Mapping[str, float]
    sinks: Mapping[str, Mapping[str, float]]
    operators: Mapping[str, Mapping[str, float]]
    hosts: Mapping[str, float]
    links: Mapping[str, Mapping[str, int]]
    streams: Mapping[str, Mapping[str, int]]
    totals: Mapping[str, int]
    balanced: bool
    duplicates: int
    end: float
    events: int
    trace: Records | None = None
    log: Records | None = None
    series: Series | None = None
    shed: tuple[Taken, ...] | None = None
    moves: tuple[Moved, ...] = ()

    def by_second(self, begin: float, end: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return how many results each second from ``begin`` to ``end`` (s) had, and their mean latency (s), or nan.

        The run must have been asked for its trace.
        """
        assert self.trace is not None  # noqa: S101 - as the docstring says
        second, count = np.floor(self.trace["egress"] - begin).astype(np.int64), int(end - begin)
        inside = (second >= 0) & (second < count)
        results = np.bincount(second[inside], minlength=count)
        late = np.bincount(second[inside], (self.trace["egress"] - self.trace["stimulus"])[inside], count)
        return results, np.where(results > 0, late / np.maximum(results, 1), np.nan)

    def document(self) -> Document:
        """Return what ``penstock simulate --json`` prints, without the seconds that it took."""
        return {
            "latency": dict(self.latency),
            "sinks": {name: {"latency": dict(row)} for name, row in self.sinks.items()},
            "operators": {name: dict(row) for name, row in self.operators.items()},
            "hosts": {name: {"busy": busy} for name, busy in self.hosts.items()},
            "links": {name: dict(row) for name, row in self.links.items()},
            "streams": {name: dict(row) for name, row in self.streams.items()},
            **self.totals,
            "balanced": self.balanced,
            "duplicates": self.duplicates,
            "end": self.end,
            "events": self.events,
            "moves": [move.document() for move in self.moves],
            **({} if self.shed is None else {"plan": described(self.shed)}),
        }


def assemble(
    run: Compiled,
    latencies: Latencies,
    trace: Records | None,
    log: Records | None,
    series: Series | None,
    moves: tuple[Moved, ...],
) -> SimulationResult:
    """Read the result out of the arrays after a run."""
    s, g = run.state, run.state.g[0]
    end = float(g["now"] if run.options.drain else g["end"])
    alive = s.nodes["input"][: int(g["fresh"])]
    alive = alive[alive >= 0]
    queued = np.bincount(s.inputs["stream"][alive], minlength=len(s.streams))
    busy_units, busy_hosts = busy(run, end)
    span = end if end > 0 else math.inf
    counts = {part: np.zeros(len(s.streams), np.int64) for part in COUNTS}
    for part, total in counts.items():
        np.add.at(total, s.inputs["stream"], s.inputs[part])
    counts["queued"] = queued
    order = ("arrived", "delivered", "dropped", "consumed", "queued", "lost")
    streams = {name: {part: int(counts[part][index]) for part in order} for index, name in enumerate(run.streams)}
    parts = ("delivered", "dropped", "consumed", "queued", "lost")
    on_links = _on_links(run)
    whole = latencies.summary()
    return SimulationResult(
        latency=whole,
        sinks={
            name: whole if len(run.sinks) == 1 else latencies.summary(index) for index, name in enumerate(run.sinks)
        },
        operators={
            name: {
                "served": int(row["served"]),
                "wait": float(row["wait"]) / int(row["begun"]) if row["begun"] else 0.0,
                "busy": float(busy_units[u]) / span,
            }
            for u, (name, row) in enumerate(zip(run.units, s.units, strict=True))
        },
        hosts={name: float(busy) / span for name, busy in zip(run.hosts, busy_hosts, strict=True)},
        links={f"{run.hosts[a]}->{run.hosts[b]}": on_links[index] for (a, b), index in run.links.items()},
        streams=streams,
        totals={key: sum(row[key] for row in streams.values()) for key in ("arrived", *parts)},
        balanced=all(row["arrived"] == sum(row[part] for part in parts) for row in streams.values()),
        duplicates=int(g["duplicates"]),
        end=end,
        events=int(g["events"]),
        trace=trace,
        log=log,
        series=series,
        shed=None if run.shedder is None else tuple(run.shedder.taken),
        moves=moves,
    )


def _on_links(run: Compiled) -> list[dict[str, int]]:
    """Return for each link how many tuples have begun to cross it, and how many are on it or wait for it."""
    s, found = run.state, []
    for link in s.links:
        waiting = sum(1 for _ in walk(s, int(link["waithead"])))
        found.append({"sent": int(link["sent"]), "queued": int(link["flying"]) + waiting})
    return found
