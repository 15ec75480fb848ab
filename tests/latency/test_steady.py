"""The closed form of micro-batches in a steady state."""

from __future__ import annotations

import numpy as np
import pytest
from batch_model import microbatch
from hypothesis import given
from hypothesis import strategies as st

from penstock.latency.fragments import fragments
from penstock.latency.steady import steady_state
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source, chains
from penstock.workload import Rates

RATE, TRIGGER = 1000.0, 1.0


def recursion(
    costs: list[float], overhead: float, span: float = 60.0
) -> tuple[tuple[float, float] | None, float, float]:
    """Return the closed form of a chain with a host for each operator, and the recursion's worst and mean."""
    network = chains([costs])
    placement = {name: f"h{number}" for number, name in enumerate(network.operators)}
    model = load_model(network, Rates.constant({"s1": RATE}, span))
    queries = fragments(network, placement)
    fixed = dict.fromkeys(placement.values(), overhead)
    found = steady_state(model, queries, trigger=TRIGGER, overhead=fixed)
    stimulus, latency, weight = microbatch(model, queries, trigger=TRIGGER, overhead=fixed).whole()
    middle = (stimulus > span - 30) & (stimulus < span - 10) & (weight > 0)
    closed = None if found is None else next(iter(found.sinks.values()))
    return closed, float(latency[middle].max()), float(np.average(latency[middle], weights=weight[middle]))


@given(costs=st.lists(st.floats(0.0, 0.0007), min_size=1, max_size=3), overhead=st.floats(0.0, 0.25))
def test_chains_that_keep_up(costs: list[float], overhead: float) -> None:
    """Where every batch ends within the trigger, worst and mean are those of the recursion."""
    closed, worst, mean = recursion(costs, overhead)
    assert closed is not None
    assert closed[0] == pytest.approx(worst, abs=2 / RATE)
    assert closed[1] == pytest.approx(mean, abs=0.02 * TRIGGER)


@pytest.mark.parametrize(("cost", "overhead"), [(0.0008, 0.4), (0.0009, 0.3)])
def test_one_query_that_does_not_keep_up(cost: float, overhead: float) -> None:
    """Batches that last longer than the trigger settle where the next one takes what came during the last."""
    closed, worst, mean = recursion([cost], overhead, 400.0)
    assert closed is not None
    assert closed[0] == pytest.approx(worst, rel=0.02)
    assert closed[1] == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize("hosts", ["abcd", "dcba", "bdac"])
def test_each_host_of_a_chain_adds_a_trigger(hosts: str) -> None:
    """Batches that take hardly any time are not read by batches that start with them, whatever hosts are called."""
    network = chains([[1e-6] * 4])
    model = load_model(network, Rates.constant({"s1": 100.0}, 20.0))
    queries = fragments(network, dict(zip(network.operators, hosts, strict=True)))
    _, latency, _ = microbatch(model, queries, trigger=TRIGGER).whole()
    assert latency.max() == pytest.approx(4 * TRIGGER, abs=0.02)


def test_no_closed_form() -> None:
    """None is given for a host that is overloaded, or a chain whose batches outlast the trigger."""
    assert recursion([0.0011], 0.1)[0] is None
    assert recursion([0.0009, 0.0001], 0.3)[0] is None


def test_sinks_that_read_a_source_wait_for_no_batch() -> None:
    """Beside a sink that reads a source the others have their closed form, and it has none."""
    network = Network.of(
        "n",
        [Source(name="s")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(0.0001,))],
        [Sink(name="raw", input="s"), Sink(name="t", input="a")],
    )
    model = load_model(network, Rates.constant({"s": RATE}, 10.0))
    found = steady_state(model, fragments(network, {"a": "h1"}), trigger=TRIGGER)
    assert found is not None
    assert list(found.sinks) == ["t"]
