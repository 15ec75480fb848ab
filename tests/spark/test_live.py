"""The living system: units move, hosts die, queries come, while the rest goes on and no row is lost or twice."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sinks_kit import read_parquet

from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.run import Engine, SparkEngine, noted_sessions
from penstock.spark.run.outcome import read_batch
from penstock.spark.shipped.place import Place
from penstock.steering import Kill, Observation, Plan, Recover, Slow
from penstock.workload import Rates, nexmark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

RATE, SECONDS = 60.0, 20

DOCUMENT: dict[str, Any] = {
    "name": "living",
    "sources": {"events": {"format": "nexmark"}},
    "operators": {
        "bids": {"kind": "filter", "input": "events", "where": "kind = 'bid'"},
        "euros": {"kind": "map", "input": "bids", "select": ["event", "price * 908 as price"]},
        "busy": {
            "kind": "aggregate", "input": "bids", "by": "auction", "window": "4 seconds", "select": "count(*) as n",
        },
        "people": {"kind": "filter", "input": "events", "where": "kind = 'person'"},
        "auctions": {"kind": "filter", "input": "events", "where": "kind = 'auction'"},
        "newcomers": {
            "kind": "join", "inputs": ["people", "auctions"], "on": "people.id = auctions.seller",
            "within": "5 seconds", "select": "people.id as person, auctions.id as auction",
        },
    },
    "sinks": {
        "converted": {"input": "euros"}, "counted": {"input": "busy"}, "joined": {"input": "newcomers"},
    },
}  # fmt: skip

PLACEMENT = {"bids": "h1", "people": "h1", "auctions": "h1", "euros": "h1", "busy": "h2", "newcomers": "h2"}
LONG = 32
"""Seconds of events, more where a test makes several changes, one after the other."""

Start = Callable[..., SparkEngine]


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts the network on three hosts, by an engine that a test may choose; afterwards all hosts run again.

    An engine takes new sessions of hosts that were started again. Of ``late`` hosts it hears once all runs.
    """
    chosen: Engine = request.getfixturevalue(getattr(request, "param", "engine"))
    begun: list[SparkEngine] = []

    def run(seconds: int = SECONDS, late: Collection[str] = (), **options: Any) -> SparkEngine:
        first = {name: host for name, host in chosen.hosts.items() if name not in late}
        there = Engine(chosen.cluster, first, noted_sessions(str(tmp_path))) if late else chosen
        network, rates = parse_network(DOCUMENT), Rates.constant({"events": RATE}, seconds)
        deployment = there.prepare(
            network, options.pop("placement", PLACEMENT), tmp_path, rates=rates, apart=["busy", "newcomers"],
            live=options.pop("live", False),
        )  # fmt: skip
        begun.append(SparkEngine(there, deployment, late=[chosen.hosts[name] for name in late], **options))
        return begun[-1]

    yield run
    for live in begun:
        live.close()
        for name in sorted(live.down):
            host = chosen.hosts[name]
            host.stop()
            host.start()


def settle(live: SparkEngine, seen: list[Observation]) -> None:
    """Wait until nothing moves any more."""
    while True:
        seen.append(live.observe())
        if not seen[-1].moving:
            return
        live.wait(live.now + 0.3)


def finish(live: SparkEngine, seen: list[Observation]) -> dict[str, Any]:
    """Wait for the end, and return the report."""
    while live.wait(live.now + 2):
        seen.append(live.observe())
    live.close()
    seen.append(live.observe())
    return live.report()


def events(folder: Path, seconds: int = SECONDS) -> list[dict[str, Any]]:
    """Return the events of the run."""
    schedule = nexmark.Schedule.of(np.full(seconds, RATE), 1.0)
    stream = nexmark.Nexmark(schedule, 0, int((folder / "epoch").read_text()))
    return [dict(zip(nexmark.COLUMNS, row, strict=True)) for row in stream.rows(0, schedule.total)]


