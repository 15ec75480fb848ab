"""What of a network answers depend on, by which a run knows its own network again."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.load import OperatorStatistics, Statistics
from penstock.network import meaning
from penstock.network.file import parse_network


def document() -> dict[str, Any]:
    """Return a network as a file holds it."""
    source = {"format": "csv", "schema": "n int", "options": {"path": "in", "header": "true"}}
    return {
        "name": "n",
        "sources": {"s": source},
        "operators": {
            "f": {"kind": "filter", "input": "s", "where": "n > 1"},
            "d": {"kind": "delay", "input": "f", "cost": 0.001},
        },
        "sinks": {"o": {"input": "d", "format": "json", "options": {"path": "out"}}},
    }


@pytest.mark.parametrize(
    ("table", "name", "change", "same"),
    [
        ("operators", "f", {"cost": 0.5, "selectivity": 0.1, "pin": "h2"}, True),
        ("operators", "d", {"cost": 0.002, "selectivity": 1}, True),
        ("sinks", "o", {"weight": 3}, True),
        ("sources", "s", {"options": {"header": "true", "path": "in", "maxFilesPerTrigger": "3"}}, True),
        ("sources", "s", {"options": {"header": "true", "path": "in", "maxFileAge": "30d"}}, True),
        ("operators", "d", {"selectivity": 0.5}, False),
        ("operators", "f", {"where": "n > 2"}, False),
        ("sources", "s", {"options": {"path": "in"}}, False),
        ("sources", "s", {"lateness": 3}, False),
    ],
)
def test_a_network_is_known_by_its_answers(table: str, name: str, change: dict[str, Any], same: bool) -> None:
    """Costs, weights, pins, how much is read at once and the order of options make no other network; answers do."""
    other = document()
    other[table][name] |= change
    assert (meaning(parse_network(document())) == meaning(parse_network(other))) is same


def test_statistics_make_no_other_network() -> None:
    """What was measured of operators changes no answer; least of all what a delay lets through."""
    made = parse_network(document())
    row = OperatorStatistics(cost=(0.1,), selectivity=(0.7,))
    known = Statistics(operators={"f": row, "d": row}).complete(made)
    assert known.operators["f"].selectivity == (0.7,)
    assert known.operators["d"].selectivity is None
    assert meaning(known) == meaning(made)
