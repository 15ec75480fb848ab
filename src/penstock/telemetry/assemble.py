"""Joining what several logs tell: one query may have run in several applications, and be told twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
import numpy as np

from penstock.telemetry.book import Book
from penstock.telemetry.identity import by_query
from penstock.telemetry.parts import Part, Unbegun, parts_of
from penstock.telemetry.query_log import QueryLog, Run
from penstock.telemetry.unite import concatenated, once, padded


def queries(books: Iterable[Book]) -> tuple[dict[str, QueryLog], tuple[Unbegun, ...]]:
    """Return the queries by name, and those without any batch."""
    groups = by_query(part for book in books for part in parts_of(book))
    logs = [_query(group) for group in groups if any(len(part.batches) for part in group)]
    unbegun = {
        (part.id, part.app): Unbegun(f"query {part.name or part.id!r} of {part.app}", part.runs[-1].error)
        for group in groups
        if not any(len(part.batches) for part in group)
        for part in group
    }
    names = Counter(log.name for log in logs)
    first = Counter((log.name, log.ids[0][:8]) for log in logs)
    unique = [
        attrs.evolve(log, name=f"{log.name}-{log.ids[0][: 8 if first[log.name, log.ids[0][:8]] == 1 else None]}")
        if names[log.name] > 1
        else log
        for log in logs
    ]
    found = {log.name: log for log in sorted(unique, key=lambda log: (log.name, log.ids))}
    return found, tuple(unbegun.values())


def _lateness(part: Part) -> tuple[float, bool, float]:
    return float(part.batches.start.max()), bool(part.app_name), part.begin


def _query(parts: list[Part]) -> QueryLog:
    parts = sorted(parts, key=lambda part: part.begin)
    runs: dict[str, Run] = {}
    numbers: dict[str, int] = {}
    tables = []
    width = max(part.batches.source_rows.shape[0] for part in parts)
    names = sorted({name for part in parts for name in part.batches.parts})
    for part in parts:
        for run in part.runs:
            known = runs.get(run.id)
            runs[run.id] = run if known is None or known.end is None else known
            numbers.setdefault(run.id, len(numbers))
        if not len(part.batches):
            continue
        index = np.array([numbers[run.id] for run in part.runs], dtype=np.int64)
        tables.append(padded(attrs.evolve(part.batches, run=index[part.batches.run]), width, names))
    # Of two that tell the last batch, an application's own log: it tells its cores.
    last = max((part for part in parts if len(part.batches)), key=_lateness)
    return QueryLog(
        name=last.name or last.id,
        ids=tuple(dict.fromkeys(part.id for part in parts)),
        app=last.app,
        runs=tuple(runs.values()),
        batches=once(concatenated(tables)),
        sources=max((part.sources for part in parts), key=len),
        sink=last.sink,
        state=last.state,
        partitions=last.partitions,
        store=last.store,
        times_read=max(part.times_read for part in parts),
        real_time=any(part.real_time for part in parts),
    )
