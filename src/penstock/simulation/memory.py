"""Record arrays by address, for the kernel.

Numba passes an array to a function as seven words and counts its references; with twenty arrays that is most of a
small function. Here one record of addresses is passed instead, and a row is a pointer to a record, so that the kernel
compiles in seconds and runs several times faster. The arrays are kept alive by `State`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
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
