"""The applications that logs tell of; several logs of one are joined."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from penstock.telemetry.batches import frozen
from penstock.telemetry.book import Book
from penstock.telemetry.tables import Application


def applications(books: Sequence[Book]) -> dict[str, Application]:
    """Return the applications by identifier; several logs of one are joined."""
    found: dict[str, Application] = {}
    for book in sorted(books, key=lambda book: (math.isnan(book.first), book.first)):
        application = Application(
            id=book.id,
            name=book.name or book.id,
            version=book.version,
            start=book.first,
            end=book.last,
            changes=frozen(np.array(book.changes, dtype=np.float64).reshape(-1, 2)),
            executors=book.most,
            task_seconds=book.task_seconds,
            attempts=(book.first,),
            settings=dict(sorted(book.settings.items())),
        )
        other = found.get(book.id)
        found[book.id] = application if other is None else _joined(other, application)
    return dict(sorted(found.items()))


def _joined(one: Application, other: Application) -> Application:
    """Return one application of which two logs tell, over the time of both; `other` did not begin before `one`.

    Logs of the same time tell the same, and the fuller one is taken. Logs of different times are attempts, and add up.
    """
    full, less = (one, other) if len(one.changes) >= len(other.changes) else (other, one)
    if other.start >= one.end:
        full = attrs.evolve(
            full,
            changes=frozen(np.concatenate([one.changes, other.changes])),
            executors=max(one.executors, other.executors),
            task_seconds=_sum(one.task_seconds, other.task_seconds),
            attempts=(*one.attempts, *other.attempts),
        )
    return attrs.evolve(
        full,
        version=full.version or less.version,
        start=float(np.fmin(one.start, other.start)),
        end=float(np.fmax(one.end, other.end)),
    )


def _sum(one: float, other: float) -> float:
    """Return the sum of what is told; NaN only where neither is."""
    return one if math.isnan(other) else other if math.isnan(one) else one + other
