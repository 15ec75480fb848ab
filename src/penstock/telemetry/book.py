"""What one log tells, event by event: its application, its queries, and the tasks whose batch has not ended."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator

import attrs

from penstock.telemetry.cause import cause_of
from penstock.telemetry.columns import Columns
from penstock.telemetry.events import (
    ApplicationEnd,
    ApplicationStart,
    Environment,
    Event,
    ExecutorAdded,
    ExecutorRemoved,
    JobStart,
    LogStart,
    Progress,
    QueryStarted,
    QueryTerminated,
    TaskEnd,
    Unreadable,
    epoch,
)
from penstock.telemetry.query_log import Run
from penstock.telemetry.work import BatchWork
from penstock.units import human

OPEN = 4096
"""Batches and stages whose tasks are kept while no progress report has told their end."""


@attrs.define
class Known:
    """What is known of a query besides its batches."""

    name: str | None = None
    runs: dict[str, Run] = attrs.field(factory=dict)
    numbers: dict[str, int] = attrs.field(factory=dict)

    def keep(self, run: Run) -> Run:
        """Add a run if it is new; return what is known of it."""
        self.numbers.setdefault(run.id, len(self.numbers))
        return self.runs.setdefault(run.id, run)


class Book:
    """What one log tells so far: one application, its queries, and the tasks whose batch has not ended."""

    def __init__(self, name: str) -> None:
        self.id, self.name, self.version = name, "", ""
        self.settings: dict[str, str] = {}
        self.first = self.last = float("nan")
        self.executors: dict[str, int] = {}
        self.changes: list[tuple[float, float]] = []
        self.most = 0
        self.task_seconds = float("nan")
        self.known: dict[str, Known] = {}
        self.columns: dict[str, Columns] = {}
        self.real_time: set[str] = set()
        self.stage_of: dict[int, tuple[str, str]] = {}
        self.work: dict[tuple[str, str], BatchWork] = {}

    def take(self, event: Event) -> None:
        """Take one event in.

        Raises
        ------
        Unreadable
            If it cannot be right.
        """
        try:
            self._take(event)
        except OverflowError:
            raise Unreadable("a number in it is too large") from None

    def _take(self, event: Event) -> None:
        match event:
            case TaskEnd():
                self._task(event)
            case JobStart():
                self._job(event)
            case Progress():
                self._progress(event)
            case QueryStarted():
                self._started(event)
            case QueryTerminated():
                self._terminated(event)
            case ExecutorAdded() | ExecutorRemoved():
                self._executor(event)
            case ApplicationStart():
                self.id, self.name = event.id or self.id, event.name
                self._seen(event.time / 1000)
            case ApplicationEnd():
                self._seen(event.time / 1000)
            case LogStart():
                self.version = event.version
            case Environment():
                wanted = ("spark.sql.streaming.", "spark.sql.shuffle.", "spark.dynamicAllocation.", "spark.master")
                self.settings = {k: str(v) for k, v in event.properties.items() if k.startswith(wanted)}

    def warnings(self) -> Iterator[str]:
        """Yield what is told but cannot be right, a sentence each."""
        for identifier, columns in self.columns.items():
            back, name = columns.set_back(), self.known[identifier].name or identifier
            if back > 0:
                yield f"{self.id}: the clock was set back by {human(back)} while {name} ran; its rates may be wrong"

    def _seen(self, when: float) -> None:
        if when > 0:
            self.first = when if not self.first <= when else self.first
            self.last = when if not self.last >= when else self.last

    def _job(self, job: JobStart) -> None:
        if job.properties is None or job.properties.query is None or job.properties.batch is None:
            return
        if job.real_time:
            self.real_time.add(job.properties.query)
        for stage in job.stages:
            self.stage_of[stage] = job.properties.query, job.properties.batch
        while len(self.stage_of) > OPEN:
            del self.stage_of[next(iter(self.stage_of))]

    def _task(self, task: TaskEnd) -> None:
        if task.metrics is None:
            return
        seconds = task.metrics.run / 1000
        self.task_seconds = seconds if math.isnan(self.task_seconds) else self.task_seconds + seconds
        key = self.stage_of.get(task.stage)
        if key is None:
            return
        work = self.work.get(key)
        if work is None:
            work = self.work[key] = BatchWork()
            if len(self.work) > OPEN:
                del self.work[next(iter(self.work))]
        work.run += seconds
        work.collecting += task.metrics.collecting / 1000
        stage = work.stages.get(task.stage)
        if stage is None:
            stage = work.stages[task.stage] = array("f")
        stage.append(seconds)

    def _progress(self, progress: Progress) -> None:
        known = self.known.get(progress.id)
        if known is None:
            known = self.known[progress.id] = Known()
        known.name = progress.name or known.name
        run = known.runs.get(progress.run_id) or known.keep(Run(id=progress.run_id))
        when = progress.start
        self._seen(when + (progress.batch_duration or 0) / 1000)
        if run.start is None:
            known.runs[run.id] = attrs.evolve(run, start=when)
        durations = progress.durations
        asked = sum(s.num_input_rows or 0 for s in progress.sources or ()) or (progress.num_input_rows or 0)
        if "addBatch" not in durations and asked == 0:  # Spark only looked for data
            return
        work = self.work.pop((progress.id, str(progress.batch_id)), None)
        columns = self.columns.get(progress.id)
        if columns is None:
            columns = self.columns[progress.id] = Columns()
        columns.add(progress, known.numbers[run.id], work)

    def _started(self, query: QueryStarted) -> None:
        when = epoch(query.timestamp) if query.timestamp else None
        known = self.known.setdefault(query.id, Known())
        known.name = query.name or known.name
        known.keep(Run(id=query.run_id, start=when))
        if when is not None:
            self._seen(when)

    def _terminated(self, query: QueryTerminated) -> None:
        known = self.known.setdefault(query.id, Known())
        run = known.keep(Run(id=query.run_id))
        end = None if math.isnan(self.last) else self.last
        known.runs[query.run_id] = attrs.evolve(run, end=end, error=cause_of(query.exception))

    def _executor(self, event: ExecutorAdded | ExecutorRemoved) -> None:
        if isinstance(event, ExecutorAdded):
            self.executors[event.executor] = event.info.cores
        else:
            self.executors.pop(event.executor, None)
        self.most = max(self.most, len(self.executors))
        self.changes.append((event.time / 1000, float(sum(self.executors.values()))))
        self._seen(event.time / 1000)
