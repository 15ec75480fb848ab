"""A standalone cluster from Spark's Python package, as `make cluster` starts it, beside a host that penstock starts."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from sinks_kit import read_json

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.turn import ANNOUNCED

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def plan_dropped(engine: Engine, network: Network, host: str, folder: Path) -> int:
    """Run all on one host while keep fractions follow a plan; return how many rows it drops."""
    placement = dict.fromkeys(network.operators, host)
    deployment = engine.prepare(network, placement, folder / f"plan-{host}", live=True)
    announced = {"keep": {"twice->both": 0.5}, "looked": {}}
    Place(str(folder / f"plan-{host}" / ANNOUNCED)).replace(json.dumps(announced).encode())
    outcome = engine.run_once(deployment)
    assert outcome.balanced(network)
    return outcome.streams(network)["twice->both"]["dropped"]


def test_a_cluster_and_an_embedded_host_run_one_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors and an embedded host share a network; windows close, all is counted, a plan drops the same on both."""
    scripts: Any = importlib.import_module("cluster")
    (tmp_path / "in").mkdir()
    lines = [{"n": n, "at": f"2026-03-01T12:00:{n % 60:02d}Z"} for n in range(60)]
    (tmp_path / "in/a.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    network = parse_network(
        {
            "name": "mixed",
            "sources": {
                "lines": {
                    "format": "json", "schema": "n int, at timestamp", "time": "at",
                    "options": {"path": str(tmp_path / "in")},
                }
            },
            "operators": {
                "twice": {"kind": "map", "input": "lines", "select": ["at", "explode(array(n, -n)) AS n"]},
                "even": {"kind": "filter", "input": "twice", "where": "n % 2 = 0"},
                "sums": {"kind": "aggregate", "input": "even", "window": 20, "select": "sum(abs(n)) AS s"},
            },
            "sinks": {
                "out": {"input": "sums", "format": "json", "options": {"path": str(tmp_path / "out")}},
                "both": {"input": "twice"},
            },
        }
    )  # fmt: skip
    made = scripts.Cluster(tmp_path / "cluster")
    with made:
        monkeypatch.setenv("SPARK_TOKEN", made.known["SPARK_TOKEN"])
        far = Host(name="far", spark=made.known["SPARK_ADDRESS"], token_env="SPARK_TOKEN")  # noqa: S106
        cluster = Cluster.of([far, Host(name="near")], spark=SparkSettings(trigger=0.5))
        with start_hosts(cluster) as hosts:
            engine = Engine(cluster, hosts)
            placement = {"twice": "far", "even": "near", "sums": "far"}
            outcome = engine.run_once(engine.prepare(network, placement, tmp_path / "run"))
            assert outcome.balanced(network)
            dropped = [plan_dropped(engine, network, host, tmp_path) for host in ("near", "far")]
    assert dropped[0] == dropped[1]
    assert 0 < dropped[0] < 120
    wanted = [2 * sum(range(0, 20, 2)), 2 * sum(range(20, 40, 2))]
    assert sorted(row["s"] for row in read_json(tmp_path / "out")) == sorted(wanted * 3)
    assert all(server.pid is None for server in (made.master, made.connect, made.nursery, *made.workers))
