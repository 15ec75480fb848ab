"""A standalone cluster from Spark's Python package, as `make cluster` starts it, beside a host that penstock starts."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from sinks_kit import read_json

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.network.file import parse_network
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_cluster_and_an_embedded_host_run_one_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go from executors to an embedded host and back, windows close, every row is counted, and nothing is left."""
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
            "sinks": {"out": {"input": "sums", "format": "json", "options": {"path": str(tmp_path / "out")}}},
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
            outcome = engine.run(engine.prepare(network, placement, tmp_path / "run"), once=True)
    assert outcome.balanced(network)
    assert sorted(row["s"] for row in read_json(tmp_path / "out")) == [
        2 * sum(range(0, 20, 2)),
        2 * sum(range(20, 40, 2)),
    ]
    assert all(server.pid is None for server in (made.master, made.connect, *made.workers))
