"""The table [spark] of a cluster file: how fragments run on Spark."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from penstock.cluster.kafka_table import check_kafka
from penstock.cluster.model import SparkSettings
from penstock.errors import InputError
from penstock.files import convert
from penstock.units import seconds

Option = str | int | float | bool

LEAST = 5.0
"""Shortest interval (s) between checkpoints in real-time mode that Spark takes."""


class SparkTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[spark]``: how fragments run on Spark."""

    mode: Annotated[
        Literal["micro-batch", "real-time"],
        msgspec.Meta(description="real-time: where Spark takes it, each row by itself from topic to topic"),
    ] = "micro-batch"
    trigger: Annotated[str | float, msgspec.Meta(description="interval of the micro-batches")] = "500 ms"
    checkpoint: Annotated[
        str | float,
        msgspec.Meta(
            description="how often Spark notes how far a query in real-time mode has come, at least 5 s; "
            "rows wait then, for a second or so"
        ),
    ] = "1 minute"
    hop: Annotated[
        Literal["directory", "kafka"], msgspec.Meta(description="how rows pass between queries: by files or by topics")
    ] = "directory"
    directory: (
        Annotated[str, msgspec.Meta(description="hop logs and checkpoints; a path that all hosts see")] | None
    ) = None
    conf: Annotated[
        dict[str, Option],
        msgspec.Meta(description="Spark settings of embedded hosts; what changes the meaning of SQL reaches all"),
    ] = {}
    jars: Annotated[list[str], msgspec.Meta(description="jar files of embedded hosts; patterns are fine")] = []
    packages: Annotated[list[str], msgspec.Meta(description="Maven coordinates for embedded hosts")] = []
    kafka: Annotated[
        dict[str, Option],
        msgspec.Meta(
            description="bootstrap or bootstrap_env, username_env, password_env, ca, partitions, replication; "
            "with a dot: Kafka's client settings"
        ),
    ] = {}


def spark_settings(document: object) -> SparkSettings:
    """Return the settings that a table says; None: there is none."""
    table = convert({} if document is None else document, SparkTable, "spark")
    trigger, checkpoint = (_seconds(table, key) for key in ("trigger", "checkpoint"))
    if checkpoint < LEAST:
        raise InputError(
            f"expected {LEAST:.0f} seconds at least, got {checkpoint:g}",
            at="spark.checkpoint",
            hint="Spark takes no less",
        )
    if table.directory is not None and not table.directory.strip():
        hint = '"." is the current one; leave it out for .penstock'
        raise InputError("expected a folder, got an empty path", at="spark.directory", hint=hint)
    kafka = _texts(table.kafka)
    if kafka:
        check_kafka(kafka)
    return SparkSettings(
        mode=table.mode,
        trigger=trigger,
        checkpoint=checkpoint,
        hop=table.hop,
        directory=table.directory,
        conf=_texts(table.conf),
        jars=tuple(table.jars),
        packages=tuple(table.packages),
        kafka=kafka,
        given=document is not None,
    )


def _texts(options: dict[str, Option]) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def _seconds(table: SparkTable, key: str) -> float:
    try:
        return seconds(getattr(table, key))
    except InputError as error:
        raise InputError(error.problem, at=f"spark.{key}") from None
