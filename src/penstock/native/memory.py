"""Record arrays by address, and functions that compile once, for the kernel.

Numba passes an array to a function as seven words and counts its references; with twenty arrays that is most of a
small function. Here one record of addresses is passed instead, and a row is a pointer to a record, so that the kernel
compiles in seconds and runs several times faster. The arrays are kept alive by `State`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic


def rows_of(dtype: np.dtype[Any]) -> Any:
    """Return a function ``(address, index) -> record`` for the kernel; it checks no bounds."""
    record = numba.from_dtype(dtype)
    width = dtype.itemsize

    @intrinsic
    def at(context: Any, base: Any, index: Any) -> Any:
        def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, row = arguments
            offset = builder.mul(row, ir.Constant(ir.IntType(64), width))
            return builder.inttoptr(builder.add(address, offset), target.get_value_type(signature.return_type))

        return record(types.int64, types.int64), codegen

    return at


def _prefetch(context: Any, address: Any) -> Any:
    """Ask for the cache line at an address, and wait for nothing."""

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        insert: Any = cgutils.get_or_insert_function
        function = insert(builder.module, wanted, "llvm.prefetch.p0")
        # For reading, to be kept in all caches, data.
        line = builder.inttoptr(arguments[0], byte)
        builder.call(function, [line, ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)])
        return target.get_dummy_value()

    return types.none(types.int64), codegen


prefetch: Any = intrinsic(_prefetch)


def inner(types_of: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for functions that only compiled code calls; their annotations are their signature.

    A function under ``njit`` is compiled to machine code of its own, once per combination of literal arguments, before
    it is linked into its caller. These are compiled once and only as a part of the caller: a third of the time.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        *given, result = (types_of[name] for name in _ordered(function))
        wanted = result(*given)

        def call(context: Any, *arguments: Any) -> Any:
            def codegen(target: Any, builder: Any, signature: Any, values: Any) -> Any:
                return target.compile_internal(builder, function, signature, values)

            return wanted, codegen

        own = inspect.signature(function)
        first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        call.__signature__ = own.replace(parameters=[first, *own.parameters.values()])  # type: ignore[attr-defined]
        return intrinsic(call)

    return decorate


def _ordered(function: Callable[..., Any]) -> list[str]:
    """Return the names of the types of a function's arguments and of its result."""
    names = dict(function.__annotations__)
    result = names.pop("return")
    return [*names.values(), result]
