"""The session of a host: its settings, and how many tasks it does at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import HostError
from penstock.spark.compile import SLOTS, register
from penstock.spark.run.asking import asked

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

SPLIT = 32 << 20
"""Bytes of a file that a task reads at once."""

TIMES = "spark.sql.parquet.outputTimestampType"

UNSOUND = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"
"""A rule that Spark may not apply to streams. It takes branches of a union that have no rows in a batch out of the
plan. What all other branches have in common then counts for ever: rows on the other side of a join that do not match it
are not kept, although rows that come in later batches would."""

MEANING: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""Settings that change what a network answers, as Spark has them by itself."""

SLIM: Mapping[str, str] = {
    # Spark would keep the status of every file that it has ever read, 1.7 kB each, until they are 250 MB.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    # Spark would write all files that a source has ever listed anew every 10 batches, and keep that for 10 minutes. The
    # log of a run that was begun so goes on so.
    "spark.sql.streaming.fileSource.log.compactInterval": "100",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "60000",
}
"""What keeps a host and its folder small that run for weeks, unless somebody has set it otherwise."""

DIALECT = ("spark.sql.ansi.", "spark.sql.legacy.", "spark.sql.parser.")
"""More of them, of which there are hundreds: Spark's own values hold."""


def settle(session: SparkSession, name: str, slots: int, conf: Mapping[str, str]) -> SparkSession:
    """Give the session of a host the settings on which answers depend; ``conf`` has those that the user wants.

    Raises
    ------
    HostError
        If the host has another one, and does not let it be changed.
    """
    told = {key: value for key, value in conf.items() if key.startswith(DIALECT)}
    wanted = {**{key: conf.get(key, usual) for key, usual in MEANING.items()}, **told}
    there = session.conf.getAll
    for key in there:
        if key.startswith(DIALECT) and key not in wanted and session.conf.isModifiable(key):
            session.conf.unset(key)
    for key, value in wanted.items():
        try:
            session.conf.set(key, value)
        except PySparkException:
            if session.conf.get(key, None) != value:
                raise HostError(
                    f"host {name} does not take {key} = {value}, so its answers would differ from those of others: "
                    "start it with that, or let all have its value by [spark.conf]"
                ) from None
    for key, value in SLIM.items():
        session.conf.set(key, conf.get(key, there.get(key, value)))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set(SLOTS, str(slots))
    # Which rows of a file a task reads must not depend on the host: rows that are equal are told apart by it.
    for key in ("maxPartitionBytes", "openCostInBytes"):
        session.conf.set(f"spark.sql.files.{key}", str(SPLIT))
    session.conf.set("spark.sql.files.maxPartitionNum", str(slots))
    session.conf.set("spark.sql.streaming.statefulOperator.useStrictDistribution", "true")
    if session.conf.get(TIMES, "INT96") == "INT96":
        # What others write to parquet, and what Spark will by itself: the other one is out of use.
        session.conf.set(TIMES, "TIMESTAMP_MICROS")
    for key in ("spark.sql.optimizer.excludedRules", "spark.sql.adaptive.optimizer.excludedRules"):
        excluded = filter(None, [session.conf.get(key, ""), UNSOUND])
        session.conf.set(key, ",".join(excluded))
    register(session)
    return session


def slots_of(session: SparkSession) -> int:
    """Return how many tasks a host says that it does at a time: Spark deals a range out to as many."""
    # What is distinct is found here: Spark would shuffle it, on a cluster without adaptive plans in 200 tasks.
    return len({*asked(session.range(1000).selectExpr("spark_partition_id() AS part").collect)})


def tries(session: SparkSession) -> int:
    """Return how often a host tries a task before it gives up: on one machine once, unless its master says more."""
    alone, _, more = (session.conf.get("spark.master", None) or "").rstrip("]").partition(",")
    here = alone == "local" or alone.startswith("local[")
    usual = (more or "1") if here else session.conf.get("spark.task.maxFailures", None)
    return int(usual or "4")


def ended(session: SparkSession) -> bool:
    """Return whether a session was stopped, as all sessions of a host are with it."""
    return cast("ConnectSession", session).is_stopped
