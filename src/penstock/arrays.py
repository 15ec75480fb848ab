"""The arrays that all rooms pass on, by what they hold; shapes and units are said where they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Grid = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Cube = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]
Lists = np.ndarray[tuple[int, int], np.dtype[np.int64]]
"""With their number of dimensions, which kernels that are called by address must know: there an `Array` has one."""

Floats = NDArray[np.floating]
"""In double precision, or in single."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Flags = NDArray[np.uint8]
"""Yes or no in a byte each, as compiled code takes them by address."""

Numbers = NDArray[Any]
"""Of whatever kind: of the arrays of a table, each has a name that says what it holds."""

Records = NDArray[np.void]
"""Rows of named fields."""


def deviation(rest: Array) -> float:
    """Return the standard deviation of normal noise about zero of which up to half may be something else."""
    return 1.4826 * float(np.median(np.abs(rest)))
