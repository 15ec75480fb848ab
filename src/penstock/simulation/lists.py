"""Lists of tuples as the kernel keeps them, each node naming the next, and its heap of events."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Records
from penstock.simulation.state import State

Tuples = NDArray[np.int64]
"""Numbers of nodes, each of which holds a tuple."""


def walk(s: State, head: int) -> Iterator[int]:
    """Iterate over a list from its first node (-1: none)."""
    following = s.nodes["next"]
    while head >= 0:
        after = int(following[head])
        yield head
        head = after


def chain(s: State, owner: np.void, tuples: Tuples) -> None:
    """Make tuples the list of a host, unit or gate."""
    owner["head"] = owner["tail"] = -1
    if len(tuples):
        s.nodes["next"][tuples[:-1]] = tuples[1:]
        s.nodes["next"][tuples[-1]] = -1
        owner["head"], owner["tail"] = tuples[0], tuples[-1]


def groups(s: State, head: int) -> Iterator[int]:
    """Iterate over a list of tuples that go to several readers each, reader by reader."""
    for first in walk(s, head):
        n = first
        while n >= 0:
            after = int(s.nodes["child"][n])
            yield n
            n = after


def coming(s: State) -> Records:
    """Return the events to come, in no order."""
    return s.heap[: int(s.g["heaped"][0])]


def expect(s: State, events: Records) -> None:
    """Make these the events to come."""
    # In order they are a heap.
    s.heap[: events.size] = events[np.lexsort((events["key"], events["time"]))]
    s.g["heaped"] = events.size
