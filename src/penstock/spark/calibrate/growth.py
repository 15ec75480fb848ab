"""How the output of windows, joins and python steps grows with the rate of their input.

A selectivity is measured at one rate. What it is at another cannot be told from that: of a join whose rows each find
one partner the output follows the rows, of one with few keys the pairs; the groups of a window are soon all there. So
the sample is looked at twice, as it is and with the same rows in half the time, as a burst would bring them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping

import attrs
import pyspark.sql.functions as F
from pyspark.sql import DataFrame

from penstock.network import Network, Operator
from penstock.network.model import Growth
from penstock.spark.compile import kinds
from penstock.spark.compile.blame import blame

FASTER = 2.0
ENOUGH = 2.0
"""A sample must be so many times as long as the longest window, also when it comes faster."""
LEAST = 1.15
"""Rates that differ by less do not tell how something grows with them."""


@attrs.frozen
class _Flow:
    """Rows of a sample, and the seconds over which they come."""

    rows: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def longest(network: Network) -> float:
    """Return the longest window of a network (s)."""
    return max([max(o.window or 0.0, o.within or 0.0) for o in network.operators.values()], default=0.0)


def length_needed(network: Network) -> float:
    """Return how much time a sample must cover, so that growth can be measured (s); 0 where there is nothing to."""
    return FASTER * ENOUGH * longest(network)


def measured_growth(network: Network, samples: Mapping[str, DataFrame]) -> dict[str, tuple[tuple[float, ...], Growth]]:
    """Measure how operators grow.

    Parameters
    ----------
    samples
        Rows of every source, with envelope and event time.

    Returns
    -------
    dict
        By operator its selectivity, from whole windows, and how its output grows. Those are left out that follow
        their input by their kind, or of which the sample tells nothing: it is too short, or their input came as fast
        both times.
    """
    need = length_needed(network)
    if not need:
        return {}
    cached = {name: frame.coalesce(1).cache() for name, frame in samples.items()}
    try:
        within = bounds(cached.values())
        if within is None or within[1] - within[0] < need:
            return {}
        slow, fast = (_flows(network, cached, within, pace) for pace in (1.0, FASTER))
    finally:
        for frame in cached.values():
            frame.unpersist()
    found = {}
    for name in sorted(_telling(network)):
        operator = network.operators[name]
        before, after = ([flows[given] for given in operator.inputs] for flows in (slow, fast))
        if not all(flow.rows and flow.seconds > 0 for flow in (*before, *after, slow[name], fast[name])):
            continue
        at = _middle(before)
        ratio = _middle(after) / at
        if ratio >= LEAST:
            exponent = math.log(fast[name].rate / slow[name].rate) / math.log(ratio)
            base = slow[name].rate / (2 * (operator.within or 0.0) * at * at if operator.kind == "join" else at)
            found[name] = (base,) * len(operator.inputs), Growth(min(4.0, max(0.0, exponent)), at)
    return found


def bounds(frames: Iterable[DataFrame]) -> tuple[float, float] | None:
    """Return the first and last event time of all frames (s); None where one has none."""
    found = []
    for frame in frames:
        row = frame.selectExpr(
            "unix_micros(min(__time)) / 1e6 AS low", "unix_micros(max(__time)) / 1e6 AS high"
        ).first()
        if row is None or row["low"] is None:
            return None
        found.append((float(row["low"]), float(row["high"])))
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None


def _middle(flows: list[_Flow]) -> float:
    """Return the geometric mean of rates."""
    return math.exp(sum(math.log(flow.rate) for flow in flows) / len(flows))


def _flows(
    network: Network, samples: Mapping[str, DataFrame], bounds: tuple[float, float], pace: float
) -> dict[str, _Flow]:
    """Return what is on the network where the samples come ``pace`` times as fast; all is counted by one query."""
    low, high = bounds
    begin, end = low, low + (high - low) / pace
    start = round(low * 1e6)
    time = f"timestamp_micros({start} + CAST((unix_micros(__time) - {start}) / {pace} AS BIGINT))"
    frames = {name: frame.withColumn("__time", F.expr(time)) for name, frame in samples.items()}
    seconds = dict.fromkeys(samples, end - begin)
    for name, operator in network.operators.items():
        with blame(f"operators.{name}"):
            frames[name] = kinds.apply(_free(operator), [frames[given] for given in operator.inputs])
        seconds[name] = max(seconds[given] for given in operator.inputs)
        if operator.kind == "aggregate":
            # Windows that the sample covers only in part have too few rows.
            window, slide = operator.window or 0.0, operator.step
            first, last = math.ceil(begin / slide - 1e-9), math.floor((end - window) / slide + 1e-9)
            seconds[name] = max(1, last - first + 1) * slide
            frames[name] = frames[name].where(
                f"unix_micros(window_start) BETWEEN {round(first * slide * 1e6)} AND {round(last * slide * 1e6)}"
            )
        elif operator.kind == "join":
            # A row finds all of its partners once as much lies before it as they may be apart.
            within = min(operator.within or 0.0, seconds[name])
            seconds[name] -= within
            frames[name] = frames[name].where(f"unix_micros(__time) >= {round((begin + within) * 1e6)}")
    telling = _telling(network)
    asked = telling | {given for name in telling for given in network.operators[name].inputs}
    rows = [frames[name].agg(F.count("*").alias("rows")).withColumn("name", F.lit(name)) for name in sorted(asked)]
    counted = {row["name"]: int(row["rows"]) for row in functools.reduce(DataFrame.unionAll, rows).collect()}
    return {name: _Flow(counted[name], seconds[name]) for name in asked}


def _telling(network: Network) -> set[str]:
    """Return the operators whose output may grow otherwise than their input.

    A python step tells batches apart, not rates; but what it makes of windows may depend on how full they are.
    """
    windows = {name for name, operator in network.operators.items() if operator.kind == "aggregate"}
    for name, operator in network.operators.items():
        if windows & set(operator.inputs):
            windows.add(name)
    return {
        name
        for name, operator in network.operators.items()
        if operator.kind == "aggregate"
        or (operator.kind == "join" and operator.counts is None)
        or (operator.kind == "python" and name in windows)
    }


def _free(operator: Operator) -> Operator:
    return attrs.evolve(operator, cost=(0.0,) * len(operator.inputs)) if operator.kind == "delay" else operator