def check(folder: Path, seconds: int = SECONDS) -> None:
    """Compare the sinks with what follows from the events: each row once."""
    all_events = events(folder, seconds)
    bids, people, auctions = ([e for e in all_events if e["kind"] == k] for k in ("bid", "person", "auction"))
    assert Counter((r["event"], r["price"]) for r in read_parquet(folder / "sinks/converted")) == Counter(
        (b["event"], b["price"] * 908) for b in bids
    )
    pairs = Counter(
        (p["id"], a["id"])
        for p in people
        for a in auctions
        if p["id"] == a["seller"] and abs(p["at"] - a["at"]) <= timedelta(seconds=5)
    )
    assert Counter((r["person"], r["auction"]) for r in read_parquet(folder / "sinks/joined")) == pairs

    def window(at: Any) -> int:
        return int(at.timestamp()) // 4

    want = Counter((window(b["at"]), b["auction"]) for b in bids)
    last = window(all_events[-1]["at"])
    rows = read_parquet(folder / "sinks/counted")
    assert Counter((window(r["window_start"]), r["auction"], r["n"]) for r in rows) == Counter(
        (begin, auction, n) for (begin, auction), n in want.items() if begin < last
    )


@pytest.mark.parametrize(
    "start",
    ["engine", pytest.param("topic_engine", marks=[pytest.mark.kafka, pytest.mark.slow])],
    ids=["folders", "topics"],
    indirect=True,
)
def test_moves_and_deaths_lose_and_repeat_nothing(start: Start, tmp_path: Path) -> None:
    """Two units move, a host dies and its units go on elsewhere; every row is delivered once, and counted once.

    So it is with folders between hosts and with topics. The host to which one moves first may still be starting.
    """
    live, seen = start(LONG, late=["h3"]), []
    done = live.apply(Plan(placement={"busy": "h3", "newcomers": "h1", "stranger": "h2"}))
    assert [change.name for change in done.begun] == ["busy", "newcomers"]
    assert "no operator 'stranger'" in done.refused[0].why
    again = live.apply(Plan(placement={"busy": "h2"}))
    assert "moves already" in again.refused[0].why
    settle(live, seen)
    assert seen[-1].placement["busy"] == "h3"
    assert live.report()["failures"] == []
    live.happen(Kill("h3"))
    for _ in range(5):  # a killed JVM takes its time to end
        live.wait(live.now + 1)
        seen.append(live.observe())
        if seen[-1].down:
            break
    assert seen[-1].down == {"h3"}
    assert [unit.name for unit in seen[-1].units if not unit.running] == ["busy"]
    assert "down" in live.apply(Plan(placement={"newcomers": "h3"})).refused[0].why
    assert not live.apply(Plan(placement={"busy": "h2"})).refused
    settle(live, seen)
    live.happen(Recover("h3"))
    assert not live.apply(Plan(triggers={"h1": 0.4})).refused
    report = finish(live, seen)
    assert seen[-1].down == set()
    assert report["balanced"] is True
    check(tmp_path, LONG)
    for number, name in enumerate(seen[0].streams):
        counted = sum(int(each.arrived[number]) for each in seen if each.arrived is not None)
        assert counted == report["streams"][name]["arrived"], name
    latencies = sum(each.latency[sink].count for each in seen for sink in each.latency)
    assert latencies == report["latency"]["count"]


COPIED = {
    **PLACEMENT, "newcomers": "h1",
    "bids#2": "h3", "people#2": "h3", "auctions#2": "h3", "euros#2": "h3", "busy#2": "h1",
}  # fmt: skip


def test_a_copy_leads_when_the_other_dies(start: Start, tmp_path: Path) -> None:
    """What a dead host ran goes on where it has copies, as they were running; they come back with the host.

    No row is lost or twice, also when the copy that came to lead has died as well.
    """
    live, seen = start(LONG + 6, placement=COPIED, live=True), []
    live.wait(live.now + 5)
    seen.append(live.observe())
    assert seen[-1].placement == COPIED
    assert all(unit.running for unit in seen[-1].units)
    killed = time.monotonic()
    live.happen(Kill("h1"))
    live.wait(live.now + 4)
    seen.append(live.observe())
    assert seen[-1].placement == COPIED
    assert {unit.name: unit.running for unit in seen[-1].units} == {
        "auctions": True, "auctions#1": False, "busy": True, "busy#2": False, "newcomers": False,
    }  # fmt: skip
    place = Place(str(tmp_path))
    for _ in range(8):  # batches are long on a busy machine
        numbers = (place / "batches/auctions").numbers()
        if read_batch(place, "auctions", numbers[-1]).host == "h3":
            break
        live.wait(live.now + 0.5)
    assert numbers == list(range(len(numbers)))
    assert read_batch(place, "auctions", numbers[-1]).host == "h3"
    # Nothing was begun anew.
    assert live.system.runners["auctions"].begun_at < killed
    live.happen(Recover("h1"))
    while live.wait(live.now + 0.5) and not all(unit.running for unit in seen[-1].units):
        seen.append(live.observe())
    live.wait(live.now + 2)
    live.happen(Kill("h2"))
    live.wait(live.now + 2)
    seen.append(live.observe())
    assert {unit.name: (unit.host, unit.running) for unit in seen[-1].units}["busy"] == ("h1", True)
    report = finish(live, seen)
    assert report["balanced"] is True
    assert report["placement"] == COPIED
    check(tmp_path, LONG + 6)
    for number, name in enumerate(seen[0].streams):
        counted = sum(int(each.arrived[number]) for each in seen if each.arrived is not None)
        assert counted == report["streams"][name]["arrived"], name


