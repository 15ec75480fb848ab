"""What an engine saw of a running network between two looks: the input of every decision that is made on the way."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.network import Network


@attrs.frozen(eq=False, kw_only=True)
class Observation:
    """Counts of one look; engines fill it, policies read it.

    Attributes
    ----------
    at, period
        When it was made, and the time since the one before (s).
    sources, entered
        Names, and array (sources,): tuples that entered.
    operators
        Names, as the rows of the next four.
    served
        Array (operators,): tuples whose service ended.
    work
        Array (operators,): benchmark-core seconds that these took.
    tried, emitted
        Arrays (operators,): what the selectivity is a share of (tuples served, of a join pairs within its windows), and
        tuples put out.
    placement
        The host of each operator now; of one that is moving the host that it moves to.
    moving
        Operators that start nothing yet, because they move.
    down
        Hosts that have failed.
    """

    at: float
    period: float
    sources: tuple[str, ...]
    entered: NDArray[np.int64]
    operators: tuple[str, ...]
    served: NDArray[np.int64]
    work: NDArray[np.float64]
    tried: NDArray[np.int64]
    emitted: NDArray[np.int64]
    placement: Mapping[str, str]
    moving: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()

    def sums(self) -> NDArray[np.float64]:
        """Return ``served``, ``work``, ``tried`` and ``emitted``, array (4, operators)."""
        return np.array([self.served, self.work, self.tried, self.emitted], np.float64)


def work_of(network: Network, counts: Mapping[str, tuple[int, int]]) -> float:
    """Return the benchmark-core seconds of tuples, counted by stream: those that arrived, and were dropped of them."""
    total = 0.0
    for name, (arrived, dropped) in counts.items():
        writer, _, reader = name.partition("->")
        if reader in network.operators:
            operator = network.operators[reader]
            costs = operator.cost or (0.0,) * len(operator.inputs)
            total += (arrived - dropped) * costs[operator.inputs.index(writer)]
    return total
