"""What the compiled distribution by load correlation reads and writes: numbers, and arrays by address."""

from __future__ import annotations

import numpy as np

TIE = 1e-9
FLAT = 1e-9
"""A series whose deviation is this small a part of its mean has no correlation."""

BLOCK = 16
"""Loops over whole blocks need no remainder, which for short ones would take most of the time."""

BY_CORRELATION, BY_LOAD, BY_CHANCE = 0, 1, 2
"""How operators are chosen; by chance: the one of the highest priority."""

ONE_WAY, TWO_WAY, EXCHANGE = 0, 1, 2
"""How a pair of hosts is divided."""

GREEDY, PAIRWISE, IMPROVE = 0, 1, 2
"""What is to be done."""

DONE, FULL = 0, 1
"""Why the kernel returns: all is done, or a host has more operators than there is room for (``need``)."""

NUMBERS = ("task", "mode", "step", "operators", "periods", "hosts", "left", "room", "wide", "begun", "tried", "need")
LEVELS = ("tie", "balance", "score", "threshold")
ARRAYS = (
    # Operators, hosts, and the host of each operator, which changes in place.
    "series", "norm", "mean", "movable", "priority", "host", "level", "usable", "where",
    # Those not placed yet; correlations.
    "alive", "total", "taken", "unit", "rho", "fresh",
    # Pairs of hosts, and the pair that is divided.
    "order", "items", "side", "two", "levels", "limits", "scratch", "columns",
    # The operators of each host, and which hosts are least correlated.
    "held", "members", "seen", "changed", "across", "flat", "flats", "least", "nearest", "stale",
)  # fmt: skip

RECORD = np.dtype([(name, "f8") for name in LEVELS] + [(name, "i8") for name in (*NUMBERS, *ARRAYS)])
