"""What the kernel's own functions are made with: the types that their annotations name."""

from __future__ import annotations

from typing import Any, TypeAlias

from numba import boolean, float64, from_dtype, int64, types, uint64

from penstock.native.memory import inner
from penstock.simulation.state import GLOBALS

Scalars: TypeAlias = Any  # the record of globals
Hash: TypeAlias = Any  # 64 bits, unsigned

routine: Any = inner(
    {
        "int": int64,
        "float": float64,
        "bool": boolean,
        "Hash": uint64,
        "Scalars": from_dtype(GLOBALS),
        "None": types.none,
    }
)
"""Marks a function that only the kernel calls."""
