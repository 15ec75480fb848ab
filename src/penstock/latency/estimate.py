"""What every latency model answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import ArrayLike

from penstock.arrays import Array
from penstock.errors import InputError, TooLong
from penstock.files import Document


def too_long() -> TooLong:
    """Return the refusal of a backlog that a model cannot follow to its end."""
    return TooLong("the backlog is too long to be followed", hint="use --model mace, or lower the rates")


def rates_too_long(duration: float, period: float, width: float) -> InputError:
    """Return the refusal of rates that a model cannot follow to their end, whatever the backlog."""
    return InputError(
        f"rates over {duration:g} s, in periods of {period:g} s, are too long to be followed in slices of {width:g} s",
        hint="use --model mace, or rates of a shorter time",
    )


@attrs.frozen
class Quantiles:
    """Latency in s: the largest, 99th percentile, median, mean, and the weight that they are over.

    Without weight the others are 0 and tell nothing.
    """

    worst: float = 0.0
    p99: float = 0.0
    p50: float = 0.0
    mean: float = 0.0
    weight: float = attrs.field(default=0.0, eq=False)

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None) -> Quantiles:
        """Summarise values; those without weight are left out, and without any everything is 0.

        A quantile is the smallest value at or below which that share of the weight lies.
        """
        given = np.asarray(values, float)
        weight = np.ones(given.size) if weights is None else np.asarray(weights, float)
        given, weight = given[weight > 0], weight[weight > 0]
        if given.size == 0:
            return cls()
        order = np.argsort(given, kind="stable")
        given, total = given[order], np.cumsum(weight[order])
        at = np.searchsorted(total, np.array([0.99, 0.5]) * total[-1] * (1 - 1e-12)).clip(max=given.size - 1)
        mean = float(given @ weight[order] / total[-1])
        return cls(float(given[-1]), float(given[at[0]]), float(given[at[1]]), mean, float(total[-1]))

    @classmethod
    def over(cls, parts: Iterable[tuple[Array, Array]]) -> Quantiles:
        """Summarise all of some parts together, each of them values and weights."""
        values, weights = zip((np.zeros(0), np.zeros(0)), *parts, strict=True)
        return cls.of(np.concatenate(values), np.concatenate(weights))

    def figures(self) -> dict[str, float | None]:
        """Return what reports of runs hold, mean, p50, p99, max and count; None where nothing came."""
        if not self.weight:
            return {"mean": None, "p50": None, "p99": None, "max": None, "count": 0}
        return {"mean": self.mean, "p50": self.p50, "p99": self.p99, "max": self.worst, "count": round(self.weight)}

    def by_key(self) -> dict[str, float]:
        """Return the figures by their names."""
        return {key: getattr(self, key) for key in KEYS}

    def told(self, *, unended: bool) -> dict[str, float | None]:
        """Return what estimates tell: None where nothing came since no window ended, of which nothing is known."""
        return {key: None if unended and not self.weight else value for key, value in self.by_key().items()}


KEYS = ("worst", "p99", "p50", "mean")

UNTOLD = "no tuple reaches a sink, so that no latency can be told"


@attrs.frozen(eq=False, kw_only=True)
class Spread:
    """The interval of a prediction, from p05 to p95.

    Attributes
    ----------
    draws
        How many predictions it rests on.
    total, sinks
        Pairs (p05, p95) of worst, p99, p50 and mean (s), over all sinks and by sink.
    low, high
        Arrays (periods,): p05 and p95 of the worst latency (s) of what enters in each period.
    stretch
        By key, how many times as far from the prediction its ends are as drawn, by what came of earlier predictions.
    """

    draws: int
    total: Mapping[str, tuple[float, float]]
    sinks: Mapping[str, Mapping[str, tuple[float, float]]]
    low: Array
    high: Array
    stretch: Mapping[str, float] = attrs.field(factory=dict)

    @classmethod
    def none(cls, total: Quantiles, sinks: Mapping[str, Quantiles], series: Array) -> Spread:
        """Return the interval of a prediction of which no error is known: nothing but the prediction."""

        def pairs(row: Quantiles) -> dict[str, tuple[float, float]]:
            return {key: (value, value) for key, value in row.by_key().items()}

        by_sink = {name: pairs(row) for name, row in sinks.items()}
        return cls(draws=0, total=pairs(total), sinks=by_sink, low=series, high=series)

    def around(self, total: Quantiles, sinks: Mapping[str, Quantiles], series: Array) -> Spread:
        """Return the interval that also holds the prediction, its ends as far away as earlier runs would have them."""

        def wide(pairs: Mapping[str, tuple[float, float]], row: Quantiles) -> dict[str, tuple[float, float]]:
            middle, ends = np.array([getattr(row, key) for key in pairs]), np.array([*pairs.values()]).reshape(-1, 2)
            low, high = self._ends([*pairs], middle, ends[:, 0], ends[:, 1])
            return dict(zip(pairs, zip(low.tolist(), high.tolist(), strict=True), strict=True))

        low, high = self._ends(["worst"], series, self.low, self.high)
        by_sink = {name: wide(pairs, sinks[name]) for name, pairs in self.sinks.items()}
        return attrs.evolve(self, total=wide(self.total, total), sinks=by_sink, low=low, high=high)

    def _ends(self, keys: Sequence[str], middle: Array, low: Array, high: Array) -> tuple[Array, Array]:
        far = np.array([self.stretch.get(key, 1.0) for key in keys])
        below = middle + far * np.minimum(low - middle, 0.0)
        return np.maximum(below, 0.0), middle + far * np.maximum(high - middle, 0.0)

    def interval(self, sink: str | None = None) -> Document:
        """Return the key ``interval`` of a report: over all sinks, or of one."""
        pairs = self.total if sink is None else self.sinks[sink]
        return {"interval": {key: list(pair) for key, pair in pairs.items()}}

    def document(self) -> Document:
        """Return the keys ``interval``, ``p05``, ``p95`` and ``draws`` of a report."""
        return {
            **self.interval(),
            "p05": {**{key: pair[0] for key, pair in self.total.items()}, "series": self.low},
            "p95": {**{key: pair[1] for key, pair in self.total.items()}, "series": self.high},
            "draws": self.draws,
        }


@attrs.frozen
class ErrorBar:
    """How far off the worst latency may be: what an error of the bottleneck's costs does to it.

    Attributes
    ----------
    host
        The bottleneck.
    load
        ρ, its load as a share of its capacity while the worst backlog builds; of batches, with their fixed part.
    cost_error
        e, the relative error of its cost, from the statistics; 0 where they do not say.
    amplification
        By what e is multiplied: ρ/(ρ−1), or 1 where nothing builds up; of batches, how far the worst latency moves in
        the model where the costs are higher by e, over e (1 % where it is 0, at most 50 %).
    """

    host: str
    load: float
    cost_error: float
    amplification: float

    @property
    def relative(self) -> float:
        """Relative error of the worst latency."""
        return self.cost_error * self.amplification

    def document(self) -> Document:
        """Return what the report of a run holds of it."""
        return {"host": self.host, "load": self.load, "cost_error": self.cost_error, "latency_error": self.relative}


@attrs.frozen
class Episode:
    """A backlog on a host: when it begins to build, peaks and is drained (s), and how long the last tuple waits (s)."""

    host: str
    begins: float
    peaks: float
    ends: float
    wait: float


def episodes(host: str, waits: Array, period: float, most: int = 5) -> tuple[Episode, ...]:
    """Return the backlogs of a host from its waits (s) at the ends of periods, the worst first.

    A backlog lasts while the wait at a period's end is positive; it is drained within the period after.
    """
    busy = np.concatenate([[False], waits > 1e-12, [False]])
    starts, ends = np.flatnonzero(busy[1:] & ~busy[:-1]), np.flatnonzero(busy[:-1] & ~busy[1:])
    found = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        peak = start + int(waits[start:end].argmax())
        drained = (end + 1) * period if end < waits.size else end * period + float(waits[-1])
        found.append(Episode(host, start * period, (peak + 1) * period, drained, float(waits[peak])))
    return tuple(sorted(found, key=lambda episode: (-episode.wait, episode.begins))[:most])


class Told:
    """What a prediction tells over everything and of each sink.

    Attributes
    ----------
    total, sinks
        The figures.
    unended
        Sinks of which nothing is known, since no window before them ends within the rates.
    """

    __slots__ = ()
    total: Quantiles
    sinks: Mapping[str, Quantiles]
    unended: tuple[str, ...]

    def told(self, sink: str | None = None) -> dict[str, float | None]:
        """Return the figures over everything or of a sink; None where no window before them ends."""
        if sink is None:
            return self.total.told(unended=bool(self.unended))
        return self.sinks[sink].told(unended=sink in self.unended)


@attrs.frozen(eq=False, kw_only=True)
class Estimate(Told):
    """Estimated latency, with what it rests on and what it leaves out.

    Attributes
    ----------
    model
        Its name, one of `penstock.latency.models.MODELS`.
    period
        Length of a period of the series (s).
    total
        Over the whole run: over its ``units``.
    units
        What the total is over: ``periods``, ``slices`` or ``tuples``.
    tuples
        Over the tuples of all sinks, as latency is measured.
    series
        Array (periods,): seconds of latency of what enters in each period.
    bottleneck
        Host or link that decides the worst value.
    excess
        By host, array (periods,): cumulative excess in benchmark-core seconds.
    links
        By link ``a->b``, array (periods,): cumulative excess in tuples.
    sinks
        By sink, over its tuples.
    bounds
        Lower and upper bound of the worst latency (s), where the model has them; None where nothing is proved.
    error
        The error bar.
    notes
        What the model leaves out.
    statistics
        Where the costs come from.
    episodes
        The backlogs of the bottleneck, the worst first.
    steady
        Of ``microbatch``: batches and latencies at the mean rates, where a closed form is known.
    spread
        The interval from p05 to p95, if it was asked for.
    unended
        Sinks of which nothing is known, since no window before them ends within the rates.
    """

    model: str
    period: float
    total: Quantiles
    units: str = "tuples"
    tuples: Quantiles = attrs.field(default=attrs.Factory(lambda self: self.total, takes_self=True))
    series: Array
    bottleneck: str
    excess: Mapping[str, Array]
    links: Mapping[str, Array] = attrs.field(factory=dict)
    sinks: Mapping[str, Quantiles]
    bounds: Mapping[str, float | None] = attrs.field(factory=dict)
    error: ErrorBar
    notes: tuple[str, ...] = ()
    statistics: Document = attrs.field(factory=dict)
    episodes: tuple[Episode, ...] = ()
    steady: Document | None = None
    spread: Spread | None = None
    unended: tuple[str, ...] = ()

    def over_tuples(self) -> Estimate:
        """Return the same with its total over tuples, to stand beside what was measured."""
        return attrs.evolve(self, total=self.tuples, units="tuples")

    def interval(self, sink: str | None = None) -> Document:
        """Return the key ``interval`` of a report, over all sinks or of one, if it was asked for.

        Without numbers of a sink of which nothing is known. Over all there are some, as there are in the series.
        """
        if self.spread is None:
            return {}
        found = self.spread.interval(sink)
        return {"interval": dict.fromkeys(found["interval"])} if sink in self.unended else found

    def document(self) -> Document:
        """Return the keys of ``penstock estimate --json``."""
        return {
            "model": self.model,
            "period": self.period,
            **self.total.by_key(),
            "tuples": self.tuples.told(unended=bool(self.unended)),
            "series": self.series,
            "bottleneck": self.bottleneck,
            "hosts": {name: {"excess": series} for name, series in self.excess.items()},
            "links": {name: {"excess": series} for name, series in self.links.items()},
            "sinks": {name: {**self.told(name), **self.interval(name)} for name in self.sinks},
            "bounds": dict(self.bounds),
            "error": {**attrs.asdict(self.error), "relative": self.error.relative},
            "notes": list(self.notes),
            "statistics": dict(self.statistics),
            "episodes": [attrs.asdict(episode) for episode in self.episodes],
            **({} if self.steady is None else {"steady": self.steady}),
            **({} if self.spread is None else self.spread.document()),
        }
