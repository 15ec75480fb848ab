"""Network files (TOML) and their schema."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import attrs
import msgspec

from penstock.errors import InputError, commands
from penstock.files import Document, Text, convert, schema_of, suggest
from penstock.network.doubts import doubts
from penstock.network.model import Growth, Network, Operator, Sink, Source
from penstock.network.nexmark import Events
from penstock.network.sql import QUOTED
from penstock.units import seconds, size

FOLDER = re.compile(r"[^./\\][^/\\]*")
"""Names of networks."""

Positive = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Option = str | int | float | bool


class SourceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[sources.NAME]``: where tuples enter."""

    schema: (
        Annotated[str, msgspec.Meta(description="Spark DDL schema; of a Kafka source, that of the values, or Avro's")]
        | None
    ) = None
    format: Annotated[str, msgspec.Meta(description="Spark reader format, or nexmark")] | None = None
    options: Annotated[dict[str, Option], msgspec.Meta(description="options of the Spark reader")] = {}
    time: Annotated[str, msgspec.Meta(description="event-time column, or SQL over the columns")] | None = None
    lateness: Annotated[str | float, msgspec.Meta(description="how late a row may come, e.g. '2 seconds'")] = 0.0
    arrivals: Annotated[Literal["even", "poisson"], msgspec.Meta(description="spacing of tuples (simulator)")] = "even"
    host: (
        Annotated[str, msgspec.Meta(description="where the source enters; default: the host of each reader")] | None
    ) = None


class GrowthTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the output of an aggregate, join or python step grows with its input."""

    exponent: Annotated[float, msgspec.Meta(ge=0, le=4, description="output ~ (rate of the input) ** exponent")]
    at: Annotated[float, msgspec.Meta(gt=0, description="rate of the input at which the selectivity holds (tuples/s)")]


class OperatorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[operators.NAME]``: one operator."""

    kind: Literal["filter", "map", "union", "join", "aggregate", "delay", "python"]
    input: Annotated[Name, msgspec.Meta(description="name of a source or operator")] | None = None
    inputs: Annotated[list[Name], msgspec.Meta(description="names of sources or operators")] | None = None
    cost: (
        Annotated[
            Positive | list[Positive],
            msgspec.Meta(description="benchmark-core seconds per input tuple, or a list per input"),
        ]
        | None
    ) = None
    selectivity: (
        Annotated[
            Positive | list[Positive],
            msgspec.Meta(description="output tuples per input tuple, or a list per input; assumed where not known: 1"),
        ]
        | None
    ) = None
    service: Annotated[
        str, msgspec.Meta(description="simulator: constant, exponential, gamma:SHAPE, two-point:RATIO:PROBABILITY")
    ] = "constant"
    emit: Annotated[Literal["exact", "chance"], msgspec.Meta(description="simulator: how fractions come out")] = "exact"
    where: Annotated[str, msgspec.Meta(description="filter: SQL condition")] | None = None
    select: Annotated[str | list[str], msgspec.Meta(description="map, aggregate, join: SQL columns")] | None = None
    by: Annotated[str | list[str], msgspec.Meta(description="aggregate: names of columns, no SQL")] | None = None
    window: (
        Annotated[str | float | list[Count], msgspec.Meta(description="aggregate: duration; join: [tuples, tuples]")]
        | None
    ) = None
    slide: Annotated[str | float, msgspec.Meta(description="aggregate: duration; default: the window")] | None = None
    on: Annotated[str, msgspec.Meta(description="join: SQL condition")] | None = None
    within: Annotated[str | float, msgspec.Meta(description="join: largest difference of event times")] | None = None
    function: Annotated[str, msgspec.Meta(description="python: 'module:name' of a mapInArrow function")] | None = None
    burn: Annotated[Literal["cpu", "sleep"], msgspec.Meta(description="delay: how the cost is spent")] = "cpu"
    pin: Annotated[str, msgspec.Meta(description="host that it must stay on")] | None = None
    route: Annotated[dict[str, Share], msgspec.Meta(description="share of the output for each reader")] | None = None
    state: Annotated[str | float, msgspec.Meta(description="bytes of state that it keeps, such as '300m'")] | None = (
        None
    )
    growth: GrowthTable | None = None


class SinkTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[sinks.NAME]``: where results leave."""

    input: Annotated[Name, msgspec.Meta(description="name of a source or operator")]
    weight: Annotated[Positive, msgspec.Meta(description="worth of one output tuple per second")] = 1.0
    format: (
        Annotated[
            str, msgspec.Meta(description="Spark writer format; default: parquet, without a path in the run's folder")
        ]
        | None
    ) = None
    options: Annotated[dict[str, Option], msgspec.Meta(description="options of the Spark writer")] = {}
    host: (
        Annotated[str, msgspec.Meta(description="where the sink is: place and shed count what crosses to it")] | None
    ) = None


class NetworkFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A network file."""

    name: Annotated[Name, msgspec.Meta(description="name of the network")]
    sources: dict[str, SourceTable]
    operators: dict[str, OperatorTable] = {}
    sinks: dict[str, SinkTable] = {}
    defaults: Annotated[Document, msgspec.Meta(description="operator keys for all operators")] = {}


# Keys that only some kinds have; every other key fits all kinds.
_KEYS_OF_KINDS = {
    "where": ("filter",),
    "select": ("map", "aggregate", "join"),
    "by": ("aggregate",),
    "window": ("aggregate", "join"),
    "slide": ("aggregate",),
    "on": ("join",),
    "within": ("join",),
    "function": ("python",),
    "burn": ("delay",),
    "growth": ("aggregate", "join", "python"),
}


def read_network(path: str | os.PathLike[str], warn: Callable[[str], None] | None = None) -> Network:
    """Read and check a network file.

    Parameters
    ----------
    path
        A TOML file, or ``-`` for standard input.
    warn
        Gets what is doubtful in the file and yet no error, each with its line.

    Raises
    ------
    InputError
        Naming file, line, table and key, what was expected, what came and what to do.
    """
    text = Text(path)
    document = text.toml()
    try:
        network = parse_network(document, text.name)
    except InputError as error:
        raise error.located(text.name, text.line_of(error.at)) from None
    network = attrs.evolve(network, sources={name: _described(source) for name, source in network.sources.items()})
    if warn is None:
        return network
    for doubt in doubts(network):
        warn(str(doubt.located(text.name, text.line_of(doubt.at))))
    return network


def _described(source: Source) -> Source:
    """Return a source with its Avro schema where it names a file with one, as that may change from run to run.

    Planning needs none; what cannot be read, running on Spark refuses.
    """
    given = source.schema or ""
    if source.options.get("payload") != "avro" or given.lstrip().startswith(("{", "[")):
        return source
    with contextlib.suppress(InputError):
        return attrs.evolve(source, schema=read_schema(given))
    return source


def read_schema(path: str) -> str:
    """Read a file that holds an Avro schema.

    Raises
    ------
    InputError
        If it is none.
    """
    try:
        regular = Path(path).is_file()
    except OSError:
        regular = False
    if not regular:  # A pipe or a device may have no end.
        raise InputError("no such file", file=path)
    return Text(path).text


def parse_network(document: Document, file: str | None = None) -> Network:
    """Build a network from the tables of a network file; messages of later checks name the ``file``."""
    for key, value in document.items():
        if key in ("sources", "operators", "sinks", "defaults") and not isinstance(value, dict):
            raise InputError(f"expected a table, got {type(value).__name__}", at=key)
        for name, table in value.items() if key in ("sources", "operators", "sinks") else ():
            if not isinstance(table, dict):
                raise InputError(f"expected a table, got {table!r}", at=f"{key}.{name}", hint=f"write [{key}.{name}]")
    tables = ("sources", "operators", "sinks")
    top = convert({key: value if key not in tables else {} for key, value in document.items()}, NetworkFile, "")
    if not FOLDER.fullmatch(top.name) or any(commands(character) for character in top.name):
        # A run's folder has this name unless another one is given.
        raise InputError(f"expected a name that a folder may have, got {top.name!r}", at="name")
    _defaults(top.defaults)
    sources = [_source(name, table) for name, table in document["sources"].items()]
    folder = None if file is None else os.path.dirname(os.path.abspath(file))
    operators = [_operator(name, table, top.defaults, folder) for name, table in document.get("operators", {}).items()]
    sinks = [_sink(name, table) for name, table in document.get("sinks", {}).items()]
    if not sources:
        raise InputError("expected at least one source", at="sources")
    return Network.of(top.name, sources, operators, sinks, file)


