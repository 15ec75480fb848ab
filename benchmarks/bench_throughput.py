"""A stateless network through penstock against the same pipeline written by hand in PySpark, from a backlog.

Run: uv run python benchmarks/bench_throughput.py [--on embedded cluster] [--formats parquet,json,kafka]
[--out benchmarks/results]

All run on the same Spark, in turn: filter, map, filter, map, with Trigger.AvailableNow, from files to parquet or from
a topic to a topic. By hand it is a plain ``readStream … writeStream``. On a cluster, files are also written by hand
through ``foreachBatch``, which one needs to deliver exactly once where Spark's own sink does not. What is measured is
the time from the start of the query to its end, of a batch alone (median), and of all but the batches, which a query
takes to begin and end, however long its backlog is. penstock's also counts every stream and measures every row's
latency. The Spark is an embedded host with one core, or a standalone cluster on loopback with an executor for each of
two cores, where CPU times are not known.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from about import revision
from bench_real_time import connected
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.connection import Connection
from penstock.spark.hosts import Launch, start_hosts
from penstock.spark.run import Engine

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import cluster as scripts
import kafka

SCHEMA = "user bigint, kind string, price double, at bigint"
EACH = 500_000
"""Rows of a file."""

PARTITIONS = 2
"""Of a topic."""


@attrs.frozen
class Data:
    """What is read and where results go: folders, or the topics of a broker.

    Attributes
    ----------
    form
        ``parquet``, ``json`` or ``kafka``.
    files
        Files of a batch, or as many rows of a topic.
    folder
        Of the files.
    connection
        Of the broker.
    """

    form: str
    files: int
    folder: Path
    connection: Connection | None

    @property
    def options(self) -> dict[str, str]:
        """What says Spark where to read, and how much at once."""
        if self.form != "kafka":
            return {"path": str(self.folder), "maxFilesPerTrigger": str(self.files)}
        return {
            "subscribe": self.folder.name,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.files * EACH),
        }

    @property
    def native(self) -> dict[str, str]:
        """The settings of a client of the broker."""
        assert self.connection is not None
        return self.connection.native

    def write(self, rows: int) -> None:
        """Write the input: ``rows`` rows, files of `EACH`."""
        rng = np.random.default_rng(0)
        if self.form == "kafka":
            self.topic(self.folder.name)
        else:
            self.folder.mkdir()
        for number in range(rows // EACH):
            table = pa.table(
                {
                    "user": rng.integers(0, 100_000, EACH),
                    "kind": rng.choice(["view", "buy", "cart", "leave"], EACH, p=[0.6, 0.1, 0.2, 0.1]),
                    "price": np.round(rng.gamma(2.0, 20.0, EACH), 2),
                    "at": np.arange(number * EACH, (number + 1) * EACH),
                }
            )
            if self.form == "parquet":
                pq.write_table(table, self.folder / f"{number}.parquet")
                continue
            lines = table.to_pandas().to_json(orient="records", lines=True)
            if self.form == "json":
                (self.folder / f"{number}.json").write_text(lines)
            else:
                self._send(lines.splitlines())

    def topic(self, name: str) -> None:
        """Make a topic."""
        admin = AdminClient({"log_level": "0", **self.native})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
            future.result(60)

    def _send(self, lines: list[str]) -> None:
        producer = Producer({"log_level": "0", "linger.ms": 50, **self.native})
        for number, line in enumerate(lines):
            while True:
                try:
                    producer.produce(self.folder.name, line.encode(), partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0

    def results(self, work: Path) -> int:
        """Return how many rows came out of a run."""
        if self.form != "kafka":
            return sum(pq.read_metadata(path).num_rows for path in work.rglob("out/**/*.parquet"))
        consumer = Consumer({"log_level": "0", "group.id": "none", **self.native})
        try:
            marks = [
                consumer.get_watermark_offsets(TopicPartition(work.name, part), timeout=30)
                for part in range(PARTITIONS)
            ]
        finally:
            consumer.close()
        return sum(high - low for low, high in marks)


def network_of(data: Data, topic: str) -> Network:
    """Return the network: filter, map, filter, map."""
    sink = {"format": "kafka", "options": {"topic": topic}} if data.form == "kafka" else {}
    return parse_network(
        {
            "name": "throughput",
            "sources": {"events": {"format": data.form, "schema": SCHEMA, "options": data.options}},
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
            "sinks": {"out": {"input": "final", **sink}},
        }
    )  # fmt: skip


def by_penstock(engine: Engine, data: Data, work: Path) -> tuple[float, list[float]]:
    """Run the network; return seconds, and seconds of each batch."""
    network, (host,) = network_of(data, work.name), engine.sessions
    deployment = engine.prepare(network, dict.fromkeys(network.operators, host), work, everything=True)
    begin = time.perf_counter()
    outcome = engine.run_once(deployment)
    seconds = time.perf_counter() - begin
    assert outcome.balanced(network)
    return seconds, [batch.duration for batch in outcome.batches if batch.rows]


def by_hand(engine: Engine, data: Data, work: Path, *, in_batches: bool = False) -> tuple[float, list[float]]:
    """Run the same pipeline as anybody would write it; return seconds, and seconds of each batch.

    ``in_batches``: files are written through ``foreachBatch``.
    """
    (session,) = engine.sessions.values()
    access = data.connection.spark if data.form == "kafka" and data.connection else {}
    begin = time.perf_counter()
    reader = session.readStream.format(data.form).options(**access, **data.options)
    if data.form == "kafka":
        frame = reader.load().selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS row").select("row.*")
    else:
        frame = reader.schema(SCHEMA).load()
    frame = (
        frame.where("kind <> 'leave'")
        .selectExpr("user", "kind", "price * 0.92 AS euros", "at % 86400 AS second")
        .where("euros > 10")
        .selectExpr("user", "upper(kind) AS kind", "round(euros, 2) AS euros", "second")
    )
    if data.form == "kafka":
        writer = frame.selectExpr("to_json(struct(*)) AS value").writeStream.format("kafka").options(**access)
        writer = writer.option("topic", work.name)
    elif in_batches:
        out = str(work / "out")
        writer = frame.writeStream.foreachBatch(
            lambda rows, number: rows.write.mode("overwrite").parquet(f"{out}/{number}")
        )
    else:
        writer = frame.writeStream.format("parquet").option("path", str(work / "out"))
    query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None
    seconds = time.perf_counter() - begin
    batches = [report.durationMs["triggerExecution"] / 1000 for report in query.recentProgress if report.numInputRows]
    return seconds, batches


RUNS = {"penstock": by_penstock, "by hand": by_hand}

IN_BATCHES = "by hand, in batches"
"""Besides, where files are written on a cluster."""


@contextlib.contextmanager
def spark_of(on: str, form: str, base: Path) -> Iterator[tuple[Cluster, Connection | None]]:
    """Start what a run needs besides an embedded host; yield the cluster, and the connection to its broker."""
    with contextlib.ExitStack() as stack:
        settings = SparkSettings()
        if form == "kafka":
            kafka.fetch()
            broker = stack.enter_context(kafka.Broker(base / "broker"))
            settings = connected(broker) if on == "embedded" else connected(broker, jars=())
        host = Host(name="h1")
        if on == "cluster":
            jars = sorted((kafka.HOME / "connector").glob("*.jar")) if form == "kafka" else []
            made = stack.enter_context(scripts.Cluster(base / "standalone", jars))
            os.environ["SPARK_TOKEN"] = made.known["SPARK_TOKEN"]
            address = made.known["SPARK_ADDRESS"]
            host = Host(name="c", spark=address, token_env="SPARK_TOKEN", cores=2)  # noqa: S106
        yield Cluster.of([host], spark=settings), Connection.of(settings)


def measure(on: str, form: str, rows: int, rounds: int, files: int, base: Path) -> dict[str, Any]:
    """Run all in turn, after one round to warm up; which goes first alternates."""
    base.mkdir()
    runs = {**RUNS}
    if on == "cluster" and form != "kafka":
        runs[IN_BATCHES] = partial(by_hand, in_batches=True)
    times: dict[str, list[float]] = {name: [] for name in runs}
    spent: dict[str, list[float]] = {name: [] for name in runs}
    batches: dict[str, list[float]] = {name: [] for name in runs}
    rest: dict[str, list[float]] = {name: [] for name in runs}
    with spark_of(on, form, base) as (cluster, connection), start_hosts(cluster, Launch(folder=base)) as hosts:
        data = Data(form, files, base / form, connection)
        data.write(rows)
        engine = Engine(cluster, hosts)
        (host,) = hosts.values()
        for number in range(rounds + 1):
            counts = set()
            for place, name in enumerate(sorted(runs, reverse=bool(number % 2))):
                work = base / f"{number}-{place}"
                work.mkdir()
                if form == "kafka":
                    data.topic(work.name)
                before = host.cpu_seconds()
                seconds, each_batch = runs[name](engine, data, work)
                counts.add(data.results(work))
                shutil.rmtree(work)
                if number:
                    times[name].append(seconds)
                    batches[name] += each_batch
                    rest[name].append(seconds - sum(each_batch))
                    if before is not None:
                        spent[name].append((host.cpu_seconds() or 0.0) - before)
                print(f"{on} {form} round {number} {name}: {seconds:.2f} s", file=sys.stderr)
            assert len(counts) == 1, counts
        peak = host.rss()
    medians = {name: statistics.median(values) for name, values in times.items()}
    spends = {name: statistics.median(values) for name, values in spent.items() if values}
    return {
        "format": form,
        "rows": rows,
        "files_per_batch": files,
        "seconds": times,
        "host_cpu_seconds": spent,
        "median": medians,
        "batch": {name: statistics.median(values) for name, values in batches.items()},
        "rest": {name: statistics.median(values) for name, values in rest.items()},
        "rows_per_second": {name: rows / value for name, value in medians.items()},
        "ratio": medians["by hand"] / medians["penstock"],
        "cpu_ratio": spends["by hand"] / spends["penstock"] if spends else None,
        "host_memory": peak,
    }


def main() -> None:
    """Measure, and write results where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", nargs="*", choices=("embedded", "cluster"), default=["embedded", "cluster"])
    parser.add_argument("--formats", default="parquet,json,kafka")
    parser.add_argument("--rows", default="8000000,2000000,2000000", help="of each format")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files-per-batch", default="2,2,2", help="of each format")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    numbers = [map(int, text.split(",")) for text in (given.rows, given.files_per_batch)]
    each = list(zip(given.formats.split(","), *numbers, strict=True))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    for on in given.on:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as base:
            found = [measure(on, form, rows, given.rounds, files, Path(base) / form) for form, rows, files in each]
        document = {"machine": machine, "revision": revision(), "seed": 0, "on": on, "runs": found}
        print(json.dumps(document, indent=1))
        if given.out:
            name = "throughput" if on == "embedded" else f"throughput_{on}"
            (given.out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
            (given.out / f"{name}.md").write_text(page(document))


def page(document: dict[str, Any]) -> str:
    """Return the results for people."""
    about = {
        "embedded": "on one embedded host (one core)",
        "cluster": "on a standalone cluster with two executors of a core each; all, and the broker, on one machine",
    }[document["on"]]
    lines = [
        "# Throughput of a stateless network",
        "",
        "Filter, map, filter, map from a backlog, from files to parquet and from a topic to a topic, "
        f"{about}. By hand: `readStream … writeStream`. Medians of alternating rounds; begin and end: "
        "all but batches, of penstock, by hand and by hand through `foreachBatch`.",
        "",
        "| input | rows | rows of a batch | penstock (s) | by hand (s) | penstock (rows/s) | by hand (rows/s) "
        "| ratio | ratio of a batch | by hand through foreachBatch | by CPU | begin and end (s) |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in document["runs"]:
        mine, other = (run["median"][name] for name in ("penstock", "by hand"))
        rate, theirs = (run["rows_per_second"][name] for name in ("penstock", "by hand"))
        batch = run["batch"]["by hand"] / run["batch"]["penstock"]
        other_way = run["batch"].get(IN_BATCHES)
        spent = "" if run["cpu_ratio"] is None else f"{run['cpu_ratio']:.2f}"
        row = (
            run["format"], f"{run['rows']:,}", f"{run['files_per_batch'] * EACH:,}",
            f"{mine:.2f}", f"{other:.2f}", f"{rate:,.0f}",
            f"{theirs:,.0f}", f"**{run['ratio']:.2f}**", f"{batch:.2f}",
            f"{run['batch']['by hand'] / other_way:.2f}" if other_way else "", spent,
            " / ".join(f"{seconds:.1f}" for seconds in run["rest"].values()),
        )  # fmt: skip
        lines.append(f"| {' | '.join(row)} |")
    made = f"Machine: {document['machine']}. Revision {document['revision']}."
    return "\n".join([*lines, "", f"{made} Made by `benchmarks/bench_throughput.py`.", ""])


if __name__ == "__main__":
    main()
