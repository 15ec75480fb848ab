"""Compiling a fragment into one streaming query.

The filters, maps and delays behind an *origin* (a source, a log, or an operator with a plan of its own) become one
projection that carries a row per input row, and a flag and columns per operator: a shared prefix is read and computed
once, however many readers it has, and each row says by bits at which streams it arrived. Operators with plans of their
own are branches, whose streams an ``observe`` counts where no row leaves beside them; all are united, and one writer
takes the rows of every exit to its log or sink.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import attrs
import pyspark.sql.functions as F
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.cluster import SparkSettings
from penstock.errors import InputError
from penstock.latency.fragments import CHEAP, Fragment, chain, fragments, lineage, origins, own_plan
from penstock.network import Network, Operator, Source, Stream
from penstock.spark import knobs, operators, shipped
from penstock.spark.knobs import Drops
from penstock.spark.operators import FILES, quoted
from penstock.units import spark_interval
from penstock.workload import nexmark

for _module in (shipped, knobs, nexmark):
    cloudpickle.register_pickle_by_value(_module)

_ENVELOPE = list(shipped.ENVELOPE)
_MARK = "CAST(NULL AS BIGINT) AS _id", "CAST(NULL AS BIGINT) AS _stimulus", "_time"


@attrs.frozen(eq=False)
class Deployment:
    """What all fragments of a run share.

    Attributes
    ----------
    network, placement
        Every operator placed.
    folder
        Of the run: logs, checkpoints, sinks, manifests.
    keep
        Keep fraction by stream.
    speeds
        Steps of a delay's loop per second, by host.
    schedules
        Options of the Nexmark sources, by source.
    schemas
        DDL of every source's and operator's rows, without envelope.
    everything
        Whether scheduled sources give all their events at once.
    live
        Streams whose keep fractions follow a plan.
    """

    network: Network
    placement: Mapping[str, str]
    folder: str
    keep: Mapping[str, float] = attrs.field(factory=dict)
    speeds: Mapping[str, float] = attrs.field(factory=dict)
    schedules: Mapping[str, dict[str, str]] = attrs.field(factory=dict)
    schemas: Mapping[str, str] = attrs.field(factory=dict)
    everything: bool = False
    live: frozenset[str] = frozenset()

    @property
    def drops(self) -> Drops:
        """What the streams let through."""
        return Drops(self.keep, self.live, self.folder)

    def log(self, writer: str) -> str:
        """Return the folder of an operator's log."""
        return os.path.join(self.folder, "logs", writer)

    def lateness(self, writer: str) -> float:
        """Return the lateness of a stream: the largest of its sources (s)."""
        return max(self.network.sources[source].lateness for source in lineage(self.network)[writer])

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The streaming queries."""
        return fragments(self.network, self.placement)


@attrs.frozen(eq=False)
class Query:
    """A compiled fragment: its frame, its writer's description, and how to read its counts.

    ``counts`` maps the name of an observation to the streams that it counts, in the order of its fields: arrived and
    dropped of each; the writer counts the other streams. ``reads`` are the writers whose logs it reads.
    """

    fragment: Fragment
    frame: DataFrame
    spec: dict[str, Any]
    counts: Mapping[str, tuple[Stream, ...]]
    reads: tuple[str, ...]


def check_network(network: Network, settings: SparkSettings) -> None:
    """Refuse what Spark would refuse, before anything starts.

    Raises
    ------
    InputError
        Naming operator, reason and remedy.
    """
    if settings.mode != "micro-batch" or settings.hop != "directory":
        raise InputError(
            f"mode {settings.mode!r} with hop {settings.hop!r} does not run yet",
            at="spark",
            hint='use mode = "micro-batch" and hop = "directory"',
        )
    sources = lineage(network)
    for source in network.sources.values():
        at = f"sources.{source.name}"
        if source.format is None:
            raise InputError("a source needs a format to run on Spark", at=f"{at}.format", hint='e.g. format = "json"')
        if source.format in FILES and source.schema is None and source.format != "text":
            raise InputError(f"a stream of {source.format} files needs a schema", at=f"{at}.schema")
        if source.format == "nexmark" and source.schema is not None:
            raise InputError("nexmark has a schema of its own", at=f"{at}.schema", hint="leave it out")
    for operator in network.operators.values():
        at = f"operators.{operator.name}"
        if operator.kind == "python":
            operators.import_function(operator, network.file)
        if operator.kind == "filter" and operator.where is None:
            raise InputError(
                "a filter needs a condition to run on Spark", at=f"{at}.where", hint="where = 'SQL condition'"
            )
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
        if operator.kind == "aggregate" and operator.window is None:
            raise InputError("an aggregate needs a window to run on Spark", at=f"{at}.window")
        if operator.kind == "aggregate" and operator.window and operator.slide:
            ratio = operator.window / operator.slide
            if abs(ratio - round(ratio)) > 1e-9:
                raise InputError("expected a window that is a multiple of its slide", at=f"{at}.slide")
        for name in sorted(sources[operator.name]) if operator.stateful else ():
            if network.sources[name].time is None and network.sources[name].format != "nexmark":
                raise InputError(
                    f"a {operator.kind} needs event time, but source {name!r} names no time column",
                    at=f"sources.{name}.time",
                    hint='e.g. time = "at"',
                )
    for sink in network.sinks.values():
        if sink.input in network.sources:
            raise InputError(
                "a sink that reads a source has no host to run on",
                at=f"sinks.{sink.name}.input",
                hint='put a map between: kind = "map"',
            )
        if sink.format in FILES and "path" not in sink.options:
            raise InputError(
                f"a {sink.format} sink needs a path", at=f"sinks.{sink.name}.options", hint='{ path = "out" }'
            )


def sheddable(network: Network) -> frozenset[str]:
    """Return the streams that can drop: not those to aggregates of different windows, of which none drops whole."""
    return frozenset(s.name for s in network.streams if len(operators.windows_behind(network, s)) < 2)


def derive_schemas(session: SparkSession, network: Network) -> dict[str, str]:
    """Return the DDL of every source's and operator's rows, by letting Spark analyse the operators on empty frames.

    Raises
    ------
    InputError
        Naming the operator whose SQL Spark does not understand, and why.
    """
    frames: dict[str, DataFrame] = {}
    found: dict[str, str] = {}
    for name, source in network.sources.items():
        with blame(f"sources.{name}"):
            if source.format == "nexmark":
                ddl = f"{nexmark.SCHEMA}, _id bigint, _stimulus bigint, _time timestamp"
                frames[name] = session.createDataFrame([], ddl)
            else:
                shape = operators.read_source(session, source).schema
                frames[name] = session.createDataFrame([], shape)
            found[name] = _ddl(frames[name])
    for name, operator in network.operators.items():
        with blame(f"operators.{name}"):
            result = operators.apply(operator, [frames[given] for given in operator.inputs])
            # The client guesses the columns of some plans; this makes the host look at them.
            result.isStreaming  # noqa: B018
            frames[name] = session.createDataFrame([], result.schema)
            found[name] = _ddl(frames[name])
    for sink in network.sinks.values():
        with blame(f"sinks.{sink.name}.format", only="DATA_SOURCE_NOT_FOUND"):
            if sink.format is not None:
                session.read.format(sink.format).load().isStreaming  # noqa: B018
    return found


class blame:  # noqa: N801
    """Translate Spark's errors in a block into one that names the table at fault; ``only`` one class of them."""

    def __init__(self, at: str, only: str | None = None) -> None:
        self.at, self.only = at, only

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Translate, or pass over what is none of ours."""
        if isinstance(error, PySparkException):
            if self.only is not None and self.only != error.getCondition():
                return True
            text = " ".join((error.getMessage() or str(error)).split("\n\nJVM stacktrace")[0].split())
            text = text.split(";\n")[0].split(" SQLSTATE")[0].split(" == SQL")[0]
            hint = "mend the SQL" if self.only is None else None
            raise InputError(f"Spark refuses it: {text[:400]}", at=self.at, hint=hint) from None
        return False


def _ddl(frame: DataFrame) -> str:
    return ", ".join(
        f"{quoted(field.name)} {field.dataType.simpleString()}"
        for field in frame.schema.fields
        if field.name in operators.columns(frame)
    )


def compile_fragment(session: SparkSession, deployment: Deployment, fragment: Fragment) -> Query:
    """Compile one fragment into a streaming query."""
    return _Compiler(session, deployment, fragment).query()


@attrs.frozen
class Step:
    """Where an operator's rows are in a pass: the column that says whether there is one, and its columns by name."""

    flag: str
    columns: Mapping[str, str]


