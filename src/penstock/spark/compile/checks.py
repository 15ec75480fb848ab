"""What Spark would refuse, or answer wrongly, refused before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.cluster import SparkSettings, copies_of
from penstock.errors import InputError, locating
from penstock.latency.fragments import GENERATORS, lineage
from penstock.network import Network, Operator, Sink, Source
from penstock.spark.compile.functions import import_function
from penstock.spark.compile.sources import MESSAGE, parses
from penstock.spark.compile.sql import calls, clocks, distinct, over_rows
from penstock.spark.connection import Connection
from penstock.spark.shipped.deliver import FILES, is_folder
from penstock.spark.shipped.place import absolute, place_of

BY_CHANCE = frozenset({"rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"})
"""Functions whose values are drawn, also with a seed: then they follow how rows are dealt out to tasks."""

BY_FILE = frozenset({"input_file_name", "input_file_block_start", "input_file_block_length"})
"""Functions that know of a row's file only where Spark reads it."""

BY_TASK = frozenset({"monotonically_increasing_id", "spark_partition_id"})
"""Functions of how rows are dealt out to tasks."""

PARTING = frozenset({"bucketby", "clusterby", "partitionby", "sortby"})
"""What a writer of files does by methods, and passes over among options, in small letters."""

READ_ONLY = frozenset({"binaryfile", "image", "nexmark", "rate", "rate-micro-batch", "socket"})
"""Formats of sources that are none of sinks."""


def check_network(network: Network, settings: SparkSettings) -> None:
    """Refuse what cannot run.

    Raises
    ------
    InputError
        Naming operator, reason and remedy.
    """
    with locating(settings.file):
        if (settings.hop == "kafka" or settings.mode == "real-time") and not settings.kafka:
            what = "topics between hosts need" if settings.hop == "kafka" else "real-time mode needs"
            raise InputError(f"{what} a broker", at="spark.kafka", hint='kafka = { bootstrap = "host:9092" }')
        formats = [part.format for table in (network.sources, network.sinks) for part in table.values()]
        if settings.hop == "kafka" or "kafka" in formats:
            Connection.of(settings)
    with locating(network.file):
        _check_tables(network)


def _check_tables(network: Network) -> None:
    for source in network.sources.values():
        _check_source(source)
        _check_cleaning(network, source)
    for operator in network.operators.values():
        if operator.kind == "python":
            import_function(operator, anew=True)
        _check_operator(operator)
        # Of two sources at once Spark says no file.
        reads_files = len(operator.inputs) == 1 and operator.inputs[0] in network.sources
        for key in ("where", "select", "on"):
            text = getattr(operator, key) or ""
            _check_repeatable(text, f"operators.{operator.name}.{key}", reads_files=reads_files)
        if operator.stateful:
            _check_event_time(network, operator)
    for sink in network.sinks.values():
        _check_sink(network, sink)
        _check_circle(network, sink)


def check_placement(network: Network, placement: Mapping[str, str], settings: SparkSettings) -> None:
    """Refuse copies that cannot follow each other.

    Raises
    ------
    InputError
        Naming the copy, reason and remedy.
    """
    for name, copies in copies_of(placement).items():
        if len(copies) < 2:
            continue
        _check_copies(network.operators[name], copies, placement)
        _check_clocks(network.operators[name])
        if settings.hop == "kafka" or settings.mode == "real-time":
            way = "topics between hosts" if settings.hop == "kafka" else "real-time mode"
            raise InputError(
                f"copies do not follow each other with {way}",
                at=f"placement.{copies[1]}",
                hint="place each operator once, or let rows pass by the directory, in micro-batches",
            )
        for given in network.operators[name].inputs:
            if given in network.sources and not network.sources[given].scheduled:
                raise InputError(
                    f"it reads {given!r}, of which Spark itself says how much a batch takes: copies could not agree",
                    at=f"placement.{copies[1]}",
                    hint="put a filter with one copy in front, and place copies of what follows",
                )


