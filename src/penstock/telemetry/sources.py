"""What the sources of a batch have read, and how many rows still wait there."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from penstock.arrays import Array
from penstock.telemetry.events import SourceProgress, offsets

NAN = math.nan

WHOLE = 0.01
"""Share by which the rows of a step may differ from a whole number that they are taken for."""


def taken(source: SourceProgress) -> tuple[float, float, float]:
    """Return the rows of a source, by how much its offset went on, and by how much it is behind the latest one."""
    start, end, latest = (offsets(raw) for raw in (source.start_offset, source.end_offset, source.latest_offset))
    advanced = end - start if start is not None and end is not None else NAN
    waiting = latest - end if latest is not None and end is not None else NAN
    if latest is None:
        waiting = _behind(source, end)
    return float(source.num_input_rows or 0), advanced, max(waiting, 0.0)


def _behind(source: SourceProgress, end: float | None) -> float:
    """Return Kafka's own measure of offsets behind the latest: a mean over the partitions."""
    try:
        mean = float((source.metrics or {})["avgOffsetsBehindLatest"])
    except (KeyError, TypeError, ValueError):
        return NAN
    if end is None:
        return mean
    # Each topic and each partition is a key; each topic opens a brace, and so do all together.
    keys, braces = (bytes(source.end_offset).count(sign) for sign in (b":", b"{"))
    return mean * (keys - braces + 1)


def times_read(source: Mapping[str, Array], description: str) -> int:
    """Return how many times each batch reads a source, where it can be told; else 1.

    Spark adds up the rows of every action of a ``foreachBatch``. Kafka has no more rows than its offset goes on by.
    """
    step = _step(source) if description.startswith("Kafka") else None
    times = round(step or 1.0)
    return times if step is not None and times >= 2 and abs(step - times) <= WHOLE * times else 1


def rows_behind(source: Mapping[str, Array], description: str) -> Array:
    """Return the rows that wait at a source, in rows: what an offset's step is in rows is learnt from the batches.

    A step of Kafka's offset is a row, of the rate source a second, of a file source a batch of files.
    """
    step = _step(source)
    if step is None:
        step = 1.0 if description.startswith("Kafka") else NAN
    return np.asarray(source["waiting"] * step)


def _step(source: Mapping[str, Array]) -> float | None:
    """Return the rows of a step of a source's offset, in the median batch; None where none tells."""
    with np.errstate(invalid="ignore"):
        told = (source["advanced"] > 0) & (source["rows"] > 0)
    return float(np.median(source["rows"][told] / source["advanced"][told])) if told.any() else None
