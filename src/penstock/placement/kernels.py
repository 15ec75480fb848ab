"""Kernels whose machine code ships; ``python -m penstock.placement.kernels`` writes their bitcode anew."""

from __future__ import annotations

from penstock.native import Kernel

_NATIVE = ("address", "jit", "shipped", "views")
_CALL = ("../arrays.py", *(f"../native/{name}.py" for name in _NATIVE))
"""What the code of a call is made of."""

CLIMB = Kernel("penstock.placement.climb_kernel", ("climb",), ("episode.py", *_CALL))
EVEN_OUT = Kernel(
    "penstock.placement.even_kernel",
    ("_late", "_total", "_chosen", "_weigh", "_add", "_rounds"),
    ("episode.py", *_CALL),
)
EXACT = Kernel("penstock.placement.exact_kernel", ("search",), _CALL)
LEAST = Kernel("penstock.placement.least_kernel", ("_from_all", "_from_heap"), _CALL)
KERNELS = (CLIMB, EVEN_OUT, EXACT, LEAST)

if __name__ == "__main__":
    for kernel in KERNELS:
        kernel.write()
