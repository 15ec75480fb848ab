"""What it costs that tasks write rows: on a host with two slots at 100,000 rows/s, and on one core in both ways.

Run: uv run python benchmarks/bench_spread.py [--seconds 20] [--out benchmarks/results]

Rows of Spark's ``rate`` source pass a filter and go to a sink, and through a log to a query on the same host, which
writes a sink too. CPU time is that of the host's processes, from the fifteenth second on: the JVM's, that of the Python
workers of tasks, and that of the driver's Python processes, which are the queries' writers and readers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from about import revision

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.network.file import parse_network
from penstock.spark.compile import SLOTS
from penstock.spark.hosts import Launch, start_hosts
from penstock.spark.run import Engine

WARM = 15.0
"""Seconds that are not measured."""


def network_of(rate: int) -> Any:
    """Return the network: a source, a filter with a sink, and behind a log a map with a sink."""
    return parse_network(
        {
            "name": "spread",
            "sources": {"events": {"format": "rate", "options": {"rowsPerSecond": str(rate), "numPartitions": "2"}}},
            "operators": {
                "some": {"kind": "filter", "input": "events", "where": "value % 10 < 9"},
                "more": {"kind": "map", "input": "some", "select": "value, value * 2 AS twice"},
            },
            "sinks": {"near": {"input": "some"}, "far": {"input": "more"}},
        }
    )


def cpu_by_kind(root: psutil.Process) -> dict[str, float]:
    """Return CPU seconds of a host's processes by what they are.

    Its Python processes are forks of one, the nursery; of these only Spark's daemon, for tasks, has forks itself.
    """
    found = {"jvm": 0.0, "tasks": 0.0, "driver": 0.0}
    for process in root.children(recursive=True):
        words = " ".join(process.cmdline())
        if "SparkConnectServer" in words:
            found["jvm"] += _spent(process)
        elif "nursery.py" in words and process.ppid() == root.pid:
            for fork in process.children():
                deeper = fork.children(recursive=True)
                found["tasks" if deeper else "driver"] += sum(map(_spent, [fork, *deeper]))
    return found


def _spent(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def measure(cores: int, slots: int, rate: int, seconds: float) -> dict[str, Any]:
    """Run for some seconds; return shares of a core, and the median batch."""
    network = network_of(rate)
    cluster = Cluster.of([Host(name="h1", cores=cores)], spark=SparkSettings(trigger=0.5))
    seen: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as base,
        start_hosts(cluster, Launch(folder=base)) as hosts,
    ):
        engine = Engine(cluster, hosts)
        engine.sessions["h1"].conf.set(SLOTS, str(slots))

        def look() -> None:
            time.sleep(WARM)
            for name in ("first", "last"):
                seen[name] = time.time(), cpu_by_kind(hosts["h1"]._root)
                time.sleep(seconds if name == "first" else 0)

        deployment = engine.prepare(network, dict.fromkeys(network.operators, "h1"), base + "/run", apart=["more"])
        watcher = threading.Thread(target=look)
        watcher.start()
        outcome = engine.run(deployment, seconds=WARM + seconds + 3)
        watcher.join()
        assert outcome.balanced(network)
    (begin, before), (end, after) = seen["first"], seen["last"]
    batches = [b for b in outcome.batches if begin <= b.start + b.duration <= end and b.rows]
    rows = sum(b.rows for b in batches if b.query == "some")
    return {
        "cores": cores,
        "slots": slots,
        "rate": rate,
        "rows_per_second": rows / (end - begin),
        **{name: (after[name] - before[name]) / max(1, rows) for name in after},
        "batch": {
            name: statistics.median([b.duration for b in batches if b.query == name] or [float("nan")])
            for name in ("some", "more")
        },
    }


def main() -> None:
    """Measure, and write results where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--runs", default="2:2:100000,1:1:1000,1:2:1000,1:1:100000,1:2:100000", help="cores:slots:rate")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = [measure(*map(int, run.split(":")), given.seconds) for run in given.runs.split(",")]  # type: ignore[arg-type]
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    lines = [
        "# What it costs that tasks write rows",
        "",
        "CPU time for a row (µs) of two queries, one of which reads the other's log; 1 µs is a tenth of a core at",
        "100,000 rows/s. Median batch (ms). With one slot the query's own process writes; with two slots tasks do.",
        "",
        "| cores | slots | rows/s | JVM | tasks' Python | driver's Python | batch (ms) | behind a log |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in found:
        shares = " | ".join(f"{run[name] * 1e6:.2f}" for name in ("jvm", "tasks", "driver"))
        batch = " | ".join(f"{run['batch'][name] * 1e3:.0f}" for name in ("some", "more"))
        lines.append(f"| {run['cores']} | {run['slots']} | {run['rows_per_second']:,.0f} | {shares} | {batch} |")
    lines += ["", f"Machine: {machine}. Revision {revision()}. Made by `benchmarks/bench_spread.py`."]
    print("\n".join(lines))
    if given.out:
        (given.out / "spread.md").write_text("\n".join(lines) + "\n")
        document = {"machine": machine, "revision": revision(), "runs": found}
        (given.out / "spread.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
