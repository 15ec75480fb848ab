"""What each operator kind means on Spark: a function from DataFrames to a DataFrame, for batches and streams alike.

Every frame has the columns that the user sees and the envelope ``_id``, ``_stimulus``, ``_time``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyspark.sql.functions as F
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import InputError
from penstock.latency.fragments import own_plan
from penstock.network import Operator
from penstock.spark.compile.functions import keeps_rows, load_function
from penstock.spark.compile.sql import condition, literal, quoted, split_columns, spread
from penstock.spark.shipped import ENVELOPE, LANE, PLACE
from penstock.spark.shipped.python_step import wrap_python
from penstock.units import spark_interval


def columns(frame: DataFrame) -> list[str]:
    """Return the columns that the user sees."""
    return [name for name in frame.columns if name not in (*ENVELOPE, *PLACE, "_origin")]


def envelope(frame: DataFrame) -> list[str]:
    """Return the columns of the envelope, with those that rows have in real-time mode."""
    return [*ENVELOPE, *(name for name in PLACE if name in frame.columns)]


def hashed(frame: DataFrame) -> str:
    """Return the columns that the user sees as arguments of a hash, which takes no maps."""
    return ", ".join(
        f"CAST({quoted(field.name)} AS STRING)" if "map<" in field.dataType.simpleString() else quoted(field.name)
        for field in frame.schema.fields
        if field.name in columns(frame)
    )


def apply(operator: Operator, inputs: Sequence[DataFrame], speed: float = 0.0, *, needed: bool = False) -> DataFrame:
    """Return what an operator makes of its inputs.

    Parameters
    ----------
    operator
        Of any kind.
    inputs
        A frame per input, with envelope; for stateful operators on streams with watermarks.
    speed
        Steps of a delay's loop that a host does per second; 0 leaves the delay out.
    needed
        Whether windows or joins lie behind a python operator, which need each row's own event time.
    """
    frame = inputs[0]
    match operator.kind:
        case "filter" | "delay":
            return frame.filter(condition(operator, speed))
        case "map":
            return _map(operator, frame) if operator.select else frame
        case "union":
            return _union(operator, inputs)
        case "join":
            return _join(operator, inputs)
        case "aggregate":
            return _aggregate(operator, frame)
        case "python":
            return _python(operator, frame, needed)
    raise InputError(f"the kind {operator.kind!r} does not run on Spark", at=f"operators.{operator.name}.kind")


def _map(operator: Operator, frame: DataFrame) -> DataFrame:
    parts = split_columns(operator.select or "*")
    result = frame.selectExpr(*(spread(parts, columns(frame)) if "*" in parts else parts), *envelope(frame))
    if not own_plan(operator):
        return result
    # Several rows come of one: what tells them apart is what they hold.
    shown = [quoted(name) for name in columns(result)]
    return result.selectExpr(*shown, f"xxhash64(_id, {hashed(result)}) AS _id", *ENVELOPE[1:])


def _python(operator: Operator, frame: DataFrame, needed: bool) -> DataFrame:
    function, shape = load_function(operator, frame)
    whole = StructType([*shape, *(field for field in frame.schema if field.name in ENVELOPE)])
    arrow = to_arrow_schema(shape, timezone="UTC")
    wrapped = wrap_python(function, arrow, name=operator.name, kept=keeps_rows(function), needed=needed)
    result: DataFrame = frame.mapInArrow(wrapped, whole)
    return result


def _union(operator: Operator, inputs: Sequence[DataFrame]) -> DataFrame:
    wanted = columns(inputs[0])
    for given, frame in zip(operator.inputs, inputs, strict=True):
        if set(columns(frame)) != set(wanted):
            raise InputError(
                f"expected the same columns of all inputs, got {', '.join(columns(frame))} of {given!r} and "
                f"{', '.join(wanted)} of {operator.inputs[0]!r}",
                at=f"operators.{operator.name}.inputs",
                hint="make them equal by a map",
            )
    # A row that comes by two ways is two rows, in two lanes.
    parts = [
        frame.selectExpr(
            *map(quoted, wanted),
            *(
                f"xxhash64({name}, {literal(given)}) AS {name}" if name in ("_id", LANE) else name
                for name in envelope(frame)
            ),
        )
        for given, frame in zip(operator.inputs, inputs, strict=True)
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def _join(operator: Operator, inputs: Sequence[DataFrame]) -> DataFrame:
    one, two = operator.inputs
    left, right = inputs[0].alias(one), inputs[1].alias(two)
    near = f"INTERVAL {spark_interval(operator.within or 0.0)}"
    first, second = f"{quoted(one)}._time", f"{quoted(two)}._time"
    on = f"({operator.on or 'true'}) AND {first} >= {second} - {near} AND {first} <= {second} + {near}"
    if operator.select is not None:
        shown = split_columns(operator.select)
    else:
        clash = {name.lower() for name in columns(inputs[0])} & {name.lower() for name in columns(inputs[1])}
        shown = [
            f"{quoted(side)}.{quoted(name)} AS {quoted(f'{side}_{name}' if name.lower() in clash else name)}"
            for side, frame in ((one, inputs[0]), (two, inputs[1]))
            for name in columns(frame)
        ]
    return left.join(right, F.expr(on), "inner").selectExpr(
        *shown,
        f"xxhash64({quoted(one)}._id, {quoted(two)}._id) AS _id",
        f"greatest({quoted(one)}._stimulus, {quoted(two)}._stimulus) AS _stimulus",
        f"greatest({first}, {second}) AS _time",
    )


def _aggregate(operator: Operator, frame: DataFrame) -> DataFrame:
    length = spark_interval(operator.window or 0.0)
    slide = spark_interval(operator.step)
    made = [F.expr(part) for part in split_columns(operator.select or "count(*) AS count")]
    grouped = frame.groupBy(
        *[F.expr(quoted(name)) for name in operator.by], F.window("_time", length, slide).alias("_w")
    )
    keys = [quoted(name) for name in operator.by]
    named = grouped.agg(*made, F.max("_stimulus").alias("_stimulus"))
    results = [quoted(name) for name in named.columns if name not in (*operator.by, "_w", "_stimulus")]
    identity = ", ".join([*keys, "unix_micros(_w.start)", literal(operator.name)])
    return named.selectExpr(
        *keys,
        "_w.start AS window_start",
        "_w.end AS window_end",
        *results,
        f"xxhash64({identity}) AS _id",
        "_stimulus",
        "_w.end - INTERVAL 1 microsecond AS _time",
    )
