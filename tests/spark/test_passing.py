"""What is known of queries in real-time mode while rows pass, between two of their reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from penstock.errors import EngineError
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import PromptQuery
from penstock.spark.compile.graph import Graph
from penstock.spark.hop.rows import Row
from penstock.spark.run import coming, passing
from penstock.spark.run.arriving import Total
from penstock.spark.run.coming import Coming
from penstock.spark.run.meter import Meter
from penstock.spark.run.outcome import Batch
from penstock.spark.run.passing import SLOW, Passing, _Unit, shared, since_reported
from penstock.spark.run.system import System
from penstock.spark.run.usage import LEAST, Usage

COST = 0.004


def chain(selectivity: float | None = None) -> Network:
    """Return two operators behind a source."""
    return parse_network(
        {
            "name": "chain",
            "sources": {"rows": {"format": "kafka", "schema": "n int"}},
            "operators": {
                "first": {"kind": "filter", "input": "rows", "where": "true", "cost": COST, "selectivity": selectivity},
                "second": {"kind": "filter", "input": "first", "where": "true", "cost": COST / 2},
            },
            "sinks": {"out": {"input": "second"}},
        }
    )


def query(made: Network) -> Any:
    """Return something that stands for the query of both operators."""
    return SimpleNamespace(fragment=Graph(made, parts(made)).fragment)


def parts(made: Network) -> Any:
    """Return the fragment of both operators on one host."""
    from penstock.latency.fragments import fragments

    return fragments(made, dict.fromkeys(made.operators, "h1"))[0]


def report(number: int, end: float, counts: dict[str, tuple[int, int]]) -> Batch:
    """Return what Spark reports of a batch."""
    return Batch("first", number, end - 1.0, 1.0, 0, counts)


def test_growth_is_even_between_two_looks() -> None:
    """What came since a moment between two looks is in proportion to the time; before the first it is all."""
    total = Total(100.0)
    assert total.since(0.0) == 0.0
    assert total.rate(1.0) is None
    for now, number in ((10.0, 5), (12.0, 9), (16.0, 9), (20.0, 29)):
        total.see(now, number)
    assert total.since(18.0) == pytest.approx(10.0)
    assert total.since(11.0) == pytest.approx(22.0)
    assert total.since(1.0) == 24.0
    assert total.rate(4.0) == pytest.approx(5.0)
    assert total.rate(30.0) is None


def test_nothing_was_seen_later_than_now() -> None:
    """By a clock that was set back a total goes on from where it is, and a host's use is not known at once."""
    total = Total(100.0)
    for now, number in ((70.0, 5.0), (71.0, 9.0), (11.0, 10.0)):
        total.see(now, number)
    assert (total.since(71.0), total.sure) == (0.0, False)
    total.see(12.0, 14.0)
    assert total.since(11.5) == pytest.approx(2.0)
    hosts: Any = {"h1": SimpleNamespace(cpu_seconds=iter([1.0, 3.0, 4.0]).__next__)}
    usage = Usage(hosts)
    assert [usage.look(now, ["h1"])["h1"] for now in (70.0, 11.0, 13.0)] == [None, None, 0.5]


def test_a_total_says_when_it_was_reached() -> None:
    """Between two looks it grew evenly; what was there at the first one came before."""
    total = Total(100.0)
    for at, value in ((10.0, 50.0), (12.0, 70.0), (15.0, 70.0), (16.0, 90.0)):
        total.see(at, value)
    assert [total.reached(value) for value in (20.0, 60.0, 80.0, 90.0)] == pytest.approx([10.0, 11.0, 15.5, 16.0])


def test_what_is_old_is_forgotten() -> None:
    """Looks that are older than is asked for go, but for the last of them, from which growth is still known."""
    total = Total(10.0)
    for now in range(100):
        total.see(now, 2.0 * now)
    assert total.since(89.0) == pytest.approx(20.0)
    assert total.since(0.0) == pytest.approx(20.0)


def test_rows_make_as_many_as_those_before_them() -> None:
    """What an operator makes of a row is what it has reported, before that what the network says, and else one."""
    made, taken = chain(), {"rows->first": (100.0, 20.0)}
    plain = since_reported(["first", "second"], made, taken, {"second->out": 0.5}, {})
    assert plain == {"rows->first": (100.0, 20.0), "first->second": (80.0, 0.0), "second->out": (80.0, 40.0)}
    given = since_reported(["first", "second"], chain(0.5), taken, {}, {})
    assert given["first->second"] == (40.0, 0.0)
    told = {"rows->first": (50, 10), "first->second": (10, 0), "second->out": (5, 0)}
    learned = since_reported(["first", "second"], chain(0.5), taken, {}, told)
    assert learned["first->second"] == (20.0, 0.0)
    assert learned["second->out"] == (20.0, 0.0)  # it has told of too few