def _check_copies(operator: Operator, copies: Sequence[str], placement: Mapping[str, str]) -> None:
    """Refuse copies of an operator that share a host, or are numbered with gaps."""
    hosts = [placement[copy] for copy in copies]
    for number, copy in enumerate(copies, 1):
        if number > 1 and copy != f"{operator.name}#{number}":
            wanted = f"{operator.name}#{number}"
            raise InputError(f"expected {wanted!r}, got {copy!r}", at="placement", hint="number copies from 2 on")
        if placement[copy] in hosts[: number - 1]:
            raise InputError(
                f"another copy runs on {placement[copy]!r}", at=f"placement.{copy}", hint="give each a host of its own"
            )


def _check_clocks(operator: Operator) -> None:
    """Refuse the time at which a batch is computed, which each copy has of its own."""
    for key in ("where", "select", "on"):
        for name in sorted(clocks(getattr(operator, key) or "")):
            raise InputError(
                f"{name}() differs between the copies of an operator",
                at=f"operators.{operator.name}.{key}",
                hint="take it in an operator with one copy in front, or place this one once",
            )


def _check_source(source: Source) -> None:
    at = f"sources.{source.name}"
    if source.format is None:
        raise InputError("a source needs a format to run on Spark", at=f"{at}.format", hint='e.g. format = "json"')
    if source.format in FILES and source.schema is None and source.format != "text":
        raise InputError(f"a stream of {source.format} files needs a schema", at=f"{at}.schema")
    told = [key for key in source.options if key in MESSAGE or parses(key)]
    if source.format == "kafka" and source.schema is None and told:
        hint = "give the schema of the values, or leave it out"
        raise InputError("nothing is taken out of values without a schema", at=f"{at}.options.{told[0]}", hint=hint)
    if source.scheduled and source.schema is not None:
        raise InputError("nexmark has a schema of its own", at=f"{at}.schema", hint="leave it out")
    _check_repeatable(source.time or "", f"{at}.time", reads_files=True)
    if is_folder(source.format, source.options):
        _check_path(source.options["path"], f"{at}.options.path")


def _check_cleaning(network: Network, source: Source) -> None:
    """Refuse files that one reader would remove before another has read them: each may become a query of its own."""
    readers = sorted({stream.reader for stream in network.outputs(source.name)})
    for key, value in source.options.items():
        if key.lower() == "cleansource" and value.lower() != "off" and len(readers) > 1:
            raise InputError(
                f"the first of {', '.join(readers)} to finish a file would remove it before the others have read it",
                at=f"sources.{source.name}.options.{key}",
                hint="let them all read one filter in front, or remove files yourself",
            )


def _check_operator(operator: Operator) -> None:
    at = f"operators.{operator.name}"
    if operator.kind == "filter" and operator.where is None:
        raise InputError("a filter needs a condition to run on Spark", at=f"{at}.where", hint="where = 'SQL condition'")
    if operator.kind == "delay" and operator.cost is None:
        raise InputError("a delay needs a cost to run on Spark", at=f"{at}.cost")
    if operator.kind == "delay" and (operator.selectivity or (0.0,))[0] > 1:
        raise InputError("a delay cannot make more rows than it takes on Spark", at=f"{at}.selectivity")
    if operator.counts is not None:
        raise InputError(
            "a join with a count window runs in the simulator and the models only",
            at=f"{at}.window",
            hint='give a time window: within = "10 seconds"',
        )
    if operator.kind == "join" and len({name.lower() for name in operator.inputs}) < 2:
        one, two = operator.inputs
        raise InputError(
            f"{one!r} and {two!r} are one name in SQL, where case does not count",
            at=f"{at}.inputs",
            hint="rename one",
        )
    _check_select(operator.select or "", f"{at}.select")
    if operator.kind == "aggregate" and operator.window is None:
        raise InputError("an aggregate needs a window to run on Spark", at=f"{at}.window")
    if operator.kind == "aggregate" and operator.window and operator.slide:
        ratio = operator.window / operator.slide
        if abs(ratio - round(ratio)) > 1e-9:
            raise InputError("expected a window that is a multiple of its slide", at=f"{at}.slide")


