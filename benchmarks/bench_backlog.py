"""A backlog of millions of rows through two hosts with 512 MB of memory each.

Run: uv run python benchmarks/bench_backlog.py [--rows 20000000] [--format json] [--out benchmarks/results]

All files are there when the run begins (``--once``). The source has no read limit of its own. A filter on one host
writes a log that a map on another host reads. Shown are rows a second, the most memory that a host's JVM and Python
workers had, and how large the log was at most and at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from about import revision

from penstock.cluster import Cluster
from penstock.network.file import parse_network
from penstock.spark.hosts import Launch, start_hosts
from penstock.spark.run import Engine

EACH = 1_000_000
"""Rows of a file."""


def write_backlog(folder: Path, form: str, rows: int) -> int:
    """Write the input; return its bytes."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(-(-rows // EACH)):
        count = min(EACH, rows - number * EACH)
        numbers = np.arange(number * EACH, number * EACH + count)
        if form == "json":
            prices = rng.integers(1, 1000, count)
            lines = [f'{{"n":{n},"user":"user-{n % 99991}","price":{p}}}' for n, p in zip(numbers, prices, strict=True)]
            (folder / f"{number:04d}.json").write_text("\n".join(lines) + "\n")
        else:
            users = pa.array([f"user-{n % 99991}" for n in numbers])
            table = pa.table({"n": numbers, "user": users, "price": rng.integers(1, 1000, count)})
            pq.write_table(table, folder / f"{number:04d}.parquet")
    return sum(path.stat().st_size for path in folder.iterdir())


def measure(form: str, rows: int, base: Path) -> dict[str, Any]:
    """Run the backlog through; check that every row came once."""
    size = write_backlog(base / "in", form, rows)
    network = parse_network(
        {
            "name": "backlog",
            "sources": {
                "events": {
                    "format": form, "schema": "n bigint, user string, price bigint",
                    "options": {"path": str(base / "in")},
                }
            },
            "operators": {
                "wanted": {"kind": "filter", "input": "events", "where": "price > 0"},
                "priced": {"kind": "map", "input": "wanted", "select": "n, user, price * 2 AS price"},
            },
            "sinks": {"out": {"input": "priced"}},
        }
    )  # fmt: skip
    cluster = Cluster.uniform(2)
    most: dict[str, int] = {"h1": 0, "h2": 0, "log": 0}
    ended = threading.Event()
    with start_hosts(cluster, Launch(folder=base)) as hosts:
        engine = Engine(cluster, hosts)

        def watch() -> None:
            while not ended.wait(0.5):
                for name in ("h1", "h2"):
                    most[name] = max(most[name], hosts[name].rss() or 0)
                most["log"] = max(most["log"], held(base / "run/logs"))

        watcher = threading.Thread(target=watch)
        watcher.start()
        begin = time.perf_counter()
        try:
            deployment = engine.prepare(network, {"wanted": "h1", "priced": "h2"}, base / "run")
            outcome = engine.run_once(deployment)
        finally:
            ended.set()
            watcher.join()
        seconds = time.perf_counter() - begin
    assert outcome.balanced(network)
    sink = base / "run/sinks/out"
    seen = np.zeros(rows, np.int8)
    for path in sink.iterdir():
        np.add.at(seen, pq.read_table(path, columns=["n"]).column("n").to_numpy(), 1)
    assert (seen == 1).all()
    batches = [batch.rows for batch in outcome.batches if batch.query == "priced"]
    return {
        "format": form, "rows": rows, "bytes": size, "seconds": seconds, "rows_per_second": rows / seconds,
        "largest_batch_behind_the_log": max(batches), "memory": most, "log_at_the_end": held(base / "run/logs"),
    }  # fmt: skip


def held(folder: Path) -> int:
    """Return the bytes below a folder, of which files may vanish."""
    total = 0
    for path in folder.rglob("*.arrow"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def main() -> None:
    """Measure, and write results where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--format", default="json")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as base:
        found = measure(given.format, given.rows, Path(base))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    document = {"machine": machine, "revision": revision(), "seed": 0, **found}
    print(json.dumps(document, indent=1))
    if given.out:
        (given.out / "backlog.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
