"""Measuring what operators cost on this Spark.

First pass: each operator alone, as batch jobs over sample rows; the cost is the slope of job time over rows, warm.
Second pass: the whole network in place, on warm hosts and under batches as large as a burst makes them; the time of
a host's batches against the work in them gives its overhead per batch and the factor of in-place costs.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import EngineError, InputError
from penstock.latency.fragments import fragments
from penstock.load import OperatorStatistics, Statistics, load_model
from penstock.load.statistics import HostStatistics
from penstock.network import Network, Operator
from penstock.spark.compile import kinds
from penstock.spark.compile.schemas import NEXMARK, blame
from penstock.spark.compile.sources import read_source
from penstock.spark.compile.sql import computes
from penstock.spark.run import Batch, Engine, Outcome, Report, scheduled_rates
from penstock.spark.shipped.deliver import FILES
from penstock.workload import Rates, nexmark

ENDINGS = (".json", ".csv", ".parquet", ".orc", ".txt")
SPREAD = 5
"""Sizes of a slope are at least this many times apart."""

LEAST = 0.1
"""Smallest factor of a host: in place nothing costs less than a tenth of what it costs alone."""


def read_samples(
    session: SparkSession, network: Network, path: str | os.PathLike[str] | None, events: int = 20_000
) -> dict[str, DataFrame]:
    """Return sample rows of every source, with envelope.

    Parameters
    ----------
    path
        A folder with a file or folder per source (``clicks.json``, ``clicks/``), or one file if there is one source.
        Not needed for sources that make their own events.
    events
        How many events of a Nexmark source.
    """
    found = {}
    for name, source in network.sources.items():
        at = f"sources.{name}"
        if source.format == "nexmark":
            try:
                schedule = nexmark.Schedule.of(scheduled_rates(source.options, name).of_source(name), 1.0)
            except InputError:
                schedule = nexmark.Schedule.of([1000.0], 1.0)
            rate = max(1.0, float(schedule.rates.mean()))
            stream = nexmark.Nexmark(nexmark.Schedule.of([rate] * math.ceil(events / rate + 1), 1.0))
            rows = [(*row, row[0], row[0], row[3]) for row in stream.rows(0, events)]
            found[name] = session.createDataFrame(rows, NEXMARK)
            continue
        if path is None:
            raise InputError(f"source {name!r} has no sample", at="--sample", hint="name a file or folder of rows")
        place = _sample_of(Path(path), name, len(network.sources))
        form = source.format if source.format in FILES else _format_of(place)
        options = {**(source.options if source.format == form else {}), "path": str(place.absolute())}
        if form == "csv" and source.format != "csv":
            options.setdefault("header", "true")
        if form in ("csv", "json"):
            # Else a file that is no such thing would be a sample of empty rows.
            options.setdefault("mode", "FAILFAST")
        with blame(at):
            found[name] = read_source(session, attrs.evolve(source, format=form, options=options), batch=True)
    return found


def _sample_of(path: Path, name: str, sources: int) -> Path:
    if not path.exists():
        raise InputError("no such file or folder", file=path, hint="check --sample")
    if path.is_dir():
        for candidate in [path / name, *(path / f"{name}{ending}" for ending in ENDINGS)]:
            if candidate.exists():
                return candidate
        if sources == 1:
            return path
        raise InputError(f"has no sample of source {name!r}", file=path, hint=f"expected {name}.json or {name}/")
    if sources > 1:
        raise InputError("expected a folder, since the network has several sources", file=path)
    return path


def _format_of(path: Path) -> str:
    names = [path.name] if path.is_file() else sorted(os.listdir(path))
    for name in names:
        for ending in ENDINGS:
            if ending in name:
                return {".txt": "text"}.get(ending, ending[1:])
    raise InputError("expected json, csv, parquet, orc or txt files", file=path)


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
        Cost, selectivity, error and tuples of every operator; a delay's cost is set, so that only its selectivity is
        measured.
    """
    tell = report or (lambda _what, _share: None)
    frames: dict[str, DataFrame] = {}
    counts: dict[str, int] = {}
    for name, frame in samples.items():
        frames[name] = frame.coalesce(1).cache()
        with blame(f"--sample of {name}"):
            counts[name] = frames[name].count()
        if counts[name] == 0:
            raise InputError(f"the sample of source {name!r} has no rows", at="--sample")
    span = {name: _span(frames[name]) for name in samples}
    speed = engine.speed(host) if any(map(computes, network.operators.values())) else 1.0
    found: dict[str, OperatorStatistics] = {}
    base: dict[str, _Slope] = {}
    for number, (name, operator) in enumerate(network.operators.items()):
        tell(f"calibrating {name}", number / len(network.operators))
        with blame(f"operators.{name}"):
            inputs = [frames[given] for given in operator.inputs]
            sizes = [counts[given] for given in operator.inputs]
            free = attrs.evolve(operator, cost=(0.0,) * len(operator.inputs)) if operator.kind == "delay" else operator
            frames[name] = kinds.apply(free, inputs).coalesce(1).cache()
            counts[name] = frames[name].count()
            span[name] = max(span[given] for given in operator.inputs)
            selectivity = _selectivity(operator, sizes, counts[name], span[name])
            taken = sum(sizes)
            if taken == 0:
                found[name] = OperatorStatistics(cost=operator.cost, selectivity=selectivity, error=1.0)
                continue
            for given, frame, size in zip(operator.inputs, inputs, sizes, strict=True):
                if given not in base and size:
                    base[given] = _slope([frame], [size], lambda rows: rows[0], error, min(budget, 1.5))
            slope = _slope(inputs, sizes, _applied(operator, speed), error, budget)
            reading = sum(base[g].mean * n for g, n in zip(operator.inputs, sizes, strict=True) if g in base) / taken
            cost = max(slope.mean - reading, 1e-9)
            relative = slope.error * slope.mean / cost
            found[name] = OperatorStatistics(
                cost=(cost,) * len(operator.inputs),
                selectivity=selectivity,
                error=min(relative, 1.0),
                tuples=slope.tuples,
            )
    for frame in frames.values():
        frame.unpersist()
    measured = {"pass": "alone", "host": host, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    return Statistics(operators=found, measured=measured)


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


@attrs.frozen
class _Slope:
    mean: float
    error: float
    tuples: int


def _slope(
    frames: Sequence[DataFrame],
    sizes: Sequence[int],
    build: Callable[[list[DataFrame]], DataFrame],
    error: float,
    budget: float,
) -> _Slope:
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
                return _Slope(max(mean, 0.0), spread / mean if mean > 0 else 1.0, round(len(slopes) * large))


def calibrate_in_place(
    statistics: Statistics,
    network: Network,
    placement: Mapping[str, str],
    outcome: Outcome,
    rates: Rates,
    *,
    skip: float,
) -> Statistics:
    """Return the statistics with each host's overhead and factor and the selectivities, from the batches of a run.

    Parameters
    ----------
    statistics
        Of the first pass.
    placement
        Of the run.
    outcome
        Of a run whose batches had many sizes.
    rates
        Of the sources during the run.
    skip
        Seconds at the beginning that are left out: the code is not warm yet.

    Raises
    ------
    EngineError
        If a host has too few batches, or all of one size.
    """
    costs = statistics.complete(network, override=True)
    found = {}
    host_of = {fragment.name: fragment.host for fragment in fragments(network, placement)}
    for host in sorted(set(host_of.values())):
        warm = [b for b in outcome.batches if host_of[b.query] == host and b.start - outcome.epoch > skip]
        batches, empty = [b for b in warm if b.rows > 0], [b.duration for b in warm if b.rows == 0 and b.known]
        load = np.array([work(costs, b) for b in batches])
        took = np.array([b.duration for b in batches])
        if len(batches) < 8 or load.max() < 2 * max(load.min(), 1e-12):
            raise EngineError(
                f"host {host!r} had {len(batches)} batches, too few or too alike to tell overhead from cost; "
                "calibrate for longer, with bursts"
            )
        found[host] = attrs.evolve(fit(load, took), idle=float(np.median(empty)) if empty else None)
    measured = {**statistics.measured, "pass": "alone, then in place"}
    return attrs.evolve(measured_selectivities(statistics, network, outcome, rates), hosts=found, measured=measured)


def measured_selectivities(statistics: Statistics, network: Network, outcome: Outcome, rates: Rates) -> Statistics:
    """Return the statistics with the selectivities that a run under known rates had, where its counts tell them."""
    streams = outcome.streams(network)
    found = dict(statistics.operators)
    for name in network.operators:
        outputs = [out.name for out in network.outputs(name) if out.share == 1]
        known = found.get(name)
        if not outputs or known is None or known.selectivity is None:
            continue
        # The model with what is known so far, upstream in place already, against what came out.
        model = load_model(attrs.evolve(statistics, operators=found).complete(network, override=True), rates)
        expected = float(model.arrivals[model.stream_index[outputs[0]]].sum() * rates.period)
        went = max(streams[out]["arrived"] for out in outputs)
        if expected > 0 and went > 0:
            scale = went / expected
            found[name] = attrs.evolve(known, selectivity=tuple(share * scale for share in known.selectivity))
    return attrs.evolve(statistics, operators=found)


def work(network: Network, batch: Batch) -> float:
    """Return the benchmark-core seconds of a batch's tuples."""
    total = 0.0
    for name, (arrived, dropped) in batch.counts.items():
        reader = name.partition("->")[2]
        if reader in network.operators:
            operator = network.operators[reader]
            port = operator.inputs.index(name.partition("->")[0])
            total += (arrived - dropped) * (operator.cost or (0.0,) * len(operator.inputs))[port]
    return total


def fit(load: np.ndarray[Any, Any], took: np.ndarray[Any, Any]) -> HostStatistics:
    """Fit ``took = overhead + factor · load`` by a regression that a few disturbed batches do not sway.

    Disturbances only lengthen batches, so that plain least squares would take them for cost: residuals beyond a
    scale, the median of the absolute ones, count by their size only (Huber's loss). Where the overhead hides the
    cost, noise alone would give it any sign: the overhead is not negative, and the factor is `LEAST` at least.
    """
    from scipy.optimize import least_squares

    table = np.column_stack([np.ones(len(load)), load])

    def misfit(guess: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(table @ guess - took)

    least = (0.0, LEAST)
    (overhead, factor), *_ = np.linalg.lstsq(table, took, rcond=None)
    overhead, factor = max(overhead, 0.0), max(factor, LEAST)
    scale = math.inf
    for _ in range(50):
        rest = took - overhead - factor * load
        before, scale = scale, max(1.4826 * float(np.median(np.abs(rest))), 1e-6)
        found = least_squares(
            misfit, (overhead, factor), bounds=(least, np.inf), loss="huber", f_scale=scale, x_scale=(0.1, 1.0)
        )
        overhead, factor = (float(value) for value in found.x)
        if abs(scale - before) <= 0.01 * scale:
            break
    weight = np.minimum(1.0, scale / np.maximum(np.abs(misfit(found.x)), 1e-12))
    sigma = float(np.sqrt((weight * misfit(found.x) ** 2).sum() / max(weight.sum() - 2, 1.0)))
    centre = float((weight * load).sum() / weight.sum())
    spread = float(np.sqrt((weight * (load - centre) ** 2).sum()))
    return HostStatistics(overhead=overhead, factor=factor, error=sigma / spread / factor if spread > 0 else 1.0)


def measure_overhead(engine: Engine, host: str, statistics: Statistics, seconds: float = 8.0) -> Statistics:
    """Return the statistics with a host's overhead: how long a micro-batch of a trivial query takes.

    In place, with more sources and state, it is larger: `calibrate_in_place` measures that.
    """
    import tempfile

    from penstock.network import Sink, Source

    tiny = Network.of(
        "overhead",
        [Source(name="events", format="nexmark")],
        [Operator(name="bids", kind="filter", inputs=("events",), where="kind = 'bid'", cost=(0.0,))],
        [Sink(name="out", input="bids")],
    )
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        rates = Rates.constant({"events": 50.0}, seconds, 1.0)
        outcome = engine.run(engine.prepare(tiny, {"bids": host}, folder, rates=rates))
    took = [b.duration for b in outcome.batches if b.rows and b.start - outcome.epoch > seconds / 2]
    known = HostStatistics(overhead=float(np.median(took)) if took else 0.0)
    return attrs.evolve(statistics, hosts={**statistics.hosts, host: known})
