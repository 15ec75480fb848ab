"""What each operator kind means on Spark: a function from DataFrames to a DataFrame, for batches and streams alike.

Every frame has the columns that the user sees and the envelope ``__id``, ``__stimulus``, ``__time``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyspark.sql.functions as F
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StructField, StructType, VariantType

from penstock.errors import InputError
from penstock.files import suggest
from penstock.latency.fragments import own_plan
from penstock.network import Operator
from penstock.spark.compile.functions import keeps_rows, load_function
from penstock.spark.compile.shapes import types_in
from penstock.spark.compile.sql import STAR, bracketed, condition, literal, quoted, split_columns, spread, starless
from penstock.spark.shipped import ENVELOPE, LANE, PLACE
from penstock.spark.shipped.python_step import wrap_python
from penstock.units import spark_interval


def columns(frame: DataFrame) -> list[str]:
    """Return the columns that the user sees."""
    return [name for name in frame.columns if name not in (*ENVELOPE, *PLACE, "__origin")]


def envelope(frame: DataFrame) -> list[str]:
    """Return the columns of the envelope, with those that rows have in real-time mode."""
    return [*ENVELOPE, *(name for name in PLACE if name in frame.columns)]


def _seen(frame: DataFrame) -> DataFrame:
    """Return a frame of the columns that the user sees."""
    return frame.select(*map(quoted, columns(frame)))


def hashed(fields: Sequence[StructField]) -> str:
    """Return columns as arguments of a hash, which takes no maps and no variants, and passes over nulls."""
    nullable = [f"isnull({quoted(field.name)})" for field in fields if field.nullable]
    return ", ".join([*map(_hashed, fields), *(nullable if len(nullable) > 1 else [])])


def _hashed(field: StructField) -> str:
    name = quoted(field.name)
    if any(isinstance(kind, VariantType) for kind in types_in(field.dataType)):
        return f"to_json({name})"
    text = f"CAST({name} AS STRING)"
    if "map<" in field.dataType.simpleString():
        return text
    # Hashes of lists and structs do not tell where in them something is null; their text does not tell all else.
    return f"{name}, {text}" if isinstance(field.dataType, ArrayType | StructType) else name


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
    sides = operator.inputs if operator.kind == "join" else [""]
    operator = starless(operator, lambda: dict(zip(sides, map(columns, inputs), strict=True)))
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
    parts = spread(split_columns(operator.select or "*"), _seen(frame))
    result = frame.selectExpr(*parts, *envelope(frame))
    if not own_plan(operator):
        return result
    # Several rows come of one: what tells them apart is what they hold.
    fields = [field for field in result.schema.fields if field.name in columns(result)]
    shown = [quoted(field.name) for field in fields]
    return result.selectExpr(*shown, f"xxhash64(__id, {hashed(fields)}) AS __id", *ENVELOPE[1:])


def _python(operator: Operator, frame: DataFrame, needed: bool) -> DataFrame:
    function, shape = load_function(operator, frame)
    whole = StructType([*shape, *(field for field in frame.schema if field.name in ENVELOPE)])
    arrow = to_arrow_schema(shape, timezone="UTC")
    # Spark looks columns up by their bare names, and would take "a.b" for a part of "a".
    taken = columns(frame)
    frame = frame.select(*map(quoted, taken), *ENVELOPE).toDF(*(f"c{place}" for place in range(len(taken))), *ENVELOPE)
    wrapped = wrap_python(function, taken, arrow, name=operator.name, kept=keeps_rows(function), needed=needed)
    result: DataFrame = frame.mapInArrow(wrapped, whole)
    return result


def _called(name: str, wanted: str) -> str:
    """Return a column under another name, which it may have already, as SQL."""
    return quoted(name) if name == wanted else f"{quoted(name)} AS {quoted(wanted)}"


def _union(operator: Operator, inputs: Sequence[DataFrame]) -> DataFrame:
    wanted = columns(inputs[0])
    # As in SQL, where case does not count.
    own = [{name.lower(): name for name in columns(frame)} for frame in inputs]
    for given, frame, names in zip(operator.inputs, inputs, own, strict=True):
        if names.keys() != own[0].keys():
            raise InputError(
                f"expected the same columns of all inputs, got {', '.join(columns(frame))} of {given!r} and "
                f"{', '.join(wanted)} of {operator.inputs[0]!r}",
                at=f"operators.{operator.name}.inputs",
                hint="make them equal by a map",
            )
    # A row that comes by two ways is two rows, in two lanes.
    parts = [
        frame.selectExpr(
            *(_called(names[name.lower()], name) for name in wanted),
            *(
                f"xxhash64({name}, {literal(given)}) AS {name}" if name in ("__id", LANE) else name
                for name in envelope(frame)
            ),
        )
        for given, frame, names in zip(operator.inputs, inputs, own, strict=True)
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def _join(operator: Operator, inputs: Sequence[DataFrame]) -> DataFrame:
    one, two = operator.inputs
    left, right = inputs[0].alias(one), inputs[1].alias(two)
    near = f"INTERVAL {spark_interval(operator.within or 0.0)}"
    first, second = f"{quoted(one)}.__time", f"{quoted(two)}.__time"
    on = f"{bracketed(operator.on or 'true')} AND {first} >= {second} - {near} AND {first} <= {second} + {near}"
    both = left.join(right, F.expr(on), "inner")
    sides = {side: _seen(frame).alias(side) for side, frame in zip(operator.inputs, inputs, strict=True)}
    return both.selectExpr(
        *(shown for part in split_columns(operator.select or "*") for shown in _of_join(part, both, sides)),
        f"xxhash64({quoted(one)}.__id, {quoted(two)}.__id) AS __id",
        f"greatest({quoted(one)}.__stimulus, {quoted(two)}.__stimulus) AS __stimulus",
        f"greatest({first}, {second}) AS __time",
    )


def _of_join(part: str, both: DataFrame, sides: Mapping[str, DataFrame]) -> list[str]:
    """Return a part of a join's select list, a star as columns that the user sees, by their names without ``select``.

    Parameters
    ----------
    both
        The joined rows.
    sides
        The columns that the user sees, by input.
    """
    star = STAR.fullmatch(part)
    if star is None:
        return [part]
    if star["of"] is not None:
        side = next((side for side in sides if star["of"].strip(" `").lower() == side.lower()), None)
        rest = f"*{star['but'] or ''}"
        return [part] if side is None else [f"{quoted(side)}.{name}" for name in spread([rest], sides[side])]
    names = {side: frame.columns for side, frame in sides.items()}
    one, two = ({name.lower() for name in each} for each in names.values())
    shown = [
        (quoted(f"{side}_{name}" if name.lower() in one & two else name), f"{quoted(side)}.{quoted(name)}")
        for side, given in names.items()
        for name in given
    ]
    parts = [f"{column} AS {name}" for name, column in shown]
    if star["but"] is None:
        return parts
    left = spread([part], both.selectExpr(*parts))
    return [made for made, (name, _) in zip(parts, shown, strict=True) if name in left]


def _check_grouping(operator: Operator, known: Sequence[str]) -> None:
    """Refuse to group by what is no column of the input: unlike the other keys, ``by`` is no SQL."""
    lower = {name.lower() for name in known}
    for name in operator.by:
        if name.lower() not in lower:
            raise InputError(
                f"{name!r} is no column of {operator.inputs[0]!r}",
                at=f"operators.{operator.name}.by",
                hint=f"{suggest(name, known, 'columns')}; name a column without backticks, compute it in a map before",
            )


def _aggregate(operator: Operator, frame: DataFrame) -> DataFrame:
    _check_grouping(operator, columns(frame))
    length = spark_interval(operator.window or 0.0)
    slide = spark_interval(operator.step)
    made = [F.expr(part) for part in split_columns(operator.select or "count(*) AS count")]
    grouped = frame.groupBy(
        *[F.expr(quoted(name)) for name in operator.by], F.window("__time", length, slide).alias("_w")
    )
    named = grouped.agg(*made, F.max("__stimulus"))
    # By place: names may come twice, which is told later, or be those that are used here.
    names, count = named.columns, len(operator.by)
    placed = [f"__{place}" for place in range(len(names))]
    keys, window, results, stimulus = placed[:count], placed[count], placed[count + 1 : -1], placed[-1]
    whole = named.toDF(*placed)
    told = [hashed(whole.select(*keys).schema.fields)] if keys else []
    identity = ", ".join([*told, f"unix_micros({window}.start)", literal(operator.name)])
    return whole.selectExpr(
        *(f"{key} AS {quoted(name)}" for key, name in zip(keys, operator.by, strict=True)),
        f"{window}.start AS window_start",
        f"{window}.end AS window_end",
        *(f"{result} AS {quoted(name)}" for result, name in zip(results, names[count + 1 : -1], strict=True)),
        f"xxhash64({identity}) AS __id",
        f"{stimulus} AS __stimulus",
        f"{window}.end - INTERVAL 1 microsecond AS __time",
    )
