"""Kernels whose machine code ships; ``python -m penstock.placement.kernels`` writes their bitcode anew."""

from __future__ import annotations

from penstock.native import Kernel

_NATIVE = ("address", "jit", "shipped", "views")
_CALL = ("../arrays.py", *(f"../native/{name}.py" for name in _NATIVE))
"""What the code of a call is made of."""

EXACT = Kernel("penstock.placement.exact_kernel", ("search",), _CALL)
LEAST = Kernel("penstock.placement.least_kernel", ("_from_all", "_from_heap"), _CALL)
KERNELS = (EXACT, LEAST)

if __name__ == "__main__":
    for kernel in KERNELS:
        kernel.write()
