"""What is measured, second by second, for a window of time: rates, busy shares, latency, backlog, keep fractions.

A board is a set of series of equal length over one window, which slides when newer figures come. However long a run
goes on, a board stays as large as it is.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array

BINS = 900
"""Bins of a window: a quarter of an hour of seconds."""

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
"""Lengths of a bin (s) that people can read off."""

CLASSES, LEAST, MOST = 200, 1e-4, 1e6
"""Classes of latency per factor of e, each half a per cent wide; the least and the most latency (s) they tell apart."""

_since, _until = itemgetter(0), itemgetter(1)
"""Of when a host worked."""


def step_of(duration: float, bins: int = BINS) -> float:
    """Return a length of bins (s) by which a duration fits a window."""
    return float(next((step for step in STEPS if step * bins >= duration), STEPS[-1]))


class Latencies:
    """All latencies of a sink, in classes half a per cent wide."""

    def __init__(self) -> None:
        self.classes = np.zeros(int(math.log(MOST / LEAST) * CLASSES) + 1, np.int64)
        self.worst = self.total = 0.0

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.classes.sum())

    def add(self, latency: Array) -> None:
        """Take latencies (s) in."""
        if latency.size:
            number = np.log(np.clip(latency, LEAST, MOST) / LEAST) * CLASSES
            self.classes += np.bincount(np.round(number).astype(np.int64), minlength=self.classes.size).astype(np.int64)
            self.worst = max(self.worst, float(latency.max()))
            self.total += float(latency.sum())

    def add_classes(self, counts: Mapping[str, int], worst: float) -> None:
        """Take in what a run's history holds: the number of tuples of each class, and the worst latency (s)."""
        for name, count in counts.items():
            number = min(int(name), self.classes.size - 1)
            self.classes[number] += count
            self.total += count * LEAST * math.exp(number / CLASSES)
        self.worst = max(self.worst, worst)


def summary(parts: Iterable[Latencies]) -> dict[str, float | int | None]:
    """Return worst, p99, p50, mean (s) and count over some sinks; None where nothing came out."""
    rows = list(parts)
    classes = sum((row.classes for row in rows), np.zeros_like(Latencies().classes))
    count = int(classes.sum())
    if not count:
        return {"worst": None, "p99": None, "p50": None, "mean": None, "count": 0}
    worst, reached = max(row.worst for row in rows), np.cumsum(classes)

    def quantile(share: float) -> float:
        place = int(np.searchsorted(reached, share * count))
        return min(worst, LEAST * math.exp(place / CLASSES))

    mean = sum(row.total for row in rows) / count
    return {"worst": worst, "p99": quantile(0.99), "p50": quantile(0.5), "mean": mean, "count": count}


