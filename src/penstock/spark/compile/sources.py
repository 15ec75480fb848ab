"""Sources that Spark itself reads, with the envelope of every row."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NumericType, StringType, StructType

from penstock.errors import InputError
from penstock.latency.real_time import BROKERS
from penstock.network import Source
from penstock.network.file import read_schema
from penstock.spark.compile.kinds import hashed
from penstock.spark.compile.shapes import check_names
from penstock.spark.compile.sql import bracketed, literal, quoted, without_stars
from penstock.spark.shipped import LANE, PLACE, POSITION
from penstock.spark.shipped.deliver import FILES
from penstock.spark.shipped.place import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

LIMITS = {"files": ("maxFilesPerTrigger", "maxBytesPerTrigger"), "kafka": ("maxOffsetsPerTrigger",)}
"""Options that bound what a batch reads, the first one by number."""

BOUNDED = {"files": ("maxBytesPerTrigger", str(128 << 20)), "kafka": ("maxOffsetsPerTrigger", "1000000")}
"""The bound where the user sets none: a backlog of any size must pass through a small host."""


PAYLOADS = {"json": "from_json", "csv": "from_csv", "avro": "from_avro"}
"""Spark's functions that take a Kafka value apart, by the option ``payload``."""

PARSED = ("csv", "json", "kafka", "xml")
"""Formats whose rows are parsed only as far as their columns are needed."""

MESSAGE = ("payload", "skip", "include")
"""Options of a Kafka source that are not the reader's; neither are those that begin with ``json.`` and the like."""


def positioned(source: Source) -> bool:
    """Whether a source's rows have positions, or equal rows come in one batch, so that identities do not repeat."""
    return source.scheduled or source.format in (*FILES, "kafka", "rate", "rate-micro-batch")


def options_of(
    source: Source, kafka: Mapping[str, str], *, unbounded: bool = False, most: int | None = None
) -> dict[str, str]:
    """Return the options for Spark's reader: paths as URIs, reading bounded, Kafka's as the cluster has them.

    ``most`` files or tuples a batch are read; where the user's own bound is lower, that one holds.
    """
    options = dict(source.options)
    family = "files" if source.format in FILES else source.format or ""
    if family == "kafka":
        own = {key: value for key, value in options.items() if key not in MESSAGE and not parses(key)}
        # What the topics hold when a run begins belongs to it, as with files.
        options = {**shared_with(own, kafka), "startingOffsets": "earliest", **own}
    if family == "files" and "path" in options:
        options["path"] = absolute(options["path"])
    given = {key.lower() for key in options}
    if not unbounded and most is not None:
        bound = LIMITS[family][0]
        told = [options.pop(key) for key in [*options] if key.lower() == bound.lower()]
        options[bound] = str(min([most, *map(int, told)]))
    elif not unbounded and family in BOUNDED and not any(key.lower() in given for key in LIMITS[family]):
        options.update([BOUNDED[family]])
    return options


def whole(source: Source) -> Source:
    """Return a source of which all that is there can be read, wherever a stream of it begins."""
    options = {key: told for key, told in source.options.items() if not key.lower().startswith(("starting", "ending"))}
    return attrs.evolve(source, options=options)


