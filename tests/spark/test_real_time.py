"""Real-time mode: each row by itself from topic to topic, nothing lost or twice, and the same answers as a batch."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hosts_kit import within
from hypothesis import given
from hypothesis import strategies as st
from kafka_kit import client, forget, make_topic, put, settings, take, values
from scripted import Scripted

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.errors import EngineError, InputError
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import Deployment, Way, check_network, compile_prompt
from penstock.spark.compile.drops import limit_of_row
from penstock.spark.compile.sql import literal
from penstock.spark.connection import Connection
from penstock.spark.hop.rows import Held, Row, RowTopic, held, row_of
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine, SparkEngine, noted_sessions
from penstock.spark.run import between as between_module
from penstock.spark.run import follow as follow_module
from penstock.spark.run import moments as moments_module
from penstock.spark.run import prompt as prompt_module
from penstock.spark.run.arriving import Arriving
from penstock.spark.run.between import check_slots
from penstock.spark.run.follow import Answers, Follower
from penstock.spark.run.meter import Known, Meter, metered, repeated_of
from penstock.spark.run.moments import MOMENTS, Moments
from penstock.spark.run.outcome import read_batch, read_latency
from penstock.spark.run.prompt import PromptRunner, end_left, publish, recount_prompt
from penstock.spark.shipped.place import Place, place_of
from penstock.spark.shipped.told import manifest_of, note_of, report_of
from penstock.spark.shipped.turn import BUCKETS, EVER, RECENT, knob, listed
from penstock.steering import Observation, Plan, Recover

RATE, LATENESS, WINDOW = 50, 1, 2


def network(clicks: str, out: str) -> Network:
    """Return a network whose filters and maps pass from topic to topic, and whose windows come from one of them."""
    source = {
        "format": "kafka", "schema": "n int, at timestamp", "time": "at", "lateness": f"{LATENESS} seconds",
        "options": {"subscribe": clicks},
    }  # fmt: skip
    operators = {
        "odd": {"kind": "filter", "input": "clicks", "where": "n % 2 = 1"},
        "third": {"kind": "filter", "input": "clicks", "where": "n % 3 = 0"},
        "ten": {"kind": "map", "input": "odd", "select": "n, n * 10 AS m, at"},
        "six": {"kind": "map", "input": "third", "select": "n, n * 6 AS m, at"},
        "both": {"kind": "union", "inputs": ["ten", "six"]},
        "far": {"kind": "filter", "input": "both", "where": "m >= 0"},
        "totals": {"kind": "aggregate", "input": "ten", "window": WINDOW, "select": "count(*) AS count, sum(n) AS sum"},
    }
    topic = {"input": "far", "format": "kafka", "options": {"topic": out, "key": "CAST(m AS STRING)"}}
    sinks = {"out": topic, "table": {"input": "totals"}}
    return parse_network({"name": "clicks", "sources": {"clicks": source}, "operators": operators, "sinks": sinks})


PLACEMENT = {
    "odd": "h1", "third": "h1", "ten": "h1", "six": "h1", "both": "h2", "far": "h2", "totals": "h2",
}  # fmt: skip


class Feeder(threading.Thread):
    """Puts numbered clicks into both partitions of a topic until it is told to end."""

    def __init__(self, broker: Any, topic: str) -> None:
        super().__init__(daemon=True)
        self.topic, self.count, self.ended = topic, 0, threading.Event()
        self._producer = Producer(client(broker, **{"linger.ms": 0}))

    def run(self) -> None:
        """Feed."""
        while not self.ended.wait(1 / RATE):
            at = f"2026-03-01T12:{self.count // (60 * RATE):02d}:{self.count / RATE % 60:06.3f}Z"
            click = json.dumps({"n": self.count, "at": at}).encode()
            self._producer.produce(self.topic, click, partition=self.count % 2)
            self._producer.poll(0)
            self.count += 1

    def end(self) -> int:
        """Stop when the broker has everything; return how many there are."""
        self.ended.set()
        self.join()
        assert self._producer.flush(120) == 0
        return self.count


@given(st.data())
def test_what_a_topic_holds_tells_exactly_what_is_missing(data: st.DataObject) -> None:
    """Whatever the end of each partition has lost, the rows that are missing are those that are written again."""
    partitions = data.draw(st.integers(1, 3))
    lanes = data.draw(st.lists(st.lists(st.integers(0, partitions - 1), max_size=12), min_size=1, max_size=3))
    first = data.draw(st.sampled_from([0, 60, 1 << 40]))
    queues: list[list[Row]] = [[] for _ in range(partitions)]
    for lane, places in enumerate(lanes):
        for position, partition in enumerate(places, first):
            queues[partition].append(Row(partition, 0, lane, position, 0, 0))
    there = [queue[: data.draw(st.integers(0, len(queue)))] for queue in queues]
    # Within a partition only the order inside a lane is sure.
    found = held(iter([row for queue in there for row in queue]), partitions)
    for row in (row for queue in queues for row in queue):
        assert lacks(found, row) == (row not in there[row.partition])


@given(st.sets(st.integers(0, 200)), st.integers(1, 3))
def test_what_a_broker_has_refused_is_missing(positions: set[int], partitions: int) -> None:
    """Where earlier rows than the last one of a partition may be missing, each is known by itself."""
    found = held((Row(at % partitions, 0, 7, at, 0, 0) for at in sorted(positions)), partitions, exactly=True)
    assert {at for at in range(202) if not lacks(found, Row(0, 0, 7, at, 0, 0))} == positions


def lacks(found: dict[int, Held], row: Row) -> bool:
    """Whether a row is to be written again, by what a topic holds."""
    known = found.get(row.lane)
    if known is None or row.position > known.high:
        return True
    return row.position > known.low and not known.known.get(row.position >> 6, 0) >> (row.position & 63) & 1


class Topic:
    """Stands in for a topic: its ends, and its rows, one a partition at each offset."""

    def __init__(self, **ends: int) -> None:
        self.end = {int(number[1:]): end for number, end in ends.items()}

    def ends(self) -> dict[int, int]:
        """Return the offset behind the last message of each partition."""
        return self.end

    def rows(self, begin: dict[int, int], end: dict[int, int]) -> list[Row]:
        """Return the rows between offsets."""
        return [Row(number, at, number, at, 5, 5) for number in end for at in range(begin[number], end[number])]


def test_no_message_leaves_a_topic_again() -> None:
    """Of a topic that was made again all messages have come, as of partitions that were added: their number grows."""
    topic: Any = Topic(p0=10)
    arriving = Arriving([topic], 60.0)
    seen = []
    for ends in ({0: 10}, {0: 12, 1: 3}, {0: 4}, {0: 5}):
        topic.end = ends
        arriving.look()
        seen.append(arriving.last)
    assert seen == [10, 15, 19, 20]


def test_marks_of_transactions_are_no_messages() -> None:
    """Where half of the offsets are marks only the other half counts; a batch that passed over a gap says nothing."""
    topic: Any = Topic(p0=0)
    arriving = Arriving([topic], 60.0)
    arriving.look()
    topic.end = {0: 1000}
    arriving.look()
    assert arriving.since(0.0) == 1000
    for rows, offsets in ((50, 100), (1, 1000), (0, 0), (49, 100), (51, 100)):
        arriving.read(rows, offsets)
    assert arriving.since(0.0) == pytest.approx(495, abs=5)


def test_a_plan_follows_messages_and_no_marks(tmp_path: Path) -> None:
    """What follows the rates of topics learns from each batch that has ended how many of the offsets were rows."""
    folder, topic, asked = place_of(str(tmp_path)), Topic(p0=0), []
    network = parse_network(
        {
            "name": "marks",
            "sources": {"s": {"format": "kafka", "schema": "n int", "options": {"subscribe": "log"}}},
            "operators": {"q": {"kind": "map", "input": "s"}},
            "sinks": {"out": {"input": "q", "format": "kafka", "options": {"topic": "out"}}},
        }
    )
    fragment = SimpleNamespace(name="q", operators=("q",))
    deployment: Any = SimpleNamespace(
        place=folder, network=network, fragments=[fragment], prompt=lambda _: True, live=frozenset(), client={}
    )
    checkpoint, topic.topic = folder / "checkpoints" / "q", "log"
    answers = Answers(keep=lambda rates, _: asked.append(dict(rates)) or {}, period=0.4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow_module, "topics_of", lambda *_: [topic])
        follower = Follower(deployment, {"q": checkpoint}, answers)
    clock = [100.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.spark.run.follow.time", SimpleNamespace(time=lambda: clock[0]))
        patch.setattr("penstock.spark.run.arriving.time", SimpleNamespace(time=lambda: clock[0]))
        for look in range(9):
            clock[0], topic.end = 100.0 + 0.2 * look, {0: 200 * look}
            if look % 3 == 2:
                number = look // 3
                (checkpoint / "offsets" / str(number)).replace(f'v1\n{{}}\n{{"log": {{"0": {200 * look}}}}}'.encode())
                (checkpoint / "commits" / str(number)).replace(b"v1\n{}")
                for file in (manifest_of, report_of):
                    file(folder, "q", number).replace(b'{"counts": {"s->q": [300, 0]}}')
            follower.look()
    rates = [each["s"] for each in asked]
    # Where the first batch began is not known.
    assert rates == pytest.approx([1000.0] * (len(rates) - 4) + [500.0] * 4)


def test_rows_of_added_partitions_are_measured(tmp_path: Path) -> None:
    """A row in a partition that the sink's topic did not have, or of a topic that was made again, is noted."""
    topic: Any = Topic(p0=5)
    meter = Meter.__new__(Meter)
    meter._folder, meter._sink, meter._place = Place(str(tmp_path)), "out", Place(str(tmp_path / "meter"))
    meter._topic = topic
    meter.known = Known(0, {0: 5})
    for ends in ({0: 5, 1: 20}, {0: 3}):
        topic.end = ends
        meter.look()
    notes = [note_of(Place(str(tmp_path)), metered("out"), number, "out") for number in (0, 1)]
    assert [len(read_latency(note)[0]) for note in notes] == [20, 3]


