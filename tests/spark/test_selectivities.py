"""The selectivities that a run had, told by the counts of its batches."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.load import OperatorStatistics, Statistics
from penstock.load.statistics import parse_statistics
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.calibrate import measured_selectivities
from penstock.spark.run import Batch, Outcome
from penstock.workload import Rates

Counts = dict[str, tuple[int, int]]


def network(*sources: str, **operators: dict[str, Any]) -> Network:
    """Return operators over sources; the last one leads to a sink."""
    tables = {name: {"cost": 0.0, **table} for name, table in operators.items()}
    sinks = {"out": {"input": [*operators][-1]}}
    return parse_network({"name": "n", "sources": {s: {} for s in sources}, "operators": tables, "sinks": sinks})


def told(made: Network, counts: list[Counts], **rows: OperatorStatistics) -> Statistics:
    """Return what one batch a second tells, with ten rows a second of every source."""
    batches = [Batch("q", at, 100.0 + at, 0.3, 10, row) for at, row in enumerate(counts)]
    outcome = Outcome(epoch=100.0, batches=batches, visible={}, stimulus={}, taken={}, seconds=60.0)
    rates = Rates.of(1.0, {source: [10.0] * len(counts) for source in made.sources})
    return measured_selectivities(Statistics(operators=rows), made, outcome, rates)


def test_one_number_is_that_of_every_input() -> None:
    """Statistics whose equal numbers of all inputs were written as one can be learned from."""
    made, known = (
        network("a", "b", u={"kind": "union", "inputs": ["a", "b"]}),
        OperatorStatistics(selectivity=(1.0, 1.0)),
    )
    read = parse_statistics(Statistics(operators={"u": known}).document()).operators["u"]
    counts: list[Counts] = [{"a->u": (10, 0), "b->u": (20, 0), "u->out": (27, 0)}] * 9
    for row in (known, read):
        found = told(made, counts, u=row).complete(made, override=True)
        assert found.operators["u"].selectivity == pytest.approx((0.9, 0.9))
