"""What the sources of a batch have read, and how many rows still wait there."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.telemetry.events import SourceProgress, offsets

NAN = math.nan


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
    partitions = bytes(source.end_offset).count(b":") - 1 if end is not None else 1
    return mean * max(partitions, 1)


def rows_behind(read: Iterable[dict[str, Array]], sources: Iterable[str], count: int) -> Array:
    """Return the rows that wait at the sources, in rows: what an offset's step is in rows is learnt from the batches.

    A step of Kafka's offset is a row, of the rate source a second, of a file source a batch of files.
    """
    total: NDArray[np.float64] = np.full(count, NAN)
    for source, description in zip(read, sources, strict=True):
        with np.errstate(invalid="ignore"):
            told = (source["advanced"] > 0) & (source["rows"] > 0)
        if np.isnan(source["waiting"]).all() or not (told.any() or description.startswith("Kafka")):
            continue
        step = float(np.median(source["rows"][told] / source["advanced"][told])) if told.any() else 1.0
        waiting = source["waiting"] * step
        total = np.where(np.isnan(total), waiting, total + np.nan_to_num(waiting))
    return total