class _Compiler:
    """Builds one query; memory of what is built already."""

    def __init__(self, session: SparkSession, deployment: Deployment, fragment: Fragment) -> None:
        self.session, self.deployment, self.fragment = session, deployment, fragment
        self.network = deployment.network
        # What is read from outside is marked by an @: a query may also read the log of an operator of its own.
        roots = origins(self.network, fragment.operators, fragment.cuts)
        self.start = {name: root if root in fragment.operators else f"@{root}" for name, root in roots.items()}
        streams = [stream for name in fragment.operators for stream in self.network.inputs(name)]
        # Numbered, since only these tell how far event time has come.
        self.outside = sorted({self._origin(stream) for stream in streams} - set(fragment.operators))
        # Without any, no delay here depends on it: they sleep.
        self.speed = deployment.speeds.get(fragment.host, 1.0)
        self.counts: dict[str, tuple[Stream, ...]] = {}
        self.exits: list[dict[str, Any]] = []
        self.passes: list[list[str]] = []
        self.barriers = 0
        self.watermarks: set[str] = set()
        self.reads: dict[str, DataFrame] = {}
        self.knobs = self._knobs()
        own = [name for name in fragment.operators if self.start[name] == name]
        self.origins = [*self.outside, *own]
        # Only logs and drops of whole windows ask the writer how far event time has come.
        self.timed = any(map(self._logs, self.origins)) or bool(self.knobs and self.knobs["windows"])

    def query(self) -> Query:
        """Return the compiled query."""
        parts: list[DataFrame] = []
        for origin in self.origins:
            parts += self._leave(origin)
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionByName(part, allowMissingColumns=True)
        spec = {
            "folder": self.deployment.folder,
            "fragment": self.fragment.name,
            "origins": {
                str(number): {
                    "lateness": round(self.deployment.lateness(origin[1:]) * 1e6),
                    "marked": self._marked(origin),
                }
                for number, origin in enumerate(self.outside)
            },
            "exits": self.exits,
            "passes": self.passes,
            "observed": bool(self.counts),
            "watermarks": sorted(self.outside.index(f"@{name}") for name in self.watermarks),
            "knobs": self.knobs,
            "timed": self.timed,
        }
        logs = tuple(origin[1:] for origin in self.outside if origin[1:] in self.network.operators)
        return Query(self.fragment, whole, spec, self.counts, logs)

    def _knobs(self) -> dict[str, Any] | None:
        """Return what the writer has to decide before each batch, as `knobs.make_turn` takes it."""
        live, mine = self.deployment.live, self.fragment.operators
        limits, windows = [], {}
        for stream in self.network.streams:
            if stream.name in live and (
                stream.reader in mine or (stream.writer in mine and stream.reader in self.network.sinks)
            ):
                behind = operators.windows_behind(self.network, stream)
                for length, slide in behind:
                    windows[stream.name] = [
                        operators.overlapping(length, slide),
                        round(length * 1e6),
                        round(self.deployment.lateness(stream.writer) * 1e6),
                        self._derives(self._origin(stream))[0],
                    ]
                if not behind:
                    limits.append(stream.name)
        others: dict[str, list[str]] = {}
        home = {name: fragment.name for fragment in self.deployment.fragments for name in fragment.operators}
        reader = {stream.name: stream.reader for stream in self.network.streams}
        for name in mine:
            if self.network.operators[name].kind == "aggregate":
                for way in self._drops_into(self.network.operators[name]):
                    if way in live and reader[way] not in mine:
                        others.setdefault(home[reader[way]], []).append(way)
        if not (limits or windows or others):
            return None
        return {"limits": limits, "windows": windows, "others": others, "prompt": False}

    def _marked(self, origin: str) -> bool:
        """Whether an outside origin's rows come with marks."""
        name = origin[1:]
        return name in self.network.operators or self.network.sources[name].format == "nexmark"

    def _members(self, origin: str) -> list[str]:
        """Return the filters, maps and delays behind an origin."""
        return [name for name in self.fragment.operators if self.start[name] == origin and name != origin]

    def _readers(self, origin: str) -> list[Stream]:
        """Return the streams from an origin's rows to operators and sinks of this query."""
        return [
            stream
            for member in (origin, *self._members(origin))
            for stream in self.network.outputs(member.lstrip("@"))
            if (stream.reader in self.fragment.operators and self._origin(stream) == origin)
            or (stream.reader in self.network.sinks and member in self.fragment.operators)
        ]

    def _logs(self, origin: str) -> list[str]:
        """Return the operators among an origin's rows whose output others read from a log."""
        return [
            member
            for member in (origin, *self._members(origin))
            if member in self.fragment.operators
            and any(
                out.name in self.fragment.cuts
                or (out.reader in self.network.operators and out.reader not in self.fragment.operators)
                for out in self.network.outputs(member)
            )
        ]

    def _branches(self, origin: str) -> list[Stream]:
        return [
            stream
            for stream in self._readers(origin)
            if stream.reader in self.network.operators and own_plan(self.network.operators[stream.reader])
        ]

    def _alone(self, origin: str) -> bool:
        """Whether one branch is all that leaves an origin, so that nothing is evaluated twice."""
        sinks = [stream for stream in self._readers(origin) if stream.reader in self.network.sinks]
        return len(self._branches(origin)) == 1 and not sinks and not self._logs(origin)

    def _leave(self, origin: str) -> list[DataFrame]:
        """Return the frames of an origin's exits and marks."""
        inner = origin not in self.outside
        number = "CAST(NULL AS INT)" if inner else str(self.outside.index(origin))
        sinks = [stream for stream in self._readers(origin) if stream.reader in self.network.sinks]
        logs = self._logs(origin)
        if self._alone(origin) and (inner or not self.timed or not self._needed(origin)):
            return []
        if self._alone(origin) or (inner and not sinks and not logs and not self._readers(origin)):
            return [self._marks(origin, number)]
        frame, place, knobs = self._pass(self._frame(origin), origin, self._members(origin), counted=[])
        readers = self._readers(origin)
        seen = self._seen(readers, place, knobs)
        leaves = [self._exit(origin, stream.writer, **self._sink(stream, readers.index(stream))) for stream in sinks]
        begin = len(self.exits)
        leaves += [
            self._exit(origin, member, log=self.deployment.log(member), column=f"_e{begin + number}")
            for number, member in enumerate(logs)
        ]
        shown = [f"{place[leave['writer']].flag} AS {leave['column']}" for leave in leaves if "column" in leave]
        live = " OR ".join(place[leave["writer"]].flag for leave in leaves)
        # Exits share columns: a filter's rows have those of its input. What does not leave need not travel.
        columns: dict[str, str] = {}
        for leave in leaves:
            step = place[leave["writer"]]
            leave["columns"] = [
                [columns.setdefault(column, f"c{len(self.passes)}_{len(columns)}"), name]
                for name, column in step.columns.items()
            ]
        shown += [f"CASE WHEN {live} THEN {column} END AS {name}" for column, name in columns.items()]
        clock: list[str] = []
        if self.timed:
            # Identities are for logs; a sink's rows only have to be told from marks.
            clock = ["_id" if logs else "CASE WHEN _id IS NOT NULL THEN 0L END AS _id", "_time", f"{number} AS _origin"]
        wide = frame.selectExpr("_stimulus", *clock, *seen, *shown)
        # Every row counts where somebody here reads it. (A filter would be pushed down, and all that it tests be
        # computed twice.)
        return [wide if seen else wide.filter(live)]

    def _seen(self, counted: list[Stream], place: Mapping[str, Step], knobs: Mapping[str, str]) -> list[str]:
        """Return the columns that say to the writer where a row of this pass arrived and was dropped."""
        tests = []
        for stream in counted:
            meant, kept = operators.passes(stream, self.network, self.deployment.drops, knobs)
            there = f"{place[stream.writer].flag} AND {meant}"
            tests += [there, "false" if kept == "true" else f"{there} AND NOT ({kept})"]
        columns = []
        for number, begin in enumerate(range(0, len(tests), shipped.BITS)):
            part = tests[begin : begin + shipped.BITS]
            width = "L" if len(part) > 31 else ""
            bits = [
                f"CASE WHEN {test} THEN {1 << bit}{width} ELSE 0{width} END"
                for bit, test in enumerate(part)
                if test != "false"
            ]
            # Sums would be checked for overflow.
            columns.append(f"{' | '.join(bits or ['0'])} AS _seen{len(self.passes)}_{number}")
        self.passes.append([stream.name for stream in counted])
        return columns

    def _needed(self, origin: str) -> bool:
        """Whether an operator outside this query needs the event time that comes with an origin."""

        def stateful_behind(name: str) -> bool:
            return any(
                self.network.operators[out.reader].stateful or stateful_behind(out.reader)
                for out in self.network.outputs(name)
                if out.reader in self.network.operators
            )

        return any(stateful_behind(member) for member in self.fragment.operators)

    def _marks(self, origin: str, number: str) -> DataFrame:
        """Return the event times of an origin, without rows."""
        frame = self._frame(origin)
        if self._marked(origin) or not self._needed(origin):
            frame = frame.filter("_id IS NULL")
        return frame.selectExpr(*_MARK, f"{number} AS _origin")

    def _exit(self, origin: str, writer: str, **where: Any) -> dict[str, Any]:
        """Note and return an exit of an operator's rows."""
        numbers, behind = self._derives(origin)
        lateness = round(self.deployment.lateness(writer) * 1e6)
        self.exits.append({"writer": writer, "origins": numbers, "behind": behind, "lateness": lateness, **where})
        return self.exits[-1]

    def _sink(self, stream: Stream, number: int) -> dict[str, Any]:
        """Return where a stream's rows go; ``number`` is its place among those that the last pass counts."""
        sink = self.network.sinks[stream.reader]
        options = dict(sink.options)
        if sink.format in FILES:
            options["path"] = os.path.abspath(options["path"])
        return {
            "seen": [len(self.passes) - 1, number],
            "sink": os.path.join(self.deployment.folder, "sinks", sink.name),
            "latency": os.path.join(self.deployment.folder, "latency", sink.name),
            "format": sink.format,
            "options": options,
        }

    def _derives(self, origin: str) -> tuple[list[int], bool]:
        """Return the outside origins that an origin derives from, and whether a stateful operator lies between."""
        if origin in self.outside:
            return [self.outside.index(origin)], False
        operator = self.network.operators[origin]
        found: set[int] = set()
        behind = operator.stateful
        for stream in self.network.inputs(origin):
            numbers, deeper = self._derives(self._origin(stream))
            found |= set(numbers)
            behind |= deeper
        return sorted(found), behind

    def _origin(self, stream: Stream) -> str:
        """Return the origin of the rows on a stream into an operator of this query."""
        inside = stream.writer in self.fragment.operators and stream.name not in self.fragment.cuts
        return self.start[stream.writer] if inside else f"@{stream.writer}"

    def _frame(self, origin: str, *, watermark: bool = False) -> DataFrame:
        """Return the rows of an origin, with envelope and marks."""
        if origin in self.outside:
            frame = self._read(origin[1:])
        else:
            operator = self.network.operators[origin]
            frame = self._own(operator, watermark=watermark)
            if operator.kind == "union":
                return frame
        return self._watermarked(frame, origin) if watermark else frame

    def _watermarked(self, frame: DataFrame, origin: str) -> DataFrame:
        """Let event time advance by all rows and marks, before anything is filtered out.

        Rows of several sources may run ahead of the slowest one. Only the marks then say how far it has come, and
        Spark takes the slower of the two.
        """
        name = origin.lstrip("@")
        self.watermarks |= {self.outside[number][1:] for number in self._derives(origin)[0]}
        delay = spark_interval(self.deployment.lateness(name))
        marked = self._barrier(frame.withWatermark("_time", delay)).filter("_id IS NOT NULL")
        if name in self.network.operators and len(lineage(self.network)[name]) > 1:
            marks = frame.filter("_id IS NULL").withWatermark("_time", delay)
            return marked.unionByName(self._barrier(marks).filter("_id IS NOT NULL"))
        return marked

    def _barrier(self, frame: DataFrame) -> DataFrame:
        """Keep Spark from moving filters below the watermark, where dropped rows would not move it."""
        self.barriers += 1
        return frame.observe(f"barrier{self.barriers}", F.count(F.lit(1)).alias("rows"))

    def _read(self, name: str) -> DataFrame:
        """Return the rows of a source or log; one frame, so that all branches see the same rows in a batch."""
        if name not in self.reads:
            self.reads[name] = self._load(name)
        return self.reads[name]

    def _load(self, name: str) -> DataFrame:
        if name in self.network.operators:
            ddl = self.deployment.schemas[name]
            shape = f"{ddl}, _id bigint, _stimulus bigint, _time timestamp"
            reader = self.session.readStream.format("penstock-log").option("ddl", shape)
            return reader.option("folder", self.deployment.log(name)).load()
        source: Source = self.network.sources[name]
        if source.format == "nexmark":
            options = {**self.deployment.schedules[name], "all": str(self.deployment.everything).lower()}
            return self.session.readStream.format("penstock-nexmark").options(**options).load()
        return operators.read_source(self.session, source)

    def _own(self, operator: Operator, *, watermark: bool) -> DataFrame:
        """Return what an operator with a plan of its own makes of its branches."""
        inputs = [
            self._branch(stream, watermark=operator.stateful or (watermark and operator.kind == "union"))
            for stream in self.network.inputs(operator.name)
        ]
        result = operators.apply(operator, inputs, self.speed)
        if operator.kind == "aggregate":
            # A window's result is due when its end and the lateness have passed: latency counts from there.
            due = f"unix_micros(window_end) + {round(self.deployment.lateness(operator.name) * 1e6)}"
            for way in self._drops_into(operator):
                window = operator.window or 0.0
                result = operators.drop_windows(result, way, (window, operator.slide or window), self.deployment.drops)
            shown = [quoted(name) for name in operators.columns(result)]
            result = result.selectExpr(*shown, "_id", f"greatest(_stimulus, {due}) AS _stimulus", "_time")
        return result

    def _drops_into(self, operator: Operator) -> list[str]:
        """Return the streams with keep fractions that drop this aggregate's windows."""
        found, waiting = [], [operator.name]
        while waiting:
            for stream in self.network.inputs(waiting.pop()):
                if self.deployment.drops.drops(stream.name):
                    found.append(stream.name)
                if (
                    stream.writer in self.network.operators
                    and self.network.operators[stream.writer].kind != "aggregate"
                ):
                    waiting.append(stream.writer)
        return sorted(set(found))

    def _branch(self, stream: Stream, *, watermark: bool) -> DataFrame:
        """Return the rows of one input of an operator with a plan of its own."""
        origin = self._origin(stream)
        steps = chain(self.network, stream, origin.lstrip("@"))
        alone = self._alone(origin)
        if not alone and any(self.network.operators[step].kind not in CHEAP for step in steps):
            raise AssertionError(f"{stream.name} would be computed twice")  # fragments() cuts such streams
        frame = self._frame(origin, watermark=watermark)
        if watermark and not alone:
            # Counted elsewhere, and without marks: plain steps make the smallest plan.
            for step in steps:
                way = self.network.inputs(step)[0]
                frame = operators.apply(self.network.operators[step], [self._let_through(frame, way)])
            return self._let_through(frame, stream)
        frame, place, knobs = self._pass(frame, origin, steps, counted=self._readers(origin) if alone else [])
        taken = place[stream.writer]
        meant, kept = operators.passes(stream, self.network, self.deployment.drops, knobs)
        passes_marks = self.network.operators[stream.reader].kind in ("python", "union") and not watermark
        rows = frame.filter(f"{taken.flag} AND {meant} AND {kept}" + (" OR _id IS NULL" if passes_marks else ""))
        return rows.selectExpr(*(f"{column} AS {quoted(name)}" for name, column in taken.columns.items()), *_ENVELOPE)

    def _let_through(self, frame: DataFrame, stream: Stream) -> DataFrame:
        """Return the rows that are meant for a stream and that it keeps."""
        before = [quoted(name) for name in frame.columns]
        frame, knobs = operators.with_knobs(frame, [stream], self.network, self.deployment.drops)
        frame = frame.filter(" AND ".join(operators.passes(stream, self.network, self.deployment.drops, knobs)))
        return frame.selectExpr(*before) if knobs else frame

    def _pass(
        self, frame: DataFrame, origin: str, steps: list[str], counted: list[Stream]
    ) -> tuple[DataFrame, dict[str, Step], dict[str, str]]:
        """Evaluate filters, maps and delays in one projection.

        Returns
        -------
        tuple
            A frame with the envelope and the columns of every step, where each operator's rows are in it, and the
            columns of `with_knobs`.
        """
        names = operators.columns(frame)
        asking = [*(self.network.inputs(step)[0] for step in steps), *self._readers(origin)]
        first = Step("__f0", {name: f"__0_{k}" for k, name in enumerate(names)})
        place = {origin.lstrip("@"): first}
        kept_columns = [f"{quoted(name)} AS {column}" for name, column in first.columns.items()]
        frame = frame.selectExpr(*_ENVELOPE, f"_id IS NOT NULL AS {first.flag}", *kept_columns)
        frame, knobs = operators.with_knobs(frame, asking, self.network, self.deployment.drops)
        carried = [*_ENVELOPE, first.flag, *first.columns.values(), *knobs.values()]
        for number, name in enumerate(steps, 1):
            operator = self.network.operators[name]
            stream = self.network.inputs(name)[0]
            before, flag = place[stream.writer], f"__f{number}"
            meant, kept = operators.passes(stream, self.network, self.deployment.drops, knobs)
            there = f"{before.flag} AND {meant} AND {kept}"
            # The operator's SQL sees its input's columns by their bare names; Spark folds these projections into one.
            if operator.kind == "map":
                frame = frame.selectExpr(*carried, f"{there} AS {flag}")
                carried.append(flag)
                columns = before.columns
                if operator.select:
                    # Rows that are not there must not fail: what they are computed from is null.
                    guarded = [f"CASE WHEN {flag} THEN {c} END AS {quoted(n)}" for n, c in before.columns.items()]
                    parts = operators.spread(operators.split_columns(operator.select), list(before.columns))
                    made = operators.names_of(self.deployment.schemas[name])
                    columns = {shown: f"__{number}_{k}" for k, shown in enumerate(made)}
                    scope = frame.selectExpr(*carried, *guarded)
                    frame = scope.selectExpr(*carried, *parts).toDF(*carried, *columns.values())
                    carried += columns.values()
                place[name] = Step(flag, columns)
                continue
            bare = [f"{column} AS {quoted(shown)}" for shown, column in before.columns.items()]
            test = operators.condition(operator, self.speed)
            test = f"CASE WHEN {there} THEN coalesce({test}, false) ELSE false END"
            frame = frame.selectExpr(*carried, *bare).selectExpr(*carried, f"{test} AS {flag}")
            carried.append(flag)
            place[name] = Step(flag, before.columns)
        if counted:
            # Spark observes nothing that may change, as a knob may: whether a row is dropped is a column first.
            tests, sums = [], []
            for number, stream in enumerate(counted):
                meant, kept = operators.passes(stream, self.network, self.deployment.drops, knobs)
                there = f"{place[stream.writer].flag} AND {meant}"
                lost = "false" if kept == "true" else f"{there} AND NOT ({kept})"
                tests += [f"{there} AS _a{number}", f"{lost} AS _d{number}"]
                sums += [F.expr(f"count(CASE WHEN _{k}{number} THEN 1 END) AS {k}{number}") for k in "ad"]
            frame = frame.selectExpr("*", *tests)
            name = f"pass{len(self.counts)}"
            self.counts[name] = tuple(counted)
            frame = frame.observe(name, *sums)
        return frame, place, knobs


def register(session: SparkSession) -> None:
    """Make penstock's sources known to a host."""
    session.dataSource.register(shipped.LogSource)
    session.dataSource.register(shipped.NexmarkSource)


def nexmark_options(source: Source, rates: Mapping[str, Any], folder: str) -> dict[str, str]:
    """Return the options of a scheduled source: its rates, its seed, and the file that holds its epoch."""
    return {
        "name": source.name,
        "rates": json.dumps(rates),
        "seed": source.options.get("seed", "0"),
        "gate": os.path.join(folder, "epoch"),
    }
