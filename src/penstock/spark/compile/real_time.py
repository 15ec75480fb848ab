"""Compiling a fragment for real-time mode: no writer, no batches; Spark itself sends each row to its topics.

What a query leaves is messages, each with the mark of its row (`penstock.spark.hop.rows`). A query that goes on is told
what the topics hold already, and writes the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import attrs
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import InputError
from penstock.latency.fragments import Fragment
from penstock.network import Source, Stream
from penstock.spark.compile import counting, kinds, passes
from penstock.spark.compile.compiler import Query
from penstock.spark.compile.deciding import knobs_of, shares_jvm
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.graph import Graph
from penstock.spark.compile.rows import content, read_rows
from penstock.spark.compile.sources import asked_here, read_source, topics_named
from penstock.spark.compile.sql import literal, message_options, quoted
from penstock.spark.connection import PREFIX
from penstock.spark.hop.rows import STIMULUS, Held
from penstock.spark.shipped import ENVELOPE, LANE, PLACE, POSITION
from penstock.spark.shipped.messages import HEADER, message
from penstock.spark.shipped.spec import Metrics, Origin, WriterSpec

PARTS = {
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "partition": "INT",
}
"""Parts of a message besides its topic, and their types: all ways have the same."""

_STIMULUS = f"struct('{STIMULUS}' AS key, CAST(CAST(__stimulus AS STRING) AS BINARY) AS value)"
"""The header with a row's stimulus time: how late rows are is known before they are at the end."""

_WORD = f"shiftright({POSITION}, 6)"
"""The number of the word of 64 positions that a row is in."""


@attrs.frozen
class Way:
    """Where rows of a query leave to.

    Attributes
    ----------
    name
        Of the sink, or of the operator whose rows they are.
    topic
        Of Kafka.
    label
        What the marks of its rows begin with.
    sink
        Whether it is the user's.
    """

    name: str
    topic: str
    label: str
    sink: bool


LARGE: Mapping[str, str] = {f"{PREFIX}max.request.size": str(32 << 20)}
"""Rows of any size pass between queries: by default Kafka's writer refuses those above a mebibyte."""


@attrs.frozen(eq=False)
class Messages:
    """What a query in real-time mode writes.

    Attributes
    ----------
    ways
        Where to.
    rows
        The messages, each with its lane, position and identity, and the number of its way.
    options
        Of Spark's Kafka writer.
    outside
        Sources whose topics the cluster's brokers know, by the topics that they name.
    """

    ways: tuple[Way, ...]
    rows: DataFrame
    options: Mapping[str, str]
    outside: Mapping[str, Source]

    def missing(self, there: Sequence[Mapping[int, Held]]) -> DataFrame:
        """Return the messages that are not there yet, by what the topic of each way holds."""
        tests = [f"WHEN _way = {number} THEN {_beyond(lanes)}" for number, lanes in enumerate(there) if lanes]
        rows = self.rows.filter(f"CASE {' '.join(tests)} ELSE true END") if tests else self.rows
        return rows.select("topic", "key", "value", "headers", "partition")


@attrs.frozen(eq=False)
class PromptQuery(Query):
    """A fragment compiled for real-time mode; ``live`` are its streams whose keep fractions follow a plan."""

    messages: Messages = attrs.field(kw_only=True)
    live: tuple[str, ...] = attrs.field(kw_only=True)


def compile_prompt(session: SparkSession, deployment: Deployment, fragment: Fragment, run: str) -> PromptQuery:
    """Compile one fragment into a query for real-time mode; ``run`` is the run's identity."""
    return _Compiler(session, deployment, fragment, run).query()


