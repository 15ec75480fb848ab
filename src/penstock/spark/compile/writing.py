"""Which exits Spark itself can write, without a Python process between."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.network import Sink
from penstock.spark.shipped.deliver import is_folder

PLAIN = (BinaryType, BooleanType, DateType, NumericType, StringType, TimestampNTZType, TimestampType)
"""Types of which everybody reads from parquet what Spark has written."""


def written_by_spark(sink: Sink, schema: StructType) -> bool:
    """Return whether Spark itself can write a sink's rows, whose columns are given: into files only."""
    if sink.format is not None:
        return is_folder(sink.format, sink.options)
    names = [name.lower() for name in schema.names]
    return len({*names}) == len(names) and _plain(schema)


def _plain(kind: DataType) -> bool:
    match kind:
        case ArrayType():
            return _plain(kind.elementType)
        case MapType():
            return _plain(kind.keyType) and _plain(kind.valueType)
        case StructType():
            return all(_plain(field.dataType) for field in kind.fields)
    return isinstance(kind, PLAIN)
