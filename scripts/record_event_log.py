"""Record the event log of a plain PySpark application with queries of many kinds.

    python scripts/record_event_log.py OUT [--batches 36] [--seed 0]

It needs pyspark only (3.3 to 4.x), nothing of penstock, so that the same script runs under each version of Spark. The
event log is written to OUT as Spark writes it, zstd-compressed. To keep it small enough for a repository, the lines
that show query plans and the metrics of tasks are left out (`slim`): they are nine tenths of the bytes, and no reader
of streaming progress needs them.

What runs, one after the other, each with batches of many sizes (files of 2,000 to 100,000 rows, one file a batch):
filter, aggregate, skewed aggregate, join, dedup, foreach, files, union, python; a rate source at a fixed rate; and at
the end two queries at once on two cores, one of which is stopped and started again on its checkpoint. The JVM compiles
with its first compiler only: in the few minutes of a recording, the second one would still make batches faster.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

SCHEMA = "key long, kind string, at timestamp, value double"
WORK = "aggregate(sequence(1, {steps}), key, (a, x) -> xxhash64(a, x))"
Query = Callable[["Recording"], DataFrame]


def write_input(folder: Path, files: int, rng: random.Random) -> None:
    """Write JSON files of very different sizes; event time goes on by ten seconds a file."""
    folder.mkdir(parents=True)
    start = 1_700_000_000
    for number in range(files):
        rows = round(2000 * 50 ** rng.random())
        lines = []
        for _ in range(rows):
            second = start + 10 * number + 10 * rng.random()
            key = rng.randrange(100_000) if rng.random() < 0.5 else 7
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
            lines.append(json.dumps({"key": key, "kind": rng.choice("abcd"), "at": at, "value": rng.random()}))
        (folder / f"part-{number:05d}.json").write_text("\n".join(lines) + "\n")


class Recording:
    """One Spark application that runs queries and writes their event log."""

    def __init__(self, spark: SparkSession, work: Path, batches: int) -> None:
        self.spark, self.work, self.batches = spark, work, batches

    def events(self, name: str = "events") -> DataFrame:
        """Return the rows of a folder, one file a batch."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.work / name))

    def begin(self, name: str, frame: DataFrame, *, trigger: str | None = None, sink: str = "noop") -> StreamingQuery:
        """Start a query on its checkpoint."""
        writer = frame.writeStream.queryName(name).option("checkpointLocation", str(self.work / "checkpoints" / name))
        if trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        if sink == "foreach":
            return writer.foreachBatch(lambda batch, _: batch.write.format("noop").mode("append").save()).start()
        if sink == "parquet":
            return writer.format("parquet").option("path", str(self.work / "out" / name)).start()
        mode = "update" if any(word in name for word in ("aggregate", "skewed")) else "append"
        return writer.outputMode(mode).format(sink).start()

    def until(self, query: StreamingQuery, batch: int, limit: float = 90.0) -> None:
        """Wait until a query has ended a batch."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            done = query.lastProgress
            if done is not None and done["batchId"] >= batch:
                return
            time.sleep(0.1)


def heavy(frame: DataFrame, steps: int = 300) -> DataFrame:
    """Return rows whose computing takes a while."""
    return frame.where(f"{WORK.format(steps=steps)} % 10 <> 3")


def late(frame: DataFrame) -> DataFrame:
    """Return rows with a watermark."""
    return frame.withWatermark("at", "20 seconds")


def python(frame: DataFrame) -> DataFrame:
    """Return rows that went through Python."""

    def double(parts: Any) -> Any:
        yield from parts

    return heavy(frame, 200).mapInPandas(double, SCHEMA)


QUERIES: dict[str, tuple[Query, dict[str, Any]]] = {
    "filter": (lambda r: heavy(r.events()), {"trigger": "2 seconds"}),
    "aggregate": (
        lambda r: late(heavy(r.events())).groupBy(F.window("at", "10 seconds"), "kind").agg(F.sum("value")),
        {"trigger": "3 seconds"},
    ),
    "skewed": (
        lambda r: late(r.events()).groupBy("key").agg(F.max(F.expr(WORK.format(steps=100)))),
        {},
    ),
    "dedup": (lambda r: late(heavy(r.events())).dropDuplicates(["key", "at"]), {}),
    "join": (
        lambda r: (
            late(heavy(r.events().where("key <> 7"), 150))
            .alias("a")
            .join(
                late(heavy(r.events("others").where("key <> 7"), 150)).alias("b"),
                F.expr("a.key = b.key AND a.kind = b.kind AND b.at BETWEEN a.at AND a.at + INTERVAL 1 SECOND"),
            )
        ),
        {},
    ),
    "foreach": (lambda r: heavy(r.events()), {"sink": "foreach"}),
    "files": (lambda r: heavy(r.events()), {"sink": "parquet"}),
    "union": (lambda r: heavy(r.events(), 150).unionByName(heavy(r.events("others"), 250)), {}),
    "python": (lambda r: python(r.events()), {}),
}


def record(spark: SparkSession, work: Path, batches: int) -> None:
    """Run all queries, one after the other, then a rate source, then two at once."""
    recording = Recording(spark, work, batches)
    for name, (make, options) in QUERIES.items():
        query = recording.begin(name, make(recording), **options)
        recording.until(query, batches - 1)
        query.stop()
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    clock = recording.begin("clock", ticks.selectExpr("value * 2 AS value"), trigger="2 seconds")
    recording.until(clock, 15)
    clock.stop()
    first = recording.begin("first", heavy(recording.events()))
    recording.until(first, batches // 2 - 1)
    second = recording.begin("second", heavy(recording.events("others"), 400))
    recording.until(second, batches // 4)
    first.stop()
    first = recording.begin("first", heavy(recording.events()))
    recording.until(first, batches - 1)
    for query in (first, second):
        query.stop()


def slim(source: Path, target: Path) -> None:
    """Copy an event log without query plans and task metrics that streaming does not need."""
    from backports import zstd

    lines = []
    for path in sorted(source.rglob("*"), key=lambda path: path.name):
        if not path.is_file() or path.name.startswith((".", "appstatus")):
            continue
        with path.open("rb") as file:
            lines += file.read().decode().splitlines()
    kept = []
    for line in lines:
        event = json.loads(line)
        if event["Event"].startswith(("org.apache.spark.sql.execution", "SparkListenerBlockManager")):
            continue
        for info in ("Task Info", "Stage Info"):
            if info in event:
                event[info].pop("Accumulables", None)
                event[info].pop("RDD Info", None)
                event[info].pop("Details", None)
        for info in event.get("Stage Infos", ()):
            for key in ("Accumulables", "RDD Info", "Details"):
                info.pop(key, None)
        if event["Event"] in ("SparkListenerTaskStart", "SparkListenerStageSubmitted", "SparkListenerJobEnd"):
            continue
        if "Properties" in event:
            wanted = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.scheduler.pool")
            event["Properties"] = {key: event["Properties"][key] for key in wanted if key in event["Properties"]}
        if event["Event"] == "SparkListenerEnvironmentUpdate":
            event = {
                "Event": event["Event"],
                "Spark Properties": {k: v for k, v in event["Spark Properties"].items() if "dir" not in k.lower()},
            }
        event.pop("Task Executor Metrics", None)
        kept.append(json.dumps(event, separators=(",", ":")))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(zstd.compress(("\n".join(kept) + "\n").encode(), level=19))


def main() -> None:
    """Record, and put the slim log where it was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the file to write, e.g. log.zstd")
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", type=Path, help="also keep the log as Spark wrote it, in this folder")
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    rng = random.Random(given.seed)
    work = Path(tempfile.mkdtemp(prefix="record-"))
    try:
        for name in ("events", "others"):
            write_input(work / name, given.batches, rng)
        (work / "log").mkdir()
        spark = (
            SparkSession.builder.master("local[2]")
            .appName("recorded queries")
            .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.eventLog.enabled", "true")
            .config("spark.eventLog.compress", "false")
            .config("spark.eventLog.dir", str(work / "log"))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        record(spark, work, given.batches)
        spark.stop()
        if given.full is not None:
            shutil.copytree(work / "log", given.full)
        slim(work / "log", given.out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