@pytest.mark.parametrize("died", ["in its first commit", "before it told", "later"])
def test_a_query_begins_in_empty_folders_unless_a_batch_is_noted(tmp_path: Path, died: str) -> None:
    """What a host that died leaves of commits without a noted batch is removed: Spark refuses to begin beside it."""
    checkpoint = Place(str(tmp_path)) / "checkpoints" / "q"
    for name in ("metadata", "sources/0/0", "commits/.0.5016.tmp", "commits/..0.5016.tmp.crc", "state/0/_metadata/v1"):
        (checkpoint / name).replace(b"{}")
    if died != "in its first commit":
        for name in ("offsets/0", "offsets/.0.crc", "commits/0", "commits/.0.crc"):
            (checkpoint / name).replace(b"v1")
    if died == "later":
        manifest_of(Place(str(tmp_path)), "q", 0).replace(b"{}")
    query = written(tmp_path)
    recount_prompt(query)
    left = [name for name in ("commits", "state") if (checkpoint / name).exists()]
    assert left == (["commits", "state"] if died == "later" else [])
    assert (checkpoint / "offsets").numbers() == ([0] if died == "later" else [])
    assert (checkpoint / "sources" / "0" / "0").exists()


def written(folder: Path) -> Any:
    """Return a query in real-time mode as far as it is looked after by files."""
    place = Place(str(folder))
    spec = SimpleNamespace(folder=place, query="q", checkpoint=place / "checkpoints" / "q", host="h1")
    spec.observations, spec.origins, spec.stateful = {"pass0": {"s->q": (0, 1)}}, (), ()
    return SimpleNamespace(name="q", spec=spec)


