"""A streaming application in plain PySpark, as somebody would write it who has never heard of penstock.

    python benchmarks/plain_job.py JOB.json

Each query reads a topic of Kafka, computes a while for each row, and throws the result away. The application prints
``ready`` when its queries run, and stops when its standard input is closed. Its event log is all that is left of it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="{password}";'
WORK = "aggregate(sequence(1, {steps}), offset, (a, x) -> xxhash64(a, x)) % 10 <> 3"


def session(job: dict[str, Any]) -> SparkSession:
    """Return a classic session on so many cores that writes an event log."""
    settings = {
        # One compiler: in the few minutes of a run, the second one would still make batches faster.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join(job["jars"]),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": job["log"],
    }
    builder = SparkSession.builder.master(f"local[{job['cores']}]").appName(job["name"])
    spark = builder.config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def begin(spark: SparkSession, job: dict[str, Any], query: dict[str, Any]) -> None:
    """Start a query on its topic."""
    login = LOGIN.format(user=os.environ["KAFKA_USER"], password=os.environ["KAFKA_PASSWORD"])
    reader = spark.readStream.format("kafka").options(
        **{
            "kafka.bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"],
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": login,
            "subscribe": query["topic"],
            "startingOffsets": "earliest",
        }
    )
    if query.get("limit"):
        reader = reader.option("maxOffsetsPerTrigger", int(query["limit"]))
    rows = reader.load().where(WORK.format(steps=query["steps"]))
    place = Path(job["work"]) / "checkpoints" / query["name"]
    writer = rows.writeStream.queryName(query["name"]).option("checkpointLocation", str(place)).format("noop")
    if query.get("trigger"):
        writer = writer.trigger(processingTime=query["trigger"])
    writer.start()


def main() -> None:
    """Run the queries until standard input is closed."""
    job = json.loads(Path(sys.argv[1]).read_text())
    spark = session(job)
    for query in job["queries"]:
        begin(spark, job, query)
    print("ready", flush=True)
    sys.stdin.read()
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
