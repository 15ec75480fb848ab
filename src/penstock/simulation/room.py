"""Room for a run: longer arrays where the kernel asks for them, and arrays of its own for a copy."""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.arrays import Records
from penstock.errors import InputError
from penstock.simulation import state as layout
from penstock.simulation.compile import Compiled

_MOST = 1 << 32
"""Tuples that no event may put out at once, whatever memory the system promises."""


def grown(run: Compiled, status: int) -> Compiled:
    """Return the run with more room where the kernel asked for it.

    Raises
    ------
    InputError
        If no memory holds what the run has at once.
    """
    try:
        return _grown(run, status)
    except MemoryError:
        raise InputError(
            "more tuples at once than memory holds", hint="lower rates or selectivities, or bound queues"
        ) from None


def _grown(run: Compiled, status: int) -> Compiled:
    s = run.state
    need = int(s.g["need"][0])
    if need > _MOST:
        raise MemoryError
    if status == layout.POOL:
        s = s._replace(nodes=_longer(s.nodes, max(2 * s.nodes.size, s.nodes.size + need)))
    elif status == layout.ROWS and (s.rows.size < (1 << 16) or need > s.rows.size):
        s = s._replace(rows=layout.table(max(4 * s.rows.size, need), layout.ROW))
    elif status == layout.RING:
        row = s.inputs[need]
        first, size, head = int(row["ring"]), int(row["capacity"]), int(row["head"])
        start = s.rings.size
        rings = _longer(s.rings, start + 4 * size)
        rings[start : start + size] = np.roll(rings[first : first + size], -head)
        row["ring"], row["capacity"], row["head"] = start, 4 * size, 0
        s = s._replace(rings=rings)
    elif status == layout.TABLE:
        size = 1 << math.ceil(math.log2(4 * (int(s.g["known"][0]) + need)))
        s = s._replace(seen=hashed(s.seen[s.seen["count"] > 0], size))
    else:
        return run
    return attrs.evolve(run, state=s.addressed())


def hashed(entries: Records, size: int) -> Records:
    """Return a table of what has been seen, with room for ``size`` entries (a power of 2)."""
    table = layout.table(size, layout.SEEN)
    for entry in entries:
        at = (int(entry["key"]) >> 11) & (size - 1)
        while table[at]["count"]:
            at = (at + 1) & (size - 1)
        table[at] = entry
    return table


def copied(state: layout.State) -> layout.State:
    """Return arrays of their own with the same content."""
    made = [layout.table(array.size, array.dtype) for array in state]
    for array, given in zip(made, state, strict=True):
        array[:] = given
    return layout.State(*made).addressed()


def _longer(table: Records, size: int) -> Records:
    grown = layout.table(size, table.dtype)
    grown[: table.size] = table
    return grown