@pytest.mark.slow
def test_a_host_that_stands_still_holds_nobody_up(start: Start, tmp_path: Path) -> None:
    """While one host does not answer, the death of another is noticed and repaired; thawed, it goes on as before."""
    live, seen = start(LONG), []
    live.wait(live.now + 3)
    still = live.engine.hosts["h1"].pid or 0
    os.kill(still, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        live.wait(live.now + 10)
        seen.append(live.observe())
        assert (seen[-1].silent, seen[-1].down) == ({"h1"}, set())
        live.happen(Kill("h2"))
        live.wait(live.now + 1)
        seen.append(live.observe())
        assert (seen[-1].silent, seen[-1].down) == ({"h1"}, {"h2"})
        assert not live.apply(Plan(placement={"busy": "h3", "newcomers": "h3"})).refused
        assert time.monotonic() - begun < 20
    finally:
        os.kill(still, signal.SIGCONT)
    settle(live, seen)
    report = finish(live, seen)
    assert seen[-1].silent == set()
    assert report["balanced"] is True
    assert report["placement"] == {**PLACEMENT, "busy": "h3", "newcomers": "h3"}
    check(tmp_path, LONG)


@pytest.mark.slow
def test_copies_are_found_again(start: Start, tmp_path: Path) -> None:
    """Where penstock and the host of a copy that leads have died, another copy goes on with the next penstock."""
    live, seen = start(LONG, placement=COPIED), []
    live.wait(live.now + 3)
    live.close(stop=False)
    os.kill(live.engine.hosts["h2"].pid or 0, signal.SIGKILL)
    again = start(LONG, late=["h2"], placement=COPIED)
    again.wait(again.now + 1)
    seen.append(again.observe())
    there = {unit.name: (unit.host, unit.running) for unit in seen[-1].units}
    assert there["busy"] == ("h1", True)
    assert there["auctions"] == ("h1", True)
    assert there["auctions#2"] == ("h3", True)
    report = finish(again, seen)
    assert report["balanced"] is True
    check(tmp_path, LONG)


@pytest.mark.slow
def test_a_copy_that_drops_does_not_lead(start: Start, tmp_path: Path) -> None:
    """What a copy drops of its own is missing nowhere: if it has to lead, it goes on from where the other one was."""
    live, seen = start(2 * LONG, placement=COPIED, live=True), []
    live.wait(live.now + 3)
    refused = live.apply(Plan(keep={"events->bids#3": 0.5})).refused
    assert "no stream 'events->bids#3'" in refused[0].why
    # The first copy leads, and is to drop: the second one does instead.
    assert not live.apply(Plan(keep={"events->bids": 0.0, "events->bids#2": 1.0, "bids->busy#2": 0.0})).refused
    settle(live, seen)
    assert next(unit.host for unit in seen[-1].units if unit.name == "auctions") == "h3"
    live.wait(live.now + 4)
    seen.append(live.observe())
    live.happen(Kill("h2"))
    live.wait(live.now + 1)
    settle(live, seen)
    assert next((unit.host, unit.running) for unit in seen[-1].units if unit.name == "busy") == ("h1", True)
    report = finish(live, seen)
    assert report["balanced"] is True
    assert sum(stream["dropped"] for stream in report["streams"].values()) == 0
    check(tmp_path, 2 * LONG)


@pytest.mark.slow
def test_a_run_goes_on_without_a_host_that_has_gone(start: Start, tmp_path: Path) -> None:
    """Where penstock and a host have died, other queries run on and are found, and those of the host move elsewhere."""
    live, seen = start(LONG), []
    live.wait(live.now + 2)
    generation = {unit.name: unit.generation for unit in live.observe().units}
    live.close(stop=False)
    os.kill(live.engine.hosts["h2"].pid or 0, signal.SIGKILL)
    again = start(LONG, late=["h2", "h3"])
    again.wait(again.now + 1)
    seen.append(again.observe())
    assert seen[-1].down == {"h2"}
    assert {unit.name: unit.running for unit in seen[-1].units} == {"auctions": True, "busy": False, "newcomers": False}
    assert next(unit.generation for unit in seen[-1].units if unit.name == "auctions") == generation["auctions"]
    assert not again.apply(Plan(placement={"busy": "h3", "newcomers": "h1"})).refused
    settle(again, seen)
    report = finish(again, seen)
    assert report["balanced"] is True
    assert [(row["unit"], row["host"]) for row in report["failures"]] == [(None, "h2")]
    check(tmp_path, LONG)


@pytest.mark.slow
def test_a_unit_is_split_while_it_runs(start: Start, tmp_path: Path) -> None:
    """Operators of one query go on on three hosts from where they were; the rest of the system goes on."""
    live, seen = start(), []
    live.wait(live.now + 3)
    assert not live.apply(Plan(placement={"euros": "h3", "people": "h2"})).refused
    settle(live, seen)
    assert seen[-1].placement == {**PLACEMENT, "euros": "h3", "people": "h2"}
    assert [unit.name for unit in seen[-1].units] == ["auctions", "busy", "euros", "newcomers", "people"]
    live.wait(live.now + 2)
    seen.append(live.observe())
    batches = {unit.name: unit.batches for unit in seen[-1].units}
    assert all(batches[name] for name in ("auctions", "euros", "people")), batches
    assert not live.apply(Plan(placement={"euros": "h2"})).refused
    settle(live, seen)
    report = finish(live, seen)
    assert report["balanced"] is True
    for place, name in enumerate(seen[-1].streams):
        assert sum(int(each.arrived[place]) for each in seen) == report["streams"][name]["arrived"], name
    check(tmp_path)


@pytest.mark.slow
def test_units_that_meet_go_on_as_one(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that moves to the host whose log it reads is fused with its writer; no row is lost or twice."""
    monkeypatch.setattr("penstock.spark.run.changing.CALM", 0.5)
    live, seen = start(LONG), []
    live.wait(live.now + 2)
    assert not live.apply(Plan(placement={"euros": "h3"})).refused
    settle(live, seen)
    assert [unit.name for unit in seen[-1].units] == ["auctions", "busy", "euros", "newcomers"]
    live.wait(live.now + 2)
    assert not live.apply(Plan(placement={"euros": "h1"})).refused
    settle(live, seen)
    while live.wait(live.now + 0.5) and len(seen[-1].units) > 3:
        settle(live, seen)
    assert [unit.name for unit in seen[-1].units] == ["auctions", "busy", "newcomers"]
    assert seen[-1].placement == PLACEMENT
    live.wait(live.now + 1)
    # What was fused can be split again.
    assert not live.apply(Plan(placement={"euros": "h2"})).refused
    settle(live, seen)
    report = finish(live, seen)
    assert report["balanced"] is True
    check(tmp_path, LONG)


@pytest.mark.slow
def test_reading_is_limited_and_set_free(start: Start, tmp_path: Path) -> None:
    """While a source is limited no batch reads more than that; what waited comes afterwards, each row once."""
    live, seen = start(), []
    live.wait(live.now + 3)
    most = 10
    done = live.apply(Plan(limits={"events": most / live.engine.cluster.spark.trigger, "stranger": 1.0}))
    assert [change.name for change in done.begun] == ["events"]
    assert "no source 'stranger'" in done.refused[0].why
    settle(live, seen)
    place = Place(str(tmp_path))
    before = max((place / "batches" / "auctions").numbers())
    live.wait(live.now + 5)
    numbers = [number for number in (place / "batches" / "auctions").numbers() if number > before]
    rows = [read_batch(place, "auctions", number).counts["events->bids"][0] for number in numbers]
    assert max(rows) == most
    seen.append(live.observe())
    assert set(seen[-1].limits) == {"events"}
    assert seen[-1].entered[0] > sum(rows)
    assert not live.apply(Plan(limits={"events": None})).refused
    settle(live, seen)
    report = finish(live, seen)
    assert not seen[-1].limits
    assert report["balanced"] is True
    check(tmp_path)


def test_what_waits_in_a_folder_is_seen(engine: Engine, tmp_path: Path) -> None:
    """Rows of files that no batch has read wait for the query that reads them, until all are read."""
    files, each = 8, 40
    (tmp_path / "in").mkdir()
    for number in range(files):
        rows = "".join(f'{{"n": {100 + number * each + row}}}\n' for row in range(each))
        (tmp_path / "in" / f"{number} of {files}.json").write_text(rows)
    network = parse_network(
        {
            "name": "folder",
            "sources": {
                "rows": {
                    "format": "json",
                    "schema": "n bigint",
                    "options": {"path": str(tmp_path / "in"), "maxFilesPerTrigger": "1"},
                }
            },
            "operators": {"small": {"kind": "filter", "input": "rows", "where": "n >= 0"}},
            "sinks": {"out": {"input": "small"}},
        }
    )
    live, seen = SparkEngine(engine, engine.prepare(network, {"small": "h1"}, tmp_path / "run", live=True)), []
    try:
        deadline = live.now + 60
        while live.now < deadline and (not seen or seen[-1] != 0.0):
            live.wait(live.now + 0.3)
            seen.append(float(live.observe().waiting[0]))  # type: ignore[index]
    finally:
        live.close()
    known = [rows for rows in seen if not np.isnan(rows)]
    assert known[-1] == 0.0
    assert known == sorted(known, reverse=True)
    assert len(set(known)) >= 3
    assert {round(rows / each, 6) for rows in known} <= {float(number) for number in range(files)}


@pytest.mark.parametrize(
    "chosen", ["engine", pytest.param("topic_engine", marks=[pytest.mark.kafka, pytest.mark.slow])]
)
def test_windows_close_behind_a_source_that_stands_still(
    request: pytest.FixtureRequest, tmp_path: Path, chosen: str
) -> None:
    """Split off from a window's query, a source that brings no more rows does not hold the window open."""

    def rows(source: str, number: int, *seconds: int) -> None:
        lines = (f'{{"at": "2026-03-01T12:{second // 60:02d}:{second % 60:02d}Z"}}\n' for second in seconds)
        (tmp_path / source).mkdir(exist_ok=True)
        (tmp_path / source / f"{number}.json").write_text("".join(lines))

    form = {"format": "json", "schema": "at timestamp", "time": "at"}
    network = parse_network(
        {
            "name": "idle",
            "sources": {name: {**form, "options": {"path": str(tmp_path / name)}} for name in "ab"},
            "operators": {
                "busy": {"kind": "filter", "input": "b", "where": "true"},
                "idle": {"kind": "filter", "input": "a", "where": "true"},
                "both": {"kind": "union", "inputs": ["busy", "idle"]},
                "counted": {"kind": "aggregate", "input": "both", "window": "10 seconds", "select": "count(*) AS n"},
            },
            "sinks": {"out": {"input": "counted"}},
        }
    )
    rows("a", 0, 5, 600)
    rows("b", 0, 1)
    engine: Engine = request.getfixturevalue(chosen)
    placement = dict.fromkeys(network.operators, "h1")
    live = SparkEngine(engine, engine.prepare(network, placement, tmp_path / "run"))
    sink, deadline = tmp_path / "run/sinks/out", live.now + 90
    try:
        while live.now < deadline and len(Place(str(tmp_path / "run/progress/busy")).numbers()) < 2:
            live.wait(live.now + 0.3)
        assert not live.apply(Plan(placement={"idle": "h2"})).refused
        settle(live, [])
        rows("b", 1, 30)
        while live.now < deadline and not (sink.exists() and read_parquet(sink)):
            live.wait(live.now + 0.3)
    finally:
        live.close()
    assert [row["n"] for row in read_parquet(sink)] == [2]


def grown() -> Network:
    """Return the network with two queries more."""
    more = {
        "dear": {"kind": "filter", "input": "euros", "where": "price > 0"},
        "often": {
            "kind": "aggregate", "input": "dear", "by": "event", "window": "4 seconds", "select": "count(*) as n",
        },
        "guests": {"kind": "filter", "input": "events", "where": "kind = 'person'"},
    }  # fmt: skip
    sinks = {"all_dear": {"input": "dear"}, "counts": {"input": "often"}, "named": {"input": "guests"}}
    return parse_network(
        {**DOCUMENT, "operators": {**DOCUMENT["operators"], **more}, "sinks": {**DOCUMENT["sinks"], **sinks}}
    )


@pytest.mark.slow
def test_queries_are_attached_while_all_goes_on(start: Start, tmp_path: Path) -> None:
    """New queries take what comes from then on, without a gap; what ran before delivers what it would have."""
    live, seen = start(), []
    live.wait(live.now + 2)
    hosts = {"dear": "h3", "often": "h2", "guests": "h3"}
    wrong = parse_network({**DOCUMENT, "sinks": {"converted": {"input": "euros"}}})
    assert not live.apply(Plan(network=wrong)).begun
    done = live.apply(Plan(network=grown(), placement=hosts))
    assert not done.refused
    settle(live, seen)
    live.wait(live.now + 3)
    assert not live.apply(Plan(placement={"often": "h1"})).refused
    settle(live, seen)
    report = finish(live, seen)
    assert report["balanced"] is True
    check(tmp_path)
    bids = [event["event"] for event in events(tmp_path) if event["kind"] == "bid"]
    dear = sorted(row["event"] for row in read_parquet(tmp_path / "sinks/all_dear"))
    assert len(dear) > RATE
    assert dear == bids[-len(dear) :]
    counts = Counter(row["event"] for row in read_parquet(tmp_path / "sinks/counts"))
    assert set(counts.values()) == {1}
    people = [event["event"] for event in events(tmp_path) if event["kind"] == "person"]
    guests = sorted(row["event"] for row in read_parquet(tmp_path / "sinks/named"))
    assert guests == people[-len(guests) :]


@pytest.mark.slow
def test_a_query_that_fails_is_given_up_and_the_rest_goes_on(start: Start, tmp_path: Path) -> None:
    """What was attached and fails again and again ends alone, also for the next controller; the rest loses nothing."""
    live, seen = start(LONG), []
    live.wait(live.now + 2)
    wrong = {"kind": "map", "input": "bids", "select": ["event", "CAST('x' || event AS BIGINT) as n"]}
    network = parse_network(
        {
            **DOCUMENT,
            "operators": {**DOCUMENT["operators"], "wrong": wrong},
            "sinks": {**DOCUMENT["sinks"], "wrongs": {"input": "wrong"}},
        }
    )
    assert not live.apply(Plan(network=network, placement={"wrong": "h3"})).refused
    while not any("was given up, with all of wrong" in each["why"] for each in live.report()["failures"]):
        assert live.wait(live.now + 0.5)
    settle(live, seen)
    refused = live.apply(Plan(network=network, placement={"wrong": "h3"})).refused
    assert "failed here" in refused[0].why
    live.close()
    again = start(LONG)
    assert "wrong" not in again.network.operators
    report = finish(again, seen)
    assert report["balanced"] is True
    check(tmp_path, LONG)


@pytest.mark.slow
def test_keep_fractions_and_triggers_change(start: Start, tmp_path: Path) -> None:
    """Keep fractions hold from the next batch on; what is not known, or cannot be, is refused and changes nothing."""
    live, seen = start(live=True), []
    live.wait(live.now + 1)
    assert not live.apply(Plan(keep={"bids->euros": 0.5})).refused
    why = live.apply(Plan(keep={"a->b": 0.5}, triggers={"h9": 1.0}, limits={"nowhere": 5.0})).refused
    assert [each.change.kind for each in why] == ["keep", "limit", "trigger"]
    assert not live.apply(Plan(triggers={"h2": 0.5})).refused
    assert live.observe().keep == {"bids->euros": 0.5}
    with pytest.raises(Exception, match="cannot happen"):
        live.happen(Slow("h1", 0.5))
    settle(live, seen)
    report = finish(live, seen)
    assert report["balanced"] is True
    row = report["streams"]["bids->euros"]
    assert 0.3 < row["dropped"] / row["arrived"] < 0.6
    assert all(drop["dropped"] == 0 for name, drop in report["streams"].items() if name != "bids->euros")
    converted = {row["event"] for row in read_parquet(tmp_path / "sinks/converted")}
    assert converted < {event["event"] for event in events(tmp_path) if event["kind"] == "bid"}
    assert Place(str(tmp_path / "keep.json")).exists()
