"""The batches of one query that several logs tell of, as one table."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from penstock.telemetry.batches import Batches, frozen


def padded(batches: Batches, sources: int, names: Sequence[str]) -> Batches:
    """Return a table with columns for so many sources and for all these parts."""
    missing = sources - batches.source_rows.shape[0]
    if missing == 0 and len(names) == len(batches.parts):
        return batches
    zeros = np.zeros(len(batches))
    return attrs.evolve(
        batches,
        source_rows=np.vstack([batches.source_rows, np.zeros((missing, len(batches)))]),
        source_lag=np.vstack([batches.source_lag, np.full((missing, len(batches)), np.nan)]),
        parts={name: batches.parts.get(name, zeros) for name in names},
    )


def concatenated(tables: Sequence[Batches]) -> Batches:
    """Return one table of several with the same columns."""
    if len(tables) == 1:
        return tables[0]
    changes: dict[str, object] = {}
    for field in attrs.fields(Batches):
        values = [getattr(table, field.name) for table in tables]
        if field.name == "parts":
            changes["parts"] = {name: frozen(np.concatenate([value[name] for value in values])) for name in values[0]}
        else:
            changes[field.name] = frozen(np.concatenate(values, axis=-1))
    return Batches(**changes)  # type: ignore[arg-type]


def once(batches: Batches) -> Batches:
    """Return each batch once, by the time of its start; of one told twice, the telling that knows the tasks."""
    order = np.lexsort((np.isnan(batches.tasks), batches.number, batches.run, batches.start))
    first = np.ones(order.size, dtype=bool)
    keys = np.stack([batches.run[order], batches.number[order]]).T, batches.start[order]
    first[1:] = (keys[0][1:] != keys[0][:-1]).any(axis=1) | (keys[1][1:] != keys[1][:-1])
    if first.all() and (np.diff(order) == 1).all():  # as told: no copy of what may be millions of rows
        return batches
    return batches.take(order[first])
