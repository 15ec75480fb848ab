"""Whether values are of the kinds that a class's annotations name: programs may pass anything."""

from __future__ import annotations

import functools
import numbers
import types
import typing
from collections.abc import Callable, Mapping

from penstock.errors import InputError

WORDS: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    types.NoneType: "None",
    Callable: "a function",
}


def check_kinds(made: Callable[..., object], given: Mapping[str, object]) -> None:
    """Refuse values of another kind than the fields of a class have; what it has no field for is left alone.

    Raises
    ------
    InputError
        Naming the value.
    """
    for name, value in given.items():
        kinds = _kinds(made).get(name, ())
        if kinds and not any(_fits(value, kind) for kind in kinds):
            words = " or ".join(WORDS.get(kind) or f"a {getattr(kind, '__name__', kind)}" for kind in kinds)
            raise InputError(f"expected {words}, got {value!r}", at=f"--{name.replace('_', '-')}")


@functools.cache
def _kinds(made: Callable[..., object]) -> dict[str, tuple[object, ...]]:
    """Return the kinds that each field may be of."""
    hints = typing.get_type_hints(made)
    unions = (typing.Union, types.UnionType)
    each = {
        name: typing.get_args(hint) if typing.get_origin(hint) in unions else (hint,) for name, hint in hints.items()
    }
    return {name: tuple(typing.get_origin(kind) or kind for kind in kinds) for name, kinds in each.items()}


def _fits(value: object, kind: object) -> bool:
    if kind is bool:
        return type(value).__name__ in ("bool", "bool_")
    if kind in (int, float):
        kind = numbers.Integral if kind is int else numbers.Real
        return isinstance(value, kind) and not isinstance(value, bool) and value == value
    return callable(value) if kind is Callable else isinstance(value, typing.cast("type", kind))
