"""The selectivities that a run had, told by the counts of its batches."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.load import OperatorStatistics, Statistics
from penstock.load.statistics import parse_statistics
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.network.model import Growth
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


def windowed(seconds: int, length: int, slide: int, rows: float, share: float) -> list[Counts]:
    """Return the counts of windows that put out so many rows, and a share of those that went in.

    They begin in the middle of a slide; the watermark is that of the batch before.
    """
    return [
        {"s->w": (10, 0), "w->out": (round(rows + share * 10 * min(length, at - 1)) if closes else 0, 0)}
        for at in range(seconds)
        for closes in [at > 1 and (at - 1 + slide // 2) % slide == 0]
    ]


@pytest.mark.parametrize("seconds", [47, 58])
@pytest.mark.parametrize(
    ("slide", "rows", "share", "growth", "selectivity"),
    [
        (10, 0, 0.2, None, 0.2),
        (5, 0, 0.2, None, 0.4),
        (10, 0, 0.2, Growth(1.0, 10.0), 0.2),
        (10, 7, 0.0, Growth(0.0, 10.0), 0.07),
    ],
)
def test_windows_count_as_far_as_they_closed(
    seconds: int, slide: int, rows: float, share: float, growth: Growth | None, selectivity: float
) -> None:
    """Rows of windows that were open at the end, or cut off at the beginning, make no selectivity smaller or larger."""
    made = network("s", w={"kind": "aggregate", "input": "s", "window": "10 seconds", "slide": f"{slide} seconds"})
    row = OperatorStatistics(selectivity=(1.0,), growth=growth)
    found = told(made, windowed(seconds, 10, slide, rows, share), w=row)
    assert found.operators["w"].selectivity == pytest.approx((selectivity,))


def test_too_few_windows_tell_nothing() -> None:
    """Where one window closed, what was measured of whole ones stays; a join behind it is told by what came."""
    made = network(
        "s",
        w={"kind": "aggregate", "input": "s", "window": "30 seconds"},
        j={"kind": "join", "inputs": ["w", "s"], "within": "1 seconds"},
    )
    rows = {"w": OperatorStatistics(selectivity=(0.1,)), "j": OperatorStatistics(selectivity=(1.0, 1.0))}
    counts = [{**row, "s->j": (10, 0), "w->j": row["w->out"]} for row in windowed(45, 30, 30, 30, 0.0)]
    # Each of the 30 rows meets all those of a second before and after.
    counts = [{**row, "j->out": (row["w->j"][0] * 2 * 10, 0)} for row in counts]
    assert sum(row["j->out"][0] for row in counts) == 600
    found = told(made, counts, **rows).operators
    assert (found["w"].selectivity, found["j"].selectivity) == ((0.1,), pytest.approx((1.0, 1.0)))


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
