"""What is seen between two looks, from files that queries left, without Spark."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from penstock.network import Network, Source
from penstock.network.file import parse_network
from penstock.spark.compile import Deployment, Query
from penstock.spark.run.observing import Observer, operators_seen
from penstock.spark.run.queues import uncounted
from penstock.spark.run.ticking import Ticking
from penstock.spark.run.units import Unit
from penstock.spark.run.unread import Unread
from penstock.spark.shipped.checkpoint import read_upto
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.progress import document
from penstock.spark.shipped.spec import LogExit, Metrics, Origin, SinkExit, WriterSpec
from penstock.spark.shipped.told import manifest_of, report_of

NETWORK = parse_network(
    {
        "name": "two",
        "sources": {"events": {"format": "json", "schema": "n bigint"}},
        "operators": {
            "first": {"kind": "filter", "input": "events", "where": "true"},
            "second": {"kind": "filter", "input": "first", "where": "true"},
        },
        "sinks": {"out": {"input": "second"}},
    }
)
EACH = 4
"""Rows of a batch."""


class Runner:
    """Stands in for a unit under way."""

    def __init__(self, unit: Unit, query: Query) -> None:
        self.unit, self.query, self.marks = unit, query, (0, 0)


def system(folder: Path, second: str = "h2") -> Any:
    """Return two units on two hosts, of which the second reads the first one's log, or one unit on one host."""
    deployment = Deployment(NETWORK, {"first": "h1", "second": second}, str(folder))
    units, compiled = {}, {}
    frame: Any = None
    for part in deployment.fragments:
        last = part.name == "second"
        origin = Origin("first" if last else "events", last, 0)
        logs = () if last else (LogExit("first", "_e0", (), (0,), False, False),)
        sinks = (SinkExit("out", (0, 0), (), None, {}, ""),) if last else ()
        spec = WriterSpec(
            deployment.place, part.name, (origin,), logs, sinks, (), {}, (), timed=True, knobs=None, host=part.host
        )
        units[part.name] = Unit.new(part)
        compiled[part.name] = Query(part, frame, spec, ("first",) if last else ())
    runners = {name: Runner(units[name], query) for name, query in compiled.items()}
    return SimpleNamespace(
        deployment=deployment, units=units, compiled=compiled, runners=runners, hosts={"h1": None, "h2": None},
        copies=SimpleNamespace(runners={}), queries=[*compiled.values()],
    )  # fmt: skip


def batch(made: Any, name: str, number: int, begin: float, took: float, latency: float = 0.5) -> None:
    """Leave what a batch leaves; its report comes when `report` says so."""
    folder, last = made.deployment.place, name == "second"
    stream = {"first": "events->first", "second": "first->second"}[name]
    counts = {stream: [EACH, 0], **({"second->out": [EACH, 1]} if last else {})}
    content = {
        "counts": counts, "rows": {} if last else {"first": [number, EACH]}, "visible": begin + took,
        "host": made.units[name].host, "frontiers": {}, "latest": None,
    }  # fmt: skip
    manifest_of(folder, name, number).replace(json.dumps(content).encode())
    checkpoint = made.compiled[name].spec.checkpoint
    read = {"log": "first", "batch": number + 1, "piece": 0, "starts": 0} if last else {"logOffset": number}
    head = {"batchTimestampMs": round(begin * 1000)}
    (checkpoint / "offsets" / str(number)).replace(f"v1\n{json.dumps(head)}\n{json.dumps(read)}".encode())
    (checkpoint / "commits" / str(number)).replace(b"v1\n{}")
    made.runners[name].marks = (number, number)
    if last:
        buffer, visible = io.BytesIO(), round((begin + took) * 1e6)
        np.save(buffer, np.array([visible, *[visible - round(latency * 1e6)] * (EACH - 1)], np.int64))
        (folder / "latency" / "out" / f"{name}-{number:012d}.npy").replace(buffer.getvalue())


