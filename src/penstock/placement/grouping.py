"""Super-operators: light operators are put together, so that fewer are decided about (Xing et al., section 4.3)."""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.errors import InputError
from penstock.placement.base import TIE, Algorithm, Arrays, Ints, ranked


@attrs.frozen(kw_only=True)
class Grouped:
    """Place groups of operators by another algorithm.

    Attributes
    ----------
    inner
        The algorithm that places the groups.
    least
        Mean load in benchmark cores that a group has at least, where its operators have it.
    """

    inner: Algorithm
    least: float

    def __attrs_post_init__(self) -> None:
        if not (math.isfinite(self.least) and self.least >= 0):
            raise InputError(f"expected a load of at least 0 benchmark cores, got {self.least:g}", at="--group-below")

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        group = groups(arrays, self.least)
        joined, group = together(arrays, group)
        return self.inner(joined, rng)[group]


def groups(arrays: Arrays, least: float) -> Ints:
    """Return the number of each operator's group, array (m,).

    Operators of at least ``least`` stay alone. Lighter ones join others of the same host (where they were, and where
    they must stay), those of one connected part first, so that their streams stay inside; what is left over joins the
    last group of its host.
    """
    light = arrays.mean < least - TIE
    found = np.arange(len(arrays.mean))
    order = np.lexsort((np.arange(len(found)), arrays.part, arrays.fixed, arrays.previous))
    home, head, last, load = None, -1, -1, 0.0
    for row in order[light[order]].tolist():
        if (here := (int(arrays.previous[row]), int(arrays.fixed[row]))) != home:
            if head >= 0 and last >= 0:
                found[found == head] = last
            home, head, last = here, -1, -1
        if head < 0:
            head, load = row, 0.0
        found[row] = head
        load += float(arrays.mean[row])
        if load >= least - TIE:
            head, last = -1, head
    if head >= 0 and last >= 0:
        found[found == head] = last
    return found


def together(arrays: Arrays, group: Ints) -> tuple[Arrays, Ints]:
    """Return the problem whose operators are groups, and each operator's row in it, array (m,).

    Streams inside a group are gone. Of several writers together none shares a sending among its readers.
    """
    heads, number = np.unique(group, return_inverse=True)
    count = len(heads)
    load = np.zeros((count, arrays.load.shape[1]))
    np.add.at(load, number, arrays.load)
    mean = np.bincount(number, weights=arrays.mean, minlength=count).astype(np.float64)
    # Heads are rows in the order of ties already: their numbers are as good as names.
    rank = ranked(mean, heads)
    row = np.empty(count, np.int64)
    row[rank] = np.arange(count)
    number = row[number]
    first = heads[rank]
    several = np.bincount(number, minlength=count) > 1

    def of(ends: Ints) -> Ints:
        found, inner = ends.copy(), ends >= 0
        found[inner] = number[ends[inner]]
        return found

    writer, reader = of(arrays.writer), of(arrays.reader)
    out = (writer != reader) | (writer < 0)
    alone = np.ones(len(writer), bool)
    alone[writer >= 0] = ~several[writer[writer >= 0]]
    senders = of(arrays.senders)
    return attrs.evolve(
        arrays,
        names=tuple(arrays.names[at] for at in first.tolist()),
        load=np.ascontiguousarray(load[rank]),
        mean=mean[rank],
        fixed=arrays.fixed[first],
        previous=arrays.previous[first],
        base=arrays.base[first],
        part=arrays.part[first],
        state=None if arrays.state is None else np.bincount(number, arrays.state, count).astype(np.float64),
        writer=writer[out],
        reader=reader[out],
        rate=arrays.rate[out],
        shared=(arrays.shared & alone)[out],
        sender=senders[out],
    ), number