@given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1), st.floats(0, 0.5)), min_size=4, max_size=40))
def test_estimates_end_in_what_was_reported(looks: list[tuple[int, float, float]]) -> None:
    """Counts of all looks add up to what was reported in the end, wherever estimates were not above it before."""
    made, now, arrived, dropped = chain(), 1000.0, 0, 0
    unit, shown = _Unit(now), [0, 0]
    passes = query(made)
    for number, (rows, share, own) in enumerate(looks):
        now += 0.5
        unit.came(now, "rows->first", rows, share)
        unit.passed(now, own, bool(rows))
        arrived, dropped = arrived + rows, dropped + rows - round(share * rows)
        last = number == len(looks) - 1
        if last:
            kept = arrived - dropped
            counts = {"rows->first": (arrived, dropped), "first->second": (kept, 0), "second->out": (kept, 0)}
            unit.told([report(number, now + 1.0, counts)])
        found = unit.counts(passes, made, {})["rows->first"]
        shown = [shown[0] + found[0], shown[1] + found[1]]
        assert min(found) >= 0
        assert shown[0] <= arrived + 1
    assert shown[0] == arrived
    assert abs(shown[1] - dropped) <= len(looks) / 2 + 1


def test_a_query_with_more_than_it_can_do_is_told_by_its_rows() -> None:
    """It is overloaded once its rows take much longer than they ever did, in two looks; not while none leaves."""
    unit = _Unit(0.0)
    for now, own, overloaded in (
        (1.0, 0.02, False), (2.0, 0.03, False), (3.0, 0.3 + SLOW, False), (4.0, 0.5, True), (5.0, None, False),
        (6.0, 0.5, False), (7.0, 0.5, True), (8.0, 0.04, False),
    ):  # fmt: skip
        unit.passed(now, own, came=True)
        assert unit.overloaded is overloaded
    unit.passed(9.0, None, came=False)
    assert unit.since == 9.0


def test_what_dropped_rows_cost_is_learned() -> None:
    """Where a query is busy all the time, looks with more and fewer drops tell what one takes."""
    unit = _Unit(0.0)
    for now, own in ((1.0, 0.01), (2.0, 0.5)):
        unit.passed(now, own, came=True)
    for look in range(12):
        unit.passed(3.0 + look, 0.5, came=True)
        dropped = 100 * (look % 4)
        unit.worked((1.0 - dropped * 0.0005) * COST, dropped, 1.0)
        assert unit.wasted == pytest.approx(dropped * 0.0005 if look >= 3 else 0.0, abs=1e-6)


@given(st.lists(st.tuples(*(st.floats(0, 100).map(lambda x: round(x, 3)),) * 3), min_size=4, max_size=12))
def test_costs_that_share_a_time_are_least_squares(rows: list[tuple[float, float, float]]) -> None:
    """What a dropped row costs is that of SciPy's least squares without negative numbers."""
    sizes, lost, spent = np.array(rows).T
    matrix = np.stack([sizes, lost], axis=1)
    if np.linalg.cond(matrix) < 1e6:
        assert shared(sizes, lost, spent) == pytest.approx(float(nnls(matrix, spent)[0][1]), rel=1e-6, abs=1e-9)
    else:
        assert shared(sizes, lost, spent) >= 0


def test_processor_time_is_not_asked_for_too_often() -> None:
    """A host's share is what it used between two looks that are far enough apart; of one elsewhere nothing is known."""
    used, asked = [10.0, 11.0, 14.0], []

    def cpu_seconds() -> float:
        asked.append(1)
        return used[len(asked) - 1]

    hosts: Any = {"h1": SimpleNamespace(cpu_seconds=cpu_seconds), "h2": SimpleNamespace(cpu_seconds=lambda: None)}
    usage = Usage(hosts)
    assert usage.look(100.0, ["h1", "h2", "gone"]) == {"h1": None, "h2": None, "gone": None}
    assert usage.look(100.0 + LEAST / 2, ["h1"]) == {"h1": None}
    assert usage.look(102.0, ["h1", "h2"]) == {"h1": 0.5, "h2": None}
    assert usage.look(102.5, ["h1"]) == {"h1": 0.5}
    assert usage.look(104.0, ["h1"]) == {"h1": 1.5}
    assert len(asked) == 3


