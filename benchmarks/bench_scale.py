"""How a query grows with its executors: a step that waits a millisecond for each row, on 1, 2, 4 and 8 of them.

Run: uv run python benchmarks/bench_scale.py [--executors 1,2,4,8] [--rows 32000] [--out benchmarks/results]
Or:  uv run python benchmarks/bench_scale.py --computes --executors 1,2 --rows 16000

A standalone cluster on loopback, as `make cluster` starts it, with a worker of one core and slot for each executor.
Rows from parquet files wait, go to a log and a sink, and pass a query behind the log. The step waits and does not
compute, so that executors may be more than cores; with ``--computes`` it computes, on as many as there are cores. The
query with the step does three batches of ``--rows`` rows: the first one starts a Python worker on each executor, the
others show how fast it goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from about import revision

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.network.file import parse_network
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

FILES, BATCHES = 16, 3
"""Files of a batch, and batches."""


STEPS = 36_000
"""Of a loop that takes about a millisecond: as many however fast the cores are."""


def network_of(folder: Path, computes: bool) -> Any:
    """Return the network: a step that waits or computes, with a sink, and a map behind its log."""
    waits = {"kind": "delay", "burn": "sleep", "cost": 0.001}
    loop = f"aggregate(sequence(1, {STEPS}), n, (a, x) -> xxhash64(a, x)) <> 42"
    return parse_network(
        {
            "name": "scale",
            "sources": {
                "rows": {
                    "format": "parquet",
                    "schema": "n bigint",
                    "options": {"path": str(folder), "maxFilesPerTrigger": str(FILES)},
                },
            },
            "operators": {
                "waits": {"input": "rows", **({"kind": "filter", "where": loop} if computes else waits)},
                "more": {"kind": "map", "input": "waits", "select": "n, n * 2 AS twice"},
            },
            "sinks": {"near": {"input": "waits"}, "far": {"input": "more"}},
        }
    )


def measure(made: Any, executors: int, folder: Path, work: Path, computes: bool) -> tuple[float, float]:
    """Run over all rows; return the seconds of the first batch with the step, and the mean of the others."""
    made.connect.end()
    made.cores = executors
    made.start()
    network = network_of(folder, computes)
    host = Host(name="c", spark=made.known["SPARK_ADDRESS"], token_env="SPARK_TOKEN", cores=executors)  # noqa: S106
    cluster = Cluster.of([host], spark=SparkSettings(trigger=0.5))
    os.environ["SPARK_TOKEN"] = made.known["SPARK_TOKEN"]
    with start_hosts(cluster) as hosts:
        engine = Engine(cluster, hosts)
        for name in ("warm", "run"):
            deployment = engine.prepare(
                network if name == "run" else network_of(folder.with_name("few"), computes),
                dict.fromkeys(network.operators, "c"),
                work / f"{name}{executors}",
                apart=["more"],
            )
            outcome = engine.run_once(deployment)
            assert outcome.balanced(network)
    first, *others = [batch.duration for batch in outcome.batches if batch.query == "waits" and batch.rows]
    assert len(others) == BATCHES - 1
    found = first, float(np.mean(others))
    print(f"{executors}: {first:.2f} s, then {', '.join(f'{took:.2f}' for took in others)} s", file=sys.stderr)
    return found


def main() -> None:
    """Measure, and write results where ``--out`` says."""
    import cluster as scripts

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executors", default="1,2,4,8")
    parser.add_argument("--rows", type=int, default=32_000)
    parser.add_argument("--computes", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    counts = [*map(int, given.executors.split(","))]
    does = "compute for about" if given.computes else "wait"
    with tempfile.TemporaryDirectory(prefix="penstock-scale-") as base:
        for name, rows, files in (("in", BATCHES * given.rows, BATCHES * FILES), ("few", 64, FILES)):
            (Path(base) / name).mkdir()
            for number, part in enumerate(np.array_split(np.arange(rows), files)):
                pq.write_table(pa.table({"n": part}), Path(base) / name / f"{number}.parquet")
        with scripts.Cluster(Path(base) / "cluster", workers=max(counts)) as made:
            seconds = {count: measure(made, count, Path(base) / "in", Path(base), given.computes) for count in counts}
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    lines = [
        "# How a query grows with its executors",
        "",
        f"Batches of {given.rows:,} rows that {does} a millisecond each, on executors with a slot, with a log and",
        "two sinks behind. The first batch of a query starts a Python worker on each executor. The step alone takes",
        f"{'about ' if given.computes else ''}the time of the third column.",
        "",
        "| executors | first batch (s) | step (s) | next batches (s) | rows/s | of linear |",
        "|---|---|---|---|---|---|",
    ]
    for count, (first, took) in seconds.items():
        share = seconds[counts[0]][1] * counts[0] / (took * count)
        waiting = given.rows / count / 1000
        lines.append(f"| {count} | {first:.2f} | {waiting:.2f} | {took:.2f} | {given.rows / took:,.0f} | {share:.2f} |")
    lines += ["", f"Machine: {machine}. Revision {revision()}. Made by `benchmarks/bench_scale.py`."]
    print("\n".join(lines))
    if given.out:
        name = "scale_computing" if given.computes else "scale"
        (given.out / f"{name}.md").write_text("\n".join(lines) + "\n")
        document = {"machine": machine, "revision": revision(), "rows": given.rows, "seconds": seconds}
        (given.out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
