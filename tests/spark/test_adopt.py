"""Queries that run on without penstock, and a penstock that finds them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import pytest
from sinks_kit import read_parquet

from penstock.cluster import Cluster, SparkSettings
from penstock.network.file import parse_network
from penstock.spark.hosts import start_hosts
from penstock.spark.hosts.kept_file import end
from penstock.spark.hosts.start import leave_hosts
from penstock.spark.left import claimed, placement_of
from penstock.spark.run import Engine, SparkEngine, noted_sessions
from penstock.workload import Rates, nexmark

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

CLUSTER = attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=0.3))
RATE, SECONDS = 40.0, 45
NETWORK = parse_network(
    {
        "name": "left",
        "sources": {"events": {"format": "nexmark"}},
        "operators": {
            "bids": {"kind": "filter", "input": "events", "where": "kind = 'bid'"},
            "each": {
                "kind": "aggregate", "input": "bids", "by": "event", "window": "4 seconds", "select": "count(*) as n",
            },
        },
        "sinks": {"all": {"input": "bids"}, "counted": {"input": "each"}},
    }
)  # fmt: skip

FIRST = """
import sys, time
from test_adopt import live
held = live(*sys.argv[1:])
engine = held.__enter__()
engine.wait(engine.now + 2)
print("runs", flush=True)
time.sleep(600)
"""


class live:  # noqa: N801
    """The network on hosts that were left running."""

    def __init__(self, file: str, folder: str, trigger: float | None = None) -> None:
        self.hosts = start_hosts(CLUSTER, kept=file)
        self.folder, self.trigger = folder, trigger

    def __enter__(self) -> SparkEngine:
        """Start it, or find it running."""
        engine = Engine(CLUSTER, self.hosts.__enter__(), noted_sessions(self.folder))
        there = claimed(self.folder)
        placement = {"bids": "h1", "each": "h1"} if there is None else placement_of(there)
        rates = Rates.constant({"events": RATE}, SECONDS)
        deployment = engine.prepare(NETWORK, placement, self.folder, rates=rates, apart=["each"])
        self.engine = SparkEngine(engine, deployment, trigger=self.trigger)
        return self.engine

    def __exit__(self, *_: object) -> None:
        """Let the hosts go."""
        self.hosts.__exit__(None, None, None)


@pytest.fixture
def left(tmp_path: Path) -> Iterator[str]:
    """A file that names a host which runs without penstock."""
    file = tmp_path / "hosts.json"
    leave_hosts(CLUSTER, file)
    yield str(file)
    end(file)


def test_a_controller_finds_what_it_left_running(left: str, tmp_path: Path) -> None:
    """Queries go on while no controller lives; the next one goes on with them, and every row comes once."""
    folder = str(tmp_path / "run")
    first = subprocess.Popen(
        [sys.executable, "-c", FIRST, left, folder], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "runs\n"
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    first.stdout.close()
    batches = tmp_path / "run/batches/bids"
    before = len(list(batches.iterdir()))
    time.sleep(3)
    assert len(list(batches.iterdir())) > before
    begin = live(left, folder)
    with begin as engine:
        assert [unit.generation for unit in engine.observe().units] == [1, 1]
        while engine.wait(engine.now + 2):
            pass
        engine.close()
        assert engine.report()["balanced"] is True
    schedule = nexmark.Schedule.of(np.full(SECONDS, RATE), 1.0)
    rows = nexmark.Nexmark(schedule, 0, int((tmp_path / "run/epoch").read_text())).rows(0, schedule.total)
    bids = [row[0] for row in rows if dict(zip(nexmark.COLUMNS, row, strict=True))["kind"] == "bid"]
    assert sorted(row["event"] for row in read_parquet(tmp_path / "run/sinks/all")) == bids
    counted = Counter(row["event"] for row in read_parquet(tmp_path / "run/sinks/counted"))
    assert set(counted.values()) == {1}


def test_a_controller_with_another_trigger_starts_queries_again(left: str, tmp_path: Path) -> None:
    """Queries that were left running at one trigger go on at that of the next controller, and lose nothing."""
    folder = str(tmp_path / "run")
    with live(left, folder) as engine:
        engine.wait(engine.now + 2)
        engine.close(stop=False)
    with live(left, folder, 2.0) as engine:
        seen = engine.observe()
        assert [unit.generation for unit in seen.units] == [2, 2]
        assert dict(seen.triggers) == {"h1": 2.0}
        batches = tmp_path / "run/batches/bids"
        engine.wait(engine.now + 2)
        before = len(list(batches.iterdir()))
        time.sleep(6)
        assert len(list(batches.iterdir())) - before <= 4
        engine.close(stop=False)
    with live(left, folder, 2.0) as engine:
        assert [unit.generation for unit in engine.observe().units] == [2, 2]
        while engine.wait(engine.now + 2):
            pass
        engine.close()
        assert engine.report()["balanced"] is True