class _Compiler:
    """Builds one query; memory of what is built already."""

    def __init__(self, session: SparkSession, deployment: Deployment, fragment: Fragment, run: str) -> None:
        self.session, self.deployment, self.run = session, attrs.evolve(deployment, timed=True), run
        self.network = deployment.network
        self.graph = Graph(self.network, fragment, real_time=deployment.real_time)
        knobs = knobs_of(deployment, self.graph)
        self.live = () if knobs is None else knobs.limits
        if self.live and not shares_jvm(session):
            raise InputError(
                "its executors cannot be told keep fractions while rows pass in real-time mode",
                at=f"hosts.{fragment.host}",
                hint="give --keep, or set mode = 'micro-batch'",
            )
        self.speed = deployment.speeds.get(fragment.host, 1.0)
        self.ways: list[Way] = []
        self.outside: dict[str, Source] = {}
        self.counted: set[str] = set()
        self.observations: dict[str, Metrics] = {}

    def query(self) -> PromptQuery:
        """Return the compiled query."""
        graph, deployment = self.graph, self.deployment
        if not graph.leaving:
            raise InputError(
                "nothing reads its rows, and in real-time mode a query must pass them on",
                at=f"operators.{graph.fragment.name}",
                hint="give it a sink, or leave it out",
            )
        whole, *parts = map(self._leave, graph.leaving)
        for part in parts:
            whole = whole.unionByName(part)
        spec = WriterSpec(
            folder=deployment.place,
            query=graph.fragment.name,
            origins=tuple(Origin(origin[1:], marked=False, lateness=0) for origin in graph.outside),
            logs=(),
            sinks=(),
            passes=(),
            observations=self.observations,
            stateful=(),
            timed=False,
            knobs=None,
            host=graph.fragment.host,
        )
        messages = Messages(tuple(self.ways), whole, {**LARGE, **deployment.messages}, self.outside)
        return PromptQuery(graph.fragment, whole, spec, graph.logs_read, messages=messages, live=self.live)

    def _leave(self, origin: str) -> DataFrame:
        """Return the messages that become of an origin's rows."""
        graph = self.graph
        readers, logs = graph.readers(origin), graph.logs(origin)
        done = self._passed(origin, graph.members(origin), readers, logs)
        exits = [(stream.writer, passes.all_of(*done.tests(self.deployment, stream)), stream) for stream in readers]
        ways = [
            (self._sink(stream), place, test) for place, test, stream in exits if stream.reader in self.network.sinks
        ]
        ways += [(self._log(member), member, done.place[member].flag) for member in logs]
        frame, carried, found = done.frame, list(done.frame.columns), []
        for (way, parts), member, test in ways:
            found.append(f"__m{len(self.ways)}")
            bare = [f"{column} AS {quoted(name)}" for name, column in done.place[member].columns.items()]
            made = f"CASE WHEN {test} THEN {_message(len(self.ways), way, parts)} END AS {found[-1]}"
            frame = frame.selectExpr(*carried, *bare).selectExpr(*carried, made)
            carried.append(found[-1])
            self.ways.append(way)
        if len(found) == 1:
            frame = frame.filter(f"{found[0]} IS NOT NULL").selectExpr(f"{found[0]}.*", "__id", *PLACE)
        else:
            frame = frame.selectExpr(f"inline(filter(array({', '.join(found)}), m -> m IS NOT NULL))", "__id", *PLACE)
        return frame

    def _passed(
        self, origin: str, steps: Sequence[str], streams: Sequence[Stream], logs: Sequence[str] = ()
    ) -> passes.Pass:
        """Return a pass over an origin's rows, which counts what was not counted before."""
        done = passes.evaluate(self.deployment, self._frame(origin), origin.lstrip("@"), steps, streams, self.speed)
        fresh = [stream for stream in streams if stream.name not in self.counted]
        self.counted |= {stream.name for stream in fresh}
        if not fresh and not logs:
            return done
        name = f"pass{len(self.observations)}"
        done, self.observations[name] = counting.observed(self.deployment, done, fresh, name, logs)
        return done

    def _frame(self, origin: str) -> DataFrame:
        """Return the rows of an origin, with envelope and place."""
        name = origin.lstrip("@")
        if origin not in self.graph.outside:
            operator = self.network.operators[name]
            return kinds.apply(operator, [self._branch(stream) for stream in self.network.inputs(name)])
        if name in self.network.operators:
            return read_rows(self.session, self.deployment, name, self.run, placed=True)
        source = self.network.sources[name]
        if asked_here(source):
            self.outside |= dict.fromkeys(topics_named(source), source)
        return read_source(self.session, source, self.deployment.messages, placed=True)

    def _branch(self, stream: Stream) -> DataFrame:
        """Return the rows of one input of a union."""
        origin, steps = self.graph.origin(stream), self.graph.steps(stream)
        ways = [*(self.network.inputs(step)[0] for step in steps), stream]
        done = self._passed(origin, steps, ways)
        shown = done.place[stream.writer].columns.items()
        rows = done.frame.filter(passes.all_of(*done.tests(self.deployment, stream)))
        return rows.selectExpr(*(f"{column} AS {quoted(name)}" for name, column in shown), *ENVELOPE, *PLACE)

    def _sink(self, stream: Stream) -> tuple[Way, dict[str, str]]:
        sink = self.network.sinks[stream.reader]
        names = tuple(self.deployment.schemas[stream.writer].fieldNames())
        parts = dict(map(_named, message(message_options(sink, names), names)))
        label = f"{self.run}-{sink.name}"
        headers = f"array(struct('{HEADER}' AS key, {_mark(label)} AS value), {_STIMULUS})"
        given = parts.get("headers")
        parts["headers"] = headers if given is None else f"concat(coalesce({given}, array()), {headers})"
        return Way(sink.name, sink.options["topic"], label, sink=True), parts

    def _log(self, writer: str) -> tuple[Way, dict[str, str]]:
        topics = self.deployment.row_topics(self.run)
        label = f"{self.run}-{writer}"
        parts = {"key": _mark(label), "value": content(writer, self.deployment.schemas[writer])}
        parts["headers"] = f"array({_STIMULUS})"
        parts["partition"] = f"CAST(pmod({LANE}, {topics.partitions}) AS INT)"
        return Way(writer, topics.name(writer), label, sink=False), parts


