"""What planning is compared with: dropping without coordination, and dropping the same share of every input."""

from __future__ import annotations

import numpy as np

from penstock.shedding.program import TOLERANCE, Matrix, Program

ROUNDS = 200


def random_drop(program: Program, rates: Matrix) -> Matrix:
    """Let each overloaded host (or link) drop the same share of whatever arrives at it.

    Nobody knows about anybody else (plan 1 of Tatbul et al., Table 1, at every host).

    Returns
    -------
    ndarray, shape (arcs,)
        Kept rates.
    """
    share = np.ones((len(program.limit), program.arcs))
    inside = program.K > 0
    # A host's inputs are its arcs that none of its own arcs feeds.
    feeds = program.G > 0
    inputs = np.array([row & ~(feeds @ row > 0) for row in inside])
    y = program.flow(rates)
    for _ in range(ROUNDS):
        calm = True
        for resource in range(len(program.limit)):
            used = float(program.K[resource] @ y)
            if used > program.limit[resource] * (1 + TOLERANCE):
                calm = False
                entry = inputs[resource] if inputs[resource].any() else inside[resource]
                share[resource, entry] *= program.limit[resource] / used
                y = _kept(program, rates, share.prod(axis=0))
        if calm:
            return y
    return input_only(program, rates)


def input_only(program: Program, rates: Matrix) -> Matrix:
    """Drop the same share of every source, just enough for every host."""

    def flow(share: float) -> Matrix:
        return program.flow(share * np.asarray(rates, float))

    y = flow(1.0)
    over = float(np.max(program.K @ y / program.limit, initial=0.0))
    if over <= 1 + TOLERANCE:
        return y
    if not program.products:
        return y / over
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if program.feasible(flow(middle)) else (low, middle)
    return flow(low)


def _kept(program: Program, rates: Matrix, share: Matrix) -> Matrix:
    return program.limited(rates, lambda arc, offered: share[arc] * offered)
