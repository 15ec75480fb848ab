"""What each operator kind means on Spark: one function from DataFrames to a DataFrame, for batches and streams alike.

Every frame has the columns that the user sees and the envelope ``_id``, ``_stimulus``, ``_time``.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyspark.sql.functions as F
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import InputError
from penstock.network import Network, Operator, Source, Stream
from penstock.spark.knobs import BUCKETS, Drops, window_limit
from penstock.spark.shipped import ENVELOPE, wrap_python
from penstock.units import spark_interval

FILES = ("json", "csv", "parquet", "orc", "text", "xml", "avro")


def columns(frame: DataFrame) -> list[str]:
    """Return the columns that the user sees."""
    return [name for name in frame.columns if name not in (*ENVELOPE, "_origin")]


def names_of(ddl: str) -> list[str]:
    """Return the columns of a schema as `penstock.spark.compile.derive_schemas` writes it."""
    return [name.replace("``", "`") for name in re.findall(r"(?:^|, )`((?:[^`]|``)+)` ", ddl)]


def quoted(name: str) -> str:
    """Return a column's name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def split_columns(text: str) -> list[str]:
    """Split an SQL select list at its top-level commas."""
    parts, depth, quote, begin = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return [part for part in [*parts, text[begin:].strip()] if part]


def spread(parts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return a select list with ``*`` written as the columns that the user sees."""
    return [shown for part in parts for shown in (map(quoted, names) if part == "*" else [part])]


def bucket(salt: str) -> str:
    """Return SQL for a row's bucket, 0..BUCKETS-1: a pure function of its identity and the salt."""
    return f"pmod(xxhash64(_id, '{salt}'), {BUCKETS})"


def passes(stream: Stream, network: Network, drops: Drops, known: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return SQL for whether a row is meant for a stream (route), and whether the stream keeps it (drop operator).

    Drops depend on the row's identity only, so that a replay drops the same rows and keep fractions nest. A stream
    that leads to an aggregate drops whole windows, so that results are a subset of the true ones (Tatbul et al.,
    section 3). ``known`` names the columns of `with_knobs`.
    """
    meant = "true"
    if stream.share < 1:
        low = sum(other.share for other in network.outputs(stream.writer) if other.reader < stream.reader)
        place = bucket(f"route {stream.writer}")
        meant = f"{place} >= {round(low * BUCKETS)} AND {place} < {round((low + stream.share) * BUCKETS)}"
    if known and stream.name in known:
        return meant, known[stream.name]
    limit = drops.limit(stream.name)
    if limit is None:
        return meant, "true"
    if not windows_behind(network, stream):
        return meant, f"{bucket(stream.name)} < {limit}"
    return meant, _any_window(stream, network, drops, lambda _start: limit)


def _any_window(stream: Stream, network: Network, drops: Drops, limit: Callable[[str], str]) -> str:
    """Return SQL for whether any window that a row is in passes, by SQL for the limit of a window."""
    windows = windows_behind(network, stream)
    if len(windows) > 1:
        raise InputError(
            "leads to aggregates with different windows, so that no window can be dropped whole",
            at=f"keep.{stream.name}",
            hint="drop on the streams into the aggregates",
        )
    (window,) = windows
    micros = round(window[1] * 1e6)
    first = f"(unix_micros(_time) - pmod(unix_micros(_time), {micros}))"
    starts = [f"({first} - {k * micros}L)" for k in range(overlapping(*window))]
    return "(" + " OR ".join(f"{_chance(stream.name, start, window, drops)} < {limit(start)}" for start in starts) + ")"


def _chance(stream: str, start: str, window: tuple[float, float], drops: Drops) -> str:
    """Return SQL for a window's bucket.

    Under a plan, windows that overlap are dropped or kept together: alone, few would be dropped whole before many are.
    """
    count = overlapping(*window)
    if stream in drops.live and count > 1:
        start = f"{start} DIV {count * round(window[1] * 1e6)}L"
    return f"pmod(xxhash64({start}, '{stream}'), {BUCKETS})"


def with_knobs(
    frame: DataFrame, streams: Sequence[Stream], network: Network, drops: Drops
) -> tuple[DataFrame, dict[str, str]]:
    """Return a frame with a column for each stream whose keep fraction follows a plan, whether it keeps the row.

    The host's properties are read once a row, however many streams and windows ask for them.
    """
    reads, tests, names = [], [], {}
    for stream in streams:
        if stream.name not in drops.live or stream.name in names:
            continue
        number = network.streams.index(stream)
        names[stream.name] = f"__keep{number}"
        if windows_behind(network, stream):
            since, limits = f"__since{number}", f"__limits{number}"
            reads += [f"{drops.since(stream.name)} AS {since}", f"{drops.limits(stream.name)} AS {limits}"]
            test = _any_window(stream, network, drops, partial(window_limit, names=(since, limits)))
        else:
            reads.append(f"{drops.limit(stream.name)} AS __limits{number}")
            test = f"{bucket(stream.name)} < __limits{number}"
        tests.append(f"{test} AS {names[stream.name]}")
    if not names:
        return frame, names
    before = [quoted(name) for name in frame.columns]
    return frame.selectExpr(*before, *reads).selectExpr(*before, *tests), names


def overlapping(length: float, slide: float) -> int:
    """Return how many windows a row is in."""
    return max(1, round(length / slide))


def windows_behind(network: Network, stream: Stream) -> set[tuple[float, float]]:
    """Return length and slide of the windows of the first aggregates that a stream leads to."""
    if stream.reader not in network.operators:
        return set()
    reader = network.operators[stream.reader]
    if reader.kind == "aggregate":
        return {(reader.window or 0.0, reader.slide or reader.window or 0.0)}
    found: set[tuple[float, float]] = set()
    for out in network.outputs(reader.name):
        found |= windows_behind(network, out)
    return found


def drop_windows(frame: DataFrame, stream: str, window: tuple[float, float], drops: Drops) -> DataFrame:
    """Remove the results of dropped windows (length and slide in s): a row is kept while any of its windows is."""
    start = "unix_micros(window_start)"
    limit = drops.listed(stream, start) if stream in drops.live else drops.limit(stream)
    return frame.filter(f"{_chance(stream, start, window, drops)} < {limit}")


def computes(operator: Operator) -> bool:
    """Whether an operator burns processor time, for which the host's speed must be known."""
    return operator.kind == "delay" and operator.burn == "cpu"


def burn(operator: Operator, steps_per_second: float) -> str:
    """Return SQL that is always true and takes the operator's cost."""
    cost = (operator.cost or (0.0,))[0]
    if operator.burn == "sleep":
        whole, rest = divmod(round(cost * 1e9), 1_000_000)
        call = f"java_method('java.lang.Thread', 'sleep', CAST({whole} AS BIGINT), {rest})"
        return f"coalesce({call}, 'slept') <> ''"
    steps = max(1, round(cost * steps_per_second))
    return f"aggregate(sequence(1, {steps}), _id, (a, x) -> xxhash64(a, x)) <> 42"


def thinned(operator: Operator) -> str:
    """Return SQL for the share of rows that a stand-in lets through."""
    selectivity = (operator.selectivity or (1.0,))[0]
    return "true" if selectivity >= 1 else f"{bucket('select ' + operator.name)} < {round(selectivity * BUCKETS)}"


def condition(operator: Operator, speed: float) -> str:
    """Return SQL for the rows that a filter or delay lets through."""
    if operator.kind == "delay":
        # Spark evaluates them in this order: the cost is that of every row, not only of those that leave.
        return f"{burn(operator, speed)} AND {thinned(operator)}" if speed else thinned(operator)
    return f"({operator.where})" if operator.where is not None else "true"


def apply(operator: Operator, inputs: Sequence[DataFrame], speed: float = 0.0) -> DataFrame:
    """Return what an operator makes of its inputs.

    Parameters
    ----------
    operator
        Of any kind.
    inputs
        A frame per input, with envelope; for stateful operators on streams with watermarks.
    speed
        Steps of a delay's loop that a host does per second; 0 leaves the delay out.
    """
    frame = inputs[0]
    match operator.kind:
        case "filter" | "delay":
            return frame.filter(condition(operator, speed))
        case "map":
            parts = split_columns(operator.select or "*")
            shown = spread(parts, columns(frame)) if "*" in parts else parts
            return frame.selectExpr(*shown, *ENVELOPE) if operator.select else frame
        case "union":
            return _union(operator, inputs)
        case "join":
            return _join(operator, inputs)
        case "aggregate":
            return _aggregate(operator, frame)
        case "python":
            function, shape = load_function(operator, frame)
            whole = StructType([*shape, *(field for field in frame.schema if field.name in ENVELOPE)])
            result: DataFrame = frame.mapInArrow(wrap_python(function, to_arrow_schema(shape, timezone="UTC")), whole)
            return result
    raise InputError(f"the kind {operator.kind!r} does not run on Spark", at=f"operators.{operator.name}.kind")


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
    whole = inputs[0].select(*map(quoted, wanted), *ENVELOPE)
    for frame in inputs[1:]:
        whole = whole.unionByName(frame.select(*map(quoted, wanted), *ENVELOPE))
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
    slide = spark_interval(operator.slide or operator.window or 0.0)
    made = [F.expr(part) for part in split_columns(operator.select or "count(*) AS count")]
    grouped = frame.groupBy(
        *[F.expr(quoted(name)) for name in operator.by], F.window("_time", length, slide).alias("_w")
    )
    keys = [quoted(name) for name in operator.by]
    named = grouped.agg(*made, F.max("_stimulus").alias("_stimulus"))
    results = [quoted(name) for name in named.columns if name not in (*operator.by, "_w", "_stimulus")]
    identity = ", ".join([*keys, "unix_micros(_w.start)", f"'{operator.name}'"])
    return named.selectExpr(
        *keys,
        "_w.start AS window_start",
        "_w.end AS window_end",
        *results,
        f"xxhash64({identity}) AS _id",
        "_stimulus",
        "_w.end - INTERVAL 1 microsecond AS _time",
    )


def import_function(operator: Operator, network: object = None) -> Any:
    """Import a python operator's function from the current folder, that of the network's file, or what is installed.

    Its module travels to the hosts by value, so that they need not have it.

    Raises
    ------
    InputError
        If there is none.
    """
    at = f"operators.{operator.name}.function"
    if operator.function is None:
        raise InputError("a python operator needs a function to run on Spark", at=at, hint="function = 'module:name'")
    place, _, name = operator.function.partition(":")
    folders = [os.path.dirname(os.path.abspath(str(network)))] if network is not None else []
    for folder in [*folders, os.getcwd()]:
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = importlib.import_module(place)
        function = getattr(module, name)
    except Exception as error:
        # The module is the user's code: whatever it raises is told in one message.
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        raise InputError(problem, at=at, hint="put the module beside the network file") from None
    if place.partition(".")[0] not in ("pyspark", "pandas", "pyarrow", "numpy") and getattr(module, "__file__", None):
        cloudpickle.register_pickle_by_value(module)
    return function


def load_function(operator: Operator, frame: DataFrame) -> tuple[Any, StructType]:
    """Return a python operator's function with the columns that it gives.

    The function's attribute ``schema`` (DDL) names them; without one it gives the columns that it takes.
    """
    function = import_function(operator)
    schema = getattr(function, "schema", None)
    if schema is None:
        return function, StructType([field for field in frame.schema.fields if field.name in columns(frame)])
    return function, frame.sparkSession.createDataFrame([], schema).schema


def read_source(session: SparkSession, source: Source, *, batch: bool = False) -> DataFrame:
    """Return a frame of a source that Spark itself reads, with envelope.

    Identity and stimulus time: Kafka's topic, partition and offset, and its timestamp; ``rate``'s value and
    timestamp; a file's path and the row's content, and the time when the file appeared; elsewhere the content, and
    the time of reading.
    """
    reader: Any = session.read if batch else session.readStream
    name = source.format or ""
    options = dict(source.options)
    if name in FILES and "path" in options and "://" not in options["path"]:
        options["path"] = os.path.abspath(options["path"])
    reader = reader.format(name).options(**options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    frame = reader.load()
    names = frame.columns
    for column in names:
        if column in (*ENVELOPE, "_origin") or column.startswith("__"):
            raise InputError(f"the column name {column!r} is used by penstock", at=f"sources.{source.name}.schema")
    if source.time is not None and source.time not in names:
        raise InputError(
            f"expected a column of the source ({', '.join(names)}), got {source.time!r}",
            at=f"sources.{source.name}.time",
        )
    content = ", ".join(quoted(column) for column in names)
    match name:
        case "kafka":
            identity, stimulus = "xxhash64(topic, partition, offset)", "unix_micros(timestamp)"
        case "rate" | "rate-micro-batch":
            identity, stimulus = "xxhash64(value)", "unix_micros(timestamp)"
        case _ if name in FILES:
            identity = f"xxhash64(_metadata.file_path, {content})"
            stimulus = "unix_micros(_metadata.file_modification_time)"
        case _:
            clock = "java_method('java.lang.System', 'currentTimeMillis')"
            identity, stimulus = f"xxhash64({content})", f"CAST({clock} AS BIGINT) * 1000"
    time = f"CAST({quoted(source.time)} AS TIMESTAMP)" if source.time else "CAST(NULL AS TIMESTAMP)"
    shown: DataFrame = frame.selectExpr(
        *map(quoted, names), f"{identity} AS _id", f"{stimulus} AS _stimulus", f"{time} AS _time"
    )
    return shown
