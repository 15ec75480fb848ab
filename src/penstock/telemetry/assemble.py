"""Joining what several logs tell: one query may have run in several applications, and be told twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from penstock.telemetry.book import Book
from penstock.telemetry.tables import Application, Batches, QueryLog, Run, _frozen


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


def applications(books: Sequence[Book]) -> dict[str, Application]:
    """Return the applications by identifier; several logs of one are joined."""
    found: dict[str, Application] = {}
    for book in books:
        application = Application(
            id=book.id,
            name=book.name or book.id,
            version=book.version,
            start=book.first,
            end=book.last,
            changes=_frozen(np.array(book.changes, dtype=np.float64).reshape(-1, 2)),
            executors=book.most,
            task_seconds=book.task_seconds,
            settings=dict(sorted(book.settings.items())),
        )
        other = found.get(book.id)
        found[book.id] = application if other is None else _joined(other, application)
    return dict(sorted(found.items()))


def _joined(one: Application, other: Application) -> Application:
    """Return one application of which two logs tell: what the fuller one says, over the time of both."""
    full, less = (one, other) if len(one.changes) >= len(other.changes) else (other, one)
    return attrs.evolve(
        full,
        version=full.version or less.version,
        start=float(np.fmin(one.start, other.start)),
        end=float(np.fmax(one.end, other.end)),
    )


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
        tables.append(_padded(attrs.evolve(part.batches, run=index[part.batches.run]), width, names))
    last = parts[-1]
    return QueryLog(
        name=last.name or last.id,
        ids=tuple(dict.fromkeys(part.id for part in parts)),
        app=last.app,
        runs=tuple(runs.values()),
        batches=_once(_concatenated(tables)),
        sources=max((part.sources for part in parts), key=len),
        sink=last.sink,
        state=last.state,
    )


def _padded(batches: Batches, sources: int, names: Sequence[str]) -> Batches:
    missing = sources - batches.source_rows.shape[0]
    if missing == 0 and len(names) == len(batches.parts):
        return batches
    zeros = np.zeros(len(batches))
    return attrs.evolve(
        batches,
        source_rows=np.vstack([batches.source_rows, np.zeros((missing, len(batches)))]),
        parts={name: batches.parts.get(name, zeros) for name in names},
    )


def _concatenated(tables: Sequence[Batches]) -> Batches:
    if len(tables) == 1:
        return tables[0]
    changes: dict[str, object] = {}
    for field in attrs.fields(Batches):
        values = [getattr(table, field.name) for table in tables]
        if field.name == "parts":
            changes["parts"] = {name: np.concatenate([value[name] for value in values]) for name in values[0]}
        else:
            changes[field.name] = np.concatenate(values, axis=-1)
    return Batches(**changes)  # type: ignore[arg-type]


def _once(batches: Batches) -> Batches:
    """Return each batch once, by the time of its start; of one told twice, the telling that knows the tasks."""
    order = np.lexsort((np.isnan(batches.tasks), batches.number, batches.run, batches.start))
    first = np.ones(order.size, dtype=bool)
    keys = np.stack([batches.run[order], batches.number[order]]).T, batches.start[order]
    first[1:] = (keys[0][1:] != keys[0][:-1]).any(axis=1) | (keys[1][1:] != keys[1][:-1])
    if first.all() and (np.diff(order) == 1).all():  # as told: no copy of what may be millions of rows
        return batches
    return batches.take(order[first])
