"""What the compiled recursion of the pipelined model reads and writes: numbers, and arrays by address."""

from __future__ import annotations

import numpy as np

PARTS = 3
"""Spans that the output of one slice is kept as, so that prompt and late inputs stay apart."""

NUMBERS = ("stations", "inputs", "sources", "resources", "joins", "periods", "fine", "steps", "rows", "most", "queued")
ARRAYS = (
    # Stations, resources, inputs, sources.
    "resource", "first", "count", "join", "ends", "capacity", "slack", "writer", "delay", "cost", "share", "gain",
    "arrivals",
    # The answer.
    "left", "tuples",
    # What steps have room for; spans as they come, go and are kept; outputs of joins that wait.
    "free", "follow", "here", "by", "out", "kept", "number", "after", "late", "queue", "come",
)  # fmt: skip

RECORD = np.dtype([("width", "f8")] + [(name, "i8") for name in (*NUMBERS, *ARRAYS)])