def report(made: Any, name: str, number: int, begin: float, took: float) -> None:
    """Leave Spark's report of a batch."""
    content = {"start": begin, "duration": took, "rows": EACH, "counts": {}, "late": {}, "frontiers": {}}
    report_of(made.deployment.place, name, number).replace(json.dumps(content).encode())


def test_each_batch_is_in_one_look(tmp_path: Path) -> None:
    """A batch is counted once, when its report is there or a later batch says that it will not come."""
    made = system(tmp_path)
    watch, now = Observer(made), time.time()
    batch(made, "first", 0, now, 0.2)
    assert watch.look([], [], {}, {}).counts == {}
    report(made, "first", 0, now, 0.2)
    assert watch.look([], [], {}, {}).counts == {"events->first": (EACH, 0)}
    assert watch.look([], [], {}, {}).counts == {}
    batch(made, "first", 1, now, 0.2)
    batch(made, "first", 2, now, 0.2)
    assert watch.look([], [], {}, {}).counts == {"events->first": (EACH, 0)}
    report(made, "first", 2, now, 0.2)
    assert watch.look([], [], {}, {}).counts == {"events->first": (EACH, 0)}


def test_rows_of_a_log_wait_until_they_are_read(tmp_path: Path) -> None:
    """What a unit has not read yet waits for it, as long as the oldest of it has been there."""
    made = system(tmp_path)
    watch, now = Observer(made), time.time()
    for number in range(3):
        batch(made, "first", number, now - 10 + number, 0.5)
        report(made, "first", number, now - 10 + number, 0.5)
    seen = watch.look([], ["h2"], {}, {})
    first, second = seen.units
    assert seen.queues["first"] is None
    rows, since = seen.queues["second"] or (0, None)
    assert rows == 3 * EACH
    assert since == pytest.approx(now - 9.5, abs=1.0)
    assert (first.waiting, first.behind) == (None, None)
    assert second.waiting == 3 * EACH
    assert second.behind == pytest.approx(9.5, abs=1.0)
    assert not second.running
    batch(made, "second", 0, now, 0.1)
    batch(made, "second", 1, now, 0.1)
    report(made, "second", 1, now, 0.1)
    second = watch.look([], [], {}, {}).units[1]
    assert (second.waiting, second.batches, second.running) == (EACH, 2, True)
    # A controller that is new counts what waits from the files as well.
    assert Observer(made).look([], [], {}, {}).units[1].waiting == EACH


def test_batches_behind_a_border_are_counted_once(tmp_path: Path) -> None:
    """A unit of another shape goes on with a later number: its batches count, the border and earlier ones do not."""
    made = system(tmp_path)
    watch, now = Observer(made), time.time()
    for number in range(2):
        batch(made, "first", number, now, 0.2)
        report(made, "first", number, now, 0.2)
    assert watch.look([], [], {}, {}).counts == {"events->first": (2 * EACH, 0)}
    for name, begin in (("first", 5), ("second", 100)):
        made.units[name] = attrs.evolve(made.units[name], saved=f"{name}@{begin}")
        border = {"counts": {}, "rows": {}, "visible": now, "frontiers": {}, "latest": None, "border": True}
        manifest_of(made.deployment.place, name, begin).replace(json.dumps(border).encode())
        report(made, name, begin, now, 0.0)
    seen = watch.look([], [], {}, {})
    assert (seen.counts, [unit.batches for unit in seen.units]) == ({}, [0, 0])
    for name, begin in (("first", 5), ("second", 100)):
        batch(made, name, begin + 1, now, 0.2)
        report(made, name, begin + 1, now, 0.2)
    seen = watch.look([], [], {}, {})
    assert [unit.batches for unit in seen.units] == [1, 1]
    assert seen.counts["first->second"] == seen.counts["events->first"] == (EACH, 0)
    assert watch.look([], [], {}, {}).counts == {}


