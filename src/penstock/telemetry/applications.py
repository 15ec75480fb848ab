"""The applications that logs tell of; several logs of one are joined."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from penstock.telemetry.batches import frozen
from penstock.telemetry.book import Book
from penstock.telemetry.tables import Application


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
            changes=frozen(np.array(book.changes, dtype=np.float64).reshape(-1, 2)),
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
