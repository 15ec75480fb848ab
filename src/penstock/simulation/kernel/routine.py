"""What the kernel's own functions are made with: the types that their annotations name."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from numba import boolean, float64, from_dtype, int64, types, uint64

from penstock.native.memory import inner
from penstock.simulation.state import GLOBALS

Scalars: TypeAlias = Any  # the record of globals
Hash: TypeAlias = Any  # 64 bits, unsigned


class Content(NamedTuple):
    """What a tuple carries."""

    identity: Hash
    stimulus: float
    work: float


class Readers(NamedTuple):
    """The outputs of an operator or source: the first one's number, and how many there are."""

    first: int
    number: int


routine: Any = inner(
    {
        "int": int64,
        "float": float64,
        "bool": boolean,
        "Hash": uint64,
        "Scalars": from_dtype(GLOBALS),
        "Content": types.NamedTuple((uint64, float64, float64), Content),  # type: ignore[no-untyped-call]
        "Readers": types.NamedUniTuple(int64, 2, Readers),  # type: ignore[no-untyped-call]
        "None": types.none,
    }
)
"""Marks a function that only the kernel calls."""