def end_batches(query: Any, *numbers: int) -> None:
    """Leave what Spark leaves of batches, one a minute."""
    for number in numbers:
        line = json.dumps({"batchTimestampMs": 60_000 * number})
        (query.spec.checkpoint / "offsets" / str(number)).replace(f"v1\n{line}".encode())
        (query.spec.checkpoint / "commits" / str(number)).replace(b"v1\n{}")


def test_a_query_that_went_on_alone_for_long_keeps_its_place(tmp_path: Path) -> None:
    """Where nobody has counted more batches than Spark keeps it goes on from the oldest, whose counts are not known."""
    query = written(tmp_path)
    end_batches(query, *range(150, 251))
    manifest_of(query.spec.folder, "q", 50).replace(b"{}")
    recount_prompt(query)
    # Spark asks for the batch before the last as well.
    assert (query.spec.checkpoint / "offsets").numbers() == (query.spec.checkpoint / "commits").numbers() == [150, 151]
    batch = read_batch(query.spec.folder, "q", 151)
    assert (batch.known, batch.span, batch.start) == (False, None, 9060.0)
    end_batches(query, 152, 153)
    recount_prompt(query)
    assert (query.spec.checkpoint / "offsets").numbers() == [150, 151]


def test_what_a_query_that_went_on_alone_has_counted_is_kept(tmp_path: Path) -> None:
    """A query that outlived its penstock, on a host elsewhere or a kept one, tells of its batches and is ended."""
    query, ended = written(tmp_path), []
    end_batches(query, *range(3))

    def told(number: int) -> Any:
        return SimpleNamespace(
            batchId=number, timestamp="1970-01-01T00:00:09.000Z", durationMs={"addBatch": 1, "triggerExecution": 2000},
            observedMetrics={"pass0": {"arrived": 10 + number, "dropped": number}}, numInputRows=9, stateOperators=[],
            eventTime={}, sources=[],
        )  # fmt: skip

    def run(name: str) -> Any:
        return SimpleNamespace(name=name, recentProgress=[*map(told, range(1, 4))], stop=lambda: ended.append(name))

    session = SimpleNamespace(streams=SimpleNamespace(active=[run("q"), run("others")]))
    hosts: Any = {
        name: SimpleNamespace(pid=pid, session=lambda known: session if known == "s1" else None)
        for name, pid in (("far", None), ("kept", 7))
    }
    assert end_left(hosts, {"gone": "s0"}, ["q"]) == {}
    assert [*end_left(hosts, {"far": "s1"}, ["q"])] == [*end_left(hosts, {"kept": "s1"}, ["q"])] == ["q"]
    assert ended == ["q", "q"]
    manifest_of(query.spec.folder, "q", 0).replace(b"{}")
    recount_prompt(query, end_left(hosts, {"kept": "s1"}, ["q"])["q"])
    assert (query.spec.checkpoint / "offsets").numbers() == [0, 1, 2]
    assert read_batch(query.spec.folder, "q", 2).counts == {"s->q": (12, 2)}
    assert not manifest_of(query.spec.folder, "q", 3).exists()


