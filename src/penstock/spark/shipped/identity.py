"""Identities of rows: unique, and the same on every replay and in every replica."""

from __future__ import annotations

from typing import Any

GOLDEN = 0x9E3779B97F4A7C15


def unique(ids: Any, salt: int | None = None) -> Any:
    """Return identities of which none is twice.

    Equal rows of a file have equal identities at first. A file is read within one batch, and its equal rows cannot be
    told apart, so that the second, third, … of them get identities of their own here, the same ones whenever and
    wherever the batch is computed.

    Parameters
    ----------
    ids
        Arrow array of 64-bit integers without nulls.
    salt
        A number to mix in: that of the batch, for sources whose rows have no position.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if salt is None and pc.count_distinct(ids).as_py() == len(ids):
        return ids
    values = ids.to_numpy().astype(np.uint64)
    if salt is not None:
        values = mixed(values, np.full(len(values), salt + 1, np.uint64))
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, bool)
    places = np.arange(len(ordered))
    nth = np.zeros(len(ordered), np.uint64)
    nth[order] = (places - np.maximum.accumulate(np.where(starts, places, 0))).astype(np.uint64)
    values = np.where(nth > 0, mixed(values, nth), values)
    return pa.array(values.astype(np.int64))


def mixed(values: Any, by: Any) -> Any:
    """Return identities with numbers mixed in (arrays of unsigned 64-bit integers)."""
    import numpy as np

    with np.errstate(over="ignore"):
        value = (values ^ (by * np.uint64(GOLDEN))) * np.uint64(0xBF58476D1CE4E5B9)
    return value ^ (value >> np.uint64(29))
