"""What the arrays of a saved table must look like, before compiled code reads them by address."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.arrays import Numbers
from penstock.errors import InputError

Arrays = Mapping[str, Numbers]
Shapes = Mapping[str, tuple[str, ...]]
"""By array the kind of its numbers, ``f`` or ``i``, and the names of its dimensions."""

INDEX: Shapes = {
    "points": ("f", "points", "columns"), "score": ("f", "points"), "low": ("f", "nodes", "columns"),
    "first": ("i", "nodes"), "last": ("i", "nodes"), "most": ("f", "nodes"),
}  # fmt: skip
"""Of points that `penstock.shedding.grid.indexed` has ordered."""


def check_shapes(arrays: Arrays, expected: Shapes, **sizes: int) -> dict[str, int]:
    """Refuse arrays of other shapes, and return the size of each dimension by its name.

    Raises
    ------
    KeyError, InputError
        If one is missing; if it does not fit the others, or the given sizes.
    """
    for name, (kind, *dims) in expected.items():
        array = arrays[name]
        told = dict(zip(dims, array.shape, strict=False))
        if array.dtype.kind != kind or array.ndim != len(dims) or any(sizes.get(d, n) != n for d, n in told.items()):
            raise damaged(name)
        sizes |= told
    return sizes


def check_range(arrays: Arrays, name: str, least: int, below: int) -> None:
    """Refuse numbers that point to nothing."""
    if ((arrays[name] < least) | (arrays[name] >= below)).any():
        raise damaged(name)


def check_index(arrays: Arrays, **sizes: int) -> dict[str, int]:
    """Refuse an index of points that leads out of them; see `check_shapes`."""
    sizes = check_shapes(arrays, INDEX, **sizes)
    for name in ("first", "last"):
        check_range(arrays, name, -1, sizes["points"] + 1)
    if not sizes["nodes"] % 2 or (arrays["first"][sizes["nodes"] // 2 :] < 0).any():
        raise damaged("first")
    return sizes


def damaged(name: str) -> InputError:
    """Return what is said of a table with an array that cannot be."""
    return again(f"is damaged: {name!r} does not fit")


def again(problem: str, file: str | None = None) -> InputError:
    """Return what is said of a plan table that must be built anew."""
    return InputError(f"the plan table {problem}", file=file, hint="build it again with --save")


def same(found: Numbers, expected: Numbers) -> bool:
    """Whether arrays are equal to the last bit, and of the same shape."""
    return found.dtype == expected.dtype and np.array_equal(found, expected)
