"""What goes with a query that was attached and is given up."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from penstock.errors import InputError
from penstock.latency.fragments import fragments
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import Deployment
from penstock.spark.run.attach import Grown, grown
from penstock.spark.run.detach import shrunk
from penstock.spark.run.fuse import pair
from penstock.spark.run.units import Unit

FIRST = {"bids"}


def made() -> Network:
    """Return a network of one operator to which two queries were attached: one of three queries, and one of one."""
    operators = {"bids": "events", "dear": "bids", "often": "dear", "rich": "often", "guests": "people"}
    tables = {name: {"kind": "map", "input": given} for name, given in operators.items()}
    sources = {"events": {"format": "nexmark"}, "people": {"format": "nexmark"}}
    sinks = {"all": {"input": "bids"}, "riches": {"input": "rich"}, "dears": {"input": "dear"}}
    return parse_network(
        {"name": "n", "sources": sources, "operators": tables, "sinks": {**sinks, "named": {"input": "guests"}}}
    )


def running(**more: Any) -> Any:
    """Return a system in which each operator is a query of its own."""
    network = made()
    placement = dict.fromkeys(network.operators, "h1")
    parts = fragments(network, placement, set(network.operators))
    schedules: Any = {"people": {}, "events": {}}
    deployment = Deployment(network, placement, "run", units=tuple(parts), schedules=schedules)
    return SimpleNamespace(deployment=deployment, units={part.name: Unit.new(part) for part in parts}, **more)


def gone(found: Grown | None) -> set[str]:
    """Return the operators that go."""
    assert found is not None
    return {name for unit in found.gone for name in unit.fragment.operators}


def test_what_reads_it_and_what_only_it_reads_go_too() -> None:
    """What fails takes its readers with it, and what was attached for it alone; what has a sink or is older stays."""
    system = running()
    found = shrunk(system, FIRST, system.units["rich"])
    assert gone(found) == {"rich", "often"}
    assert found is not None
    assert [unit.name for unit in found.again] == ["dear"]
    assert set(found.deployment.network.sinks) == {"all", "dears", "named"}
    assert set(found.deployment.placement) == {"bids", "dear", "guests"}
    assert gone(shrunk(system, FIRST, system.units["dear"])) == {"dear", "often", "rich"}


def test_what_was_attached_is_not_fused_with_what_was_there() -> None:
    """Of a chain of units on one host those go on as one with which the run began, or those that were attached."""
    system = running()
    chain = ["bids", "dear", "often", "rich"]
    system.units = {name: system.units[name] for name in chain}
    system.compiled = {
        name: SimpleNamespace(
            name=name, inputs=reads, reads=reads,
            spec=SimpleNamespace(knobs=None, logs=[SimpleNamespace(writer=name)]),
        )
        for name, reads in zip(chain, [("events",), *((name,) for name in chain)], strict=False)
    }  # fmt: skip
    system.runners, system.queries = dict.fromkeys(chain), [*system.compiled.values()]

    def pairs(first: set[str]) -> set[frozenset[str]]:
        found: set[frozenset[str]] = set()
        while (two := pair(system, first, found)) is not None:
            found.add(frozenset(unit.name for unit in two))
        return found

    every = {frozenset(two) for two in itertools.pairwise(chain)}
    assert pairs({*chain}) == every
    assert pairs({"bids"}) == every - {frozenset(["bids", "dear"])}
    assert pairs({"bids", "dear", "often"}) == every - {frozenset(["often", "rich"])}


def test_a_source_that_nobody_reads_goes_too() -> None:
    """A query that had a source of its own leaves nothing of it, and changes no query that stays."""
    system = running()
    found = shrunk(system, FIRST, system.units["guests"])
    assert found is not None
    assert found.again == ()
    assert set(found.deployment.network.sources) == set(found.deployment.schedules) == {"events"}


def test_what_the_run_began_with_is_never_given_up() -> None:
    """Where that fails, or is one query with what was attached, or what fails has copies, nothing can be given up."""
    system = running()
    assert shrunk(system, FIRST, system.units["bids"]) is None
    assert shrunk(system, {"bids", "often"}, system.units["dear"]) is None
    unit = attrs.evolve(system.units["guests"], copies={"guests": "h1", "guests#2": "h2"})
    system.units["guests"] = unit
    assert shrunk(system, FIRST, unit) is None


def test_a_name_that_was_given_up_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query with the name of one that was given up would take what that has left for its own, and is refused."""
    system = running(claim=SimpleNamespace(given_up=frozenset({"late"})))
    network, late = made(), {"kind": "map", "input": "bids"}
    document: Any = {
        "name": "n", "sources": {name: {"format": "nexmark"} for name in network.sources},
        "operators": {**{n: {"kind": "map", "input": o.inputs[0]} for n, o in network.operators.items()}, "late": late},
        "sinks": {**{name: {"input": sink.input} for name, sink in network.sinks.items()}, "lates": {"input": "late"}},
    }  # fmt: skip
    engine: Any = SimpleNamespace(cluster=SimpleNamespace(spark=None))
    monkeypatch.setattr("penstock.spark.run.attach.check_network", lambda *_: None)
    with pytest.raises(InputError, match=r"operators\.late: a query with this name failed here"):
        grown(engine, system, parse_network(document), {"late": "h1"})
