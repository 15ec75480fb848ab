"""The columns of every source and operator, and Spark's refusals in the user's words."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import InputError, locating
from penstock.network import Network, Sink
from penstock.spark.compile import kinds
from penstock.spark.compile.blame import blame
from penstock.spark.compile.functions import import_function, tells_rows
from penstock.spark.compile.graph import stateful_behind
from penstock.spark.compile.shapes import check_file, check_names, check_types
from penstock.spark.compile.sources import read_source
from penstock.spark.compile.sql import message_options
from penstock.spark.shipped import ENVELOPE
from penstock.spark.shipped.messages import message
from penstock.spark.shipped.nexmark import ROWS

ENVELOPE_FIELDS = tuple(
    StructField(name, kind, True)
    for name, kind in zip(ENVELOPE, (LongType(), LongType(), TimestampType()), strict=True)
)

_EXACT = {"partition": "int", "headers": "array<struct<key:string,value:binary>>"}
"""The types that Kafka wants of two parts of a message; its other parts are text or bytes."""


def nullable(kind: DataType) -> DataType:
    """Return a type whose parts may be null: rows that are not there have nulls everywhere."""
    match kind:
        case StructType():
            return StructType([StructField(field.name, nullable(field.dataType), True) for field in kind.fields])
        case ArrayType():
            return ArrayType(nullable(kind.elementType), True)
        case MapType():
            return MapType(nullable(kind.keyType), nullable(kind.valueType), True)
    return kind


def derive_schemas(session: SparkSession, network: Network, kafka: Mapping[str, str]) -> dict[str, StructType]:
    """Return the columns of every source's and operator's rows, without envelope; ``kafka``: see `read_source`.

    Spark analyses the operators on empty frames.

    Raises
    ------
    InputError
        Naming the operator whose SQL Spark does not understand, and why.
    """
    with locating(network.file):
        return _derived(session, network, kafka)


def _derived(session: SparkSession, network: Network, kafka: Mapping[str, str]) -> dict[str, StructType]:
    frames: dict[str, DataFrame] = {}
    found: dict[str, StructType] = {}

    def note(name: str, shape: StructType) -> None:
        # The envelope comes last.
        fields = shape.fields[: -len(ENVELOPE)]
        frames[name] = session.createDataFrame([], shape)
        found[name] = StructType([StructField(field.name, nullable(field.dataType), True) for field in fields])

    for name, source in network.sources.items():
        with blame(f"sources.{name}"):
            rows = session.createDataFrame([], ROWS) if source.scheduled else read_source(session, source, kafka)
            note(name, rows.schema)
    for name, operator in network.operators.items():
        with blame(f"operators.{name}"):
            if operator.kind == "python":
                _check_rows(network, name, found[operator.inputs[0]])
            result = kinds.apply(operator, [frames[given] for given in operator.inputs])
            # The client guesses the columns of some plans; this makes the host look at them.
            result.isStreaming  # noqa: B018
            at = f"operators.{name}{'.select' if operator.select else ''}"
            check_names(result.schema.names[: -len(ENVELOPE)], at)
            note(name, result.schema)
            check_types(found[name].fields, at)
    for sink in network.sinks.values():
        check_file(sink, found[sink.input])
        if sink.format == "kafka":
            with blame(f"sinks.{sink.name}"):
                _check_messages(sink, frames[sink.input].drop(*ENVELOPE))
        with blame(f"sinks.{sink.name}.format", only=("DATA_SOURCE_NOT_FOUND",)):
            if sink.format is not None:
                session.read.format(sink.format).load().isStreaming  # noqa: B018
    return found


def _check_messages(sink: Sink, frame: DataFrame) -> None:
    """Refuse a Kafka sink whose rows make no messages."""
    if "topic" not in sink.options and "topic" not in frame.columns:
        raise InputError("a kafka sink needs a topic", at=f"sinks.{sink.name}.options", hint='{ topic = "out" }')
    names = tuple(frame.columns)
    fields = frame.selectExpr(*message(message_options(sink, names), names)).schema.fields
    for field in fields:
        part, got = field.name, field.dataType.simpleString()
        if got.lower() == _EXACT[part] if part in _EXACT else isinstance(field.dataType, StringType | BinaryType):
            continue
        why = "" if part in sink.options else f": the column {part!r} is this part of the messages"
        said = part in ("key", "value")
        raise InputError(
            f"expected {_EXACT.get(part, 'text or bytes')} as {part}, got {got}{why}",
            at=f"sinks.{sink.name}.options",
            hint=f'{part} = "CAST(… AS STRING)"' if said else "give the column that type, or another name",
        )


def _check_rows(network: Network, name: str, taken: StructType) -> None:
    """Refuse a python operator whose rows cannot be told apart, where windows or joins need their event times."""
    function = import_function(network.operators[name])
    if stateful_behind(network, name) and not tells_rows(function, to_arrow_schema(taken, timezone="UTC")):
        raise InputError(
            "a window or join behind it needs each row's event time, but it does not say which row a row comes from",
            at=f"operators.{name}.function",
            hint="yield the column _row as it came, or set rows = 'kept' on a function that keeps every row in order",
        )
