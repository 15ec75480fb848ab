"""Plain kernels whose machine code ships: functions of numbers, arrays and named tuples of these.

Their annotations say how the arguments are laid out: one word each, and for an array its address and its shape. Small
problems are interpreted, so the source names no addresses; for large ones the functions that Python calls are replaced
by calls of the machine code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from struct import Struct
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

from penstock.native import jit
from penstock.native.kernel import Kernel

Hint: TypeAlias = object
"""A type, as an annotation says it."""


class Leaf(NamedTuple):
    """A number or an array: its kind, and how many dimensions it has."""

    kind: np.dtype[Any]
    dimensions: int


def code(kernel: Kernel, steps: float) -> ModuleType:
    """Return a kernel's module: machine code if about so many innermost steps are ahead, else interpreted."""
    return _called(kernel) if jit.many(steps) else jit.plain(kernel.module, "interpreted")


def leaf(hint: Hint) -> Leaf:
    """Return the number or array that a type is; an array without a shape has one dimension."""
    if hint in (float, int):
        return Leaf(np.dtype(np.float64 if hint is float else np.int64), 0)
    shape, kind = map(get_args, get_args(hint))
    return Leaf(np.dtype(kind[0]), 1 if ... in shape else len(shape))


def parts(hint: Hint) -> tuple[Hint, ...]:
    """Return the types of what a tuple holds; none of what is no tuple."""
    if get_origin(hint) is tuple:
        return get_args(hint)
    return tuple(get_type_hints(hint).values()) if isinstance(hint, type) and issubclass(hint, tuple) else ()


def leaves(hint: Hint) -> list[Leaf]:
    """Return the numbers and arrays that a type holds, in order; none of a function that returns nothing."""
    if hint is type(None):
        return []
    inside = parts(hint)
    return [each for part in inside for each in leaves(part)] if inside else [leaf(hint)]


@functools.cache
def _called(kernel: Kernel) -> ModuleType:
    """Return a copy of a kernel's module whose entries are machine code."""
    module = jit.plain(kernel.module, "called")
    for number, name in enumerate(kernel.entry):
        setattr(module, name, _call(kernel, number, getattr(module, name)))
    return module


def _call(kernel: Kernel, number: int, function: Callable[..., object]) -> Callable[..., object]:
    """Return the machine code of one of a kernel's functions: the record holds which, the results, the arguments."""
    hints = get_type_hints(function)
    results = leaves(hints.pop("return"))
    given = [each for hint in hints.values() for each in leaves(hint)]
    before, words = (Struct("q" + "".join(map(_words, held))) for held in (results, results + given))
    run = kernel.load()

    def call(*arguments: object) -> object:
        values: list[object] = [number, *(0 for _ in results)]
        for value, (kind, dimensions) in zip(_flat(arguments), given, strict=True):
            if isinstance(value, np.ndarray):
                if value.dtype != kind or value.ndim != dimensions or not value.flags.c_contiguous:
                    raise TypeError(f"expected {kind} ({dimensions}), got strides {value.strides} of {value.dtype}")
                values += (value.ctypes.data, *value.shape)
            else:
                values.append(value)
        g = bytearray(words.pack(*values))
        run(np.frombuffer(g, np.uint8))
        found = before.unpack_from(g)[1:]
        return found if len(found) > 1 else found[0] if found else None

    return call


def _words(each: Leaf) -> str:
    """Return the format of a number, or of an array's address and shape."""
    return "q" * (1 + each.dimensions) if each.dimensions or each.kind.kind == "i" else "d"


def _flat(values: tuple[object, ...]) -> list[object]:
    flat: list[object] = []
    for value in values:
        flat += _flat(value) if isinstance(value, tuple) else (value,)
    return flat
