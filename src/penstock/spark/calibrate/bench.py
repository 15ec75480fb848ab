"""Rows to measure operators with, and what each makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from pyspark.sql import DataFrame

from penstock.errors import InputError
from penstock.load import OperatorStatistics
from penstock.load.fitting import Slope, told_apart
from penstock.network import Operator
from penstock.spark.calibrate.growth import bounds
from penstock.spark.calibrate.slope_of import COPY, Precision, apart, slope_of
from penstock.spark.compile import kinds
from penstock.spark.compile.blame import blame
from penstock.spark.compile.sql import bracketed, computes, quoted


@attrs.frozen
class Bench:
    """Rows to measure with: by source and operator its output in memory, how many rows, over which time (s).

    ``base`` holds what reading it costs; ``wish`` says how well to measure, and ``core`` how many benchmark cores one
    of the host's cores is.
    """

    frames: dict[str, DataFrame]
    counts: dict[str, int]
    span: dict[str, float]
    wish: Precision
    core: float = 1.0
    base: dict[str, Slope] = attrs.field(factory=dict)

    @classmethod
    def of(cls, samples: Mapping[str, DataFrame], wish: Precision, core: float = 1.0) -> Bench:
        """Return a bench with the samples."""
        frames: dict[str, DataFrame] = {}
        counts: dict[str, int] = {}
        for name, frame in samples.items():
            frames[name] = frame.coalesce(1).cache()
            with blame(f"--sample of {name}"):
                counts[name] = frames[name].count()
            if counts[name] == 0:
                raise InputError(f"the sample of source {name!r} has no rows", at="--sample")
        return cls(frames, counts, {name: _span(frame) for name, frame in frames.items()}, wish, core)

    def measured(self, operator: Operator, given: Sequence[str], speed: float) -> OperatorStatistics:
        """Measure an operator, whose inputs are known under these names, on a host of some speed; keep its output.

        One that no row reaches has what the network gives, and a join whose rows never meet its selectivity. A cost is
        that of a benchmark core; what an operator computes by given steps takes as long on any.
        """
        name, frames = operator.name, self.frames
        inputs, sizes = [frames[each] for each in given], [self.counts[each] for each in given]
        free = attrs.evolve(operator, cost=(0.0,) * len(given)) if operator.kind == "delay" else operator
        frames[name] = kinds.apply(free, inputs).coalesce(1).cache()
        self.counts[name] = frames[name].count()
        self.span[name] = max(self.span[each] for each in given)
        taken = sum(sizes)
        if taken == 0:
            return OperatorStatistics(cost=operator.cost, selectivity=operator.selectivity, error=1.0)
        for each, frame, size in zip(given, inputs, sizes, strict=True):
            if each not in self.base and size:
                brief = attrs.evolve(self.wish, budget=min(self.wish.budget, 1.5))
                self.base[each] = slope_of([frame], [size], lambda rows: rows[0], brief)
        slope = slope_of(
            inputs, sizes, _applied(operator, speed), self.wish, apart(operator, inputs), operator.kind == "join"
        )
        read = [(self.base[each], n / taken) for each, n in zip(given, sizes, strict=True) if each in self.base]
        cost, relative, resolution = told_apart(slope, Slope.mixed(read))
        core = 1.0 if computes(operator) else self.core
        selectivity = _selectivity(operator, sizes, self.counts[name], self.span[name])
        return OperatorStatistics(
            cost=(core * cost,) * len(given),
            selectivity=operator.selectivity if selectivity is None else selectivity,
            error=relative if selectivity is not None else 1.0,
            tuples=slope.tuples if selectivity is not None else 0,
            resolution=core * resolution,
        )


def _applied(operator: Operator, speed: float) -> Callable[[list[DataFrame]], DataFrame]:
    if operator.kind != "join":
        return lambda rows: kinds.apply(operator, rows, speed)
    # Else Spark would compare the rows of a key with those of all copies.
    same = " AND ".join(
        [bracketed(operator.on or "true"), "=".join(f"{quoted(given)}.{COPY}" for given in operator.inputs)]
    )
    copied = attrs.evolve(operator, on=same)
    return lambda rows: kinds.apply(copied if COPY in rows[0].columns else operator, rows, speed)


def _span(frame: DataFrame) -> float:
    """Return the seconds between the first and last event time of a frame."""
    low, high = bounds([frame]) or (0.0, 0.0)
    return high - low


def _selectivity(operator: Operator, sizes: Sequence[int], out: int, span: float) -> tuple[float, ...] | None:
    """Return output per input tuple, of which there are some; of a join the share of the pairs within the window.

    None: a join had no pairs, since one input is empty or all rows are of one moment.
    """
    if operator.kind == "join":
        pairs = 2 * (operator.within or 0.0) * sizes[0] * sizes[1] / span if span > 0 else 0.0
        return (out / pairs,) * 2 if pairs > 0 else None
    if operator.kind == "union":
        return (1.0,) * len(sizes)
    return (out / sizes[0],)
