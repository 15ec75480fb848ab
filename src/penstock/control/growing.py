"""How outputs grow from the rates at which their selectivity was learned."""

from __future__ import annotations

from collections.abc import Collection

import attrs
import numpy as np

from penstock.control.flow import Floats
from penstock.network import Network, Operator


def growing_from(network: Network, learned: Collection[str], arrivals: Floats) -> Network:
    """Return the network in which the growth of some operators begins at the rates of their inputs.

    A selectivity that was learned has in it how the output had grown until then: at those rates it holds as it is.

    Parameters
    ----------
    learned
        Operators whose selectivity was learned.
    arrivals
        Array (inputs,), tuples/s, in the order of the operators: those at which it was.
    """
    found, place = [], 0
    for operator in network.operators.values():
        here = arrivals[place : (place := place + len(operator.inputs))]
        found.append(_growing_from(operator, here) if operator.name in learned else operator)
    return network.having(found)


def _growing_from(operator: Operator, rates: Floats) -> Operator:
    """Return an operator whose output grows from the geometric mean of its inputs' rates; without input as usual."""
    if operator.growth is None:
        return operator
    growth = attrs.evolve(operator.growth, at=float(np.exp(np.log(rates).mean()))) if rates.all() else None
    return attrs.evolve(operator, growth=growth)