def test_latency_and_busy_share_are_of_the_period(tmp_path: Path) -> None:
    """Latencies are those of the batches that the look counts; a host is busy while a batch of it runs."""
    made = system(tmp_path)
    watch = Observer(made)
    began = time.time()
    time.sleep(0.5)
    batch(made, "second", 0, began + 0.1, 0.2, latency=0.25)
    report(made, "second", 0, began + 0.1, 0.2)
    seen = watch.look([], [], {}, {})
    assert seen.latency["out"].count == EACH - 1
    assert seen.latency["out"].worst == pytest.approx(0.25)
    share = seen.hosts["h2"].busy
    assert share is not None
    assert 0.2 < share < 0.45
    assert (seen.hosts["h2"].batches, seen.hosts["h1"].busy) == (1, 0.0)
    assert watch.look([], [], {}, {}).latency["out"].count == 0


def test_a_clock_that_is_set_back_makes_nothing_negative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the look behind it neither rates nor how busy hosts were are known; the next one is as any other."""
    made = system(tmp_path)
    rates = json.dumps({"values": [100.0], "period": 1000.0})
    made.deployment = attrs.evolve(made.deployment, schedules={"events": {"rates": rates}})
    now = time.time()
    (tmp_path / "epoch").write_text(str(round((now - 500) * 1e6)))
    watch, seen = Observer(made), []
    for at in (now + 2, now - 60, now - 58):
        monkeypatch.setattr("time.time", lambda at=at: at)
        seen.append(watch.look([], [], {}, {}))
    assert [each.entered["events"] for each in seen[1:]] == [0, 0]
    assert [each.hosts["h1"].busy for each in seen] == [0.0, None, 0.0]
    assert all((each.behind or 0.0) >= 0 for each in seen[1].units)


def test_counts_of_operators_follow_from_streams() -> None:
    """An operator has served what arrived and was not dropped, and put out what its stream got."""
    found = operators_seen(NETWORK, {"events->first": (10, 2), "first->second": (8, 0), "second->out": (3, 0)}, {})
    assert found["entered"].tolist() == [10]
    assert found["served"].tolist() == [8, 8]
    assert found["emitted"].tolist() == [8, 3]


def test_a_scheduled_source_enters_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due of a schedule has entered, whether a batch has read it or not, and is counted in one look."""
    made = system(tmp_path)
    rates = json.dumps({"values": [100.0, 300.0], "period": 10.0})
    made.deployment = attrs.evolve(made.deployment, schedules={"events": {"rates": rates}})
    (tmp_path / "epoch").write_text(str(1_000 * 1_000_000))
    clock = [1_005.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    observer, found = Observer(made), []
    for clock[0] in (1_006.0, 1_012.0, 1_030.0):
        found.append(dict(observer.look([], [], {}, {}).entered))
    assert found == [{"events": 100}, {"events": 1_000}, {"events": 2_400}]
    seen = operators_seen(NETWORK, {"events->first": (7, 0)}, found[0])
    assert seen["entered"].tolist() == [100]
    assert operators_seen(NETWORK, {"events->first": (7, 0)}, {})["entered"].tolist() == [7]


def test_rows_wait_for_those_that_read_them(tmp_path: Path) -> None:
    """What waits for a query waits for the operators that read it; those behind them in the query have no queue."""
    made = system(tmp_path, "h1")
    made.deployment = attrs.evolve(
        made.deployment, schedules={"events": {"rates": json.dumps({"values": [100.0], "period": 10.0})}}
    )
    (tmp_path / "epoch").write_text(str(round((time.time() - 60) * 1e6)))
    seen = Observer(made).look([], [], {}, {})
    assert [unit.waiting for unit in seen.units] == [1_000]
    rows, since = seen.queues["first"] or (0, None)
    assert rows == 1_000
    assert since == pytest.approx(time.time() - 60, abs=1.0)
    assert seen.queues["second"] == (0, None)


def test_rows_wait_at_a_topic_as_spark_told_last(tmp_path: Path) -> None:
    """What a limited batch left of a topic waits for its reader; before the first report nobody knows."""
    made, topic = system(tmp_path), {"subscribe": "clicks"}
    graph = made.deployment.network
    source = attrs.evolve(graph.sources["events"], format="kafka", options=topic)
    made.deployment = attrs.evolve(
        made.deployment, network=Network.of("two", [source], graph.operators.values(), graph.sinks.values())
    )
    watch, now = Observer(made), time.time()
    assert watch.look([], [], {}, {}).queues["first"] is None
    batch(made, "first", 0, now, 0.2)
    told = SimpleNamespace(
        batchId=0, durationMs={"addBatch": 1, "triggerExecution": 200}, observedMetrics={}, stateOperators=(),
        timestamp="2026-01-01T00:00:00.000Z", numInputRows=EACH, eventTime={},
        sources=[
            SimpleNamespace(endOffset='{"clicks": {"0": 40, "1": 7}}', latestOffset='{"clicks": {"0": 90, "1": 7}}'),
            SimpleNamespace(endOffset='{"log": "first", "batch": 3}', latestOffset=None),
        ],
    )  # fmt: skip
    content = document(told, made.compiled["first"].spec, {})
    report_of(made.deployment.place, "first", 0).replace(json.dumps(content).encode())
    seen = watch.look([], [], {}, {})
    assert seen.queues["first"] == (50, pytest.approx(content["start"] if content else 0))
    assert [unit.waiting for unit in seen.units if unit.name == "first"] == [50]


def test_streams_share_what_spark_counts(tmp_path: Path) -> None:
    """Counts of a report are those of the metrics that a query names, and none where Spark has computed nothing."""
    shared: Metrics = {"a->b": (0, None), "b->c": (0, 1)}
    spec = system(tmp_path).compiled["first"].spec
    spec = dataclasses.replace(spec, observations={"p": shared, "q": {"a->b": (0, None)}})
    told = SimpleNamespace(
        batchId=0, durationMs={"addBatch": 1, "triggerExecution": 200}, stateOperators=(), eventTime={}, numInputRows=5,
        timestamp="2026-01-01T00:00:00.000Z", sources=[],
    )  # fmt: skip
    for observed, counts in (
        ({"p": {"n0": 5, "n1": 2}, "q": {"values": [4]}}, {"a->b": [9, 0], "b->c": [5, 2]}),
        ({"p": {"n0": 5, "n1": None}}, {"a->b": [5, 0], "b->c": [5, 0]}),
        (None, {"a->b": [0, 0], "b->c": [0, 0]}),
    ):
        told.observedMetrics = observed
        content = document(told, spec, {})
        assert content is not None
        assert content["counts"] == counts


class Folder:
    """A folder of files of ten bytes a row, and the checkpoint of a query that reads it."""

    def __init__(self, place: Path) -> None:
        self.place, self.checkpoint = place / "in", Place(str(place / "checkpoint"))
        self.place.mkdir()

    def add(self, name: str, rows: int, came: float) -> None:
        """Write a file."""
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"123456789\n" * rows)
        os.utime(path, (came, came))

    def list(self, offset: int, *names: str) -> None:
        """Note files in the checkpoint, as Spark does."""
        paths = [self.place / name for name in names]
        rows = [{"path": p.as_uri(), "timestamp": int(1000 * p.stat().st_mtime), "batchId": offset} for p in paths]
        self._write(str(offset), list(map(json.dumps, rows)))

    def compact(self, offset: int) -> None:
        """Put all that was noted so far into the file of one offset, as Spark does."""
        files = [self.checkpoint / "sources" / "0" / str(at) for at in range(offset + 1)]
        self._write(f"{offset}.compact", [line for file in files for line in file.read().decode().splitlines()[1:]])
        for file in files:
            file.remove()

    def _write(self, name: str, lines: list[str]) -> None:
        (self.checkpoint / "sources" / "0" / name).replace("\n".join(["v1", *lines]).encode())

    def unread(self, **options: str) -> Unread:
        """Return what is known of it."""
        source = Source(name="events", format="json", schema="n bigint", options={"path": str(self.place), **options})
        return Unread(source, self.checkpoint, 0)


