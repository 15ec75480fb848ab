"""Sources that Spark itself reads, with the envelope of every row."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import InputError
from penstock.network import Source
from penstock.spark.compile.kinds import hashed
from penstock.spark.compile.sql import literal, quoted
from penstock.spark.shipped import ENVELOPE
from penstock.spark.shipped.deliver import FILES
from penstock.spark.shipped.place import absolute
from penstock.spark.shipped.python_step import ROW

LIMITS = {"files": ("maxFilesPerTrigger", "maxBytesPerTrigger"), "kafka": ("maxOffsetsPerTrigger",)}
"""Options that bound what a batch reads."""

BOUNDED = {"files": ("maxBytesPerTrigger", str(128 << 20)), "kafka": ("maxOffsetsPerTrigger", "1000000")}
"""The bound where the user sets none: a backlog of any size must pass through a small host."""


def positioned(source: Source) -> bool:
    """Whether a source's rows have positions, or equal rows come in one batch, so that identities do not repeat."""
    return source.scheduled or source.format in (*FILES, "kafka", "rate", "rate-micro-batch")


def options_of(source: Source, *, batch: bool = False) -> dict[str, str]:
    """Return the options for Spark's reader: paths as URIs, reading bounded."""
    options = dict(source.options)
    family = "files" if source.format in FILES else source.format or ""
    if family == "files" and "path" in options:
        options["path"] = absolute(options["path"])
    given = {key.lower() for key in options}
    if not batch and family in BOUNDED and not any(key.lower() in given for key in LIMITS[family]):
        options.update([BOUNDED[family]])
    return options


def read_source(session: SparkSession, source: Source, *, batch: bool = False) -> DataFrame:
    """Return a frame of a source that Spark itself reads, with envelope.

    Identity and stimulus time: Kafka's topic, partition and offset, and its timestamp; ``rate``'s value and
    timestamp; a file's path with the row's place in it, or its content (see `penstock.spark.shipped.identity`), and the
    time when the file appeared; elsewhere the content, and the time of reading.
    """
    reader: Any = session.read if batch else session.readStream
    name = source.format or ""
    reader = reader.format(name).options(**options_of(source, batch=batch))
    if source.schema is not None:
        reader = reader.schema(source.schema)
    frame = reader.load()
    names = frame.columns
    for column in names:
        if column in (*ENVELOPE, "_origin", ROW) or column.startswith("__"):
            raise InputError(f"the column name {column!r} is used by penstock", at=f"sources.{source.name}.schema")
    if source.time is not None and source.time not in names:
        raise InputError(
            f"expected a column of the source ({', '.join(names)}), got {source.time!r}",
            at=f"sources.{source.name}.time",
        )
    identity, stimulus = _envelope(name, literal(source.name), hashed(frame))
    time = f"CAST({quoted(source.time)} AS TIMESTAMP)" if source.time else "CAST(NULL AS TIMESTAMP)"
    shown: DataFrame = frame.selectExpr(
        *map(quoted, names), f"{identity} AS _id", f"{stimulus} AS _stimulus", f"{time} AS _time"
    )
    return shown


def _envelope(name: str, source: str, content: str) -> tuple[str, str]:
    """Return SQL for a row's identity and stimulus time."""
    match name:
        case "kafka":
            return f"xxhash64({source}, topic, partition, offset)", "unix_micros(timestamp)"
        case "rate" | "rate-micro-batch":
            return f"xxhash64({source}, value)", "unix_micros(timestamp)"
        case _ if name in FILES:
            place = "_metadata.row_index" if name == "parquet" else content
            return (
                f"xxhash64({source}, _metadata.file_path, {place})",
                "unix_micros(_metadata.file_modification_time)",
            )
    clock = "java_method('java.lang.System', 'currentTimeMillis')"
    return f"xxhash64({source}, {content})", f"CAST({clock} AS BIGINT) * 1000"
