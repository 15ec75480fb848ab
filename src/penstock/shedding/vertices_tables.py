"""What the compiled walk over dual vertices reads and writes: numbers, and arrays by address."""

from __future__ import annotations

import numpy as np

WALK, WORTH, VALUES, LOOK_UP = range(4)
"""What is to be done."""

NUMBERS = (
    "task", "arcs", "hosts", "sources", "readers", "writers", "most", "slotted", "rows", "asked", "count", "complete",
)  # fmt: skip
ARRAYS = (
    # The program, from writers to readers and from readers to writers.
    "start", "reader", "gain", "fed", "S", "K", "weight", "wstart", "writer", "wgain",
    # Vertices, the hashes of those that are known, and their functions of the rates.
    "prices", "tights", "signs", "slots", "alpha", "beta",
    # Points, and what is found there.
    "points", "out", "found",
    # Room to work in.
    "const", "grad", "sign", "live", "A", "d", "fresh", "at", "column", "offered", "bind", "unknown",
)  # fmt: skip

RECORD = np.dtype([(name, "i8") for name in (*NUMBERS, *ARRAYS)])
