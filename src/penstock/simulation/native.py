"""The simulator's kernel as machine code; ``python -m penstock.simulation.native`` writes its bitcode anew."""

from __future__ import annotations

from penstock.native import Kernel

PARTS = ("batches", "draws", "heap", "routine", "serving", "tables", "travel", "waiting")
KERNEL = Kernel("penstock.simulation.kernel.loop", "advance", ("../state.py", *(f"{name}.py" for name in PARTS)))

advance = KERNEL.load

if __name__ == "__main__":
    KERNEL.write()
