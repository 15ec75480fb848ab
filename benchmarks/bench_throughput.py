"""A stateless network through penstock against the same pipeline written by hand in PySpark, from a backlog.

Run: uv run python benchmarks/bench_throughput.py [--rounds 3] [--out benchmarks/results]

Both run on one embedded host, in turn: filter, map, filter, map over files, to parquet, with Trigger.AvailableNow. By
hand it is a plain ``readStream … writeStream.format("parquet")``. What is measured is the time from the start of the
query to its end, and of a batch alone (median); penstock's also counts every stream and measures every row's latency.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from penstock.cluster import Cluster
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.hosts import Launch, start_hosts
from penstock.spark.run import Engine

SCHEMA = "user bigint, kind string, price double, at bigint"
EACH = 500_000
"""Rows of a file."""


def write_backlog(folder: Path, form: str, rows: int) -> None:
    """Write the input: ``rows`` rows in files of `EACH`."""
    import numpy as np

    folder.mkdir()
    rng = np.random.default_rng(0)
    each = EACH
    for number in range(rows // each):
        table = pa.table(
            {
                "user": rng.integers(0, 100_000, each),
                "kind": rng.choice(["view", "buy", "cart", "leave"], each, p=[0.6, 0.1, 0.2, 0.1]),
                "price": np.round(rng.gamma(2.0, 20.0, each), 2),
                "at": np.arange(number * each, (number + 1) * each),
            }
        )
        if form == "parquet":
            pq.write_table(table, folder / f"{number}.parquet")
        else:
            table.to_pandas().to_json(folder / f"{number}.json", orient="records", lines=True)


def network_of(form: str, folder: Path, each: str) -> Network:
    """Return the network: filter, map, filter, map."""
    return parse_network(
        {
            "name": "throughput",
            "sources": {
                "events": {
                    "format": form, "schema": SCHEMA, "options": {"path": str(folder), "maxFilesPerTrigger": each},
                }
            },
            "operators": {
                "wanted": {"kind": "filter", "input": "events", "where": "kind <> 'leave'"},
                "priced": {
                    "kind": "map", "input": "wanted",
                    "select": "user, kind, price * 0.92 AS euros, at % 86400 AS second",
                },
                "dear": {"kind": "filter", "input": "priced", "where": "euros > 10"},
                "final": {
                    "kind": "map", "input": "dear",
                    "select": "user, upper(kind) AS kind, round(euros, 2) AS euros, second",
                },
            },
            "sinks": {"out": {"input": "final"}},
        }
    )  # fmt: skip


def by_penstock(engine: Engine, network: Network, work: Path) -> tuple[float, int, list[float]]:
    """Run the network; return seconds, rows, and seconds of each batch."""
    deployment = engine.prepare(network, dict.fromkeys(network.operators, "h1"), work, everything=True)
    begin = time.perf_counter()
    outcome = engine.run_once(deployment)
    seconds = time.perf_counter() - begin
    assert outcome.balanced(network)
    return seconds, rows_in(work / "sinks/out"), [batch.duration for batch in outcome.batches if batch.rows]


def by_hand(engine: Engine, form: str, folder: Path, each: str, work: Path) -> tuple[float, int, list[float]]:
    """Run the same pipeline as anybody would write it; return seconds, rows, and seconds of each batch."""
    session = engine.sessions["h1"]
    begin = time.perf_counter()
    frame = (
        session.readStream.format(form).schema(SCHEMA).option("maxFilesPerTrigger", each).load(str(folder))
        .where("kind <> 'leave'")
        .selectExpr("user", "kind", "price * 0.92 AS euros", "at % 86400 AS second")
        .where("euros > 10")
        .selectExpr("user", "upper(kind) AS kind", "round(euros, 2) AS euros", "second")
    )  # fmt: skip
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(work / "checkpoint"))
        .option("path", str(work / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None
    seconds = time.perf_counter() - begin
    batches = [report.durationMs["triggerExecution"] / 1000 for report in query.recentProgress if report.numInputRows]
    return seconds, rows_in(work / "out"), batches


def rows_in(folder: Path) -> int:
    """Return the rows of a folder of parquet files."""
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def measure(form: str, rows: int, rounds: int, each: str, base: Path) -> dict[str, Any]:
    """Run both in turn, after one round to warm up; which goes first alternates."""
    folder = base / form
    write_backlog(folder, form, rows)
    network = network_of(form, folder, each)
    times: dict[str, list[float]] = {"penstock": [], "by hand": []}
    spent: dict[str, list[float]] = {"penstock": [], "by hand": []}
    batches: dict[str, list[float]] = {"penstock": [], "by hand": []}
    cluster = Cluster.uniform(1)
    with start_hosts(cluster, Launch(folder=base)) as hosts:
        engine = Engine(cluster, hosts)
        for number in range(rounds + 1):
            pair = ["penstock", "by hand"] if number % 2 else ["by hand", "penstock"]
            counts = set()
            for name in pair:
                work = base / "work"
                work.mkdir()
                before = hosts["h1"].cpu_seconds() or 0.0
                seconds, count, each_batch = (
                    by_penstock(engine, network, work)
                    if name == "penstock"
                    else by_hand(engine, form, folder, each, work)
                )
                counts.add(count)
                shutil.rmtree(work)
                if number:
                    times[name].append(seconds)
                    batches[name] += each_batch
                    spent[name].append((hosts["h1"].cpu_seconds() or 0.0) - before)
                print(f"{form} round {number} {name}: {seconds:.2f} s", file=sys.stderr)
            assert len(counts) == 1, counts
        peak = hosts["h1"].rss()
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "format": form,
        "rows": rows,
        "files_per_batch": int(each),
        "seconds": times,
        "host_cpu_seconds": spent,
        "median": medians,
        "batch": {name: statistics.median(values) for name, values in batches.items()},
        "rows_per_second": {name: rows / value for name, value in medians.items()},
        "ratio": medians["by hand"] / medians["penstock"],
        "cpu_ratio": statistics.median(spent["by hand"]) / statistics.median(spent["penstock"]),
        "host_memory": peak,
    }


def main() -> None:
    """Measure, and write results where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="16000000,4000000", help="of each format")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", default="parquet,json")
    parser.add_argument("--files-per-batch", default="2")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as base:
        found = [
            measure(form, int(rows), given.rounds, given.files_per_batch, Path(base))
            for form, rows in zip(given.formats.split(","), given.rows.split(","), strict=True)
        ]
    revision = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    document = {"machine": machine, "revision": revision, "seed": 0, "runs": found}
    print(json.dumps(document, indent=1))
    if given.out:
        (given.out / "throughput.json").write_text(json.dumps(document, indent=1) + "\n")
        lines = [
            "# Throughput of a stateless network",
            "",
            "Filter, map, filter, map from files to parquet on one embedded host (one core), from a backlog; by hand: "
            '`readStream … writeStream.format("parquet")`. Medians of alternating rounds.',
            "",
            "| input | rows | penstock (s) | by hand (s) | penstock (rows/s) | by hand (rows/s) "
            "| ratio | of a batch | by CPU |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for run in found:
            mine, other = (run["median"][name] for name in ("penstock", "by hand"))
            rate, theirs = (run["rows_per_second"][name] for name in ("penstock", "by hand"))
            row = (run["format"], f"{run['rows']:,}", f"{mine:.2f}", f"{other:.2f}", f"{rate:,.0f}", f"{theirs:,.0f}")
            batch = run["batch"]["by hand"] / run["batch"]["penstock"]
            lines += [f"| {' | '.join(row)} | **{run['ratio']:.2f}** | {batch:.2f} | {run['cpu_ratio']:.2f} |"]
        lines += ["", f"Machine: {machine}. Revision {revision}. Made by `benchmarks/bench_throughput.py`.", ""]
        (given.out / "throughput.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
