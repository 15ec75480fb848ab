"""What counted tuples cost."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.network import Network


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
