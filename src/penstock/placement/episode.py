"""What mace-climb reads, and the worst backlog of a host, in plain Python that numba can also compile."""

from __future__ import annotations

from typing import NamedTuple

from penstock.arrays import Array, Bools, Grid, Ints


class Loads(NamedTuple):
    """Operators on hosts: arrays as in `penstock.placement.base.Arrays`.

    ``usable`` (n,) is what hosts may carry, ``movable`` (m,) says which operators may move, ``where`` (m,) where they
    are; ``period`` in s.
    """

    load: Grid
    mean: Array
    capacity: Array
    usable: Array
    movable: Bools
    where: Ints
    period: float


def episode(load: Array, capacity: float) -> tuple[float, int, int]:
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
