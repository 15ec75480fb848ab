"""Identities of rows: unique, and the same on every replay and in every replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

Signed: TypeAlias = "npt.NDArray[np.int64]"
Unsigned: TypeAlias = "npt.NDArray[np.uint64]"
Integers: TypeAlias = "Signed | Unsigned"

GOLDEN = 0x9E3779B97F4A7C15


def unique(ids: pa.Array, salt: int | None = None) -> pa.Array:
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
    return pa.array(told_apart(values, ordinals(values)))


def ordinals(values: Integers) -> Signed:
    """Return for each value how many equal ones stand before it (array of integers)."""
    import numpy as np

    order = np.argsort(values, kind="stable")
    ordered, places = values[order], np.arange(len(values))
    starts = np.ones(len(values), bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    found = np.empty(len(values), np.int64)
    found[order] = places - np.maximum.accumulate(np.where(starts, places, 0))
    return found


def told_apart(values: Unsigned, numbers: Signed) -> Signed:
    """Return identities (array of signed 64-bit integers) with numbers mixed in where these are not 0."""
    import numpy as np

    return np.where(numbers > 0, mixed(values, numbers.astype(np.uint64)), values).astype(np.int64)


def mixed(values: Unsigned, by: Unsigned) -> Unsigned:
    """Return identities with numbers mixed in (arrays of unsigned 64-bit integers)."""
    import numpy as np

    with np.errstate(over="ignore"):
        value = (values ^ (by * np.uint64(GOLDEN))) * np.uint64(0xBF58476D1CE4E5B9)
    found: Unsigned = value ^ (value >> np.uint64(29))
    return found
