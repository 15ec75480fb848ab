"""Compiled loops of the latency models; each is beside the same in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from penstock.latency.flow import flow as plain

flow = njit(cache=True)(plain)


@njit(cache=True)
def worst(load: Any, capacity: Any, period: float) -> Any:
    """Return each row's largest cumulative excess over capacity; see `penstock.latency.waits.worst_waits_plain`."""
    rows, periods = load.shape
    found = np.zeros(rows)
    # Rows side by side: each row is a chain of dependent steps, eight chains fill the processor.
    for first in range(0, rows, 8):
        last = min(first + 8, rows)
        excess = np.zeros(8)
        most = np.zeros(8)
        for p in range(periods):
            for r in range(first, last):
                value = max(0.0, excess[r - first] + (load[r, p] - capacity[r]) * period)
                excess[r - first] = value
                most[r - first] = max(most[r - first], value)
        for r in range(first, last):
            found[r] = most[r - first] / capacity[r]
    return found
