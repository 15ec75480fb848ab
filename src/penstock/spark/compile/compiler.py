"""Compiling a fragment into one streaming query: its graph becomes frames, and one writer takes the rows of all exits.

Spark's watermark follows the frontiers of what the query reads and nothing else: a source that Spark itself reads by
the latest event time of all its rows, a log by its marks. Rows of a log may run ahead of the slowest source, so that
their own event times do not count; the operators that need a watermark get their event-time column tagged with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property

import attrs
import pyspark.sql.functions as F
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from penstock.latency.fragments import Fragment
from penstock.network import Network, Operator, Stream
from penstock.shedding import alone
from penstock.spark import hop, shipped
from penstock.spark.compile import counting, kinds, passes, streams
from penstock.spark.compile.deciding import knobs_of, limits_file, shares_jvm
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.functions import import_function, parts_rows
from penstock.spark.compile.graph import Graph, drops_into, numbered, stateful_behind
from penstock.spark.compile.inputs import inputs_of
from penstock.spark.compile.reading import RECALLED, read, slots_of
from penstock.spark.compile.sources import positioned, shared_with, topics_said
from penstock.spark.compile.sql import message_options, quoted
from penstock.spark.compile.writing import written_by_spark
from penstock.spark.hosts.sessions import id_of
from penstock.spark.paths import uri_of
from penstock.spark.shipped import ENVELOPE
from penstock.spark.shipped.deliver import FILES
from penstock.spark.shipped.native import marked
from penstock.spark.shipped.spec import LogExit, Metrics, Origin, SinkExit, WriterSpec
from penstock.units import spark_interval
from penstock.workload import nexmark

for _module in (shipped, hop, nexmark, alone):
    cloudpickle.register_pickle_by_value(_module)

LEAST = "INTERVAL 1 microsecond"
"""The smallest difference between event times."""

WATERMARKED = {"spark.watermarkDelayMs": 0}
"""By this note on a column Spark knows that its watermark holds for it."""


@attrs.frozen(eq=False)
class Query:
    """A compiled fragment: its frame, and what its writer is told.

    ``reads`` are the writers whose logs it reads; ``recalled`` the numbers of the sources without marks that its
    watermark follows; ``inputs`` sources, writers of logs and `RECALLED`, as its checkpoint has a line for each;
    ``topics`` what its sources of topics say that they read, by source.
    """

    fragment: Fragment
    frame: DataFrame
    spec: WriterSpec
    reads: tuple[str, ...]
    recalled: tuple[int, ...] = ()
    inputs: tuple[str, ...] = ()
    topics: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        """The query's name."""
        return self.fragment.name

    @property
    def numbers(self) -> dict[str, int]:
        """The number that Spark gives to what the query reads, by name: one however often it has a line."""
        return {name: number for number, name in enumerate(dict.fromkeys(self.inputs))}


def compile_fragment(session: SparkSession, deployment: Deployment, fragment: Fragment, run: str) -> Query:
    """Compile one fragment into a streaming query.

    ``run`` is the run's identity, for files in the user's folders. Which generation the query is, `stamped` says.
    """
    return _Compiler(session, deployment, fragment, run).query()


