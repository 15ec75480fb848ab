"""Reading logs into tables: each log is one pass over its lines, in bounded memory."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import attrs

from penstock.errors import InputError
from penstock.telemetry.assemble import applications, queries
from penstock.telemetry.codecs import BLOCK, Readable, Truncated, blocks
from penstock.telemetry.columns import BatchWork, Columns
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
    parse,
)
from penstock.telemetry.files import Log, find_logs
from penstock.telemetry.tables import Run, Telemetry

LONGEST = 64 * 2**20
"""Bytes of a line; longer ones are no events and are passed over."""

PATIENCE = 10_000
"""Lines without an event after which a file is taken for no log."""

OPEN = 4096
"""Batches and stages whose tasks are kept while no progress report has told their end."""

Report = Callable[[str, float], None]


def read_telemetry(paths: Sequence[str], report: Report = lambda _, __: None) -> Telemetry:
    """Read the logs at these paths.

    Parameters
    ----------
    paths
        Event logs, folders with them, JSON lines of progress, folders of our listener, ``-``.
    report
        Told which log is read, and the share of all bytes that has been read.

    Raises
    ------
    InputError
        If a path does not exist, or none holds a batch of a streaming query.
    """
    logs = find_logs(paths)
    total = max(sum(log.size for log in logs), 1)
    books, warnings, skipped = [], [], []
    done = lines = 0
    for log in logs:
        book = Book(log.name)
        before = done
        reader = Reader(log, lambda name, read, before=before: report(name, min((before + read) / total, 1.0)))  # type: ignore[misc]
        for event in reader:
            book.take(event, reader)
        done += log.size
        lines += reader.lines
        if book.columns or book.known:
            books.append(book)
            warnings += reader.warnings()
        else:
            skipped.append(f"{log.name}: {reader.nothing()}")
    found = queries(books)
    if not found:
        why = "; ".join(skipped[:3]) if skipped else "there is no batch of a streaming query in it"
        given = ", ".join(str(path) for path in paths[:3])
        raise InputError(
            f"nothing could be read: {why}", file=given, hint="was spark.eventLog.enabled set, and did a query run?"
        )
    return Telemetry(
        applications=applications(books),
        queries=found,
        warnings=tuple(warnings),
        skipped=tuple(skipped),
        lines=lines,
    )


class Reader:
    """The events of one log; afterwards, what could not be read of it."""

    def __init__(self, log: Log, report: Report) -> None:
        self.log, self.report = log, report
        self.lines = self.bad = self.first_bad = 0
        self.events = 0
        self.why = ""
        self.broken: list[str] = []

    def __iter__(self) -> Iterator[Event]:
        read = 0
        for path in self.log.files:
            try:
                with _opened(path) as file:
                    for batch in self._lines(_Counted(file, lambda count: self.report(self.log.name, read + count))):  # noqa: B023
                        yield from self._events(batch)
                        if self.lines > PATIENCE and not self.events:
                            return
                    read += path.stat().st_size if str(path) != "-" else 0
            except OSError as error:
                self.broken.append(f"{path.name} cannot be read: {error.strerror or error}")

    def _lines(self, file: Readable) -> Iterator[list[bytes]]:
        """Split a file into lines; the last one may be without its end."""
        carry: list[bytes] = []
        length = 0
        try:
            for block in blocks(file, BLOCK):
                head, newline, _ = block.partition(b"\n")
                if not newline:
                    length += len(block)
                    carry = [*carry, block] if length <= LONGEST else []
                    continue
                lines = block[len(head) + 1 :].split(b"\n")
                yield [b"".join([*carry, head]) if length <= LONGEST else b"(too long)"]
                carry = [lines.pop()]
                length = len(carry[0])
                yield lines
        except Truncated as cut:
            self.broken.append(str(cut))
        if carry and carry[0]:
            yield [b"".join(carry)]

    def _events(self, lines: list[bytes]) -> Iterator[Event]:
        for line in lines:
            self.lines += 1
            try:
                event = parse(line)
            except Unreadable as error:
                self.refuse(str(error))
                continue
            self.events += 1
            if event is not None:
                yield event

    def refuse(self, why: str) -> None:
        """Count a line that cannot be read."""
        self.bad += 1
        self.first_bad = self.first_bad or self.lines
        self.why = self.why or why

    def warnings(self) -> list[str]:
        """Return what was read in part, a sentence each."""
        told = [f"{self.log.name}: {why}; what lies before is read" for why in self.broken]
        if self.bad == 1 and self.first_bad == self.lines:
            told.append(f"{self.log.name}: its last line is cut off: the application still ran, or was killed")
        elif self.bad:
            told.append(f"{self.log.name}: {self.bad} of {self.lines} lines are damaged, the first is {self.first_bad}")
        return told

    def nothing(self) -> str:
        """Return why nothing was found."""
        if self.broken:
            return self.broken[0]
        if self.lines == 0:
            return "it is empty"
        if self.events == 0:
            return "it is neither an event log of Spark nor JSON lines of streaming progress"
        return "there is no batch of a streaming query in it"


class _Counted:
    """A file that tells how much of it has been read."""

    def __init__(self, file: Readable, told: Callable[[int], None]) -> None:
        self.file, self.told, self.count = file, told, 0

    def read(self, size: int = -1, /) -> bytes:
        block = self.file.read(size)
        self.count += len(block)
        self.told(self.count)
        return block


def _opened(path: Path) -> BinaryIO:
    return sys.stdin.buffer if str(path) == "-" else path.open("rb")


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
        self.stage_of: dict[int, tuple[str, str]] = {}
        self.work: dict[tuple[str, str], BatchWork] = {}

    def take(self, event: Event, reader: Reader) -> None:
        """Take one event in; one that cannot be right is counted by the reader."""
        try:
            self._take(event)
        except Unreadable as error:
            reader.refuse(str(error))

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

    def _seen(self, when: float) -> None:
        if when > 0:
            self.first = when if not self.first <= when else self.first
            self.last = when if not self.last >= when else self.last

    def _job(self, job: JobStart) -> None:
        if job.properties is None or job.properties.query is None or job.properties.batch is None:
            return
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
        work.cpu += task.metrics.cpu / 1e9
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
        when = epoch(progress.timestamp)
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
        known = self.known.setdefault(query.id, Known())
        known.name = query.name or known.name
        when = epoch(query.timestamp) if query.timestamp else None
        known.keep(Run(id=query.run_id, start=when))
        if when is not None:
            self._seen(when)

    def _terminated(self, query: QueryTerminated) -> None:
        known = self.known.setdefault(query.id, Known())
        run = known.keep(Run(id=query.run_id))
        error = query.exception.strip().splitlines()[0][:300] if query.exception and query.exception.strip() else None
        end = None if math.isnan(self.last) else self.last
        known.runs[query.run_id] = attrs.evolve(run, end=end, error=error)

    def _executor(self, event: ExecutorAdded | ExecutorRemoved) -> None:
        if isinstance(event, ExecutorAdded):
            self.executors[event.executor] = event.info.cores
        else:
            self.executors.pop(event.executor, None)
        self.most = max(self.most, len(self.executors))
        self.changes.append((event.time / 1000, float(sum(self.executors.values()))))
        self._seen(event.time / 1000)
