"""What a log costs its writer and its reader, by hop: a batch of many rows, and one of few.

Run, with a broker (`make kafka`): . .tools/kafka/run/client.env && uv run python benchmarks/bench_hops.py

A batch is written as the writer of a query does it, then all batches are read as the source of the next query does it,
in one process, without Spark. Medians; CPU time is this process's, without the broker's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from about import RESULTS, revision
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.spark.hop import START, Hop
from penstock.spark.hop.directory import DirectoryLog
from penstock.spark.hop.kafka import KafkaLog
from penstock.spark.hop.topics import Topics
from penstock.spark.shipped.place import Place

ROWS, BATCHES, FEW = 50_000, 12, 100
SHAPE = pa.schema(
    [
        ("user", pa.int64()),
        ("page", pa.string()),
        ("price", pa.float64()),
        ("__id", pa.int64()),
        ("__stimulus", pa.int64()),
        ("__time", pa.timestamp("us", "UTC")),
    ]
)


def table(seed: int = 0) -> pa.Table:
    """Return a batch of rows with envelope."""
    rng = np.random.default_rng(seed)
    order = pa.array(np.arange(ROWS))
    pages = pa.array([f"page-{number}" for number in rng.integers(0, 1000, ROWS)])
    columns = [
        pa.array(rng.integers(0, 10**6, ROWS)), pages, pa.array(rng.random(ROWS)),
        pa.array(rng.integers(0, 2**62, ROWS)),
        order, order.cast(pa.timestamp("us", "UTC")),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=SHAPE)


def measured(log: Hop, rows: pa.Table) -> dict[str, float]:
    """Return seconds and CPU per row of writing and reading, and seconds of a small batch."""
    writes, busy = [], time.process_time()
    for batch in range(BATCHES):
        begin = time.perf_counter()
        log.write(batch, rows, (batch, batch))
        writes.append(time.perf_counter() - begin)
    write_cpu = time.process_time() - busy
    until = log.length()
    busy, begin, position, count = time.process_time(), time.perf_counter(), START, 0
    while True:
        batches, end = log.read(position, until)
        if end == position:
            break
        count += sum(batch.num_rows for batch in batches)
        position = end
    assert count >= BATCHES * ROWS
    reading, read_cpu = time.perf_counter() - begin, time.process_time() - busy
    small = []
    for batch in range(BATCHES, 2 * BATCHES):
        begin = time.perf_counter()
        log.write(batch, rows.slice(0, FEW), (batch, batch))
        small.append(time.perf_counter() - begin)
    log.close()
    return {
        "write_us": statistics.median(writes) / ROWS * 1e6,
        "write_cpu_us": write_cpu / (BATCHES * ROWS) * 1e6,
        "read_us": reading / count * 1e6,
        "read_cpu_us": read_cpu / count * 1e6,
        "small_ms": statistics.median(small) * 1e3,
    }


def topic_log(partitions: int) -> Hop:
    """Return a new log in a topic of the broker that the environment names."""
    client = {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": os.environ["KAFKA_USER"],
        "sasl.password": os.environ["KAFKA_PASSWORD"],
    }
    topics = Topics(client, f"bench-{uuid.uuid4().hex[:8]}", partitions)
    admin = AdminClient(client)
    for future in admin.create_topics([NewTopic(topics.name("log"), partitions, 1)]).values():
        future.result(30)
    return KafkaLog(topics, "log", SHAPE)


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    out = parser.parse_args().out
    rows = table()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        found["directory"] = measured(DirectoryLog(Place(f"{folder}/log"), SHAPE), rows)
    for partitions in (1, 4):
        found[f"kafka, {partitions} partition{'s' * (partitions > 1)}"] = measured(topic_log(partitions), rows)
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    lines = [
        "# What a hop costs",
        "",
        f"Batches of {ROWS:,} rows with three columns and the envelope, written and read without Spark; the broker is",
        f"on the same machine. A small batch has {FEW} rows.",
        "",
        "| hop | write (µs/row) | its CPU | read (µs/row) | its CPU | small batch, write (ms) |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        figures = [f"{row[key]:.2f}" for key in ("write_us", "write_cpu_us", "read_us", "read_cpu_us")]
        lines.append(f"| {name} | {' | '.join(figures)} | {row['small_ms']:.1f} |")
    lines += ["", f"Machine: {machine}. Revision {revision()}. Made by `benchmarks/bench_hops.py`."]
    (out / "hops.md").write_text("\n".join(lines) + "\n")
    (out / "hops.json").write_text(json.dumps({"machine": machine, "revision": revision(), **found}, indent=1))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