def test_rows_of_files_wait_until_they_are_read(tmp_path: Path) -> None:
    """Files that no batch has read wait, as many rows as their bytes tell, since the oldest of them came."""
    folder = Folder(tmp_path)
    for number in range(6):
        folder.add(f"day={number % 2}/a {number}.json", 10 * (number + 1), 1_000.0 + number)
    folder.add("_SUCCESS", 5, 900.0)
    folder.add(".half.json", 5, 900.0)
    unread = folder.unread()
    assert unread.waiting(-1) is None  # nobody knows yet how many rows a byte is
    folder.list(0, "day=0/a 0.json", "day=1/a 1.json")
    unread.took(30, -1, 0)
    assert unread.waiting(0) == (30 + 40 + 50 + 60, 1_002.0)
    folder.list(1, "day=0/a 2.json")
    assert unread.waiting(0) == (30 + 40 + 50 + 60, 1_002.0)
    assert unread.waiting(1) == (40 + 50 + 60, 1_003.0)
    folder.list(2, *(f"day={number % 2}/a {number}.json" for number in (3, 4, 5)))
    assert unread.waiting(2) == (0.0, None)


@pytest.mark.parametrize(("deep", "rows"), [("false", 20), ("TRUE", 20 + 40)])
def test_folders_that_spark_does_not_read_do_not_wait(tmp_path: Path, deep: str, rows: int) -> None:
    """Of inner folders Spark reads partitions only, unless told to read all; the path may be a pattern."""
    folder = Folder(tmp_path)
    folder.add("a.json", 10, 1e9)
    folder.list(0, "a.json")
    folder.add("b.json", 20, 1e9)
    folder.add("done/a.json", 40, 1e9)
    unread = folder.unread(recursiveFileLookup=deep)
    unread.took(10, -1, 0)
    assert unread.waiting(0) == (rows, 1e9)
    some = folder.unread(recursiveFileLookup=deep, path=str(tmp_path / "i*" / "do*"))
    some.took(10, -1, 0)
    assert some.waiting(0) == (40, 1e9)


