"""The content of messages between queries, of which those in real-time mode write one for each row: JSON."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.errors import InputError
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.sql import literal, quoted
from penstock.spark.shipped import LANE, POSITION

EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How times are written in messages between queries: no digit may be lost."""

SIMPLE = (StringType, NumericType, BooleanType, BinaryType, DateType, TimestampType, TimestampNTZType)

_EXACT = f"map({', '.join(literal(text) for pair in EXACT.items() for text in pair)})"


def content(writer: str, shape: StructType) -> str:
    """Return SQL for the message of an operator's row: its columns, its envelope and its place.

    Raises
    ------
    InputError
        If a column's values would not come out as they went in.
    """
    for field in shape.fields:
        _check_exact(writer, field.name, field.dataType)
    columns = ", ".join(quoted(name) for name in shape.fieldNames())
    envelope = f"__id AS i, __stimulus AS s, unix_micros(__time) AS t, {LANE} AS l, {POSITION} AS p"
    return f"to_json(struct({envelope}, struct({columns}) AS r), {_EXACT})"


def read_rows(session: SparkSession, deployment: Deployment, name: str, run: str, *, placed: bool) -> DataFrame:
    """Return the rows that an operator in real-time mode passes on, with envelope; ``placed``: also lane and place."""
    shape = deployment.schemas[name]
    reader = session.readStream.format("kafka").options(**deployment.messages)
    reader = reader.option("subscribe", deployment.row_topics(run).name(name)).option("startingOffsets", "earliest")
    if not placed:
        reader = reader.option("maxOffsetsPerTrigger", "1000000")
    numbers = [StructField(key, LongType(), True) for key in ("i", "s", "t", "l", "p")]
    parts = StructType([*numbers, StructField("r", shape, True)])
    # As JSON: in DDL names of nested fields may be misread.
    parsed = f"from_json(CAST(value AS STRING), {literal(parts.json())}, {_EXACT}) AS m"
    shown = [f"m.r.{quoted(field)} AS {quoted(field)}" for field in shape.fieldNames()]
    envelope = ["m.i AS __id", "m.s AS __stimulus", "timestamp_micros(m.t) AS __time"]
    place = [f"m.l AS {LANE}", f"m.p AS {POSITION}"] if placed else []
    return reader.load().selectExpr(parsed).selectExpr(*shown, *envelope, *place)


def _check_exact(writer: str, name: str, kind: DataType) -> None:
    """Refuse a column whose values would not come out of a message as they went in."""
    match kind:
        case StructType():
            for field in kind.fields:
                _check_exact(writer, name, field.dataType)
        case ArrayType():
            _check_exact(writer, name, kind.elementType)
        case MapType(keyType=StringType()):
            _check_exact(writer, name, kind.valueType)
        case _ if not isinstance(kind, SIMPLE):
            shown = kind.simpleString()
            raise InputError(
                f"the column {name!r} ({shown}) cannot pass between queries in real-time mode",
                at=f"operators.{writer}",
                hint="cast it, leave it out, or set mode = 'micro-batch'",
            )
