"""Joining what several logs tell: one query may have run in several applications, and be told twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
import numpy as np

from penstock.telemetry.batches import Batches
from penstock.telemetry.book import Book
from penstock.telemetry.query_log import QueryLog, Run
from penstock.telemetry.unite import concatenated, once, padded


@attrs.define
class _Part:
    """One query identifier as one log tells it."""

    id: str
    name: str | None
    app: str
    app_name: str
    runs: list[Run]
    batches: Batches
    sources: tuple[str, ...]
    sink: str
    state: tuple[str, ...]


def queries(books: Iterable[Book]) -> dict[str, QueryLog]:
    """Return the queries by name.

    Parts with the same identifier are one query. So are parts of one name, application name and sources that never
    ran at the same time: a query that was started again on a new checkpoint.
    """
    groups: list[list[_Part]] = []
    for book in books:
        for identifier, columns in book.columns.items():
            known = book.known[identifier]
            batches = columns.table()
            part = _Part(
                id=identifier,
                name=known.name,
                app=book.id,
                app_name=book.name,
                runs=list(known.runs.values()),
                batches=batches,
                sources=tuple(columns.sources),
                sink=columns.sink,
                state=columns.state,
            )
            home = next((group for group in groups if any(_same(part, other) for other in group)), None)
            if home is None:
                groups.append([part])
            else:
                home.append(part)
    logs = [_query(group) for group in groups]
    names = Counter(log.name for log in logs)
    unique = [attrs.evolve(log, name=f"{log.name}-{log.ids[0][:8]}") if names[log.name] > 1 else log for log in logs]
    return {log.name: log for log in sorted(unique, key=lambda log: (log.name, log.ids))}


def _same(one: _Part, other: _Part) -> bool:
    if one.id == other.id:
        return True
    if one.name is None or (one.name, one.app_name, one.sources) != (other.name, other.app_name, other.sources):
        return False
    a, b = one.batches, other.batches
    return bool(a.start[0] >= b.end.max() or b.start[0] >= a.end.max())


def _query(parts: list[_Part]) -> QueryLog:
    parts = sorted(parts, key=lambda part: float(part.batches.start.min()))
    runs: dict[str, Run] = {}
    tables = []
    width = max(part.batches.source_rows.shape[0] for part in parts)
    names = sorted({name for part in parts for name in part.batches.parts})
    for part in parts:
        for run in part.runs:
            known = runs.get(run.id)
            runs[run.id] = run if known is None or known.end is None else known
        index = np.array([list(runs).index(run.id) for run in part.runs], dtype=np.int64)
        tables.append(padded(attrs.evolve(part.batches, run=index[part.batches.run]), width, names))
    last = parts[-1]
    return QueryLog(
        name=last.name or last.id,
        ids=tuple(dict.fromkeys(part.id for part in parts)),
        app=last.app,
        runs=tuple(runs.values()),
        batches=once(concatenated(tables)),
        sources=max((part.sources for part in parts), key=len),
        sink=last.sink,
        state=last.state,
    )
