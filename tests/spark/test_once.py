"""Which units wait for which, when all run over what there is."""

from __future__ import annotations

from penstock.network.file import parse_network
from penstock.spark.run.once import feeders

FILTER = {"kind": "filter", "where": "true"}
NETWORK = parse_network(
    {
        "name": "n",
        "sources": {"s": {"format": "json", "schema": "k string, at timestamp", "time": "at"}},
        "operators": {
            "a": {**FILTER, "input": "s"},
            "b": {**FILTER, "input": "a"},
            "c": {**FILTER, "input": "b"},
            "d": {**FILTER, "input": "s"},
            "e": {"kind": "union", "inputs": ["c", "d"]},
        },
        "sinks": {"t": {"input": "e"}},
    }
)


def test_units_wait_for_all_that_feed_them() -> None:
    """A unit comes after every unit upstream of it, however far, and after no other."""
    assert feeders(NETWORK, ["a", "b", "c", "d", "e"]) == [set(), {0}, {0, 1}, set(), {0, 1, 2, 3}]


def test_units_that_feed_each_other_run_in_their_order() -> None:
    """Where rows leave a unit and come back to it, the one with the first operator goes first."""
    assert feeders(NETWORK, [("a", "c"), ("b",), ("d",), ("e",)]) == [set(), {0}, set(), {0, 1, 2}]
