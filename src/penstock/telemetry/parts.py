"""What one log tells of one query: a part of what all logs tell of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from penstock.telemetry.batches import Batches
from penstock.telemetry.book import Book
from penstock.telemetry.columns import Columns
from penstock.telemetry.query_log import Run


@attrs.define
class Part:
    """One query identifier as one log tells it; its table is empty where no run began a batch."""

    id: str
    name: str | None
    app: str
    app_name: str
    runs: list[Run]
    batches: Batches
    sources: tuple[str, ...]
    sink: str
    state: tuple[str, ...]
    partitions: int | None
    store: str
    times_read: int
    real_time: bool

    @property
    def begin(self) -> float:
        """When its first batch began (s since the epoch), or its first run where it has no batch."""
        if len(self.batches):
            return float(self.batches.start.min())
        return min(run.start or run.end or math.inf for run in self.runs)


@attrs.frozen
class Unbegun:
    """A query of which no log has a batch.

    Attributes
    ----------
    name
        What it is called, with its application.
    error
        The exception by which its last run ended.
    """

    name: str
    error: str | None

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.name}: it ended before its first batch: {self.error}"
        return f"{self.name}: it began no batch, or has the continuous trigger, which reports none"


def parts_of(book: Book) -> Iterator[Part]:
    """Yield what a log tells of each of its queries."""
    for identifier in dict.fromkeys((*book.columns, *book.known)):
        known, columns = book.known[identifier], book.columns.get(identifier) or Columns()
        yield Part(
            id=identifier,
            name=known.name,
            app=book.id,
            app_name=book.name,
            runs=list(known.runs.values()),
            batches=columns.table(),
            sources=tuple(columns.sources),
            sink=columns.sink,
            state=columns.state,
            partitions=columns.partitions,
            store=columns.store,
            times_read=max(columns.times_read(), default=1),
            real_time=identifier in book.real_time,
        )
