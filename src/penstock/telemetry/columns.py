"""Collecting the batches of a query, event by event, in columns that take 8 bytes a number."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from statistics import median

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.telemetry.events import Progress, SourceProgress, epoch, offsets
from penstock.telemetry.tables import STATE_COMMIT, Batches, _frozen

NAN = math.nan
_PLAIN = ("start", "duration", "rows", "output", "event_time", "state_rows", "state_bytes", "late")
_TASKS = ("tasks", "task_seconds", "task_cpu", "collecting", "slowest", "typical")
_WHOLE = ("triggerExecution",)


@attrs.define
class BatchWork:
    """The tasks of one batch so far: seconds run, on a core, collecting garbage, and of each task by stage."""

    run: float = 0.0
    cpu: float = 0.0
    collecting: float = 0.0
    stages: dict[int, array[float]] = attrs.field(factory=dict)

    def row(self) -> tuple[float, ...]:
        """Return the columns ``tasks`` to ``typical`` of `Batches`."""
        count = 0
        slowest = typical = NAN
        for stage in self.stages.values():
            count += len(stage)
            if len(stage) >= 2:
                ordered = sorted(stage)
                if not ordered[-1] <= slowest:
                    slowest, typical = ordered[-1], median(ordered[:-1])
        return count, self.run, self.cpu, self.collecting, slowest, typical


class Columns:
    """The batches of one query identifier, in the order in which they are told."""

    def __init__(self) -> None:
        self.plain = {name: array("d") for name in (*_PLAIN, *_TASKS)}
        self.run, self.number = array("q"), array("q")
        self.parts: dict[str, array[float]] = {}
        self.sources: list[str] = []
        self.read: list[dict[str, array[float]]] = []
        self.sink = ""
        self.state: tuple[str, ...] = ()

    def add(self, progress: Progress, run: int, work: BatchWork | None) -> None:
        """Add one batch.

        Raises
        ------
        Unreadable
            If its time is no time.
        """
        durations = progress.durations
        start = epoch(progress.timestamp)
        took = durations.get("triggerExecution", progress.batch_duration or sum(durations.values())) / 1000
        sources, state = progress.sources or [], progress.state_operators or []
        rows = sum(s.num_input_rows or 0 for s in sources) if sources else progress.num_input_rows or 0
        output = progress.sink.num_output_rows if progress.sink is not None else None
        youngest = (progress.event_time or {}).get("max")
        values = (
            start,
            took,
            rows,
            NAN if output is None or output < 0 else output,
            epoch(youngest) if youngest else NAN,
            sum(s.num_rows_total or 0 for s in state),
            sum(s.memory_used_bytes or 0 for s in state),
            sum(s.num_rows_dropped_by_watermark or 0 for s in state),
        )
        for name, value in zip(_PLAIN, values, strict=True):
            self.plain[name].append(value)
        for name, value in zip(_TASKS, (NAN,) * len(_TASKS) if work is None else work.row(), strict=True):
            self.plain[name].append(value)
        committed = sum(s.commit_time_ms or 0 for s in state)
        parts = {name: value / 1000 for name, value in durations.items() if name not in _WHOLE}
        self._parts({**parts, STATE_COMMIT: committed / 1000} if state else parts)
        self._sources(sources)
        self.run.append(run)
        self.number.append(progress.batch_id)
        self.sink = progress.sink.description if progress.sink is not None else self.sink
        if state:
            self.state = tuple(s.operator_name or "state" for s in state)

    def _parts(self, parts: dict[str, float]) -> None:
        before = len(self.run)
        for name in parts:
            if name not in self.parts:
                self.parts[name] = array("d", [0.0]) * before
        for name, column in self.parts.items():
            column.append(parts.get(name, 0.0))

    def _sources(self, sources: list[SourceProgress]) -> None:
        before = len(self.run)
        for number, source in enumerate(sources):
            if number == len(self.read):
                self.read.append({name: array("d", [NAN]) * before for name in ("rows", "advanced", "waiting")})
                self.sources.append("")
            self.sources[number] = source.description or self.sources[number]
        for number, columns in enumerate(self.read):
            values = _read(sources[number]) if number < len(sources) else (0.0, NAN, NAN)
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)

    def table(self) -> Batches:
        """Return the batches as they were told."""
        arrays = {name: _array(column) for name, column in self.plain.items()}
        count = len(self.run)
        read = [{name: _array(column) for name, column in source.items()} for source in self.read]
        source_rows = np.array([np.nan_to_num(s["rows"]) for s in read]) if read else np.zeros((0, count))
        return Batches(
            run=np.frombuffer(self.run, dtype=np.int64),
            number=np.frombuffer(self.number, dtype=np.int64),
            parts={name: _array(column) for name, column in self.parts.items()},
            source_rows=_frozen(source_rows),
            lag=_frozen(_lag(read, self.sources, count)),
            **arrays,
        )


def _array(column: array[float]) -> Array:
    """Return a column as an array, without a copy."""
    return _frozen(np.frombuffer(column, dtype=np.float64)) if column else _frozen(np.zeros(0))


def _read(source: SourceProgress) -> tuple[float, float, float]:
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


def _lag(read: Iterable[dict[str, Array]], sources: Iterable[str], count: int) -> Array:
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