class Board:
    """Series over a sliding window.

    Parameters
    ----------
    streams, hosts, sinks
        Their names.
    begin
        When the first bin begins (s since the epoch).
    step
        Length of a bin (s).
    bins
        How many bins the window has.
    """

    SERIES = ("arrived", "dropped", "put", "taken", "busy", "worst", "tuples")

    def __init__(
        self,
        streams: Iterable[str],
        hosts: Iterable[str],
        sinks: Iterable[str],
        *,
        begin: float,
        step: float = 1.0,
        bins: int = BINS,
    ) -> None:
        self.streams, self.hosts = list(streams), list(hosts)
        self.sinks = {name: Latencies() for name in sinks}
        self.step, self.bins = step, bins
        self.first = math.floor(begin / step)
        """Number of the window's first bin since the epoch."""
        self.changed = self.first
        """Number of the first bin that changed since `mark`."""
        self.last = self.first
        """Number of the newest bin that something fell into."""
        self.since = self.first
        """Number of the first bin of which anything is known."""
        self._stream = {name: k for k, name in enumerate(self.streams)}
        self._host = {name: k for k, name in enumerate(self.hosts)}
        flows = np.zeros((len(self.streams), bins))
        self.arrived, self.dropped, self.put, self.taken = (flows.copy() for _ in range(4))
        self.busy = np.zeros((len(self.hosts), bins))
        self._worked: dict[str, list[tuple[float, float]]] = {}
        """By host, when it worked (s since the epoch) as far as the window reaches: in order, apart from each other."""
        self.told: dict[str, float] = {}
        """By host that tells its share afterwards, until when it did (s since the epoch)."""
        self.worst = np.full(bins, np.nan)
        self.tuples = np.zeros(bins)
        self.until = np.full(len(self.streams), math.inf)
        """By stream, until when it is known what arrived there (s since the epoch)."""
        self.waiting = np.zeros(len(self.streams))
        """Rows that waited on each stream when the window began."""
        self.totals = np.zeros((4, len(self.streams)), np.int64)
        """By stream: rows that arrived, were dropped, came late, and how many times something was told of it."""

    @property
    def start(self) -> float:
        """When the window begins (s since the epoch)."""
        return self.first * self.step

    @property
    def length(self) -> int:
        """How many bins of the window something fell into, or lie before one."""
        return min(self.bins, self.last - self.first + 1)

    def seen(self, series: Array, begin: int, end: int) -> list[float | None]:
        """Return part of the series as `tail`, with None before anybody looked."""
        unknown = np.arange(series.shape[-1]) + self.first < self.since
        return tail(np.where(unknown, np.nan, series), begin, end)

    def widen(self, streams: Iterable[str], hosts: Iterable[str], sinks: Iterable[str]) -> None:
        """Take in streams, hosts and sinks that came on the way; what is known of the others stays."""
        streams, hosts = list(streams), list(hosts)
        flows = np.array([self._stream.get(name, -1) for name in streams], np.int64)
        for name in ("arrived", "dropped", "put", "taken", "waiting", "until"):
            setattr(self, name, _chosen(getattr(self, name), flows))
        self.totals = np.stack([_chosen(row, flows) for row in self.totals])
        self.busy = _chosen(self.busy, np.array([self._host.get(name, -1) for name in hosts], np.int64))
        self.streams, self.hosts = streams, hosts
        self._stream = {name: k for k, name in enumerate(streams)}
        self._host = {name: k for k, name in enumerate(hosts)}
        self.sinks = {name: self.sinks.get(name) or Latencies() for name in sinks}
        self.changed = self.first

    def mark(self) -> int:
        """Return the first bin of the window that changed since the last call."""
        found = max(0, self.changed - self.first)
        self.changed = self.last + 1
        return found

    def slide(self, when: float) -> None:
        """Let the window hold a time (s since the epoch)."""
        number = math.floor(when / self.step)
        self.last = max(self.last, number)
        over = self.last - (self.first + self.bins) + 1
        if over <= 0:
            return
        # Eight at a time: sliding costs as much as the window is long.
        over = min(self.bins, max(over, self.bins // 8))
        self.waiting += self.put[:, :over].sum(axis=1) - self.taken[:, :over].sum(axis=1)
        for name in self.SERIES:
            series = getattr(self, name)
            series[..., :-over] = series[..., over:]
            series[..., -over:] = np.nan if name == "worst" else 0.0
        self.first = max(self.first + over, self.last - self.bins + 1)

    def add_flow(self, series: str, stream: str, rows: float, begin: float, end: float) -> None:
        """Spread rows of a stream over a time (s since the epoch)."""
        if stream in self._stream and rows:
            self._spread(getattr(self, series)[self._stream[stream]], rows, begin, end)
            self._flowed_before(series, stream, np.array([rows]), np.array([begin]), np.array([end]))

    def add_flows(self, series: str, stream: str, rows: Array, begin: Array, end: Array) -> None:
        """Spread rows of a stream over many times within the window at once (s since the epoch)."""
        if stream in self._stream:
            getattr(self, series)[self._stream[stream]] += self.spread(rows, begin, end)
            if begin.size:
                self._touched(max(0, math.floor(begin.min() / self.step) - self.first))
            self._flowed_before(series, stream, rows, begin, end)

    def _flowed_before(self, series: str, stream: str, rows: Array, begin: Array, end: Array) -> None:
        """Let what was put or taken before the window wait when it begins, or not."""
        if series in ("put", "taken"):
            share = np.clip((self.start - np.minimum(begin, end)) / np.maximum(end - begin, 1e-9), 0.0, 1.0)
            early = float((rows * share).sum())
            if early:
                self.waiting[self._stream[stream]] += early if series == "put" else -early
                self._touched(0)

    def spread(self, amounts: Array, begin: Array, end: Array) -> Array:
        """Return the sums in each bin of the window of amounts, each spread over its own time (s since the epoch).

        What has no length falls into one bin.
        """
        low, high = begin / self.step - self.first, end / self.step - self.first
        point = high <= low
        low = np.where(point, np.floor(high), low)
        high = np.where(point, low + 1, high)
        # A row for each bin that a time reaches into: queries run one batch after the other, so these are few.
        nearest = np.clip(np.floor(low), 0, self.bins).astype(np.int64)
        many = np.maximum(np.clip(np.ceil(high), 0, self.bins).astype(np.int64) - nearest, 0)
        which = np.repeat(np.arange(many.size), many)
        place = nearest[which] + np.arange(which.size) - (np.cumsum(many) - many)[which]
        low, high = low[which], high[which]
        share = (np.clip(place + 1, low, high) - np.clip(place, low, high)) / (high - low)
        return np.bincount(place, amounts[which] * share, minlength=self.bins).astype(np.float64, copy=False)

    def flowing(self, rates: Array, period: float) -> Array:
        """Return the rows in each bin of the window, of rates (tuples/s) that hold a period (s) each, from 0 on."""
        edges = self.step * np.arange(self.first, self.first + self.bins + 1)
        rows = np.append(0.0, np.cumsum(rates * period))
        return np.diff(np.interp(edges, period * np.arange(rows.size), rows))

    def count(self, stream: str, arrived: int, dropped: int, late: int = 0) -> None:
        """Count rows of a stream."""
        if stream in self._stream:
            place = self._stream[stream]
            self.totals[:, place] = self.totals[:, place] + np.array([arrived, dropped, late, 1])

    def add_busy(self, host: str, begin: float, end: float) -> None:
        """Note that a host worked; what was noted of that time before counts once."""
        if host not in self._host or end <= begin:
            return
        self.slide(end)
        row, worked = self.busy[self._host[host]], self._worked.setdefault(host, [])
        del worked[: bisect_left(worked, self.start, key=_until)]
        first, behind = bisect_left(worked, begin, key=_until), bisect_right(worked, end, key=_since)
        since = begin
        for start, stop in [*worked[first:behind], (end, end)]:
            if start > since:
                self._spread(row, (start - since) / self.step, since, start)
            since = max(since, stop)
        worked[first:behind] = [(min([begin, *map(_since, worked[first:behind])]), since)]

    def add_share(self, host: str, share: float | None, begin: float, end: float) -> None:
        """Note the share of a time (s since the epoch) in which a host worked; None: not known."""
        if host in self._host:
            self.told[host] = max(end, self.told.get(host, end))
            share = math.nan if share is None else share
            self._spread(self.busy[self._host[host]], share * (end - begin) / self.step, begin, end)

    def add_worst(self, latency: float, when: float) -> None:
        """Note the worst latency (s) that was seen at a time (s since the epoch)."""
        self.slide(when)
        place = math.floor(when / self.step) - self.first
        if 0 <= place < self.bins:
            self.worst[place] = np.fmax(self.worst[place], latency)
            self._touched(place)

    def add_latency(self, sink: str, stimulus: Array, visible: Array | float) -> None:
        """Note rows that became visible at a sink, each in the bin of its stimulus time (s since the epoch)."""
        latency = visible - stimulus
        self.sinks[sink].add(latency)
        self.slide(float(np.max(visible)))
        place = np.floor(stimulus / self.step).astype(np.int64) - self.first
        inside = (place >= 0) & (place < self.bins)
        if inside.any():
            np.fmax.at(self.worst, place[inside], latency[inside])
            np.add.at(self.tuples, place[inside], 1)
            self._touched(int(place[inside].min()))

    def backlog(self) -> Array:
        """Return the rows that wait on each stream at the end of each bin, array (streams, bins)."""
        found: Array = self.waiting[:, None] + np.cumsum(self.put - self.taken, axis=1)
        return np.maximum(found, 0.0)

    def know(self, until: float, stream: str | None = None) -> None:
        """Note that all is told of what arrived on a stream, or on all of them, until a time (s since the epoch)."""
        places = np.arange(len(self.streams)) if stream is None else np.array([self._stream[stream]])
        later = places[self.until[places] < until]
        if later.size:
            self._touched(math.floor(self.until[later].min() / self.step) - self.first)
            self.until[later] = until

    def rates(self) -> Array:
        """Return the rows a second that arrived on each stream, array (streams, bins).

        A rate is that of the part of a bin of which it is known what arrived; NaN where that is less than half of it.
        """
        begin = self.step * np.arange(self.first, self.first + self.bins)
        known = np.clip(self.until[:, None] - begin, 0.0, self.step)
        least = self.step / 2
        return np.where(known < least, np.nan, self.arrived / np.maximum(known, least))

    def shares(self) -> Array:
        """Return the share of each bin in which each host worked, array (hosts, bins); NaN where it has yet to tell."""
        begin = self.step * np.arange(self.first, self.first + self.bins)
        told = np.array([self.told.get(name, math.inf) for name in self.hosts])
        return np.where(begin < told[:, None], np.minimum(self.busy, 1.0), np.nan)

    def keep(self) -> Array:
        """Return the share that each stream let through, array (streams, bins); NaN where nothing came."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.arrived > 0, 1 - self.dropped / self.arrived, np.nan)

    def _spread(self, row: Array, amount: float, begin: float, end: float) -> None:
        self.slide(end)
        low, high = begin / self.step - self.first, end / self.step - self.first
        if high <= low:
            place = math.floor(high)
            if 0 <= place < self.bins:
                row[place] += amount
                self._touched(place)
            return
        first, last = max(0, math.floor(low)), min(self.bins - 1, math.ceil(high) - 1)
        if first > last:
            return
        edges = np.arange(first, last + 2)
        inside = np.clip(edges, low, high)
        shares = (inside[1:] - inside[:-1]) / (high - low)
        row[first : last + 1] += amount * shares
        self._touched(first)

    def _touched(self, place: int) -> None:
        self.changed = min(self.changed, self.first + place)


def _chosen(rows: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
    """Return rows in another order; zeros for those that were not there (-1)."""
    found = np.zeros((places.size, *rows.shape[1:]), rows.dtype)
    found[places >= 0] = rows[places[places >= 0]]
    return found


def tail(series: Array, begin: int, end: int, digits: int = 4) -> list[float | None]:
    """Return part of the series, rounded to so many digits, None for NaN; a list for each row."""
    part = np.asarray(series)[..., begin:end]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(np.where(part == 0, 1.0, part)))))
        rounded = np.round(part * scale) / scale
    return np.where(np.isfinite(rounded), rounded, None).tolist()  # type: ignore[no-any-return,call-overload]
