"""The simulator's kernel as machine code; ``python -m penstock.simulation.native`` writes its bitcode anew."""

from __future__ import annotations

from penstock.native import Kernel

KERNEL = Kernel("penstock.simulation.kernel", "advance", ("state.py", "routine.py", "heap.py", "draws.py"))

advance = KERNEL.load

if __name__ == "__main__":
    KERNEL.write()