def test_files_that_are_never_read_are_counted(tmp_path: Path) -> None:
    """Those are that are more than a week older than the youngest that was read, if the options let one know."""
    folder = Folder(tmp_path)
    assert folder.unread().never() == 0
    for name, days in (("young.json", 0), ("old.json", 8), ("older.json", 30), ("read.json", 40), ("late.json", 6)):
        folder.add(name, 1, 1e9 - 86400 * days)
    assert folder.unread().never() == 0
    folder.list(0, "young.json", "read.json")
    assert folder.unread().never() == 2
    assert folder.unread(maxFileAge="1d").never() == 0


@pytest.mark.parametrize("seen", [False, True])
def test_files_that_are_gone_do_not_make_others_seem_larger(tmp_path: Path, seen: bool) -> None:
    """What waits is told by files whose bytes somebody saw, where a source removes what it has read (cleanSource)."""
    folder = Folder(tmp_path)
    unread = folder.unread(cleanSource="delete")
    for number in range(3):
        folder.add(f"{number}.json", 10, 1e9 + number)
    if seen:
        unread.waiting(-1)
    for number in range(3):
        folder.list(number, f"{number}.json")
    (folder.place / "0.json").unlink()
    unread.took(10, -1, 0)
    (folder.place / "1.json").unlink()
    folder.add("3.json", 40, 1e9)
    assert unread.waiting(0) == ((20 - 10 + 40, 1e9) if seen else None)
    unread.took(20, 0, 2)
    assert unread.waiting(2) == (40, 1e9)


