"""The session of a host: its settings, and how many tasks it does at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql import SparkSession

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


def settle(session: SparkSession, slots: int) -> SparkSession:
    """Give a session the settings on which answers depend."""
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