class _Compiler:
    """Builds one query; memory of what is built already."""

    def __init__(self, session: SparkSession, deployment: Deployment, fragment: Fragment, run: str) -> None:
        self.session, self.deployment, self.run = session, deployment, run
        self.network: Network = deployment.network
        self.knobs = knobs_of(deployment, Graph(self.network, fragment, real_time=deployment.real_time))
        if self.knobs is not None and not self.shares_jvm:
            place = limits_file(deployment.place, deployment.copy or fragment.name)
            self.knobs = dataclasses.replace(self.knobs, file=place)
            self.deployment = attrs.evolve(deployment, limits=place)
        dropping = frozenset(self.knobs.windows) if self.knobs else frozenset()
        self.graph = Graph(self.network, fragment, dropping, deployment.real_time)
        # Without any, no delay here depends on it: they sleep.
        self.speed = deployment.speeds.get(fragment.host, 1.0)
        self.slots = slots_of(session)
        self.logs: list[LogExit] = []
        self.sinks: list[SinkExit] = []
        self.counted: list[tuple[str, ...]] = []
        self.alike: list[tuple[int, ...]] = []
        self.observations: dict[str, Metrics] = {}
        self.stateful: list[str] = []
        self.barriers = 0
        self.reads: dict[str, DataFrame] = {}

    @cached_property
    def shares_jvm(self) -> bool:
        """Whether the host's tasks share the driver's JVM, which it is asked at most once."""
        return shares_jvm(self.session)

    def query(self) -> Query:
        """Return the compiled query."""
        graph, deployment = self.graph, self.deployment
        whole, *parts = [part for origin in graph.origins for part in self._leave(origin)]
        for part in parts:
            whole = whole.unionByName(part, allowMissingColumns=True)
        native = self._native()
        if native:
            whole = marked(whole, self.sinks[0], timed=graph.timed)
        origins = tuple(Origin(o[1:], graph.marked(o), round(deployment.lateness(o[1:]) * 1e6)) for o in graph.outside)
        spec = WriterSpec(
            folder=deployment.place,
            query=graph.fragment.name,
            origins=origins,
            logs=tuple(self.logs),
            sinks=tuple(self.sinks),
            passes=tuple(self.counted),
            observations=self.observations,
            stateful=tuple(self.stateful),
            timed=graph.timed,
            knobs=self.knobs,
            session=id_of(self.session),
            topics=deployment.topics(self.run),
            host=graph.fragment.host,
            spread=self.slots > 1,
            native=native,
            dropping=frozenset(name for names in self.counted for name in names if self.deployment.drops.drops(name)),
            alike=tuple(self.alike),
        )
        inputs = inputs_of(self.session, whole, self.reads)
        read = [self.network.sources[o.name] for o in origins if o.name in self.network.sources]
        topics = {source.name: said for source in read if (said := topics_said(source)) is not None}
        return Query(graph.fragment, whole, spec, graph.logs_read, graph.recalled, inputs, topics)

    def _native(self) -> bool:
        """Whether Spark itself writes what leaves: to one sink, and from a JVM that optimizes what runs for long.

        Those of our own hosts do not, and need less time to hand rows to Python than to write them.
        """
        if self.logs or len(self.sinks) != 1 or self.slots == 1 or self.shares_jvm:
            return False
        sink = self.network.sinks[self.sinks[0].name]
        return written_by_spark(sink, self.deployment.schemas[sink.input])

    def _leave(self, origin: str) -> list[DataFrame]:
        """Return the frames in which an origin's rows, or its event times, reach the writer."""
        graph = self.graph
        if graph.silent(origin):
            return []
        readers, logs = graph.readers(origin), graph.logs(origin)
        number = graph.number(origin)
        shown_number = f"CAST({'NULL' if number is None else number} AS INT) AS __origin"
        if graph.alone(origin):
            return [self._times(origin, shown_number)]
        if not (readers or logs):
            # What nobody reads is computed all the same, so that what arrives there is counted.
            return [
                self._frame(origin).selectExpr("CAST(NULL AS BIGINT) AS __id", "CAST(NULL AS BIGINT) AS __stimulus")
            ]
        done = passes.evaluate(
            self.deployment, self._frame(origin), origin.lstrip("@"), graph.members(origin), readers, self.speed
        )
        seen, alike = counting.seen(self.deployment, done, readers, len(self.counted))
        self.alike.append(alike)
        self.counted.append(tuple(stream.name for stream in readers))
        # Exits share columns: a filter's rows have those of its input. What does not leave need not travel.
        columns: dict[str, str] = {}
        flags, shown = [], []
        for stream in graph.sinks(origin):
            flags.append(done.place[stream.writer].flag)
            self.sinks.append(self._sink(stream, readers.index(stream), self._columns(done, stream.writer, columns)))
        for member in logs:
            flags.append(done.place[member].flag)
            shown.append(f"{flags[-1]} AS _e{len(self.logs)}")
            self.logs.append(self._log(origin, member, self._columns(done, member, columns)))
        live = " OR ".join(flags)
        shown += [f"CASE WHEN {live} THEN {column} END AS {name}" for column, name in columns.items()]
        clock: list[str] = []
        if graph.timed:
            clock = ["__time", shown_number]
        if logs or any(self.network.sinks[stream.reader].format == "kafka" for stream in graph.sinks(origin)):
            clock.append("__id")
        elif graph.timed:
            # Identities are for logs and messages; other sinks' rows only have to be told from marks.
            clock.append("CASE WHEN __id IS NOT NULL THEN 0L END AS __id")
        # Every row counts where somebody here reads it. (A filter would be pushed down, and all that it tests be
        # computed twice.)
        wide = done.frame.selectExpr("__stimulus", *clock, *seen, *shown)
        if nested := {name: kind for name, kind in self._types(done, columns).items() if _is_nested(kind)}:
            wide = wide.withColumns({name: F.col(name).cast(kind) for name, kind in nested.items()})
        return [wide if seen else wide.filter(live)]

    def _columns(self, done: passes.Pass, writer: str, shared: dict[str, str]) -> tuple[tuple[str, str], ...]:
        """Return the columns of an operator's rows, by their names in the batch."""
        begin = len(self.counted)
        return tuple(
            (shared.setdefault(column, f"c{begin}_{len(shared)}"), name)
            for name, column in done.place[writer].columns.items()
        )

    def _types(self, done: passes.Pass, shared: Mapping[str, str]) -> dict[str, DataType]:
        """Return the types of columns that leave, by their names in the batch."""
        return {
            shared[column]: self.deployment.schemas[writer][name].dataType
            for writer, step in done.place.items()
            for name, column in step.columns.items()
            if column in shared
        }

    def _times(self, origin: str, number: str) -> DataFrame:
        """Return the event times of an origin, without rows."""
        frame = self._frame(origin)
        marked = origin not in self.graph.outside or self.graph.marked(origin)
        rows = frame.filter("__id IS NULL") if marked else frame
        latest = "__stimulus" if marked else "CAST(NULL AS BIGINT) AS __stimulus"
        return rows.selectExpr("CAST(NULL AS BIGINT) AS __id", latest, "__time", number)

    def _sink(self, stream: Stream, number: int, columns: tuple[tuple[str, str], ...]) -> SinkExit:
        """Return where a stream's rows go; ``number`` is its place among those that the last pass counts."""
        sink = self.network.sinks[stream.reader]
        seen = (len(self.counted) - 1, number)
        label = f"{self.run}-{self.graph.fragment.name}+{sink.name}"
        options, shape = dict(sink.options), self.deployment.schemas[stream.writer]
        if sink.format in FILES:
            # The host has another current folder.
            options["path"] = uri_of(sink)
        elif sink.format == "kafka":
            options = {**shared_with(options, self.deployment.messages), **message_options(sink, shape.names)}
        return SinkExit(sink.name, seen, columns, sink.format, options, label, shape.json())

    def _log(self, origin: str, member: str, columns: tuple[tuple[str, str], ...]) -> LogExit:
        """Return how an operator's rows go to its log."""
        numbers, behind = self.graph.derives(origin)
        known = [name for name, source in self.network.sources.items() if positioned(source)]
        unplaced = numbered(self.network, member, known)
        return LogExit(member, f"_e{len(self.logs)}", columns, numbers, behind, unplaced)

    def _frame(self, origin: str, *, watermark: bool = False) -> DataFrame:
        """Return the rows of an origin, with envelope; those of outside also with marks, unless watermarked."""
        if origin not in self.graph.outside:
            return self._own(self.network.operators[origin], watermark=watermark)
        frame = self._read(origin[1:])
        return self._watermarked(frame, origin) if watermark else frame

    def _watermarked(self, frame: DataFrame, origin: str) -> DataFrame:
        """Let Spark's watermark follow an outside origin, and return its rows without marks.

        The observation also keeps Spark from moving filters below the watermark, where dropped rows would not move it.
        """
        self.barriers += 1
        number = self.graph.outside.index(origin)
        if self.graph.marked(origin):
            frame = frame.selectExpr("*", "CASE WHEN __id IS NULL THEN __time END AS __mark")
            frame = frame.withWatermark("__mark", "0 seconds")
            frame = frame.observe(f"barrier{self.barriers}", F.count(F.lit(1)).alias("rows"))
            return frame.filter("__id IS NOT NULL").drop("__mark")
        before = self._read(RECALLED).filter(f"__origin = {number}").select("__time")
        frame = frame.unionByName(before, allowMissingColumns=True)
        frame = frame.withWatermark("__time", spark_interval(self.deployment.lateness(origin[1:])))
        latest = F.expr("max(unix_micros(__time)) AS latest")
        return frame.observe(f"water{number}_{self.barriers}", latest).filter("__id IS NOT NULL")

    def _read(self, name: str) -> DataFrame:
        """Return the rows of a source or log, or what is recalled: all branches see the same rows in a batch."""
        if name not in self.reads:
            self.reads[name] = read(self.session, self.deployment, self.graph.fragment, name, self.run, self.slots)
        return self.reads[name]

    def _own(self, operator: Operator, *, watermark: bool) -> DataFrame:
        """Return what an operator with a plan of its own makes of its branches."""
        inputs = [
            self._branch(stream, watermark=operator.stateful or watermark)
            for stream in self.network.inputs(operator.name)
        ]
        if operator.stateful:
            self.stateful.append(self.network.inputs(operator.name)[0].name)
            # Spark's joins take a row for late that is exactly as late as it may be: they get rows a little younger.
            clock = f"__time + {LEAST}" if operator.kind == "join" else "__time"
            inputs = [_tagged(frame, clock) for frame in inputs]
        if operator.kind == "python" and self.slots > 1 and not parts_rows(import_function(operator)):
            # What it makes of a row may depend on others: it gets all rows of a batch, as on one core.
            inputs = [frame.repartition(1) for frame in inputs]
        result = kinds.apply(operator, inputs, self.speed, needed=stateful_behind(self.network, operator.name))
        if operator.kind == "join":
            result = result.withColumn("__time", F.expr(f"__time - {LEAST}"))
        if operator.kind == "aggregate":
            drops = self.deployment.drops
            dropping = [stream.name for stream in self.network.streams if drops.drops(stream.name)]
            for way in drops_into(self.network, operator, dropping):
                result = streams.drop_windows(result, way, (operator.window or 0.0, operator.step), drops)
            # A window's result is due when its end and the lateness have passed: latency counts from there.
            due = f"unix_micros(window_end) + {round(self.deployment.lateness(operator.name) * 1e6)}"
            shown = [quoted(name) for name in kinds.columns(result)]
            result = result.selectExpr(*shown, "__id", f"greatest(__stimulus, {due}) AS __stimulus", "__time")
        return result

    def _branch(self, stream: Stream, *, watermark: bool) -> DataFrame:
        """Return the rows of one input of an operator with a plan of its own."""
        origin, steps = self.graph.origin(stream), self.graph.steps(stream)
        alone = self.graph.alone(origin)
        frame = self._frame(origin, watermark=watermark)
        if watermark and not alone:
            # Counted elsewhere, and without marks: plain steps make the smallest plan.
            for step in steps:
                way = self.network.inputs(step)[0]
                frame = kinds.apply(self.network.operators[step], [self._let_through(frame, way)])
            return self._let_through(frame, stream)
        readers = self.graph.readers(origin)
        done = passes.evaluate(self.deployment, frame, origin.lstrip("@"), steps, readers, self.speed)
        if alone:
            done = self._observed(done, readers)
        there, kept = done.tests(self.deployment, stream)
        rows = done.frame.filter(f"{there} AND {kept}")
        shown = done.place[stream.writer].columns.items()
        return rows.selectExpr(*(f"{column} AS {quoted(name)}" for name, column in shown), *ENVELOPE)

    def _let_through(self, frame: DataFrame, stream: Stream) -> DataFrame:
        """Return the rows that are meant for a stream and that it keeps."""
        before = [quoted(name) for name in frame.columns]
        frame, known = streams.with_knobs(frame, [stream], self.network, self.deployment.drops)
        frame = frame.filter(passes.all_of(*streams.passes(stream, self.network, self.deployment.drops, known)))
        return frame.selectExpr(*before) if known else frame

    def _observed(self, done: passes.Pass, counted: list[Stream]) -> passes.Pass:
        """Let Spark count rows of which none reaches the writer."""
        name = f"pass{len(self.observations)}"
        done, self.observations[name] = counting.observed(self.deployment, done, counted, name)
        return done


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, StructType | ArrayType | MapType)


def _tagged(frame: DataFrame, time: str) -> DataFrame:
    """Return a frame whose event time, as SQL, Spark's watermark holds for, wherever the watermark was taken.

    Its columns are new ones: of two branches of one source, which share columns, Spark would read that source twice for
    a join, each time up to another row.
    """
    others = [F.col(quoted(name)).alias(name) for name in frame.columns if name != "__time"]
    return frame.select(*others, F.expr(time).alias("__time", metadata=WATERMARKED))
