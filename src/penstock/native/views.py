"""Arrays by address, for kernels that are functions of one record; they count no references. A part of their source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj

# Some of their arguments are in no types.
_compiler: Any = njit
_numba: Any = arrayobj

Function = TypeVar("Function", bound=Callable[..., Any])


def inside(*signature: Any, fastmath: set[str] | bool = False) -> Callable[[Function], Function]:
    """Return a decorator for functions that only compiled code calls, or that are called by address: no wrappers."""
    compiled: Callable[[Function], Function] = _compiler(
        *signature, fastmath=fastmath, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return compiled


def _array(dtype: Any, width: int, dimensions: int) -> Any:
    """Return a function ``(address, size of each dimension) -> array`` of what others hold."""
    kind = types.Array(dtype, dimensions, "C")

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, *shape = arguments
        array, word = _numba.make_array(kind)(context, builder), ir.IntType(64)
        strides = [ir.Constant(word, width)]
        for size in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], size))
        data = builder.inttoptr(address, array.data.type)
        _numba.populate_array(array, data, shape, strides, ir.Constant(word, width), None)
        return array._getvalue()

    if dimensions == 1:

        @intrinsic
        def row(context: Any, address: Any, size: Any) -> Any:
            return kind(types.int64, types.int64), build

        return row

    @intrinsic
    def table(context: Any, address: Any, rows: Any, columns: Any) -> Any:
        return kind(types.int64, types.int64, types.int64), build

    return table


reals, whole, flags = _array(types.float64, 8, 1), _array(types.int64, 8, 1), _array(types.uint8, 1, 1)
"""Arrays (size,) of real numbers, of integers, of bytes that say yes or no."""

small, hashes = _array(types.int8, 1, 1), _array(types.uint64, 8, 1)
"""Arrays (size,) of integers of a byte, of hashes."""

grid, lists, small_grid = _array(types.float64, 8, 2), _array(types.int64, 8, 2), _array(types.int8, 1, 2)
"""Arrays (rows, columns) of real numbers, of integers, of integers of a byte."""
