"""The events to come: a heap in the order of time, then kind, then scheduling."""

from __future__ import annotations

from penstock.simulation.kernel.routine import Scalars, routine
from penstock.simulation.kernel.tables import heap_at


@routine
def sink(g: Scalars, time: float, key: int, index: int) -> None:
    """Put an event at the empty root, and let it sink to its place."""
    n, at = g.heaped, 0
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        right = down + 1
        if right < n and (
            heap_at(g.heap, right).time < heap_at(g.heap, down).time
            or (
                heap_at(g.heap, right).time == heap_at(g.heap, down).time
                and heap_at(g.heap, right).key < heap_at(g.heap, down).key
            )
        ):
            down = right
        if time < heap_at(g.heap, down).time or (
            time == heap_at(g.heap, down).time and key < heap_at(g.heap, down).key
        ):
            break
        heap_at(g.heap, at).time, heap_at(g.heap, at).key, heap_at(g.heap, at).index = (
            heap_at(g.heap, down).time,
            heap_at(g.heap, down).key,
            heap_at(g.heap, down).index,
        )
        at = down
    heap_at(g.heap, at).time, heap_at(g.heap, at).key, heap_at(g.heap, at).index = time, key, index


@routine
def rise(g: Scalars, time: float, key: int, index: int) -> None:
    """Put an event behind the last one, and let it rise to its place."""
    at = g.heaped
    g.heaped += 1
    while at > 0:
        up = (at - 1) >> 1
        if heap_at(g.heap, up).time < time or (heap_at(g.heap, up).time == time and heap_at(g.heap, up).key < key):
            break
        heap_at(g.heap, at).time, heap_at(g.heap, at).key, heap_at(g.heap, at).index = (
            heap_at(g.heap, up).time,
            heap_at(g.heap, up).key,
            heap_at(g.heap, up).index,
        )
        at = up
    heap_at(g.heap, at).time, heap_at(g.heap, at).key, heap_at(g.heap, at).index = time, key, index


@routine
def push(g: Scalars, time: float, kind: int, index: int) -> int:
    """Schedule an event, and return its key."""
    g.sequence += 1
    key: int = (kind << 56) | g.sequence
    if g.hole == 1:
        # The event in hand has left the root empty: put the new one there and let it sink.
        g.hole = 0
        sink(g, time, key, index)
    else:
        rise(g, time, key, index)
    return key