def _defaults(defaults: Document) -> None:
    known = [field.name for field in msgspec.structs.fields(OperatorTable)]
    for key in defaults:
        if key not in known:
            raise InputError(f"unknown key {key!r}", at=f"defaults.{key}", hint=suggest(key, known))
    convert({"kind": "map", **defaults}, OperatorTable, "defaults")


def _source(name: str, document: Document) -> Source:
    at = f"sources.{name}"
    table = convert(document, SourceTable, at)
    lateness = _duration(table.lateness, f"{at}.lateness")
    values = {key: getattr(table, key) for key in ("schema", "format", "time", "arrivals", "host")}
    source = Source(name=name, lateness=lateness, options=_options(table.options, at), **values)
    if source.scheduled:
        Events.of(source)
    return source


def _sink(name: str, document: Document) -> Sink:
    table = convert(document, SinkTable, f"sinks.{name}")
    _finite(table.weight, f"sinks.{name}.weight")
    options = _options(table.options, f"sinks.{name}")
    return Sink(
        name=name,
        input=table.input,
        weight=table.weight,
        format=table.format or ("parquet" if "path" in map(str.lower, options) else None),
        options=options,
        host=table.host,
    )


def _options(options: dict[str, Option], at: str) -> dict[str, str]:
    seen: dict[str, str] = {}
    for key in options:
        # Spark takes them in any case, and would take one of the two.
        if seen.setdefault(key.lower(), key) != key:
            raise InputError(f"is there twice, also as {seen[key.lower()]!r}", at=f"{at}.options.{key}")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def _operator(name: str, document: Document, defaults: Document, folder: str | None) -> Operator:
    at = f"operators.{name}"
    given = convert({**{k: v for k, v in defaults.items() if k == "kind"}, **document}, OperatorTable, at)
    for key in document:
        if key in _KEYS_OF_KINDS and given.kind not in _KEYS_OF_KINDS[key]:
            raise InputError(
                f"a {given.kind} has no {key!r}", at=f"{at}.{key}", hint=f"only {', '.join(_KEYS_OF_KINDS[key])} has it"
            )
    fitting = _fitting(given.kind, document, defaults)
    table = convert({**fitting, **document}, OperatorTable, at)
    inputs = _inputs(table, at)
    window, counts = _windows(table, at)
    if table.function is not None and not re.fullmatch(r"[\w.]+:\w+", table.function):
        raise InputError(f"expected 'module:name', got {table.function!r}", at=f"{at}.function")
    return Operator(
        name=name,
        kind=table.kind,
        inputs=inputs,
        cost=_per_input(table.cost, inputs, f"{at}.cost"),
        selectivity=_per_input(table.selectivity, inputs, f"{at}.selectivity"),
        service=table.service,
        emit=table.emit,
        where=table.where,
        select=_items(table.select, f"{at}.select") if isinstance(table.select, list) else table.select,
        by=_columns(table.by, f"{at}.by"),
        window=window,
        slide=None if table.slide is None else _duration(table.slide, f"{at}.slide"),
        on=table.on,
        within=None if table.within is None else _duration(table.within, f"{at}.within"),
        counts=counts,
        function=table.function,
        burn=table.burn,
        pin=table.pin,
        route=table.route,
        state=None if table.state is None else _size(table.state, f"{at}.state"),
        growth=growth_of(table.growth, f"{at}.growth"),
        folder=folder if table.function is not None else None,
    )


