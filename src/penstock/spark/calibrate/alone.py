"""The first pass: each operator alone, as batch jobs over sample rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np
from pyspark.sql import DataFrame

from penstock.errors import InputError
from penstock.load import OperatorStatistics, Statistics
from penstock.load.fitting import Slope, told_apart
from penstock.network import Network, Operator
from penstock.spark.calibrate.growth import length_needed, measured_growth
from penstock.spark.calibrate.samples import lengthened
from penstock.spark.compile import kinds
from penstock.spark.compile.schemas import blame
from penstock.spark.compile.sql import computes
from penstock.spark.run import Engine, Report

SPREAD = 5
"""Sizes of a slope are at least this many times apart."""


def calibrate_alone(
    engine: Engine,
    host: str,
    network: Network,
    samples: Mapping[str, DataFrame],
    *,
    error: float = 0.02,
    budget: float = 4.0,
    report: Report | None = None,
) -> Statistics:
    """Measure each operator alone on one host.

    Parameters
    ----------
    samples
        Rows of every source, with envelope.
    error
        Relative standard error of the cost at which to stop.
    budget
        Seconds to spend on one operator at most.

    Returns
    -------
    Statistics
        Cost, selectivity, error and tuples of every operator; those that do the same with the same are measured once.
        Of windows, joins and python steps also how their output grows with the rate, where the sample is
        long enough to tell.
    """
    tell, first = report or (lambda _what, _share: None), alike(network)
    bench = _Bench.of({name: frame for name, frame in samples.items() if first[name] == name}, error, budget)
    speed = engine.speed(host) if any(map(computes, network.operators.values())) else 1.0
    found: dict[str, OperatorStatistics] = {}
    for number, (name, operator) in enumerate(network.operators.items()):
        if first[name] != name:
            found[name] = found[first[name]]
            continue
        tell(f"calibrating {name}", number / len(network.operators))
        with blame(f"operators.{name}"):
            found[name] = bench.measured(operator, [first[given] for given in operator.inputs], speed)
    for frame in bench.frames.values():
        frame.unpersist()
    need = length_needed(network)
    if need:
        tell("calibrating how outputs grow", 0.95)
        for name, (selectivity, growth) in measured_growth(
            network, lengthened(engine.sessions[host], network, samples, need)
        ).items():
            found[name] = attrs.evolve(found[name], selectivity=selectivity, growth=growth)
    measured = {"pass": "alone", "host": host, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    return Statistics(operators=found, measured=measured)


def alike(network: Network) -> dict[str, str]:
    """Return for each source and operator the first one that does the same with the same.

    Sources are alike where they make events of their own of one kind, as many of them. A join names its inputs, so that
    it is like no other.
    """
    first: dict[object, str] = {}
    found: dict[str, str] = {}
    for name, source in network.sources.items():
        plain = attrs.evolve(source, name="" if source.scheduled else name, options={}, host=None)
        found[name] = first.setdefault((plain, tuple(sorted(source.options.items()))), name)
    for name, operator in network.operators.items():
        inputs = tuple(found[given] for given in operator.inputs)
        plain_step = attrs.evolve(
            operator, name=name if operator.kind == "join" else "", inputs=inputs, pin=None, route=None
        )
        found[name] = first.setdefault(plain_step, name)
    return found


@attrs.frozen
class _Bench:
    """Rows to measure with: by source and operator its output in memory, how many rows, over which time (s).

    ``base`` holds what reading it costs; ``error`` and ``budget`` are those of `calibrate_alone`.
    """

    frames: dict[str, DataFrame]
    counts: dict[str, int]
    span: dict[str, float]
    error: float
    budget: float
    base: dict[str, Slope] = attrs.field(factory=dict)

    @classmethod
    def of(cls, samples: Mapping[str, DataFrame], error: float, budget: float) -> _Bench:
        """Return a bench with the samples."""
        frames: dict[str, DataFrame] = {}
        counts: dict[str, int] = {}
        for name, frame in samples.items():
            frames[name] = frame.coalesce(1).cache()
            with blame(f"--sample of {name}"):
                counts[name] = frames[name].count()
            if counts[name] == 0:
                raise InputError(f"the sample of source {name!r} has no rows", at="--sample")
        return cls(frames, counts, {name: _span(frame) for name, frame in frames.items()}, error, budget)

    def measured(self, operator: Operator, given: Sequence[str], speed: float) -> OperatorStatistics:
        """Measure an operator, whose inputs are known under these names, on a host of some speed; keep its output."""
        name, frames = operator.name, self.frames
        inputs, sizes = [frames[each] for each in given], [self.counts[each] for each in given]
        free = attrs.evolve(operator, cost=(0.0,) * len(given)) if operator.kind == "delay" else operator
        frames[name] = kinds.apply(free, inputs).coalesce(1).cache()
        self.counts[name] = frames[name].count()
        self.span[name] = max(self.span[each] for each in given)
        selectivity = _selectivity(operator, sizes, self.counts[name], self.span[name])
        taken = sum(sizes)
        if taken == 0:
            return OperatorStatistics(cost=operator.cost, selectivity=selectivity, error=1.0)
        for each, frame, size in zip(given, inputs, sizes, strict=True):
            if each not in self.base and size:
                self.base[each] = _slope([frame], [size], lambda rows: rows[0], self.error, min(self.budget, 1.5))
        slope = _slope(inputs, sizes, _applied(operator, speed), self.error, self.budget)
        read = [(self.base[each], n / taken) for each, n in zip(given, sizes, strict=True) if each in self.base]
        cost, relative, resolution = told_apart(slope, Slope.mixed(read))
        return OperatorStatistics(
            cost=(cost,) * len(given),
            selectivity=selectivity,
            error=relative,
            tuples=slope.tuples,
            resolution=resolution,
        )


def _applied(operator: Operator, speed: float) -> Callable[[list[DataFrame]], DataFrame]:
    return lambda rows: kinds.apply(operator, rows, speed)


def _span(frame: DataFrame) -> float:
    """Return the seconds between the first and last event time of a frame."""
    row = frame.selectExpr("(unix_micros(max(_time)) - unix_micros(min(_time))) / 1e6 AS span").first()
    return float(row["span"] or 0.0) if row is not None else 0.0


def _selectivity(operator: Operator, sizes: Sequence[int], out: int, span: float) -> tuple[float, ...]:
    """Return output per input tuple; of a join the share of the pairs within the window that match."""
    if operator.kind == "join":
        pairs = 2 * (operator.within or 0.0) * sizes[0] * sizes[1] / span if span > 0 else 0.0
        return (out / pairs if pairs > 0 else 0.0,) * 2
    if operator.kind == "union":
        return (1.0,) * len(sizes)
    return (out / sizes[0] if sizes[0] else 0.0,)


def _slope(
    frames: Sequence[DataFrame],
    sizes: Sequence[int],
    build: Callable[[list[DataFrame]], DataFrame],
    error: float,
    budget: float,
) -> Slope:
    """Return seconds per input row: the slope of job time between two sizes, repeated.

    The larger size grows until the difference of times is well above the noise of a job, by going over the sample
    again where it has too few rows.
    """
    total = sum(sizes)

    def spend(rows: float) -> float:
        share = rows / total
        taken = []
        for frame, size in zip(frames, sizes, strict=True):
            if share <= 1:
                taken.append(frame.limit(max(1, round(size * share))))
            else:
                copies = frame.sparkSession.range(0, round(share), 1, 1).selectExpr("id AS __copy")
                taken.append(copies.crossJoin(frame).drop("__copy"))
        begin = time.perf_counter()
        build(taken).write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begin

    begin = time.perf_counter()
    small = min(200.0, total / SPREAD)
    spend(small)
    floor = spend(small)
    large = small * SPREAD
    limit = total * 50
    while True:
        took = spend(large)
        if took - floor > 0.25 or large >= limit or time.perf_counter() - begin > budget:
            break
        growth = 0.35 / max(took - floor, 0.02)
        large = min(limit, large * min(max(growth, 2.0), 20.0))
        if large > total:
            large = total * max(1, round(large / total))
    slopes: list[float] = []
    while True:
        low, high = spend(small), spend(large)
        slopes.append((high - low) / (large - small))
        if len(slopes) >= 3:
            mean = float(np.mean(slopes))
            spread = float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes))
            if spread <= error * abs(mean) or time.perf_counter() - begin > budget:
                return Slope(mean, spread, round(len(slopes) * large))
