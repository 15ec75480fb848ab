"""Complementary local plans: what a host drops at its own splits (Tatbul et al. section 6.2.2).

With one load constraint the greedy order of quality per load is optimal, also where streams merge: under a price of
load an arc is worth its quality less the price of its load, which only falls as the price rises, so that arcs turn from
kept to dropped one after the other, and at most one is kept in part.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.shedding.hosts import HostPart
from penstock.shedding.program import Matrix


@attrs.frozen(eq=False)
class DropOrder:
    """A host's arcs in the order in which they are dropped.

    Attributes
    ----------
    arcs
        Array (steps,): positions in the host's arcs.
    ratio, load
        Arrays (steps,): quality per load, and load saved per tuple, when the arc's turn comes.
    """

    arcs: NDArray[np.int64]
    ratio: Matrix
    load: Matrix


def drop_order(part: HostPart, worth: Matrix) -> DropOrder:
    """Sort the arcs of a host without children by quality per load, updated after each drop.

    Parameters
    ----------
    worth
        Array (arcs,): score per tuple that reaches the arc's end without an arc of this host behind it.
    """
    count = len(part.arcs)
    alive = np.ones(count, bool)
    arcs, ratios, loads = [], [], []
    while True:
        for arc in range(count):
            fed = part.S[arc].any() or (part.G[arc] * alive).any()
            alive[arc] = alive[arc] and fed
        quality, load = np.where(alive, worth, 0.0), np.where(alive, part.cost, 0.0)
        for arc in range(count - 1, -1, -1):
            if alive[arc]:
                quality[arc] += part.G[:, arc] @ quality
                load[arc] += part.G[:, arc] @ load
        open_ = np.flatnonzero(alive & (load > 0))
        if not len(open_):
            break
        ratio = quality[open_] / load[open_]
        pick = int(np.argmin(ratio))
        arc = int(open_[pick])
        arcs.append(arc)
        ratios.append(float(ratio[pick]))
        loads.append(float(load[arc]))
        alive[arc] = False
    return DropOrder(np.array(arcs, np.int64), np.array(ratios), np.array(loads))


def local_plan(part: HostPart, order: DropOrder, rates: Matrix) -> Matrix:
    """Return the kept rates, array (arcs,), of the best plan for inputs that arrive at ``rates``.

    Arcs are dropped in order until the host's load is 1; the last one only in part.
    """
    keep = np.ones(len(part.arcs))
    y = part.flow(rates)
    for arc, load in zip(order.arcs, order.load, strict=True):
        used = float(part.cost @ y)
        if used <= 1:
            break
        saved = y[arc] * load
        keep[arc] = max(0.0, 1 - (used - 1) / saved) if saved > 0 else 0.0
        y = part.flow(rates, keep)
    return y


def greatest_useful(part: HostPart, order: DropOrder) -> Matrix:
    """Return for each input the greatest rate that any plan of the host takes, array (inputs,)."""
    found = np.full(len(part.inputs), np.inf)
    last = dict(zip(order.arcs.tolist(), order.load.tolist(), strict=True))
    for number, column in enumerate(part.S.T):
        rates = [1 / (column[arc] * last[arc]) if arc in last else np.inf for arc in np.flatnonzero(column)]
        found[number] = max(rates, default=np.inf)
    return found
