"""The policy `rebalance` where operators have copies: two of them are never brought to one host."""

from __future__ import annotations

import pytest
from engines import simulated, stepped
from steered import steered

from penstock.network import Network, Operator, Sink, Source


def four_operators():
    """Return four operators beside each other, the first of which reads another source."""
    rows = (("a", "s1", 0.004), ("b", "s2", 0.004), ("c", "s2", 0.004), ("d", "s2", 0.003))
    operators = [
        Operator(name=name, kind="filter", where="true", inputs=(given,), cost=(cost,), selectivity=(1.0,))
        for name, given, cost in rows
    ]
    sinks = [Sink(name=f"t{name}", input=name) for name, _, _ in rows]
    return Network.of("four", [Source(name="s1"), Source(name="s2")], operators, sinks)


@pytest.mark.parametrize("hosts", [2, 3])
@pytest.mark.parametrize(
    "policy", ["rebalance", "rebalance-two-way", "rebalance-exchange", "rebalance-potential", "cheapest"]
)
def test_overload_beside_a_copy_is_relieved(policy, hosts):
    """Something else moves than the operator whose copy is there, and no plan is refused."""
    placement = {"a": "h1", "a#2": "h2", "b": "h1", "c": "h1", "d": "h1"}
    engine = simulated(four_operators(), placement, stepped((40, 100.0)), hosts)
    lines, looks = steered(engine, policy, 30)
    assert lines
    assert not any(line["refused"] for line in lines)
    assert looks[-1].placement["a"] != looks[-1].placement["a#2"]
    assert list(looks[-1].placement.values()).count("h1") < 4
