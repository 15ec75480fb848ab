"""Moving only what pays: a move may cost something, so a better placement is approached as far as it is worth it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np

from penstock.placement.base import TIE, Arrays, Ints
from penstock.placement.verify import over_link


def worthwhile(
    arrays: Arrays,
    target: Ints,
    value: Callable[[Arrays, Ints], float],
    cost: float,
    *,
    apart: bool = False,
    most: int = sys.maxsize,
) -> Ints:
    """Return the placement between the previous one and a target whose moves pay.

    A placement is judged by its objective plus ``cost`` for each benchmark core of load that moves. From the target,
    moves are taken back, the heaviest first, while that is no loss; the answer is never worse than staying, unless
    hosts would have too much to do or to keep there, or links to carry.

    Parameters
    ----------
    target
        Array (m,) of host numbers.
    value
        The objective, smaller is better.
    cost
        Units of the objective per benchmark core moved.
    apart
        Whether the copies of an operator are on different hosts.
    most
        Moves that are tried at most, where each trial takes long.
    """
    limit, there = arrays.limit * (1 + TIE), arrays.previous >= 0

    def price(where: Ints) -> float:
        over, full = arrays.host_mean(where) > limit, arrays.over_memory(where) > 0
        if over_link(arrays, where) or (
            apart and len(np.unique(np.stack([arrays.base, where]), axis=1).T) < len(where)
        ):
            return math.inf
        moved = there & (where != arrays.previous)
        return math.inf if over.any() or full.any() else value(arrays, where) + cost * float(arrays.mean[moved].sum())

    def no_loss(now: float) -> bool:
        return now < math.inf and now <= least + TIE * abs(least)

    # Copies that come anew were nowhere: they move with nothing, and stay where they are wanted.
    stay = np.where(arrays.fixed >= 0, arrays.fixed, np.where(there, arrays.previous, target))
    best, least = target.copy(), price(target)
    taken_back = True
    while taken_back:
        taken_back = False
        for operator in np.flatnonzero(best != stay)[:most]:
            most -= 1
            trial = best.copy()
            trial[operator] = stay[operator]
            now = price(trial)
            if no_loss(now):
                best, least, taken_back = trial, now, True
    return stay if no_loss(price(stay)) else best
