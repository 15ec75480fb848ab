"""The recursion over micro-batches, beside what the comparison with the simulator shows of it."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from batch_model import microbatch
from hypothesis import given
from hypothesis import strategies as st

from penstock.latency.fragments import fragments
from penstock.latency.microbatch import COMMIT
from penstock.load import load_model
from penstock.network.file import parse_network
from penstock.workload import Rates


def test_a_batch_without_input_has_a_length_of_its_own() -> None:
    """The batch that only ends windows lasts its host's idle time, the others last the overhead and the work."""
    network = parse_network(
        {
            "name": "windows",
            "sources": {"s": {}},
            "operators": {
                "w": {"kind": "aggregate", "input": "s", "window": 1.0, "cost": 0.001, "selectivity": 0.1},
            },
            "sinks": {"out": {"input": "w"}},
        }
    )
    model = load_model(network, Rates.of(1.0, {"s": [10, 10, 10]}))
    queries = fragments(network, {"w": "h1"})
    for idle, last in (({"h1": 0.1}, 0.1), (None, 0.3)):
        found = microbatch(model, queries, trigger=1.5, overhead={"h1": 0.3}, idle=idle)
        assert [batch.start for batch in found.batches] == [0, 1.5, 3, 4.5]
        assert [batch.duration for batch in found.batches] == pytest.approx([0.301, 0.315, 0.314, last])
        stimulus, latency, weight = found.whole()
        assert weight == pytest.approx([1, 1])
        # The batch at 3 s sees that the window which ended at 2 s is over; the next one puts it out.
        assert stimulus == pytest.approx([1, 2])
        assert latency == pytest.approx([3.314 - COMMIT - 1, 4.5 + last - COMMIT - 2])


@given(start=st.floats(0, 2e9), slide=st.sampled_from([0.5, 1.0, 2.0, 3.0]))
def test_windows_end_at_multiples_of_their_slide(start: float, slide: float) -> None:
    """Windows end at multiples of their slide of the clock, whenever the rates begin; each tuple is in as many."""
    tables = {
        "w": {"kind": "aggregate", "input": "s", "window": 3 * slide, "slide": slide, "cost": 0, "selectivity": 1}
    }
    network = parse_network({"name": "w", "sources": {"s": {}}, "operators": tables, "sinks": {"out": {"input": "w"}}})
    rates = attrs.evolve(Rates.of(1.0, {"s": [20.0] * 20}), start=start)
    found = microbatch(load_model(network, rates), fragments(network, {"w": "h1"}), trigger=1.0)
    ends, _, weight = found.sinks["out"]
    assert np.abs((ends + start) / slide - np.round((ends + start) / slide)).max() < 1e-5
    assert weight[3:-1] == pytest.approx(20.0 * slide, abs=2)


def test_outputs_grow_as_they_were_measured() -> None:
    """Windows put out by their own rows: one row each, and groups as their number grows, also in a burst."""
    tables = {
        "w": {
            "kind": "aggregate", "input": "s", "window": 2.0, "cost": 0.0, "selectivity": 0.5,
            "growth": {"exponent": 0.5, "at": 4.0},
        },
        "one": {
            "kind": "python", "input": "w", "cost": 0.0, "selectivity": 0.25, "growth": {"exponent": 0, "at": 2.0},
        },
    }  # fmt: skip
    network = parse_network(
        {
            "name": "windows",
            "sources": {"s": {}},
            "operators": tables,
            "sinks": {"groups": {"input": "w"}, "best": {"input": "one"}},
        }
    )
    model = load_model(network, Rates.of(1.0, {"s": [4, 4, 16, 16, 16]}))
    found = microbatch(model, fragments(network, {"w": "h1", "one": "h1"}), trigger=1.0)
    assert found.sinks["groups"][2] == pytest.approx([4, 8])
    assert found.sinks["best"][2] == pytest.approx([1, 1])
