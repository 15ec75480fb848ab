"""What an operator's rows may look like: names that penstock uses itself, and types that cannot leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyarrow import ArrowException
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimeType,
    VariantType,
)

from penstock.errors import InputError
from penstock.network import Sink
from penstock.spark.shipped.python_step import ROW

RESERVED = (ROW,)
"""Names of columns that no user's may have; nor may any begin with two underscores."""

UNWRITTEN: Mapping[str, tuple[type[DataType], ...]] = {
    "csv": (ArrayType, BinaryType, MapType, NullType, StructType, VariantType),
    "orc": (NullType, VariantType),
    "xml": (DayTimeIntervalType,),
}
"""Types that Spark writes into no file of a format."""


def check_names(names: Sequence[str], at: str) -> None:
    """Refuse columns called as penstock's own, or as one another: Spark takes names that differ in case for the same.

    Raises
    ------
    InputError
        Naming the column.
    """
    seen: set[str] = set()
    for name in names:
        key = name.lower()
        if key in RESERVED or key.startswith("__"):
            raise InputError(f"the column name {name!r} is used by penstock", at=at, hint="give it another name")
        if key in seen:
            raise InputError(f"two columns are called {name!r}", at=at, hint="give one another name, or leave it out")
        seen.add(key)


def check_types(fields: Sequence[StructField], at: str) -> None:
    """Refuse columns that cannot pass to another query or a sink, wherever the operator is placed."""
    for field in fields:
        try:
            to_arrow_schema(StructType([field]), timezone="UTC")
        except (PySparkTypeError, ArrowException, ValueError):
            # What Spark has no Arrow type for, and what Arrow itself does not take, as keys that are all null.
            hint = "cast it, e.g. to STRING or INT"
            raise InputError(f"the column {_shown(field)} cannot leave Spark", at=at, hint=hint) from None
        instead = next(filter(None, map(_instead, types_in(field.dataType))), None)
        if instead is not None:
            raise InputError(f"the column {_shown(field)} cannot leave Spark", at=at, hint=instead)


def check_file(sink: Sink, shape: StructType) -> None:
    """Refuse a sink of files whose format cannot hold its rows."""
    at = f"sinks.{sink.name}.format"
    if sink.format == "text" and [field.dataType for field in shape.fields] != [StringType()]:
        raise InputError(
            f"text has one column of type string, got {', '.join(map(_shown, shape.fields))}",
            at=at,
            hint='put a map before it: select = "concat_ws(…) AS value"',
        )
    for field in shape.fields:
        if any(isinstance(kind, UNWRITTEN.get(sink.format or "", ())) for kind in types_in(field.dataType)):
            raise InputError(
                f"{sink.format} cannot hold the column {_shown(field)}",
                at=at,
                hint="make it text by CAST(… AS STRING) or to_json() in a map, or take another format",
            )


def _shown(field: StructField) -> str:
    return f"{field.name!r} ({field.dataType.simpleString()})"


def _instead(kind: DataType) -> str | None:
    """Return what to do about a type that has an Arrow type and still does not pass; None: it passes."""
    match kind:
        case VariantType():
            # Arrow has no null variants, and rows that are not there have nulls everywhere.
            return "make it text by to_json(), or take values out by variant_get()"
        case StringType() if kind.collation != StringType().collation:
            # Arrow's texts have no collation: they come back as others than the query expects.
            return "take it COLLATE UTF8_BINARY, and collate where it is compared"
        case TimeType():
            return "cast it to STRING, and back where it is used"
        case DayTimeIntervalType() if kind != DayTimeIntervalType():
            # Arrow's durations have no fields: they come back with all of them.
            return "cast it to INTERVAL DAY TO SECOND"
    return None


def types_in(kind: DataType) -> Iterator[DataType]:
    """Return a type and those of its parts."""
    yield kind
    match kind:
        case ArrayType():
            yield from types_in(kind.elementType)
        case MapType():
            yield from types_in(kind.keyType)
            yield from types_in(kind.valueType)
        case StructType():
            for field in kind.fields:
                yield from types_in(field.dataType)