def _check_select(text: str, at: str) -> None:
    """Refuse what Spark does on tables only, and of streams tells when they begin."""
    if distinct(text):
        raise InputError(
            "Spark aggregates no distinct values of a stream", at=at, hint="approx_count_distinct(…), or collect_set(…)"
        )
    if over_rows(text):
        raise InputError(
            "Spark has no window functions (OVER) on streams", at=at, hint='windows of time are those of an "aggregate"'
        )


def _check_repeatable(text: str, at: str, *, reads_files: bool) -> None:
    """Refuse what may differ when Spark computes a row again: for another branch, or after a kill."""
    called = calls(text)
    for name in sorted(called & (BY_CHANCE | BY_TASK)):
        raise InputError(
            f"{name}() may change between two computations of a row, and Spark may compute rows more than once",
            at=at,
            hint="take a hash of what tells rows apart, e.g. pmod(xxhash64(id), 100) < 50",
        )
    for name in sorted(called & BY_FILE) if not reads_files else ():
        raise InputError(
            f"{name}() knows of files only where Spark reads them", at=at, hint="take it in a map that reads the source"
        )


def _check_event_time(network: Network, operator: Operator) -> None:
    for name in sorted(lineage(network)[operator.name]):
        if network.sources[name].time is None and not network.sources[name].scheduled:
            raise InputError(
                f"kind {operator.kind!r} needs event time, but source {name!r} names no time column",
                at=f"sources.{name}.time",
                hint='e.g. time = "at"',
            )


def _check_sink(network: Network, sink: Sink) -> None:
    at = f"sinks.{sink.name}"
    if sink.input in network.sources:
        raise InputError(
            "a sink that reads a source has no host to run on",
            at=f"{at}.input",
            hint='put a map between: kind = "map"',
        )
    if sink.format is None and sink.options:
        raise InputError("a sink with options needs a format", at=f"{at}.format", hint='format = "parquet"')
    if sink.format in READ_ONLY:
        raise InputError(f"{sink.format} can be read and not written", at=f"{at}.format", hint='format = "parquet"')
    for key in ("key", "value") if sink.format == "kafka" else ():
        for name in sorted(calls(sink.options.get(key, "")) & GENERATORS):
            hint = "make the rows in a map in front"
            raise InputError(f"{name}() makes other rows: one row is one message", at=f"{at}.options.{key}", hint=hint)
    if sink.format not in FILES:
        return
    if "path" not in sink.options:
        raise InputError(f"a {sink.format} sink needs a path", at=f"{at}.options", hint='{ path = "out" }')
    for key in sink.options:
        if key.lower() in PARTING:
            hint = "leave it out, or give each part a filter and a sink of its own"
            raise InputError("penstock does not sort files into folders", at=f"{at}.options.{key}", hint=hint)
    _check_path(sink.options["path"], f"{at}.options.path", reached=True)


def _check_path(path: str, at: str, *, reached: bool = False) -> None:
    """Refuse a path that names no place, or with ``reached`` one on a file system that penstock cannot reach."""
    if not path.strip():
        raise InputError("expected a folder, got an empty path", at=at, hint='"." is the current one')
    try:
        place = place_of(path)
        if reached:
            place.exists()
    except ValueError as error:
        raise InputError(str(error), at=at) from None
    except OSError:
        # It may be there for the hosts and not for us.
        return


def _check_circle(network: Network, sink: Sink) -> None:
    """Refuse a sink whose rows a source would read that they come from, unless it takes files by their names."""
    for name in sorted(lineage(network)[sink.input]) if is_folder(sink.format, sink.options) else ():
        options = network.sources[name].options
        chosen = any(key.lower() == "pathglobfilter" for key in options)
        if not is_folder(network.sources[name].format, options) or chosen:
            continue
        if absolute(options["path"]).rstrip("/") == place_of(sink.options["path"]).pattern:
            raise InputError(
                f"the source {name!r} reads this folder: what leaves would come in again",
                at=f"sinks.{sink.name}.options.path",
                hint="name another folder",
            )
