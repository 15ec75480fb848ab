"""How outputs grow with the rate, measured on samples of which it is known."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.network.file import parse_network
from penstock.network.model import Operator
from penstock.spark.calibrate import Precision, bench, slope_of
from penstock.spark.calibrate.alone import alike
from penstock.spark.calibrate.growth import length_needed, measured_growth
from penstock.spark.run import Engine

pytestmark = pytest.mark.spark

RATE, LENGTH = 60, 60
TABLES = {
    "few": {"kind": "join", "inputs": ["a", "b"], "on": "a.key = b.key", "within": "4 seconds"},
    "one": {"kind": "join", "inputs": ["a", "b"], "on": "a.n = b.n", "within": "4 seconds"},
    "past": {"kind": "join", "inputs": ["a", "b"], "on": "a.n = b.n - 400", "within": "8 seconds"},
    "groups": {"kind": "aggregate", "input": "a", "by": "key", "window": "10 seconds", "slide": "5 seconds"},
    "bids": {
        "kind": "aggregate", "input": "a", "by": "auction", "window": "10 seconds", "select": "count(*) AS bids",
    },
    "best": {"kind": "python", "input": "bids", "function": "penstock.spark.steps:hottest"},
    "all": {"kind": "filter", "input": "a", "where": "n >= 0"},
}  # fmt: skip


def sample(engine: Engine, shift: int) -> Any:
    """Return rows with a key of seven and a number of their own, evenly in time."""
    micros = f"{shift} + CAST(id * 1000000 / {RATE} AS BIGINT)"
    return engine.sessions["h1"].range(RATE * LENGTH).selectExpr(
        "id AS n", "pmod(xxhash64(id), 7) AS key", "id AS auction", "id AS __id", f"{micros} AS __stimulus",
        f"timestamp_micros({micros}) AS __time",
    )  # fmt: skip


@pytest.mark.slow
def test_growth_is_that_of_the_rows(engine: Engine) -> None:
    """Few keys give pairs, single partners rows, also long ago, full groups nothing more; filters are not asked."""
    network = parse_network({"name": "n", "sources": {"a": {}, "b": {}}, "operators": TABLES, "sinks": {}})
    assert length_needed(network) == 40
    found = measured_growth(network, {"a": sample(engine, 0), "b": sample(engine, 1000)})
    exponents = {name: growth.exponent for name, (_, growth) in found.items()}
    assert exponents == pytest.approx({"few": 2, "one": 1, "past": 1, "groups": 0, "bids": 1, "best": 0}, abs=0.03)
    selectivity = {name: shares[0] for name, (shares, _) in found.items()}
    assert selectivity["few"] == pytest.approx(1 / 7, rel=0.05)
    assert selectivity["one"] == pytest.approx(1 / (2 * 4 * RATE), rel=0.05)
    assert selectivity["past"] == pytest.approx(1 / (2 * 8 * RATE), rel=0.01)
    assert selectivity["groups"] == pytest.approx(7 / (5 * RATE), rel=0.01)
    assert found["best"][1].at == pytest.approx(RATE, rel=0.02)


def test_short_samples_tell_nothing(engine: Engine) -> None:
    """A sample that does not cover the windows twice, also in half the time, gives no growth."""
    network = parse_network({"name": "n", "sources": {"a": {}, "b": {}}, "operators": TABLES, "sinks": {}})
    short = sample(engine, 0).where("n < 600")
    assert measured_growth(network, {"a": short, "b": short}) == {}


@pytest.mark.parametrize("name", ["few", "groups"])
def test_copies_of_a_sample_do_not_meet(engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Where a small sample is gone over again and again, a row meets as many others in a join or window as in it."""
    network = parse_network({"name": "n", "sources": {"a": {}, "b": {}}, "operators": TABLES, "sinks": {}})
    operator, real, taken = network.operators[name], bench.kinds.apply, list[tuple[Operator, list[Any]]]()

    def apply(given: Operator, inputs: Any, speed: float = 0.0) -> Any:
        taken.append((given, inputs))
        return real(given, inputs, speed)

    monkeypatch.setattr(bench.kinds, "apply", apply)
    # All jobs seem to take as long: rows are added up to the limit, however fast the machine is.
    ticks = itertools.count()
    monkeypatch.setattr(slope_of, "time", SimpleNamespace(perf_counter=lambda: 0.01 * next(ticks)))
    samples = {given: sample(engine, shift).where("n < 60") for given, shift in (("a", 0), ("b", 3_000_000))}
    bench.Bench.of(samples, Precision()).measured(operator, operator.inputs, 1.0)
    (rows, found), (most, more) = (
        (each[0].count(), real(given, each).count()) for given, each in (taken[0], taken[-1])
    )
    if operator.kind == "join":
        # Nor are they compared.
        plan = real(*taken[-1])._explain_string()
        assert re.search(r"Join \[key#\d+L, __copy#\d+L\], \[key#\d+L, __copy#\d+L\]", plan), plan
    assert most > 2 * rows
    assert more / most == found / rows


def test_what_is_alike_is_measured_once() -> None:
    """Operators that do the same with the events of sources of one kind and rate are alike; others are not."""

    def source(rate: int) -> dict[str, Any]:
        return {"format": "nexmark", "options": {"rate": rate}}

    def step(given: str, where: str) -> dict[str, Any]:
        return {"kind": "filter", "input": given, "where": where}

    network = parse_network(
        {
            "name": "n",
            "sources": {"a": source(10), "b": source(10), "c": source(20), "files": {"format": "json"}},
            "operators": {
                "a1": step("a", "x > 1"),
                "b1": step("b", "x > 1"),
                "b2": step("b", "x > 2"),
                "c1": step("c", "x > 1"),
                "f1": step("files", "x > 1"),
                "a11": step("a1", "x > 3"),
                "b11": step("b1", "x > 3"),
            },
            "sinks": {},
        }
    )
    found = alike(network)
    assert {name: like for name, like in found.items() if name != like} == {"b": "a", "b1": "a1", "b11": "a11"}
    assert set(found) == {*network.sources, *network.operators}