def _fitting(kind: str, document: Document, defaults: Document) -> Document:
    """Return the defaults that fit an operator: those of its kind that go with the keys it has itself."""
    left_out = {key for key, kinds in _KEYS_OF_KINDS.items() if kind not in kinds}
    if "input" in document or "inputs" in document:
        left_out |= {"input", "inputs"}
    # A default window is one of time for aggregates or of tuples for joins.
    of_join, of_tuples = kind == "join", isinstance(defaults.get("window"), list)
    if of_join != of_tuples or (of_join and "within" in document):
        left_out.add("window")
    if of_join and "window" in document:
        left_out.add("within")
    if "window" not in document and ("window" in left_out or "window" not in defaults):
        left_out.add("slide")
    return {key: value for key, value in defaults.items() if key not in left_out}


def _size(value: str | float, at: str) -> float:
    try:
        return size(value)
    except InputError as error:
        raise InputError(error.problem, at=at) from None


def growth_of(table: GrowthTable | None, at: str) -> Growth | None:
    """Return how an operator grows, as a file says."""
    if table is None:
        return None
    _finite(table.exponent, f"{at}.exponent")
    _finite(table.at, f"{at}.at")
    return Growth(table.exponent, table.at)


def _inputs(table: OperatorTable, at: str) -> tuple[str, ...]:
    if (table.input is None) == (table.inputs is None):
        problem = "key 'input' is missing" if table.input is None else "both 'input' and 'inputs' are given"
        raise InputError(problem, at=at, hint='give one of input = "a" and inputs = ["a", "b"]')
    return (table.input,) if table.input is not None else tuple(table.inputs or ())


def _windows(table: OperatorTable, at: str) -> tuple[float | None, tuple[int, int] | None]:
    """Return the length of an aggregate's windows and the counts of a join's, as both are written ``window``."""
    if table.window is None:
        return None, None
    if table.kind != "join":
        if isinstance(table.window, list):
            raise InputError("expected a duration such as '10 seconds', got a list", at=f"{at}.window")
        return _duration(table.window, f"{at}.window"), None
    if not (isinstance(table.window, list) and len(table.window) == 2):
        raise InputError(
            f"expected two numbers of tuples such as [5, 5], got {table.window!r}",
            at=f"{at}.window",
            hint='a time window of a join is written within = "10 seconds"',
        )
    return None, (table.window[0], table.window[1])


def _columns(by: str | list[str] | None, at: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (by.split(",") if isinstance(by, str) else by or ()))
    if not all(names) or len({name.lower() for name in names}) < len(names):
        raise InputError(f"expected names of columns, each once, got {by!r}", at=at)
    return names


def _per_input(value: float | list[float] | None, inputs: tuple[str, ...], at: str) -> tuple[float, ...] | None:
    if value is None:
        return None
    numbers = tuple(map(float, value)) if isinstance(value, list) else (float(value),) * len(inputs)
    if len(numbers) != len(inputs):
        raise InputError(f"expected one number or {len(inputs)} (one per input), got {len(numbers)}", at=at)
    for number in numbers:
        _finite(number, at)
    return numbers


def _finite(number: float, at: str) -> None:
    if not math.isfinite(number) or number < 0:
        raise InputError(f"expected a finite number >= 0, got {number}", at=at)


def _items(given: list[str], at: str) -> str:
    """Return the items of a list as one text; one may end with a comment, which goes on to the end of its line."""
    # To Spark, names in other cases are the same; what is more than a name it has to tell.
    plain = [item.strip().lower() for item in given if re.fullmatch(r"\s*[A-Za-z_]\w*\s*", item)]
    if twice := next((name for name in plain if plain.count(name) > 1), None):
        raise InputError(f"column {twice!r} is there twice", at=at, hint="give one of them another name: x as y")
    return ", ".join(
        f"{item}\n" if any(found.startswith("--") for found in QUOTED.findall(item)) else item for item in given
    )


def _duration(value: str | float, at: str) -> float:
    try:
        return seconds(value)
    except InputError as error:
        raise InputError(error.problem, at=at) from None


def network_schema() -> Document:
    """Return the JSON schema of network files."""
    return schema_of(NetworkFile, "network")