def test_a_run_that_ends_with_a_query_that_has_failed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not finished when a run ends is an error; what the query has sent is looked at row by row after it."""
    monkeypatch.setattr(prompt_module, "PATIENCE", 0.1)
    monkeypatch.setattr(prompt_module, "recount_prompt", lambda _: None)
    host: Any = SimpleNamespace(alive=lambda: True)

    def runner(*, error: str | None, active: bool) -> PromptRunner:
        found = PromptRunner.__new__(PromptRunner)
        handle = SimpleNamespace(exception=lambda: error, isActive=active, stop=lambda: None)
        spec = SimpleNamespace(folder=Place(str(tmp_path)), query="q", generation=1)
        found.unit, found.query = SimpleNamespace(name="q"), SimpleNamespace(spec=spec, name="q")
        found.handle, found._then = handle, None
        monkeypatch.setattr(found, "launch", lambda: None)
        monkeypatch.setattr(found, "look", lambda: None)
        return found

    runner(error=None, active=False).finish(host)
    with pytest.raises(EngineError, match="was not finished: it lasts too long"):
        runner(error=None, active=True).finish(host)
    assert not (tmp_path / "unsure").exists()
    with pytest.raises(EngineError, match="query 'q' failed"):
        runner(error="refused", active=False).finish(host)
    assert (tmp_path / "unsure" / "q").exists()


def test_a_gap_with_a_large_backlog_is_passed_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ordinary batch over it has no deadline, since one that is cut off begins anew; then rows pass one by one."""
    query, triggers, gaps = written(tmp_path), [], [True, False]
    end_batches(query, 0)
    handle = SimpleNamespace(isActive=True, exception=lambda: None, stop=lambda: None, lastProgress=None, status={})

    class Writer:
        """Stands in for Spark's writer of streams."""

        def __getattr__(self, _: str) -> Any:
            return lambda *_, **__: self

        def trigger(self, **given: Any) -> Writer:
            triggers.extend(given)
            return self

        def start(self) -> Any:
            handle.isActive = True
            return handle

    conf = SimpleNamespace(set=lambda *_: None, unset=lambda *_: None)
    query.messages = SimpleNamespace(missing=lambda _: SimpleNamespace(writeStream=Writer()), options={}, outside={})
    query.frame = SimpleNamespace(sparkSession=SimpleNamespace(conf=conf))
    host: Any = SimpleNamespace(name="h1", cpu_seconds=lambda: None, alive=lambda: True)
    monkeypatch.setattr(prompt_module, "PATIENCE", 0.0)
    monkeypatch.setattr(prompt_module, "AWAY", 0.0)
    runner = PromptRunner(SimpleNamespace(name="q"), query, {}, host, 60.0)  # type: ignore[arg-type]
    monkeypatch.setattr(runner, "_gone", lambda: gaps.pop(0))
    monkeypatch.setattr(runner, "there", list)
    runner.launch(1.0)
    assert not runner.ready(0)
    assert triggers == ["availableNow"]
    handle.isActive = False
    end_batches(query, 1)
    handle.status = {"message": "Initializing"}
    assert not runner.ready(0)
    assert not runner.ready(0)
    assert triggers == ["availableNow", "realTime"]
    handle.status = {"message": "Processing new data"}
    assert runner.ready(0)


def test_how_busy_a_host_elsewhere_is_is_not_known(tmp_path: Path) -> None:
    """A batch of a host whose processes cannot be seen tells no busy share, whatever came in."""
    host: Any = SimpleNamespace(name="far", cpu_seconds=lambda: None)
    spec = SimpleNamespace(folder=Place(str(tmp_path)), host="far")
    query: Any = SimpleNamespace(name="q", spec=spec)
    runner = PromptRunner(SimpleNamespace(name="q"), query, {}, host, 60.0)  # type: ignore[arg-type]
    report = {"start": 100.0, "duration": 5.0, "rows": 0, "counts": {}, "late": {}}
    report_of(spec.folder, "q", 0).publish(json.dumps(report).encode())
    publish(query, 0, runner._busy(), 90.0)
    batch = read_batch(spec.folder, "q", 0)
    assert (batch.busy, batch.span) == (None, None)


