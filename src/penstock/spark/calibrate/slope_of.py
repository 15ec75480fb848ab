"""Timing jobs: the slope of their time over their rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import attrs
import pyspark.sql.functions as F
from pyspark.sql import DataFrame

from penstock.load.fitting import Slope
from penstock.network import Operator
from penstock.spark.calibrate.growth import bounds

SPREAD = 5
"""Sizes of a slope are at least this many times apart."""

FEWEST, ENOUGH, ROUGH = 3, 5, 0.3
"""Repetitions that a slope takes at least, those that it takes where it is unsure, and the relative error that is."""

COPY = "__copy"
"""The column that numbers the copies of a sample."""


@attrs.frozen
class Precision:
    """How well to measure an operator: up to a relative standard error of the cost, or for so long (s)."""

    error: float = 0.02
    budget: float = 4.0


def apart(operator: Operator, inputs: Sequence[DataFrame]) -> float:
    """Return the event time (s) from one copy of the inputs to the next, so that rows of two never meet.

    Each copy is cut into windows as the one before.
    """
    if not operator.stateful:
        return 0.0
    low, high = bounds(inputs) or (0.0, 0.0)
    step, reach = operator.step or 1.0, max(operator.window or 0.0, operator.within or 0.0)
    return step * (math.floor((high - low + reach) / step) + 1)


def slope_of(
    frames: Sequence[DataFrame],
    sizes: Sequence[int],
    build: Callable[[list[DataFrame]], DataFrame],
    wish: Precision,
    gap: float = 0.0,
    numbered: bool = False,
) -> Slope:
    """Return seconds per input row: the slope of job time between two sizes, repeated.

    The larger size grows until the difference of times is well above the noise of a job, by going over the sample
    again where it has too few rows, each time ``gap`` seconds of event time after the last; if ``numbered``, its rows
    tell which time that is.
    """
    total = sum(sizes)
    time_of_copy = F.expr(f"timestamp_micros(unix_micros(__time) + {COPY} * {round(gap * 1e6)})")

    def spend(rows: float) -> float:
        share = rows / total
        taken = []
        for frame, size in zip(frames, sizes, strict=True):
            if share <= 1:
                taken.append(frame.limit(max(1, round(size * share))))
            else:
                copies = frame.sparkSession.range(0, round(share), 1, 1).selectExpr(f"id AS {COPY}")
                whole = copies.crossJoin(frame).withColumn("__time", time_of_copy)
                taken.append(whole if numbered else whole.drop(COPY))
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
        if took - floor > 0.25 or large >= limit or time.perf_counter() - begin > wish.budget:
            break
        growth = 0.35 / max(took - floor, 0.02)
        large = min(limit, large * min(max(growth, 2.0), 20.0))
        if large > total:
            large = total * max(1, round(large / total))
    lows: list[float] = []
    highs: list[float] = []
    while True:
        lows.append(spend(small))
        highs.append(spend(large))
        if len(lows) < FEWEST:
            continue
        slope = Slope.between(lows, highs, small, large)
        # Whoever is this unsure goes on a little beyond the time.
        enough = len(lows) >= ENOUGH or slope.spread <= ROUGH * abs(slope.mean)
        if slope.spread <= wish.error * abs(slope.mean) or (enough and time.perf_counter() - begin > wish.budget):
            return slope
