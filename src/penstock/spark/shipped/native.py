"""Rows that Spark itself writes, where a query has one exit, a sink of files: no Python process sees any of them.

What the writer has to know of the rows, Spark gathers as metrics while it writes them. Where a query has several exits,
tasks write all of them in one go; see `penstock.spark.shipped.tasks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.shipped import BITS
from penstock.spark.shipped.deliver import Laid, lay, scratch_of
from penstock.spark.shipped.share import Counts, Reached, reached_from
from penstock.spark.shipped.spec import SinkExit, WriterSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from penstock.spark.shipped.identity import Signed

RANKS = 1000
"""Stimulus times are told at so many ranks: exactly for batches with fewer rows, of others to half a thousandth."""

SKETCH = 8000
"""The size of the sketch that they come from: exact up to so many rows, beyond within a thousandth in rank."""


@dataclass(frozen=True)
class Written:
    """What Spark has written of a batch; ``rows``: None where there are none."""

    counts: Counts
    reached: Reached
    rows: Laid | None


def write_by_spark(spec: WriterSpec, frame: DataFrame, batch: int, *, store: bool) -> Written:
    """Let Spark compute a batch and write the rows of its only exit.

    Parameters
    ----------
    frame
        The batch, of a query that is `marked`.
    store
        False for a batch that is done again for Spark's counts only.
    """
    from pyspark.sql import Observation

    (way,) = spec.sinks
    said = Observation()
    rows = frame.observe(said, *_counted(spec), *_reached(spec), _stimulus()).filter("_shown IS NOT NULL")
    shown = rows.select(*(column for column, _ in way.columns)).toDF(*(name for _, name in way.columns))
    scratch, files = scratch_of(spec, way, batch), []
    if store:
        files = lay(way, shown, scratch)
    else:
        shown.write.format("noop").mode("overwrite").save()
    metrics = said.get
    counts, laid = counts_of(spec, metrics), None
    place, number = way.seen
    came, dropped = counts[spec.passes[place][number]]
    if store and came > dropped:
        laid = Laid(scratch, files, spread_out(metrics["stimulus"], came - dropped))
    elif store:
        scratch.remove()
    return Written(counts, reached_of(spec, metrics), laid)


def marked(frame: DataFrame, way: SinkExit, *, timed: bool) -> DataFrame:
    """Return a query's rows with the stimulus time in ``_shown``, of those that arrived at its sink undropped.

    That is part of the query: Spark compiles what it computes, and would work out metrics without that. ``timed``:
    whether its rows tell event times.
    """
    place, number = way.seen
    column, bit = divmod(2 * number, BITS)
    there = f"_seen{place}_{column} & {3 << bit}L = {1 << bit}L"
    others = [name for name in frame.columns if timed or name != "__stimulus"]
    return frame.selectExpr(*others, f"CASE WHEN {there} THEN __stimulus END AS _shown")


def _counted(spec: WriterSpec) -> list[Column]:
    import pyspark.sql.functions as F

    wanted = {
        (place, spec.first_of(place, bit))
        for place, streams in enumerate(spec.passes)
        for bit in range(2 * len(streams))
        if bit % 2 == 0 or streams[bit // 2] in spec.dropping
    }
    return [
        F.expr(f"count(CASE WHEN _seen{place}_{bit // BITS} & {1 << bit % BITS}L <> 0L THEN 1 END) AS n{place}_{bit}")
        for place, bit in sorted(wanted)
    ]


def counts_of(spec: WriterSpec, said: Mapping[str, int]) -> Counts:
    """Return arrived and dropped rows by stream, from the metrics."""

    def counted(place: int, bit: int) -> int:
        return said[f"n{place}_{spec.first_of(place, bit)}"]

    return {
        stream: [counted(place, 2 * number), counted(place, 2 * number + 1) if stream in spec.dropping else 0]
        for place, streams in enumerate(spec.passes)
        for number, stream in enumerate(streams)
    }


def _reached(spec: WriterSpec) -> list[Column]:
    import pyspark.sql.functions as F

    if not spec.timed:
        return []
    tests = [f"__origin = {n}{' AND __id IS NULL' if start.marked else ''}" for n, start in enumerate(spec.origins)]
    latest = [f"max(CASE WHEN {test} THEN unix_micros(__time) END) AS o{n}" for n, test in enumerate(tests)]
    both = ["max(unix_micros(__time)) AS latest", "max(CASE WHEN __id IS NULL THEN __stimulus END) AS marked"]
    return [F.expr(each) for each in (*latest, *both)]


def reached_of(spec: WriterSpec, said: Mapping[str, int | None]) -> Reached:
    """Return how far event time has come, from the metrics."""
    if not spec.timed:
        return Reached()
    return reached_from(
        spec, [said[f"o{number}"] for number in range(len(spec.origins))], [said["latest"], said["marked"]]
    )


def _stimulus() -> Column:
    import pyspark.sql.functions as F

    # As a text that Spark takes apart while it plans: a thousand literals would be a plan of their own.
    ranks = f"CAST(split('{','.join(str(k / RANKS) for k in range(RANKS + 1))}', ',') AS ARRAY<DOUBLE>)"
    told = f"kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(_shown, {SKETCH}), {ranks})"
    return F.expr(f"CASE WHEN count(_shown) > 0 THEN {told} END AS stimulus")


def spread_out(quantiles: Sequence[int], rows: int) -> Signed:
    """Return stimulus times, and how many rows had each: array (2, n); from quantiles at `RANKS` + 1 even ranks."""
    import numpy as np

    # Each row, in the middle of its share of the ranks, has the time of the nearest rank that is told.
    upto = np.floor((np.arange(RANKS + 1) + 0.5) * rows / RANKS + 0.5).astype(np.int64)
    counts = np.diff(np.minimum(upto, rows), prepend=0)
    return np.stack([np.asarray(quantiles, np.int64), counts])[:, counts > 0]