def test_hosts_with_too_few_slots_are_refused() -> None:
    """A query in real-time mode holds a slot for each partition that it reads, and one must be left for the others."""
    made = network("clicks", "out")
    kafka = Connection.of(SparkSettings(kafka={"bootstrap": "127.0.0.1:1", "partitions": "2"}))
    deployment = Deployment(made, PLACEMENT, "run", kafka=kafka, real_time=frozenset(made.operators) - {"totals"})
    check_slots(deployment, {"h2": 5})
    with pytest.raises(InputError, match=r"hosts.h2: has 4 slots, .* hold 5"):
        check_slots(deployment, {"h2": 4})
    # The ways from the source into the union read it apart, and so does what leaves of one of them for the windows.
    mine = attrs.evolve(deployment, placement={**dict.fromkeys(PLACEMENT, "h1"), "totals": "h2"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(between_module, "topics_of", lambda *_: [nullcontext(SimpleNamespace(partitions=20))])
        check_slots(mine, {"h1": 60})
        with pytest.raises(InputError, match=r"hosts.h1: has 59 slots, .* hold 60"):
            check_slots(mine, {"h1": 59})
    check_slots(attrs.evolve(deployment, real_time=frozenset()), {"h2": 1})


def test_real_time_mode_without_a_broker_is_refused() -> None:
    """It is said before anything starts, with the key that is missing."""
    with pytest.raises(InputError, match=r"spark.kafka: real-time mode needs a broker"):
        check_network(network("clicks", "out"), SparkSettings(mode="real-time"))


def test_a_query_that_passes_nothing_on_is_refused() -> None:
    """In real-time mode rows leave one by one: a query whose rows nobody reads is told of by its operator."""
    operators = {"all": {"kind": "map", "input": "clicks"}, "idle": {"kind": "map", "input": "clicks"}}
    sources = {"clicks": {"format": "kafka", "schema": "n int", "options": {"subscribe": "clicks"}}}
    sinks = {"out": {"input": "all", "format": "kafka", "options": {"topic": "out"}}}
    made = parse_network({"name": "n", "sources": sources, "operators": operators, "sinks": sinks})
    deployment = Deployment(made, {"all": "h1", "idle": "h2"}, "run", real_time=frozenset(made.operators))
    session: Any = None
    with pytest.raises(InputError, match=r"operators\.idle: nothing reads its rows"):
        compile_prompt(session, deployment, deployment.fragments[1], "run")


NETWORK_FILE = """
name = "n"
[sources.clicks]
format = "kafka"
schema = "n int"
options = { subscribe = "clicks" }
[operators.all]
kind = "map"
input = "clicks"
cost = 0.001
[sinks.out]
input = "all"
format = "kafka"
options = { topic = "out" }
"""


def test_statistics_of_a_run_in_two_modes_are_refused_before_a_host_starts(penstock: Any, tmp_path: Path) -> None:
    """Batches teach by their sizes and single rows by their queues: where a run has both, a query is named."""
    timed = NETWORK_FILE.replace('"n int"', '"n int, at timestamp"\ntime = "at"')
    timed = timed.replace('all"\nformat', 'sums"\nformat')
    sums = '[operators.sums]\nkind = "aggregate"\ninput = "all"\nwindow = 1\nselect = "sum(n) AS n"\ncost = 0.001\n'
    (tmp_path / "n.toml").write_text(timed + sums)
    (tmp_path / "c.toml").write_text('[hosts.h1]\n[spark]\nmode = "real-time"\nkafka = { bootstrap = "127.0.0.1:1" }\n')
    given = ["run", tmp_path / "n.toml", "--cluster", tmp_path / "c.toml", "--placement", "all=h1,sums=h1"]
    done = penstock(*given, "--learn", "s.json", "--for", "5", "--directory", tmp_path / "run")
    assert done.code == 2
    assert "--learn: learns from runs in one mode, and here query 'sums' on h1 runs in micro-batches" in done.err


@pytest.mark.spark
@pytest.mark.kafka
def test_rows_of_a_sink_are_counted_once_and_timed_one_by_one(broker: Any, tmp_path: Path) -> None:
    """Messages of others do not count, a row that comes again counts as repeated, also in the next run."""
    topic = make_topic(broker, "out", 2)
    put(broker, topic, ["someone else's"])

    def send(first: int, last: int, label: str = "run-out") -> None:
        producer = Producer(client(broker))
        for position in range(first, last):
            mark = f"{label}:{7 + position % 2}:{position}:{position}".encode()
            headers = [("penstock", mark), ("penstock-stimulus", str(1_000_000 * position).encode())]
            producer.produce(topic, b"{}", partition=position % 2, headers=headers, timestamp=5_000 + position)
        assert producer.flush(30) == 0

    folder, way = Place(str(tmp_path)), Way("out", topic, "run-out", sink=True)
    meter = Meter(folder, client(broker), way)
    send(0, 10)
    send(0, 3, "other-out")
    meter.end()
    assert repeated_of(folder, "out") == 0
    meter = Meter(folder, client(broker), way)
    send(6, 14)
    meter.end()
    assert repeated_of(folder, "out") == 4
    notes = folder / "latency" / "out"
    found = sorted(pair for name in notes.names() for pair in zip(*map(list, read_latency(notes / name)), strict=True))
    assert found == [(5 + position / 1000, position) for position in range(14)]
    with RowTopic(client(broker), topic, "run-out") as rows:
        assert len([*rows.rows({0: 0, 1: 0})]) == 18


@pytest.fixture(scope="module")
def prompt(broker: Any, scripts: Any) -> Iterator[Cluster]:
    """Two hosts in real-time mode, not started yet."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("KAFKA_USER", "KAFKA_PASSWORD"):
            patch.setenv(name, broker.known[name])
        jars = (scripts.connector(),)
        kafka = settings(broker, partitions="2")
        spark = SparkSettings(mode="real-time", trigger=0.3, checkpoint=5.0, kafka=kafka, jars=jars)
        yield Cluster.of([Host(name="h1"), Host(name="h2")], spark=spark)


@pytest.fixture
def hosts(prompt: Cluster) -> Any:
    """Start two embedded hosts, as often as asked."""
    return lambda: (prompt, start_hosts(prompt))


@pytest.fixture(scope="module")
def alone(prompt: Cluster) -> Iterator[Engine]:
    """One embedded host, for tests that leave it as it was."""
    cluster = Cluster.of([prompt.hosts["h1"]], spark=prompt.spark)
    with start_hosts(cluster) as running:
        yield Engine(cluster, running)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_a_run_that_ends_before_its_first_checkpoint_goes_on(alone: Engine, broker: Any, tmp_path: Path) -> None:
    """The ordinary batch with which it ends leaves a checkpoint that real-time mode takes; each row comes once."""
    rows, out = make_topic(broker, "rows", 2), make_topic(broker, "out", 2)
    source = {"format": "kafka", "schema": "n int", "options": {"subscribe": rows}}
    made = parse_network(
        {
            "name": "short",
            "sources": {"rows": source},
            "operators": {"odd": {"kind": "filter", "input": "rows", "where": "n % 2 = 1"}},
            "sinks": {"out": {"input": "odd", "format": "kafka", "options": {"topic": out}}},
        }
    )
    spark = attrs.evolve(alone.cluster.spark, checkpoint=600.0)
    engine = Engine(attrs.evolve(alone.cluster, spark=spark), alone.hosts)
    for number in range(3):
        put(broker, rows, [json.dumps({"n": n}) for n in range(20 * number, 20 * (number + 1))])
        deployment = engine.prepare(made, {"odd": "h1"}, tmp_path / "run")
        assert deployment.real_time == {"odd"}
        outcome = engine.run(deployment, seconds=3)
        assert outcome.balanced(made)
        assert outcome.streams(made)["rows->odd"]["arrived"] == 20 * (number + 1)
    assert sorted(row["n"] for row in values(broker, out)) == list(range(1, 60, 2))


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_messages_that_are_gone_are_passed_over_where_they_may_be(alone: Engine, broker: Any, tmp_path: Path) -> None:
    """Where messages were removed while a run was stopped it says which, and goes on where the source allows for it.

    What its topics are called does not matter.
    """
    rows, out, admin = "log", make_topic(broker, "out"), AdminClient(client(broker))
    for future in admin.create_topics([NewTopic(rows, 1, 1)]).values():
        future.result(30)

    def made(**options: str) -> Network:
        return parse_network(
            {
                "name": "gone",
                "sources": {"rows": {"format": "kafka", "schema": "n int", "options": {"subscribe": rows, **options}}},
                "operators": {"odd": {"kind": "filter", "input": "rows", "where": "n % 2 = 1"}},
                "sinks": {"out": {"input": "odd", "format": "kafka", "options": {"topic": out}}},
            }
        )

    def run(network: Network, gone: int = 0) -> dict[str, Any]:
        outcome = alone.run(alone.prepare(network, {"odd": "h1"}, tmp_path / "run"), seconds=3)
        assert outcome.balanced(network)
        assert outcome.gone == ({rows: gone} if gone else {})
        return outcome.streams(network)["rows->odd"]

    put(broker, rows, [{"n": n} for n in range(20)])
    run(made())
    put(broker, rows, [{"n": n} for n in range(20, 40)])
    forget(broker, rows, 30)
    with pytest.raises(InputError, match="messages 20 to 29 of partition 0 of the topic 'log' are gone"):
        run(made())
    assert run(made(failOnDataLoss="false"), gone=10)["arrived"] == 30
    assert sorted(row["n"] for row in values(broker, out)) == [*range(1, 20, 2), *range(31, 40, 2)]


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("live", [False, True], ids=["fixed", "live"])
def test_two_hops_answer_like_a_batch_although_a_host_is_killed(
    hosts: Any, broker: Any, tmp_path: Path, live: bool
) -> None:
    """Rows that passed before a kill do not come again, those that did not do, and drops are the same ones.

    Also where what is kept changes while rows pass.
    """
    clicks, out = make_topic(broker, "clicks", 2), make_topic(broker, "out", 2)
    made = network(clicks, out)
    drops: dict[str, Any] = {"live": True} if live else {"keep": {"both->far": 0.5}}
    script = [
        (at, {"both->far": 0.2 + at / 3 % 3 / 4, "ten->totals": 0.5, "clicks->odd": 0.9}) for at in range(0, 1200, 3)
    ]
    shedder: Any = Scripted([(0.0, {}), *script[1:]], "clicks") if live else None
    feeder = Feeder(broker, clicks)
    feeder.start()
    cluster, started = hosts()
    with started as running:
        engine = Engine(cluster, running)
        deployment = engine.prepare(made, PLACEMENT, tmp_path / "run", **drops)
        assert deployment.real_time == frozenset(made.operators) - {"totals"}

        def kill() -> None:
            # Spark has noted something as done, and more has come since.
            commits = tmp_path / "run" / "checkpoints" / "odd" / "commits" / "0"
            if within(900, commits.exists) and within(60, lambda: len(take(broker, out)) > 3 * RATE):
                os.kill(running["h1"].pid, signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        with pytest.raises(EngineError, match="h1"):
            engine.run(deployment, seconds=1200, shedder=shedder)
        killer.join()
    before = take(broker, out)
    count = feeder.end()
    cluster, started = hosts()
    with started as running:
        engine = Engine(cluster, running)
        deployment = engine.prepare(made, PLACEMENT, tmp_path / "run", **drops)
        outcome = engine.run(deployment, seconds=10, shedder=shedder)
        moments = json.loads((tmp_path / "run" / MOMENTS).read_text())["both->far"] if live else [(EVER, BUCKETS // 2)]
        want = oracle(engine, clicks, moments)
    found = values(broker, out)
    assert sorted((row["n"], row["m"]) for row in found) == want
    assert 3 * RATE < len(before) < len(found)
    assert repeated_of(Place(str(tmp_path / "run")), "out") == 0
    assert outcome.balanced(made)
    streams = outcome.streams(made)
    assert streams["clicks->odd"]["arrived"] == count
    assert streams["both->far"]["delivered"] == len(found) == len(outcome.latency("out"))
    assert streams["both->far"]["dropped"] > 0
    # It leads to windows, which are kept or dropped whole: rows that come one by one cannot wait for that.
    assert outcome.refused == ({"clicks->odd"} if live else set())
    assert len(moments) > 4 * live
    sums = {}
    for number in range(1, count, 2):
        rows, total = sums.get(number // RATE // WINDOW, (0, 0))
        sums[number // RATE // WINDOW] = rows + 1, total + number
    closed = [
        row for part in (tmp_path / "run/sinks/table").glob("*.parquet") for row in pq.read_table(part).to_pylist()
    ]
    windows = {row["window_start"].minute * 30 + row["window_start"].second // WINDOW: row for row in closed}
    assert len(closed) == len(windows) > 0
    assert all((row["count"], row["sum"]) == sums[number] for number, row in windows.items())


@pytest.mark.spark
def test_a_host_that_hears_too_late_of_a_moment_does_not_follow_it(engine: Engine, tmp_path: Path) -> None:
    """Rows between a moment and when a host is told of it were decided before: it is told of a later moment."""
    session = engine.sessions["h1"]
    moments = Moments(Place(str(tmp_path)), lambda: {"h1": {"a->b"}}, lambda: {"h1": session})
    key = literal(knob(Place(str(tmp_path)), "a->b" + RECENT))

    def known() -> str:
        return str(session.sql(f"SELECT java_method('java.lang.System', 'getProperty', {key}, 'none')").collect()[0][0])

    moments.known["a->b"] = [(EVER, BUCKETS), (1, 5)]
    assert moments._refused(["a->b"], 1) == ["a->b"]
    assert known() == "none"
    far = round((time.time() + 60) * 1e6)
    moments.known["a->b"] = [(EVER, BUCKETS), (far, 5)]
    assert moments._refused(["a->b"], far) == []
    assert known().endswith(f"{far}:5")


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_living_system_in_real_time_loses_nothing(hosts: Any, broker: Any, tmp_path: Path) -> None:
    """Rates and latency are seen while rows pass, keep fractions hold, units move, a host dies, and no row is lost."""
    clicks, out = make_topic(broker, "clicks", 2), make_topic(broker, "out", 2)
    made = network(clicks, out)
    feeder = Feeder(broker, clicks)
    cluster, started = hosts()
    seen: list[Observation] = []
    with started as running:
        engine, live = living(cluster, running, made, tmp_path / "run")

        def until(holds: Callable[[Observation], bool], patience: float = 90.0) -> Observation:
            end = live.now + patience
            while True:
                live.wait(live.now + 0.5)
                seen.append(live.observe())
                if holds(seen[-1]):
                    return seen[-1]
                assert live.now < end, seen[-1]

        def move(host: str) -> None:
            moved = live.apply(Plan(placement=dict.fromkeys(["odd", "third", "ten", "six"], host)))
            assert [change.kind for change in moved.begun] == ["move"] * 4
            until(lambda look: not look.moving and look.placement["odd"] == host)

        feeder.start()
        first = until(lambda look: look.latency["out"].count > 0 and look.entered.sum() > 0)
        assert first.entered.sum() / first.period == pytest.approx(RATE, rel=0.5)
        assert first.triggers.keys() == {"h2"}
        assert (first.hosts["h1"].busy or 0) > 0
        assert live.apply(Plan(keep={"both->far": 0.5})).begun
        refused = live.apply(Plan(limits={"clicks": 10.0})).refused
        assert "row by row" in refused[0].why
        until(lambda look: look.latency["out"].count > 0)
        live.close(stop=False)
        engine, live = living(cluster, running, made, tmp_path / "run")
        assert {unit.generation for unit in live.observe().units} == {1}
        until(lambda look: look.latency["out"].count > 0)
        os.kill(running["h1"].pid, signal.SIGKILL)
        until(lambda look: look.down == {"h1"})
        move("h2")
        assert live.apply(Plan(keep={"both->far": 0.25})).begun
        until(lambda look: look.latency["out"].count > 0)
        live.happen(Recover("h1"))
        until(lambda look: not look.down)
        move("h1")
        until(lambda look: look.latency["out"].count > 0)
        count = feeder.end()
        until(lambda look: look.entered.sum() == 0 and look.latency["out"].count == 0)
        live.close()
        seen.append(live.observe())
        report = live.report()
        moments = json.loads((tmp_path / "run" / MOMENTS).read_text())["both->far"]
        want = oracle(engine, clicks, moments)
    assert [limit for _, limit in moments] == [BUCKETS, BUCKETS // 2, BUCKETS // 4]
    assert sorted((row["n"], row["m"]) for row in values(broker, out)) == want
    assert repeated_of(Place(str(tmp_path / "run")), "out") == 0
    assert report["balanced"]
    assert report["streams"]["clicks->odd"]["arrived"] == count


def living(cluster: Cluster, hosts: Any, made: Network, folder: Path) -> tuple[Engine, SparkEngine]:
    """Start a network that is observed and changed while it runs, or go on with one that was left running."""
    engine = Engine(cluster, hosts, noted_sessions(str(folder)))
    return engine, SparkEngine(engine, engine.prepare(made, PLACEMENT, folder, live=True))


def oracle(engine: Engine, topic: str, moments: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what one batch over the whole topic gives, with the same rows dropped, by since when (µs) which passed."""
    session = engine.sessions["h1"]
    options = Connection.of(engine.cluster.spark)
    assert options is not None
    rows = session.read.format("kafka").options(**options.spark).option("subscribe", topic).load()
    rows = rows.selectExpr(
        "CAST(get_json_object(CAST(value AS STRING), '$.n') AS INT) AS n",
        "xxhash64('clicks', topic, partition, offset) AS id",
        "unix_micros(timestamp) AS at",
    )
    ways = [("ten", "n % 2 = 1", "n * 10"), ("six", "n % 3 = 0", "n * 6")]
    parts = [
        rows.filter(test).selectExpr("n", f"{m} AS m", f"xxhash64(id, '{way}') AS id", "at") for way, test, m in ways
    ]
    tests = " ".join(f"WHEN at >= {since} THEN {limit}" for since, limit in reversed(moments))
    kept = parts[0].union(parts[1]).filter(f"pmod(xxhash64(id, 'both->far'), {BUCKETS}) < CASE {tests} END")
    return sorted((row["n"], row["m"]) for row in kept.collect())


class Told:
    """Stands in for a session: keeps what it is told, after a while."""

    def __init__(self, *pauses: float) -> None:
        self.pauses, self.texts = [*pauses], list[str]()

    def sql(self, text: str) -> Told:
        """Take a statement."""
        time.sleep(self.pauses.pop(0) if self.pauses else 0)
        self.texts.append(text)
        return self

    def collect(self) -> list[tuple[bool]]:
        """Say that the last one came too late."""
        return [(False,)]


def test_what_passed_before_an_ordinary_batch_counts_as_its_own(tmp_path: Path) -> None:
    """The batch with which a run ends lasted since the checkpoint before it, and so did its host's work."""
    place = place_of(str(tmp_path))
    query: Any = SimpleNamespace(name="q", spec=SimpleNamespace(folder=place, host="h1"))
    report = {"start": 100.0, "duration": 2.0, "rows": 9, "counts": {"s->q": [9, 0]}, "late": {}}
    for number, since in ((0, 60.0), (1, None), (2, 101.0)):
        report_of(place, "q", number).publish(json.dumps(report).encode())
        assert publish(query, number, 0.5, since) == 102.0
    first, *others = (read_batch(place, "q", number) for number in range(3))
    assert (first.start, first.duration, first.span) == (60.0, 42.0, (60.0, 81.0))
    assert {(batch.start, batch.duration) for batch in others} == {(100.0, 2.0)}


def test_moments_are_known_before_they_come(tmp_path: Path) -> None:
    """A host that is told late moves the moment on; a small change is none; one that begins is told what is known."""
    session: Any = Told(0.4)
    moments = Moments(Place(str(tmp_path)), lambda: {"h2": {"both->far"}, "h3": {"both->far"}}, lambda: {"h2": session})
    assert moments.known == {}
    begin = time.time()
    moments.keep({"both->far": 0.5})
    (_, first), (since, second) = moments.known["both->far"]
    assert (first, second) == (BUCKETS, BUCKETS // 2)
    assert begin + 1.0 < since / 1e6 < begin + 1.5
    assert len(session.texts) == 3
    assert f"{since}:{second}" in session.texts[-1]
    moments.keep({"both->far": 0.5005})
    assert len(session.texts) == 3
    again: Any = Told()
    later = Moments(Place(str(tmp_path)), dict, dict)
    assert later.known == moments.known
    later.begin(again, ["both->far"])
    assert len(again.texts) == 1
    assert again.texts[0].partition(" DEFAULT ")[2] in session.texts[-1]
    assert again.texts[0].count("setProperty") == 2


def test_moments_are_forgotten_when_no_row_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of moments that are long past only the last one stays, which holds until the next, and for whatever is older."""
    monkeypatch.setattr(moments_module, "KNOWN", 0.05)
    session: Any = Told()
    moments = Moments(Place(str(tmp_path)), lambda: {"h2": {"both->far"}}, lambda: {"h2": session})
    for number in range(1, 6):
        moments.keep({"both->far": number / 10})
        time.sleep(0.4)
    assert [limit for _, limit in moments.known["both->far"]] == [BUCKETS * 4 // 10, BUCKETS // 2]
    assert moments.known["both->far"][0][0] == EVER


@pytest.mark.spark
def test_rows_find_the_limit_of_their_time(engine: Engine) -> None:
    """The limit that a row finds is that of the last moment not after it, also when the latest moments are younger."""
    entries = [(EVER, 9), (10, 8), (20, 7), (30, 6), (40, 5)]
    for latest in range(1, 6):
        recent, whole = (literal(listed(each)) for each in (entries[-latest:], entries))
        rows = engine.sessions["h1"].range(0, 50).selectExpr("id AS __stimulus", f"{recent} AS recent")
        found = [row[0] for row in rows.selectExpr(limit_of_row("recent", whole)).collect()]
        assert found == [[limit for since, limit in entries if since <= at][-1] for at in range(50)]


def test_messages_without_a_mark_are_nobodys() -> None:
    """A message that has no mark, or that of another run, is no row of ours."""

    @attrs.frozen
    class Message:
        named: Any
        keyed: Any

        def headers(self) -> Any:
            return self.named

        def key(self) -> Any:
            return self.keyed

        def partition(self) -> int:
            return 0

        def offset(self) -> int:
            return 5

        def timestamp(self) -> tuple[int, int]:
            return 1, 9

    assert row_of(Message(None, None), "run-a") is None
    assert row_of(Message([("penstock", b"run-ab:1:2:3")], None), "run-a") is None
    assert row_of(Message([("penstock", b"run-a:-1:2:-3")], b"x"), "run-a") == Row(0, 5, -1, 2, 9, 0)
    assert row_of(Message(None, b"run-a:1:2:3"), "run-a") == Row(0, 5, 1, 2, 9, 0)


def test_names_of_any_letters_mark_rows() -> None:
    """What a sink or operator is called may take more bytes than letters."""
    message: Any = SimpleNamespace(
        headers=lambda: [("penstock", "run-größe:1:2:3".encode())], key=lambda: None,
        partition=lambda: 0, offset=lambda: 5, timestamp=lambda: (1, 9),
    )  # fmt: skip
    assert row_of(message, "run-größe") == Row(0, 5, 1, 2, 9, 0)
