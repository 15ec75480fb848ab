"""Functions of numbers, arrays and named tuples of these, compiled to one function of an address.

See `penstock.native.shipped`, which calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, get_origin, get_type_hints

from llvmlite import ir  # type: ignore[import-untyped]
from numba import from_dtype, int64
from numba.core import types as numba_types
from numba.extending import intrinsic
from numba.np import arrayobj

from penstock.native.shipped import Hint, leaf, leaves, parts
from penstock.native.views import inside

Other: TypeAlias = Any
"""Numba's and LLVM's, which say no types."""

_numba: Other = arrayobj
types: Other = numba_types
_WORD = 8
"""Bytes."""


def by_address(functions: Sequence[Other]) -> Other:
    """Return one compiled function ``address -> 0`` of several: the first word of the record says which is called."""
    which, call = _reader([int], 0), _one_of([_alone(function) for function in functions])

    @inside(int64(int64))
    def entry(address: int) -> int:
        return int(call(which(address)[0], address))

    return entry


def _one_of(calls: Sequence[Other]) -> Other:
    first, *rest = calls
    if not rest:
        return first
    others = _one_of(rest)

    @inside(int64(int64, int64))
    def call(number: int, address: int) -> int:
        return int(first(number, address) if number == 0 else others(number - 1, address))

    return call


def _alone(function: Other) -> Other:
    """Return a function of the address of its record: which, results, arguments."""
    hints = get_type_hints(function.py_func)
    result = hints.pop("return")
    read, write = _reader(list(hints.values()), 1 + len(leaves(result))), _writer(result)

    @inside(int64(int64, int64))
    def call(number: int, address: int) -> int:
        write(address, function(*read(address)))
        return 0

    return call


def _type(hint: Hint) -> Other:
    if hint is type(None):
        return types.none
    held = [_type(part) for part in parts(hint)]
    if held:
        return types.Tuple(held) if get_origin(hint) is tuple else types.NamedTuple(held, hint)
    kind, dimensions = leaf(hint)
    return types.Array(from_dtype(kind), dimensions, "C") if dimensions else from_dtype(kind)


def _reader(hints: Sequence[Hint], first: int) -> Other:
    """Return a function ``address -> arguments``, which stand from a word on."""
    wanted = types.Tuple([_type(hint) for hint in hints])

    @intrinsic
    def read(context: Other, address: Other) -> Other:
        def codegen(target: Other, builder: Other, signature: Other, arguments: Other) -> Other:
            return _read(target, builder, wanted, _words(builder, arguments[0], first))

        return wanted(types.int64), codegen

    return read


def _writer(hint: Hint) -> Other:
    """Return a function ``(address, result)`` that writes a result behind the first word."""
    wanted = _type(hint)

    @intrinsic
    def write(context: Other, address: Other, value: Other) -> Other:
        def codegen(target: Other, builder: Other, signature: Other, arguments: Other) -> Other:
            next_word = _words(builder, arguments[0], 1)
            count = len(leaves(hint))
            for k in range(count):
                part = builder.extract_value(arguments[1], k) if count > 1 else arguments[1]
                builder.store(part, next_word(part.type))
            return target.get_dummy_value()

        return types.none(types.int64, wanted), codegen

    return write


def _words(builder: Other, address: Other, first: int) -> Callable[[Other], Other]:
    """Return a function that gives a pointer to the next word, as one of a type."""
    at = first

    def following(kind: Other) -> Other:
        nonlocal at
        place = builder.add(address, ir.Constant(ir.IntType(64), at * _WORD))
        at += 1
        return builder.inttoptr(place, kind.as_pointer())

    return following


def _read(target: Other, builder: Other, kind: Other, next_word: Callable[[Other], Other]) -> Other:
    """Read a number, an array by its address and shape, or a tuple of these."""
    if isinstance(kind, types.BaseTuple):
        return target.make_tuple(builder, kind, [_read(target, builder, part, next_word) for part in kind])
    word = ir.IntType(64)
    if not isinstance(kind, types.Array):
        return builder.load(next_word(target.get_value_type(kind)))
    array = _numba.make_array(kind)(target, builder)
    data = builder.inttoptr(builder.load(next_word(word)), array.data.type)
    shape = [builder.load(next_word(word)) for _ in range(kind.ndim)]
    width = ir.Constant(word, target.get_abi_sizeof(target.get_data_type(kind.dtype)))
    strides = [width]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    _numba.populate_array(array, data, shape, strides, width, None)
    return array._getvalue()
