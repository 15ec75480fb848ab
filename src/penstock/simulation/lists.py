"""Lists of tuples as the kernel keeps them: each node names the next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

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
