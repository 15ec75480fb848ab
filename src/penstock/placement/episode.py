"""The worst backlog of a host, in plain Python that numba can also compile."""

from __future__ import annotations

from typing import Any


def episode(load: Any, capacity: float) -> tuple[float, int, int]:
    """Return the largest cumulative excess of a load series, and where it builds up.

    Parameters
    ----------
    load
        Array (periods,), benchmark cores.
    capacity
        Benchmark cores.

    Returns
    -------
    float, int, int
        Excess in units of load and periods; the first period of the interval, and the one after its last.
    """
    excess = most = 0.0
    begin = first = end = 0
    for t in range(len(load)):
        excess += load[t] - capacity
        if excess <= 0.0:
            excess, begin = 0.0, t + 1
        elif excess > most:
            most, first, end = excess, begin, t + 1
    return most, first, end
