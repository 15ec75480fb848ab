"""What a query that is attached is checked with, and room for queries in real-time mode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from penstock.cluster import Cluster, SparkSettings
from penstock.errors import InputError
from penstock.latency.fragments import fragments
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import Deployment
from penstock.spark.connection import Connection
from penstock.spark.run import Engine
from penstock.spark.run import attach as attach_module
from penstock.spark.run import engine as engine_module
from penstock.spark.run.attach import grown
from penstock.spark.run.units import Unit

KAFKA = Connection.of(SparkSettings(kafka={"bootstrap": "127.0.0.1:1", "partitions": "9"}))


def network(*operators: str) -> Network:
    """Return a network whose operators read a topic each by itself, or the one before them."""
    source = {"format": "kafka", "schema": "n int", "options": {"subscribe": "clicks"}}
    inputs = dict(zip(operators, ("clicks", *operators), strict=False))
    tables = {name: {"kind": "map", "input": given} for name, given in inputs.items()}
    sinks = {f"of-{name}": {"input": name} for name in operators}
    return parse_network({"name": "n", "sources": {"clicks": source}, "operators": tables, "sinks": sinks})


class Seen(Exception):
    """The columns are asked for."""


def test_columns_of_topics_are_asked_of_the_clusters_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a query is attached, and where a run with one goes on, Spark is told where the topics are."""

    def derive(_session: object, _network: Network, kafka: Mapping[str, str]) -> None:
        assert kafka["kafka.bootstrap.servers"] == "127.0.0.1:1"
        raise Seen

    monkeypatch.setattr(attach_module, "derive_schemas", derive)
    monkeypatch.setattr(engine_module, "derive_schemas", derive)
    deployment = Deployment(network("old"), {"old": "h1"}, "run", kafka=KAFKA)
    cluster = Cluster.uniform(1)
    kafka = {"bootstrap": "127.0.0.1:1"}
    cluster = attrs.evolve(cluster, spark=SparkSettings(kafka=kafka))
    engine: Any = SimpleNamespace(cluster=cluster, sessions={"h1": None}, schedules=lambda *_, **__: {})
    system: Any = SimpleNamespace(deployment=deployment, claim=SimpleNamespace(given_up=frozenset()))
    with pytest.raises(Seen):
        grown(engine, system, network("old", "new"), {"new": "h1"})
    with pytest.raises(Seen):
        Engine._grown(engine, deployment, network("old", "new"))


@pytest.mark.parametrize(
    ("noted", "begins"), [({}, {}), ({"old": (7, 1)}, {"old": 1}), ({"old": (7, None)}, {"old": 2})]
)
def test_a_query_begins_in_a_log_where_rows_are_noted(
    tmp_path: Path, noted: dict[str, Any], begins: dict[str, int]
) -> None:
    """Of a log of which nothing is noted yet it reads the first batch too; where all is history it begins behind it."""
    for number in range(2):
        (tmp_path / "logs" / "old" / f"{number:012d}.arrow").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "logs" / "old" / f"{number:012d}.arrow").touch()
    whole, placement = network("old", "new"), {"old": "h1", "new": "h2"}
    before, after = (Deployment(made, placement, str(tmp_path)) for made in (network("old"), whole))
    system: Any = SimpleNamespace(deployment=before, claim=SimpleNamespace(run="r"))
    change: Any = SimpleNamespace(deployment=after)
    unit = Unit.new(next(part for part in fragments(whole, placement) if part.name == "new"))
    assert attach_module._begins(system, change, unit, noted) == begins


@pytest.mark.spark
def test_hosts_that_penstock_started_must_have_room_too(engine: Engine) -> None:
    """A host that was left running may have fewer slots than queries in real-time mode hold, and is refused."""
    made = network("one", "two")
    deployment = Deployment(made, {"one": "h1", "two": "h2"}, "run", kafka=KAFKA, real_time=frozenset(made.operators))
    with pytest.raises(InputError, match=r"hosts.h2: has 2 slots, .* hold 9"):
        engine.check_room(deployment, ["h2"])