def test_files_that_are_gone_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was read and is gone is neither looked for nor kept in mind, nor read of again, but for its age."""
    folder = Folder(tmp_path)
    unread = folder.unread()
    for number in range(20):
        folder.add(f"{number}.json", 10, 1e9 + number)
        folder.list(number, f"{number}.json")
        unread.took(10, number - 1, number)
        (folder.place / f"{number}.json").unlink()
    folder.add("next.json", 10, 1e9)
    folder.add("old.json", 10, 1e9 + 19 - 8 * 86400)
    assert unread.waiting(19) == (10, 1e9)
    assert (len(unread._listed), len(unread._sizes)) == (0, 2)
    parsed: list[bytes] = []
    loads = json.loads
    monkeypatch.setattr("penstock.spark.shipped.checkpoint.json.loads", lambda text: parsed.append(text) or loads(text))
    folder.list(20, "next.json")
    folder.compact(20)
    assert unread.waiting(20) == (0.0, None)
    assert len(parsed) <= 2


def test_what_spark_passes_over_does_not_wait(tmp_path: Path) -> None:
    """Files that are much older than what was read, or of another name, are no backlog."""
    folder = Folder(tmp_path)
    folder.add("b.json", 10, 1e9)
    folder.list(0, "b.json")
    unread = folder.unread(pathGlobFilter="*.json")
    unread.took(10, -1, 0)
    folder.add("a.csv", 10, 1e9)
    folder.add("old.json", 10, 1e9 - 8 * 86400)
    assert unread.waiting(0) == (0.0, None)
    folder.add("c.json", 20, 1e9 - 86400)
    assert unread.waiting(0) == (20, 1e9 - 86400)
    assert folder.unread(latestFirst="true").waiting(0) is None


def test_a_new_controller_learns_anew_what_a_byte_is(tmp_path: Path) -> None:
    """Files that were read before are not counted with rows that are read from now on."""
    folder = Folder(tmp_path)
    for name, rows in (("a", 100), ("b", 10), ("c", 10)):
        folder.add(name, rows, 1_000.0)
    folder.list(0, "a")
    folder.list(1, "b")
    unread = folder.unread()
    assert unread.waiting(1) is None
    unread.took(10, 0, 1)
    assert unread.waiting(1) == (10, 1_000.0)


def test_what_came_while_a_run_was_stopped_waits_from_the_first_look_on(tmp_path: Path) -> None:
    """A new controller knows by the last batches before it how many rows new files hold, and of no rate as yet."""
    made, folder = system(tmp_path), Folder(tmp_path)
    graph, first = made.deployment.network, made.compiled["first"]
    source = attrs.evolve(graph.sources["events"], format="json", options={"path": str(folder.place)})
    made.deployment = attrs.evolve(
        made.deployment, network=Network.of("two", [source], graph.operators.values(), graph.sinks.values())
    )
    made.compiled["first"], folder.checkpoint = attrs.evolve(first, inputs=("events",)), first.spec.checkpoint
    folder.add("a", EACH, 1_000.0)
    folder.list(0, "a")
    batch(made, "first", 0, time.time() - 60, 0.2)
    report(made, "first", 0, time.time() - 60, 0.2)
    folder.add("b", 30 * EACH, 2_000.0)
    seen = Observer(made).look([], [], {}, {})
    assert seen.queues["first"] == (30 * EACH, 2_000.0)
    assert seen.unsure == {"events"}


def test_topics_by_a_pattern_have_the_rates_that_batches_show(tmp_path: Path) -> None:
    """Where nothing tells what waits in topics, what batches read of them has entered."""
    made = system(tmp_path)
    graph, first, now = made.deployment.network, made.compiled["first"], time.time()
    source = attrs.evolve(graph.sources["events"], format="kafka", options={"subscribePattern": "e.*"})
    made.deployment = attrs.evolve(
        made.deployment, network=Network.of("two", [source], graph.operators.values(), graph.sinks.values())
    )
    made.compiled["first"], watch = attrs.evolve(first, inputs=("events",)), Observer(made)
    entered = []
    for number in range(3):
        batch(made, "first", number, now - 0.6 + 0.2 * number, 0.1)
        report(made, "first", number, now - 0.6 + 0.2 * number, 0.1)
        entered.append(watch.look([], [], {}, {}).entered["events"])
        time.sleep(0.1)
    assert entered[-1] > 0


def test_what_leaves_a_query_is_put_out_before_it_is_read(tmp_path: Path) -> None:
    """An operator in front of a log has put out what its batches wrote there, also while nobody has read it."""
    made = system(tmp_path)
    watch, now = Observer(made), time.time()
    batch(made, "first", 0, now, 0.2)
    report(made, "first", 0, now, 0.2)
    seen = watch.look([], [], {}, {})
    assert seen.left == {"first": EACH}
    told = operators_seen(NETWORK, seen.counts, seen.entered, seen.left)
    assert told["emitted"].tolist() == [EACH, 0]
    assert watch.look([], [], {}, {}).left == {"first": 0}


def test_a_batch_that_runs_tells_for_how_long(tmp_path: Path) -> None:
    """A unit says since when its batch runs, and nothing once that has ended."""
    made = system(tmp_path)
    watch, now = Observer(made), time.time()
    batch(made, "first", 0, now - 3, 0.2)
    made.runners["first"].marks = (0, -1)
    running = {unit.name: unit.since for unit in watch.look([], [], {}, {}).units}
    assert running["first"] == pytest.approx(3, abs=1)
    assert running["second"] is None
    made.runners["first"].marks = (0, 0)
    assert {unit.since for unit in watch.look([], [], {}, {}).units} == {None}


def test_given_costs_are_seconds_of_a_benchmark_core(tmp_path: Path) -> None:
    """On a host of twice the capacity rows take half of what they are given, and the rest of a batch is overhead."""
    made = system(tmp_path)
    operators = {name: attrs.evolve(each, cost=(0.1,)) for name, each in NETWORK.operators.items()}
    network = Network.of("two", NETWORK.sources.values(), operators.values(), NETWORK.sinks.values())
    made.deployment = attrs.evolve(made.deployment, network=network)
    now, found = time.time() - 100, {}
    watches = {capacity: Observer(made, lambda _host, known=capacity: known) for capacity in (1.0, 2.0)}
    for number in range(8):
        batch(made, "first", number, now + 5 * number, 0.5)
        report(made, "first", number, now + 5 * number, 0.5)
    for capacity, watch in watches.items():
        found[capacity] = watch.look([], [], {}, {}).hosts["h1"].overhead
    assert found[1.0] == pytest.approx(0.5 - EACH * 0.1, abs=0.01)
    assert found[2.0] == pytest.approx(0.5 - EACH * 0.05, abs=0.01)


def test_overhead_is_that_of_one_query(tmp_path: Path) -> None:
    """A host tells what one batch of one of its queries takes, however many there are, and while some leave."""
    made = system(tmp_path)
    operators = {name: attrs.evolve(each, cost=(0.01,)) for name, each in NETWORK.operators.items()}
    network = Network.of("two", NETWORK.sources.values(), operators.values(), NETWORK.sinks.values())
    made.deployment, now = attrs.evolve(made.deployment, network=network), time.time() - 100
    made.units["second"] = made.units["second"].on("h1")
    watch, both = Observer(made), ("first", "second")
    for name, number in ((name, number) for number in range(8) for name in both):
        batch(made, name, number, now + 5 * number, 0.5)
        report(made, name, number, now + 5 * number, 0.5)
    each = watch.look([], [], {}, {}).hosts["h1"].overhead
    assert each == pytest.approx(0.5 - EACH * 0.01, abs=0.02)
    made.units["second"] = made.units["second"].on("h2")
    hosts = watch.look(["second"], [], {}, {}).hosts
    assert (hosts["h1"].overhead, hosts["h2"].overhead) == (each, None)


@pytest.mark.parametrize("capacity", [1.0, 4.0])
def test_work_is_told_in_seconds_of_a_benchmark_core(tmp_path: Path, capacity: float) -> None:
    """What batches have worked counts by the host where they ran, also once their unit has moved to another."""
    made = system(tmp_path)
    operators = {name: attrs.evolve(each, cost=(0.1,)) for name, each in NETWORK.operators.items()}
    network = Network.of("two", NETWORK.sources.values(), operators.values(), NETWORK.sinks.values())
    made.deployment, now = attrs.evolve(made.deployment, network=network), time.time() - 100
    watch = Observer(made, lambda host: {"h1": capacity, "h2": 8.0}[host])
    for number in range(8):
        if number == 6:
            watch.look([], [], {}, {})
        batch(made, "first", number, now + 5 * number, 0.5)
        report(made, "first", number, now + 5 * number, 0.5)
    made.units["first"] = made.units["first"].on("h2")
    seen = watch.look(["first"], [], {}, {}).units[0]
    assert (seen.host, seen.batches) == ("h2", 2)
    assert seen.work == pytest.approx(2 * EACH * 0.1, rel=0.05)


@pytest.mark.parametrize(
    ("ramp", "had"),
    [({}, [0, 7, 14, 21, 28, 35]), ({"rampUpTime": "3s"}, [0, 1, 3, 6, 13, 20]), ({"rampUpTime": "0"}, [0, 7, 14])],
)
def test_the_clock_tells_what_waits_at_a_source_of_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ramp: dict[str, str], had: list[int]
) -> None:
    """Rows of whole seconds wait from the last one that a batch has read, those of a slow beginning as they came."""
    checkpoint = Place(str(tmp_path))
    source = Source(name="n", format="rate", options={"rowsPerSecond": "7", **ramp})
    ticking = Ticking(source, checkpoint, 1)
    assert ticking.waiting(-1) is None
    (checkpoint / "sources" / "1" / "0").replace(b"v1\n100000")
    for now in range(len(had)):
        monkeypatch.setattr(time, "time", lambda now=now: 100.9 + now)
        for upto in range(-1, now + 1):
            left = had[now] - had[max(0, upto)]
            assert ticking.waiting(upto) == (left, 100.0 + max(0, upto) if left else None)


def test_offsets_of_a_clock_are_read_as_those_of_files_are(tmp_path: Path) -> None:
    """A checkpoint says up to which second a batch has read, and nothing of a source that had none."""
    checkpoint = Place(str(tmp_path))
    (checkpoint / "offsets" / "4").replace(b'v1\n{"batchWatermarkMs":0}\n17\n{"logOffset":3}\n-')
    assert [read_upto(checkpoint, 4, number) for number in range(4)] == [17, 3, -1, -1]


def test_sources_that_do_not_say_what_waits_are_named() -> None:
    """Nothing waits unseen at files, named topics and clocks."""
    sources: dict[str, Any] = {
        "files": {"format": "json", "schema": "n bigint", "options": {"path": "in"}},
        "far": {"format": "json", "schema": "n bigint", "options": {"path": "s3a://b/in"}},
        "latest": {"format": "json", "schema": "n bigint", "options": {"path": "in", "latestFirst": "true"}},
        "topic": {"format": "kafka", "options": {"subscribe": "a, b"}},
        "topics": {"format": "kafka", "options": {"subscribePattern": "a.*"}},
        "clock": {"format": "rate"},
        "port": {"format": "socket"},
    }
    made = {name: Source(name=name, **each) for name, each in sources.items()}
    assert uncounted(attrs.evolve(NETWORK, sources=made)) == ["far", "latest", "topics", "port"]
