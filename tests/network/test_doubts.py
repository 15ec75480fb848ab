"""Doubts about networks: what runs, but hardly as it was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.network import Network, chain, read_network
from penstock.network.doubts import assumed_selectivities, doubts
from penstock.network.file import parse_network

OPERATORS = {
    "kept": {"kind": "filter", "input": "s"},
    "shaped": {"kind": "map", "input": "kept"},
    "both": {"kind": "union", "inputs": ["shaped", "r"]},
    "pairs": {"kind": "join", "inputs": ["both", "r"], "window": [2, 3]},
    "late": {"kind": "delay", "input": "pairs"},
    "scored": {"kind": "python", "input": "late", "function": "m:f"},
    "counted": {"kind": "aggregate", "input": "scored"},
}


def network(sinks: dict[str, dict[str, str]], **changed: dict[str, object]) -> Network:
    operators = {name: {**row, **changed.get(name, {})} for name, row in OPERATORS.items()}
    return parse_network({"name": "n", "sources": {"s": {}, "r": {}}, "operators": operators, "sinks": sinks})


def test_only_kinds_that_change_the_number_of_rows_assume() -> None:
    """Filters, joins, aggregates and python steps without a selectivity are named, in order, and no others."""
    sinks = {"t": {"input": "counted"}}
    assert assumed_selectivities(network(sinks)) == ("kept", "pairs", "scored", "counted")
    some = network(sinks, kept={"selectivity": 0.5}, pairs={"selectivity": [0.1, 0.0]}, counted={"selectivity": 0})
    assert assumed_selectivities(some) == ("scored",)


def test_what_nothing_reads_is_doubtful() -> None:
    """The end of a network without a sink is doubtful, an operator whose reader is a sink or an operator is not."""
    assert doubts(network({"t": {"input": "counted"}})) == []
    ends = doubts(network({"t": {"input": "late"}}))
    assert [(doubt.at, doubt.problem) for doubt in ends] == [("operators.counted", "nothing reads it")]


@pytest.mark.parametrize(("selectivity", "doubtful"), [(0.0, False), (1.0, False), (1.0001, True), (1.8, True)])
def test_filters_that_multiply_are_doubtful(selectivity: float, doubtful: bool) -> None:
    """A filter lets each row through once at most; other kinds may put out more."""
    found = doubts(chain([0.1], selectivity))
    assert [doubt.at for doubt in found] == (["operators.o1.1.selectivity"] if doubtful else [])
    assert doubts(network({"t": {"input": "counted"}}, shaped={"selectivity": 3.0}, counted={"selectivity": 2})) == []


@pytest.mark.parametrize(
    ("select", "told"),
    [
        ("first(price) AS open, LAST (price) AS close, first(x) AS y", ["first", "last"]),
        ("collect_list(price) AS prices", ["collect_list"]),
        ("sort_array(collect_list(price)) AS prices, size(collect_set(price)) AS n", []),
        ("max_by(price, at) AS close, count(*) AS first, 'first(price)' AS said /* last(price) */", []),
    ],
)
def test_aggregates_that_follow_the_order_of_rows_are_doubtful(select: str, told: list[str]) -> None:
    """What depends on which row comes first is told, with what to say instead; a sorted list does not."""
    found = doubts(network({"t": {"input": "counted"}}, counted={"select": [select], "by": ["user"]}))
    assert [(doubt.at, doubt.problem.partition("(")[0]) for doubt in found] == [
        ("operators.counted.select", name) for name in told
    ]
    assert all(doubt.hint for doubt in found)


def test_a_reader_hears_of_doubts_with_their_lines(tmp_path: Path) -> None:
    """Reading a file tells of doubts, each with file, line and key, and only who asks for them."""
    path = tmp_path / "shop.toml"
    path.write_text('name = "n"\n[sources.s]\n[operators.permin]\nkind = "filter"\ninput = "s"\nselectivity = 2\n')
    heard: list[str] = []
    assert list(read_network(path, heard.append).operators) == ["permin"]
    assert [line.partition(", got")[0] for line in heard] == [
        f"{path}:3: operators.permin: nothing reads it",
        f"{path}:6: operators.permin.selectivity: a filter lets each row through once at most",
    ]
