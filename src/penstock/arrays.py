"""The arrays that all rooms pass on, by what they hold; shapes and units are said where they are used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
"""In double precision, or in single."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Records = NDArray[np.void]
"""Rows of named fields."""