def _mark(label: str) -> str:
    """Return SQL for the mark of a row."""
    return f"CAST(concat({literal(label + ':')}, {LANE}, ':', {POSITION}, ':', __id) AS BINARY)"


def _message(number: int, way: Way, parts: Mapping[str, str]) -> str:
    """Return SQL for a message of the way of that number; all have the same parts."""
    shown = [f"CAST({parts.get(name, 'NULL')} AS {kind}) AS {name}" for name, kind in PARTS.items()]
    return f"struct({literal(way.topic)} AS topic, {', '.join(shown)}, {number} AS _way)"


def _named(part: str) -> tuple[str, str]:
    """Return name and SQL of a part of a sink's messages."""
    text, _, name = part.rpartition(" AS ")
    return (name, text) if text else (part, part)


def _beyond(lanes: Mapping[int, Held]) -> str:
    """Return SQL for the rows that a topic does not hold yet."""

    def bound(ends: Mapping[int, int]) -> str:
        pairs = ", ".join(f"CAST('{lane}' AS BIGINT), {end}L" for lane, end in sorted(ends.items()))
        return f"coalesce(element_at(map({pairs}), {LANE}), -1L)"

    test = f"{POSITION} > {bound({lane: held.high for lane, held in lanes.items()})}"
    if all(held.low == held.high for held in lanes.values()):
        return f"({test})"
    low = {lane: held.low for lane, held in lanes.items()}
    return f"({test} OR ({POSITION} > {bound(low)} AND NOT {_known(lanes)}))"


def _known(lanes: Mapping[int, Held]) -> str:
    """Return SQL for the rows that are among those known to be there.

    The words of all lanes are one hash table: however many there are, a row looks at few. It is text, which Spark reads
    once, as it plans; a list of literals it would take apart one by one.
    """
    words = [(lane, word, bits) for lane, held in lanes.items() for word, bits in held.known.items()]
    table: list[list[tuple[int, int, int]]] = [[] for _ in range(len(words) + 1)]
    for lane, word, bits in words:
        # Spark's whole numbers have a sign.
        table[(lane ^ word) % len(table)].append((lane, word, bits - (bits >> 63 << 64)))
    text = literal(json.dumps(table, separators=(",", ":")))
    mine = f"from_json({text}, 'ARRAY<ARRAY<ARRAY<BIGINT>>>')[CAST(pmod({LANE} ^ {_WORD}, {len(table)}) AS INT)]"
    return f"exists({mine}, w -> w[0] = {LANE} AND w[1] = {_WORD} AND bit_get(w[2], CAST({POSITION} & 63 AS INT)) = 1)"