def shared_with(own: Mapping[str, str], kafka: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of the cluster's Kafka that hold beside a user's own: no log-in goes to other brokers."""
    told = {key.lower(): value for key, value in own.items()}
    other = told.get(BROKERS, kafka.get(BROKERS)) != kafka.get(BROKERS)
    return {} if other else {key: value for key, value in kafka.items() if key.lower() not in told}


def on_cluster(options: Mapping[str, str]) -> bool:
    """Whether topics are on the cluster's brokers, by the options of a source or sink."""
    return BROKERS not in {option.lower() for option in options}


def asked_here(source: Source) -> bool:
    """Whether the cluster's brokers know the topics of a source, which it names."""
    return "subscribe" in source.options and on_cluster(source.options)


def may_lose(source: Source) -> bool:
    """Whether messages that are gone before a source has read them are passed over."""
    return source.options.get("failOnDataLoss", "true").lower() == "false"


def topics_named(source: Source) -> list[str]:
    """Return the topics that a source names."""
    return [name for topic in source.options.get("subscribe", "").split(",") if (name := topic.strip())]


def topics_said(source: Source) -> str | None:
    """Return how a source says which topics it reads; None: it reads none."""
    told = {key.lower(): value for key, value in source.options.items()} if source.format == "kafka" else {}
    return next((told[key] for key in ("subscribe", "subscribepattern", "assign") if key in told), None)


def read_source(
    session: SparkSession,
    source: Source,
    kafka: Mapping[str, str],
    *,
    batch: bool = False,
    most: int | None = None,
    placed: bool = False,
) -> DataFrame:
    """Return a frame of a source that Spark itself reads, with envelope; ``kafka``: the options of the cluster's Kafka.

    Identity and stimulus time: Kafka's topic, partition and offset, and its timestamp; ``rate``'s value and
    timestamp; a file's path with the row's place in it, or its content (see `penstock.spark.shipped.identity`), and the
    time when the file appeared; elsewhere the content, and the time of reading.
    """
    plain: DataFrameReader | DataStreamReader = session.read if batch else session.readStream
    name = source.format or ""
    reader = plain.format(name).options(**options_of(source, kafka, unbounded=batch or placed, most=most))
    if source.schema is not None and name != "kafka":
        reader = reader.schema(source.schema)
    frame = reader.load()
    shape = _declared(session, source) if name in FILES else frame.schema
    identity, stimulus = _envelope(name, literal(source.name), hashed(shape.fields))
    place = (f"xxhash64({literal(source.name)}, topic, partition) AS {LANE}", f"offset AS {POSITION}") if placed else ()
    names = shape.names
    frame = frame.selectExpr("*", f"{identity} AS __id", f"{stimulus} AS __stimulus", *place)
    if name == "kafka" and source.schema:
        frame, names = _payload(frame, source, names)
    check_names(names, f"sources.{source.name}.schema")
    if _strict(source, names):
        frame = _parsed_whole(frame, names)
    own = ("__id", "__stimulus", f"{_time(source, frame, names)} AS __time", *(PLACE if placed else ()))
    shown: DataFrame = frame.selectExpr(*map(quoted, names), *own)
    return shown


def _declared(session: SparkSession, source: Source) -> StructType:
    """Return the columns that a source of files declares, as Spark tells them of no files.

    Of files in folders called ``day=1`` it adds a column as long as there are some, and puts one that is declared last.
    """
    return session.read.format(source.format or "").schema(source.schema or "value STRING").load([]).schema


def _strict(source: Source, names: Sequence[str]) -> bool:
    """Whether a row of which something cannot be read is left out or ends the run, or is shown in a column."""
    if source.format not in PARSED:
        return False
    options = {key: told for key, told in source.options.items() if source.format != "kafka" or parses(key)}
    told = {key.lower().rpartition(".")[2]: value for key, value in options.items()}
    bad = told.get("columnnameofcorruptrecord", "_corrupt_record")
    return told.get("mode", "PERMISSIVE").upper() != "PERMISSIVE" or bad in names


def _parsed_whole(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a frame whose rows Spark parses whole, whatever is asked of them behind.

    The test holds for all rows. It needs every column, and as it depends on the task, Spark moves no filter below it.
    """
    content = hashed([frame.schema[name] for name in names])
    return frame.filter(f"(xxhash64(spark_partition_id(), {content}) | 1) <> 0")


def _time(source: Source, frame: DataFrame, names: Sequence[str]) -> str:
    """Return SQL for a row's event time: a column, or what the user computes. Text that is no time is null."""
    if source.time is None:
        return "CAST(NULL AS TIMESTAMP)"
    at = f"sources.{source.name}.time"
    if source.time in names:
        given = quoted(source.time)
    elif re.fullmatch(r"[\w ]+", source.time):
        raise InputError(
            f"expected a column of the source ({', '.join(names)}) or SQL, got {source.time!r}",
            at=at,
        )
    else:
        given = bracketed(without_stars(source.time, {"": list(names)}, at))
    kind = frame.selectExpr(f"{given} AS __time").schema.fields[0].dataType
    if isinstance(kind, NumericType):
        said = f"expected a time, got a number: {source.time!r} ({kind.simpleString()})"
        raise InputError(said, at=at, hint=f'"timestamp_millis({source.time})" or "timestamp_seconds({source.time})"')
    cast = f"TRY_CAST({given} AS TIMESTAMP)"
    # Spark takes a time of day for one of the day on which it computes it.
    return rf"CASE WHEN {given} RLIKE r'^\s*[+-]?\d{{4}}' THEN {cast} END" if isinstance(kind, StringType) else cast


def _payload(frame: DataFrame, source: Source, columns: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """Return a frame with the columns of Kafka values and, where no column is called so, of Kafka; and which show.

    ``columns`` are Kafka's; all others stay.

    Raises
    ------
    InputError
        If the payload is of no known kind, or what to include is none of Kafka's columns.
    """
    at = f"sources.{source.name}.options"
    frame = frame.selectExpr("*", f"{_parsed(source, at)} AS __payload")
    names = list(frame.select("__payload.*").columns)
    # Spark would take them for the same, whatever their case.
    taken = {name.lower() for name in names}
    left = [name for name in columns if name.lower() not in taken]
    others = [name for name in frame.columns if name not in (*columns, "__payload")]
    known = {name.lower(): name for name in left}
    asked = [name.strip() for name in source.options.get("include", "").split(",") if name.strip()]
    include = [known.get(name.lower(), name) for name in asked]
    for name in include:
        if name not in left:
            raise InputError(f"expected some of {', '.join(left)}, got {name!r}", at=f"{at}.include")
    given = [f"__payload.{quoted(name)} AS {quoted(name)}" for name in names]
    rest = ["CAST(key AS STRING) AS key" if name == "key" else name for name in left]
    return frame.selectExpr(*given, *rest, *others), [*names, *include]


def _parsed(source: Source, at: str) -> str:
    """Return SQL for what a Kafka value holds; ``at`` is where its options are."""
    kind, skip = source.options.get("payload", "json"), source.options.get("skip", "0")
    if kind not in PAYLOADS:
        raise InputError(f"expected one of {', '.join(PAYLOADS)}, got {kind!r}", at=f"{at}.payload")
    if not skip.isdecimal():
        raise InputError(f"expected a number of bytes, got {skip!r}", at=f"{at}.skip")
    other = next((key for key in source.options if parses(key) and not key.startswith(f"{kind}.")), None)
    if other is not None:
        raise InputError(f"the payload is {kind}", at=f"{at}.{other}", hint=f'begin with "{kind}.", or change payload')
    settings = {key.partition(".")[2]: value for key, value in source.options.items() if parses(key)}
    value = f"substring(value, {int(skip) + 1})" if int(skip) else "value"
    shape = source.schema or ""
    if kind == "avro":
        # As with the other kinds, what cannot be read is null unless the user says otherwise.
        settings, shape = {"mode": "PERMISSIVE"} | settings, _avro_schema(source)
    else:
        value = f"CAST({value} AS STRING)"
    pairs = ", ".join(f"{literal(key)}, {literal(told)}" for key, told in settings.items())
    return f"{PAYLOADS[kind]}({value}, {literal(shape)}{f', map({pairs})' if pairs else ''})"


def _avro_schema(source: Source) -> str:
    """Return a source's Avro schema as JSON: as given, or from the file that is named."""
    given, at = (source.schema or "").strip(), f"sources.{source.name}.schema"
    try:
        text = given if given.startswith(("{", "[")) else read_schema(given)
        json.loads(text)
    except InputError as error:
        hint = "an Avro schema as JSON, or the name of a file with one"
        raise InputError(f"{given}: {error.problem}", at=at, hint=hint) from None
    except ValueError as error:
        raise InputError(f"expected an Avro schema as JSON, got {given[:80]!r}: {error}", at=at) from None
    return text


def parses(key: str) -> bool:
    """Whether an option of a Kafka source belongs to the function that takes its values apart."""
    return key.partition(".")[0] in PAYLOADS and "." in key


def _envelope(name: str, source: str, content: str) -> tuple[str, str]:
    """Return SQL for a row's identity and stimulus time."""
    match name:
        case "kafka":
            return f"xxhash64({source}, topic, partition, offset)", "unix_micros(timestamp)"
        case "rate" | "rate-micro-batch":
            return f"xxhash64({source}, value)", "unix_micros(timestamp)"
        case _ if name in FILES:
            # Parts of a file may be read by several tasks, each of which tells its own equal rows apart.
            place = "_metadata.row_index" if name == "parquet" else f"_metadata.file_block_start, {content}"
            return (
                f"xxhash64({source}, _metadata.file_path, {place})",
                "unix_micros(_metadata.file_modification_time)",
            )
    clock = "java_method('java.lang.System', 'currentTimeMillis')"
    return f"xxhash64({source}, {content})", f"CAST({clock} AS BIGINT) * 1000"