class Topic:
    """Stands in for a topic, of which the broker may be away."""

    away = False
    count = 0

    def __init__(self, *_: object) -> None:
        if Topic.away:
            raise EngineError("there is no topic")

    def ends(self) -> dict[int, int]:
        """Return where it ends."""
        if Topic.away:
            raise EngineError("Kafka does not answer")
        return {0: Topic.count}

    def rows(self, begin: dict[int, int], end: dict[int, int]) -> list[Row]:
        """Return the rows between offsets: each was under way for a second."""
        return [Row(0, at, 0, at, 1_001_000, 1_000_000_000) for at in range(begin[0], end[0])]


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> tuple[Coming, Passing]:
    """What looks at the topics of a query in real-time mode."""
    monkeypatch.setattr(Topic, "away", False)
    monkeypatch.setattr(Topic, "count", 0)
    monkeypatch.setattr(passing, "RowTopic", Topic)
    monkeypatch.setattr(coming, "topics_of", lambda *_: [Topic()])
    made, prompt = chain(), object.__new__(PromptQuery)
    described = {
        "fragment": parts(made),
        "spec": SimpleNamespace(origins=[SimpleNamespace(name="rows")]),
        "messages": SimpleNamespace(ways=[SimpleNamespace(name="out", topic="out", label="out", sink=True)]),
    }
    for name, value in described.items():
        object.__setattr__(prompt, name, value)
    sources = {"rows": SimpleNamespace(format="kafka", options={"subscribe": "rows"})}
    network = SimpleNamespace(sources=sources, operators=made.operators, inputs=made.inputs, outputs=made.outputs)
    system: Any = SimpleNamespace(
        queries=[prompt], hosts={}, moments=SimpleNamespace(share=lambda *_: 1.0),
        deployment=SimpleNamespace(kafka=1, network=network, real_time=frozenset(), client={}),
    )  # fmt: skip
    found = Coming(system)
    return found, Passing(system, found)


def looked(rooms: tuple[Coming, Passing], at: float) -> Any:
    """Look at all topics at a time, and return what is known to wait."""
    for each in rooms:
        each.look(at, *([{}] if isinstance(each, Passing) else []))
    prompt: Any = rooms[1]._system.queries[0]
    return rooms[1].queues(prompt)["rows"]


def test_broker_that_is_away_is_waited_for(rooms: tuple[Coming, Passing], monkeypatch: pytest.MonkeyPatch) -> None:
    """While topics do not answer no more is known than before: what waited is not taken to be done."""
    clock = [1000.0]
    monkeypatch.setattr("penstock.spark.run.arriving.time", SimpleNamespace(time=lambda: clock[0]))
    for at, count in ((1000.0, 0), (1001.0, 10), (1002.0, 20)):
        clock[0], Topic.count = at, count
        before = looked(rooms, at)
    assert before == (pytest.approx(10.0), 1001.0)
    Topic.away = True
    clock[0] = 1040.0
    assert looked(rooms, 1040.0) == before
    assert rooms[0].silent == {"rows"}
    Topic.away, Topic.count, clock[0] = False, 30, 1041.0
    assert looked(rooms, 1041.0) == (pytest.approx(10 / 39), 1040.0)


def test_topic_that_never_answered_is_not_known(rooms: tuple[Coming, Passing]) -> None:
    """A broker that is away from the first look on ends nothing: what waits there is not known."""
    Topic.away = True
    assert looked(rooms, 1000.0) is None
    assert looked(rooms, 1001.0) is None
    Topic.away = False
    looked(rooms, 1002.0)
    assert rooms[0].silent == set()


def test_meter_waits_for_a_broker() -> None:
    """The measuring of a sink goes on where a look at its topic failed."""
    meter = Meter.__new__(Meter)
    looks = []

    class Ended:
        def wait(self, _: float) -> bool:
            return len(looks) > 2

    def look() -> None:
        looks.append(1)
        raise EngineError("Kafka does not answer")

    meter._ended, meter.error = Ended(), None  # type: ignore[assignment]
    meter.look = look  # type: ignore[method-assign]
    meter.run()
    assert meter.error is None
    assert len(looks) == 3


def test_upkeep_waits_for_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old rows that cannot be removed while a broker is away end no run."""
    system = System.__new__(System)
    system.growing, system._kept, system._swept, system.compiled = False, -1e9, -1e9, {}
    system.copies = SimpleNamespace(queries={})  # type: ignore[assignment]
    system.deployment = None  # type: ignore[assignment]
    asked = []

    def clean(*_: object) -> None:
        asked.append(1)
        raise EngineError("Kafka does not answer")

    for name, do in (("clean_logs", lambda *_: {}), ("fold", lambda *_: None), ("clean_topics", clean)):
        monkeypatch.setattr(f"penstock.spark.run.system.{name}", do)
    system.upkeep()
    assert asked
