"""Collecting the batches of a query, event by event, in columns that take 8 bytes a number."""

from __future__ import annotations

from array import array

import numpy as np

from penstock.arrays import Array
from penstock.telemetry.batches import STATE_COMMIT, Batches, frozen
from penstock.telemetry.events import Progress, SourceProgress, Unreadable, epoch
from penstock.telemetry.sources import NAN, rows_behind, taken, times_read
from penstock.telemetry.work import BatchWork

_PLAIN = ("start", "duration", "rows", "output", "event_time", "state_rows", "state_bytes", "late")
_TASKS = ("tasks", "task_seconds", "collecting", "slowest", "typical")
_WHOLE = ("triggerExecution",)


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
        self.partitions: int | None = None
        self.store = ""

    def add(self, progress: Progress, run: int, work: BatchWork | None) -> None:
        """Add one batch.

        Raises
        ------
        Unreadable
            If its time is no time, or a number is larger than Spark writes.
        """
        try:
            self._add(progress, run, work)
        except OverflowError:
            raise Unreadable("a number in it is too large") from None

    def _add(self, progress: Progress, run: int, work: BatchWork | None) -> None:
        # All is worked out before anything is kept: columns stay equally long when a number is too large.
        durations = progress.durations
        start = progress.start
        took = durations.get("triggerExecution", progress.batch_duration or sum(durations.values())) / 1000
        sources, state = progress.sources or [], progress.state_operators or []
        rows = float(sum(s.num_input_rows or 0 for s in sources) if sources else progress.num_input_rows or 0)
        output = progress.sink.num_output_rows if progress.sink is not None else None
        youngest = (progress.event_time or {}).get("max")
        values = (
            start,
            took,
            rows,
            NAN if output is None or output < 0 else float(output),
            _event_time(youngest),
            float(sum(s.num_rows_total or 0 for s in state)),
            float(sum(s.memory_used_bytes or 0 for s in state)),
            float(sum(s.num_rows_dropped_by_watermark or 0 for s in state)),
        )
        committed = sum(s.commit_time_ms or 0 for s in state) / 1000
        read = [taken(source) for source in sources]
        self.number.append(progress.batch_id)
        for name, value in zip(_PLAIN, values, strict=True):
            self.plain[name].append(value)
        for name, value in zip(_TASKS, (NAN,) * len(_TASKS) if work is None else work.row(), strict=True):
            self.plain[name].append(value)
        parts = {name: value / 1000 for name, value in durations.items() if name not in _WHOLE}
        self._parts({**parts, STATE_COMMIT: committed} if state else parts)
        self._sources(sources, read)
        self.run.append(run)
        self.sink = progress.sink.description if progress.sink is not None else self.sink
        if state:
            self.state = tuple(s.operator_name or "state" for s in state)
            self.partitions = max(s.num_shuffle_partitions or 0 for s in state) or None
            self.store = next((name for s in state if (name := s.store)), "")

    def _parts(self, parts: dict[str, float]) -> None:
        before = len(self.run)
        for name in parts:
            if name not in self.parts:
                self.parts[name] = array("d", [0.0]) * before
        for name, column in self.parts.items():
            column.append(parts.get(name, 0.0))

    def _sources(self, sources: list[SourceProgress], read: list[tuple[float, float, float]]) -> None:
        before = len(self.run)
        for number, source in enumerate(sources):
            if number == len(self.read):
                self.read.append({name: array("d", [NAN]) * before for name in ("rows", "advanced", "waiting")})
                self.sources.append("")
            self.sources[number] = source.description or self.sources[number]
        for number, columns in enumerate(self.read):
            values = read[number] if number < len(read) else (0.0, NAN, NAN)
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)

    def times_read(self) -> list[int]:
        """Return how many times each batch reads each source."""
        return [times_read(read, description) for read, description in zip(self._read(), self.sources, strict=True)]

    def set_back(self) -> float:
        """Return by how many seconds at most a batch began before the last one of its run: the clock was set back."""
        run, number, start = (np.array(column) for column in (self.run, self.number, self.plain["start"]))
        order = np.lexsort((start, number, run))
        back = np.where(np.diff(run[order]) == 0, -np.diff(start[order]), 0.0)
        return float(back.max(initial=0.0))

    def _read(self) -> list[dict[str, Array]]:
        return [{name: _array(column) for name, column in source.items()} for source in self.read]

    def table(self) -> Batches:
        """Return the batches as they were told, with each row once where a batch reads it several times."""
        arrays = {name: _array(column) for name, column in self.plain.items()}
        count = len(self.run)
        read, times = self._read(), self.times_read()
        source_rows, source_lag = np.zeros((2, len(read), count))
        for number, (source, description) in enumerate(zip(read, self.sources, strict=True)):
            once = {**source, "rows": source["rows"] / times[number]}
            source_rows[number], source_lag[number] = np.nan_to_num(once["rows"]), rows_behind(once, description)
        if max(times, default=1) > 1:
            arrays["rows"] = frozen(source_rows.sum(axis=0))
        return Batches(
            run=np.frombuffer(self.run, dtype=np.int64) if count else np.zeros(0, np.int64),
            number=np.frombuffer(self.number, dtype=np.int64) if count else np.zeros(0, np.int64),
            parts={name: _array(column) for name, column in self.parts.items()},
            source_rows=frozen(source_rows),
            source_lag=frozen(source_lag),
            **arrays,
        )


def _event_time(text: str | None) -> float:
    """Return an event time (s since the epoch); NaN for none, and for one that the rows have wrong."""
    try:
        return epoch(text) if text else NAN
    except Unreadable:
        return NAN


def _array(column: array[float]) -> Array:
    """Return a column as an array, without a copy."""
    return frozen(np.frombuffer(column, dtype=np.float64)) if column else frozen(np.zeros(0))
