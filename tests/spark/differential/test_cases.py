"""The random cases and the comparison themselves, without Spark."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import attrs
import pyarrow as pa
import pytest
from case import Case, columns_of, dump, late_rows, load, placed, toml
from networks import LARGE, SMALL, Size, case
from oracle import Answer, check
from shrink import shrink, summary

from penstock.cluster import Cluster, Placement
from penstock.network.file import parse_network


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_cases_are_networks(tmp_path: Path, size: Size) -> None:
    """Every case is a network that can be read, also as TOML, with a placement that fits it and files that exist."""
    for seed in range(150):
        made = case(seed, size)
        network = parse_network(placed(made, tmp_path))
        Placement(made.placement).check(network.operators, Cluster.uniform(3).hosts)
        assert tomllib.loads(toml(made.network)) == made.network
        assert 1 <= len(network.operators) <= size.operators + 4
        assert 1 <= len(network.sinks) <= 3
        assert set(made.files) == set(network.sources)
        assert all(len(parts) <= size.files for parts in made.files.values())
        last = made.steps[-1]
        assert last.seconds is None
        assert last.files == {source: len(parts) for source, parts in made.files.items()}


def test_cases_follow_from_their_seed() -> None:
    """The same seed gives the same case, another seed another."""
    assert dump(case(7)) == dump(case(7))
    assert dump(case(7)) != dump(case(8))


def test_cases_cover_what_networks_have() -> None:
    """Among a few hundred cases is every kind of operator, read limits, stops, late rows, equal rows, empty files."""
    cases = [case(seed) for seed in range(200)]
    kinds = Counter(table["kind"] for made in cases for table in made.network["operators"].values())
    assert set(kinds) == {"filter", "map", "union", "join", "aggregate", "delay", "python"}
    files = [(made, source, file) for made in cases for source, parts in made.files.items() for file in parts]
    assert min(kinds.values()) > 20
    assert 10 < sum(late_rows(made) > 0 for made in cases) < 80
    assert any(not file for _, _, file in files)
    assert any(len(set(map(repr, file))) < len(file) for _, _, file in files)
    assert any(step.seconds for made in cases for step in made.steps)
    assert any("maxFilesPerTrigger" in t["options"] for made in cases for t in made.network["sources"].values())


def test_a_case_is_kept_as_a_file(tmp_path: Path) -> None:
    """A case that is written as a file and read again is the same case."""
    for seed in range(30):
        made = case(seed)
        path = tmp_path / f"{made.name}.json"
        path.write_text(dump(made), encoding="utf-8")
        assert dump(load(path)[0]) == dump(made)


def test_kept_cases_are_networks(tmp_path: Path) -> None:
    """Every kept case can be read, and its placement fits."""
    kept = [made for path in (Path(__file__).parent / "kept").glob("*.json") for made in load(path)]
    assert len(kept) > 10
    for made in kept:
        network = parse_network(placed(made, tmp_path))
        Placement(made.placement).check(network.operators, Cluster.uniform(3).hosts)
        assert made.steps[-1].files == {source: len(parts) for source, parts in made.files.items()}


def test_columns_are_read_from_a_schema() -> None:
    """Names with blanks and types with commas are taken apart rightly."""
    ddl = "`a b` decimal(12,2), k bigint, `größe` map<string,bigint>, p struct<a:bigint,b:string>, at timestamp"
    assert columns_of(ddl) == [
        ("a b", "decimal(12,2)"),
        ("k", "bigint"),
        ("größe", "map<string,bigint>"),
        ("p", "struct<a:bigint,b:string>"),
        ("at", "timestamp"),
    ]


def answer(lower: dict[tuple[object, ...], int], upper: dict[tuple[object, ...], int], keys: bool) -> Answer:
    shape = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    return Answer(shape, Counter(lower), Counter(upper), ("k",) if keys else None)


def test_the_comparison_finds_what_is_missing_and_too_much() -> None:
    """Rows that pass through lie between the two answers, with as many of each as there must be."""
    rows = {"t": answer({(1, 1): 2}, {(1, 1): 2, (2, 2): 1}, keys=False)}
    assert check(rows, {"t": Counter({(1, 1): 2})}) == []
    assert check(rows, {"t": Counter({(1, 1): 2, (2, 2): 1})}) == []
    assert "missing" in check(rows, {"t": Counter({(1, 1): 1})})[0]
    assert "too many" in check(rows, {"t": Counter({(1, 1): 3})})[0]
    assert check(rows, {"t": "columns are wrong"}) == ["t: columns are wrong"]


def test_the_comparison_lets_late_rows_count_or_not() -> None:
    """A window that late rows may have reached has values between, and comes once."""
    windows = {"t": answer({(1, 5): 1}, {(1, 8): 1, (2, 3): 1}, keys=True)}
    for fine in ({(1, 5): 1}, {(1, 7): 1}, {(1, 8): 1, (2, 1): 1}):
        assert check(windows, {"t": Counter(fine)}) == []
    for wrong in ({}, {(1, 4): 1}, {(1, 9): 1}, {(1, 6): 2}, {(1, 6): 1, (1, 7): 1}, {(1, 6): 1, (3, 1): 1}):
        assert check(windows, {"t": Counter(wrong)})


def test_a_case_shrinks_to_what_matters() -> None:
    """What is left of a case that differs wherever it has an aggregate and a certain row is little more than these."""
    made = next(c for c in map(case, range(100)) if _aggregates(c) and summary(c)["rows"] > 100)
    source = next(iter(made.files))
    row = next(row for file in made.files[source] for row in file)

    def differs(tried: Case) -> list[str]:
        there = any(row in file for file in tried.files.get(source, ()))
        return ["t1: rows missing"] if there and _aggregates(tried) else []

    small = shrink(made, differs, budget=20.0)
    assert summary(small)["rows"] == 1
    assert len(small.network["operators"]) <= 2
    assert set(small.placement.values()) == {"h1"}
    assert len(small.steps) == 1
    assert attrs.evolve(small, name="x").files[source] != ()


def _aggregates(tried: Case) -> bool:
    return any(table["kind"] == "aggregate" for table in tried.network["operators"].values())
