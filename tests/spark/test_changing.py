"""Changes of a system that runs, and hosts that come, die and leave meanwhile: on stand-ins, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cluster import Cluster, Host
from penstock.errors import EngineError, InputError
from penstock.latency.fragments import Fragment
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import Pace
from penstock.spark.run import changing, ending, live
from penstock.spark.run.attach import Grown
from penstock.spark.run.changing import Changes
from penstock.spark.run.ending import Ending
from penstock.spark.run.failures import AGAIN, Failures
from penstock.spark.run.live import SparkEngine
from penstock.spark.run.membership import Membership
from penstock.spark.run.split import parts_apart
from penstock.spark.run.system import System
from penstock.spark.run.units import Unit
from penstock.spark.shipped.gate import owner_of, take_over
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import Knobs
from penstock.steering import Applied, Plan


def network(*queries: str) -> Network:
    """Return queries of one operator each, over one source."""
    return parse_network(
        {
            "name": "rows",
            "sources": {"rows": {"format": "json", "schema": "n int"}},
            "operators": {name: {"kind": "filter", "input": "rows", "where": "true"} for name in queries},
            "sinks": {f"{name}-out": {"input": name} for name in queries},
        }
    )


def unit(name: str, host: str) -> Unit:
    """Return the unit of a query of one operator."""
    return Unit.new(Fragment(name, host, (name,), frozenset()))


class StandIn:
    """Stands in for a host."""

    pid = 1

    def __init__(self, name: str) -> None:
        self.name, self.up = name, True

    def alive(self) -> bool:
        """Whether it has not been stopped."""
        return self.up

    def start(self) -> StandIn:
        """Let it be there."""
        self.up = True
        return self

    def stop(self) -> None:
        """Let it go."""
        self.up = False


class Stage:
    """A living engine over two units on the first two of three hosts; moves wait for `go`."""

    def __init__(self, folder: Path) -> None:
        cluster = Cluster.uniform(3)
        self.hosts = {name: StandIn(name) for name in cluster.hosts}
        self.engine: Any = SimpleNamespace(
            cluster=cluster, hosts=dict(self.hosts), sessions=dict.fromkeys(self.hosts), add=self.add
        )
        self.units = {each.name: each for each in (unit("a", "h1"), unit("b", "h2"))}
        self.system: Any = SimpleNamespace(
            units=self.units, down=set(), growing=False, move=self.move, claim=SimpleNamespace(given_up=frozenset()),
            copies=SimpleNamespace(
                runners={}, lose=lambda _: None, succeed=lambda _: False, patience=lambda: 0.0, carry=self.carry
            ),
            sessions=self.engine.sessions,
            lock=threading.RLock(),
            runners={name: SimpleNamespace(unit=each, goes_on=lambda: True) for name, each in self.units.items()},
            compiled={name: SimpleNamespace(inputs=("rows",)) for name in self.units},
            deployment=SimpleNamespace(
                network=network("a", "b"), prompt=lambda _: False, pace=Pace(0.5), place=Place(str(folder)),
                real_time=frozenset(),
            ),
            go_at=lambda pace: setattr(self.system.deployment, "pace", pace),
        )  # fmt: skip
        self.go = threading.Event()
        self.changes = Changes.__new__(Changes)
        self.changes.engine, self.changes.system, self.changes.following = self.engine, self.system, False
        self.changes._due = set()
        self.changes.jobs, self.changes.targets, self.changes.pool = {}, {}, ThreadPoolExecutor(4)
        self.changes.members = Membership(self.engine, self.system, self.changes.pool, self.changes._begin_there)
        self.live = SparkEngine.__new__(SparkEngine)
        self.live._began = 0.0
        self.live.engine, self.live.system, self.live.changes = self.engine, self.system, self.changes
        self.live._told, self.live._failures, self.live._first = [], Failures(), frozenset({"a", "b"})

    def add(self, cluster: Cluster, host: StandIn) -> None:
        """Take a host in, as `Engine.add` does."""
        self.engine.cluster = cluster
        self.engine.hosts[host.name] = host
        self.engine.sessions[host.name] = None

    def move(self, name: str, host: str, _interval: float) -> None:
        """Place a unit, as `System.move` does once its query is compiled."""
        self.go.wait(10)
        self.units[name] = self.units[name].on(host)
        self.system.runners[name] = SimpleNamespace(unit=self.units[name], goes_on=lambda: True)

    def carry(self, name: str, copy: str, host: str, _interval: float) -> None:
        """Fail, as `Copies.carry` does where the query of a copy fails."""
        raise EngineError(f"{copy} of {name} fails on {host}")

    def apply(self, **plan: Any) -> Applied:
        """Let the engine begin what a plan wants."""
        return self.live.apply(Plan(**plan))

    def settle(self) -> None:
        """Let moves go on, and wait for them."""
        self.go.set()
        for job in [*self.changes.jobs.values()]:
            job.exception(10)
        self.changes.jobs.clear()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A living engine on stand-ins."""
    monkeypatch.setattr("penstock.spark.run.membership.note_sessions", lambda *_: None)
    monkeypatch.setattr("penstock.spark.run.membership.warm", lambda *_: None)
    made = Stage(tmp_path)
    yield made
    made.settle()
    made.changes.pool.shutdown()


def reasons(applied: Applied) -> list[str]:
    """Return why changes were refused."""
    return [each.why for each in applied.refused]


def test_host_to_which_a_unit_moves_does_not_leave(stage: Stage) -> None:
    """A host that is empty and to which a unit is on its way is refused to retire; once nothing comes, it leaves."""
    assert not stage.apply(placement={"b": "h3"}).refused
    assert reasons(stage.apply(retire=("h3",))) == ["hosts.h3: b will run there"]
    stage.settle()
    stage.changes.members.let_go()
    assert set(stage.engine.cluster.hosts) == {"h1", "h2", "h3"}
    assert stage.hosts["h3"].up
    assert not stage.apply(retire=("h2",)).refused
    stage.changes.members.let_go()
    assert set(stage.engine.cluster.hosts) == {"h1", "h3"}


def test_a_clock_that_is_set_back_stops_no_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a run goes on as that of the machine does, whatever its clock says."""
    first = stage.live.now
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert first <= stage.live.now < first + 10


def test_host_that_is_about_to_leave_takes_nothing(stage: Stage) -> None:
    """Nothing moves to a host that retires but is still there; asked for again, it stays."""
    assert not stage.apply(retire=("h3",)).refused
    assert reasons(stage.apply(placement={"b": "h3"})) == ["placement.b: host 'h3' is about to leave"]
    assert not stage.apply(add=(Host(name="h3"),), placement={"b": "h3"}).refused
    stage.settle()
    stage.changes.members.let_go()
    assert stage.hosts["h3"].up


def test_host_on_which_something_runs_again_stays(stage: Stage) -> None:
    """Whatever brought a unit to a host that was to leave, the host is not taken from it."""
    assert not stage.apply(retire=("h3",)).refused
    stage.units["b"] = stage.units["b"].on("h3")
    stage.changes.members.let_go()
    assert "h3" in stage.engine.cluster.hosts
    assert stage.hosts["h3"].up


def test_host_of_a_query_that_is_attached_does_not_leave(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host is refused to retire for a query of the same plan, and for one that is being attached."""
    whole, fresh = network("a", "b", "c"), unit("c", "h3")
    monkeypatch.setattr(changing, "grown", lambda *_: Grown(stage.system.deployment, (fresh,), ()))
    monkeypatch.setattr(changing, "attach", lambda *_: stage.go.wait(10))
    applied = stage.apply(network=whole, placement={"c": "h3"}, retire=("h3",))
    assert [change.kind for change in applied.begun] == ["attach"]
    assert reasons(applied) == ["hosts.h3: c will run there"]
    assert reasons(stage.apply(retire=("h3",))) == ["hosts.h3: c will run there"]


def test_host_that_starts_is_not_let_go_nor_does_it_bring_others_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host leaves once its start has ended, which leaves alone what became of the others meanwhile."""
    made, ready = StandIn("h4"), threading.Event()

    def start() -> StandIn:
        ready.wait(10)
        return made

    made.start = start  # type: ignore[method-assign]
    monkeypatch.setattr("penstock.spark.run.membership.make_host", lambda *_: made)
    members = stage.changes.members
    assert not stage.apply(add=(Host(name="h4"),)).refused
    assert not stage.apply(retire=("h3", "h4")).refused
    members.let_go()
    assert set(stage.engine.cluster.hosts) == {"h1", "h2", "h4"}
    ready.set()
    members.wait("h4")
    assert set(stage.engine.cluster.hosts) == {"h1", "h2", "h4"}
    members.let_go()
    assert set(stage.engine.cluster.hosts) == set(stage.engine.hosts) == {"h1", "h2"}


@pytest.mark.parametrize("fresh", [False, True])
def test_limit_of_a_source_whose_query_is_not_compiled_is_refused(stage: Stage, fresh: bool) -> None:
    """A query that was placed a moment ago may start without the limit, and is waited for."""
    if fresh:
        stage.units["c"] = unit("c", "h3")
        stage.system.deployment.network = network("a", "b", "c")
    else:
        stage.system.compiled.clear()
    applied = stage.apply(limits={"rows": 100.0})
    assert not applied.begun
    assert ["is about to start" in why for why in reasons(applied)] == [True]


def test_units_start_once_at_a_pace_of_limits_and_triggers(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit and triggers of one plan are in force together, and each unit starts again once, where it is to be."""
    monkeypatch.setattr(changing, "rows_a_file", lambda *_: 1.0)
    started: list[tuple[str, str, float]] = []
    monkeypatch.setattr(stage.system, "move", lambda *given: started.append(given))
    for _ in range(2):  # what is in force already changes nothing
        applied = stage.apply(limits={"rows": 100.0}, triggers={"h1": 1.0, "h2": 2.0}, placement={"b": "h1"})
        assert not applied.refused
        stage.settle()
        stage.units["b"] = stage.units["b"].on("h1")
    assert sorted(started) == [("a", "h1", 1.0), ("b", "h1", 1.0)]
    assert stage.changes.pace == Pace(0.5, {"h1": 1.0, "h2": 2.0}, {"rows": 100.0}, {"rows": 1.0})


def test_unit_that_moves_goes_on_at_its_pace_until_it_is_there(stage: Stage) -> None:
    """While a unit moves its pace is not changed: the trigger is refused, and nothing of it done."""
    assert not stage.apply(placement={"b": "h3"}).refused
    applied = stage.apply(triggers={"h2": 1.0, "h1": 1.0})
    assert [change.name for change in applied.begun] == ["h1"]
    assert reasons(applied) == ["placement.b: 'b' moves already"]
    assert stage.changes.pace.triggers == {"h1": 1.0}


@pytest.mark.parametrize("placed", [unit("c", "h1"), unit("b", "h1")])
def test_host_dies_while_units_are_written_down(stage: Stage, monkeypatch: pytest.MonkeyPatch, placed: Unit) -> None:
    """What a change places elsewhere meanwhile, new or from the dead host, neither disturbs that nor is stopped."""
    place, system = stage.system.deployment.place, stage.system
    system.units.clear()
    system.units.update({name: unit(name, "h2") for name in "ab"})
    changes: list[threading.Thread] = []

    def change() -> None:
        with system.lock:  # as `System.place` does
            system.units[placed.name] = placed
        take_over(place, placed.name)

    def meanwhile(folder: Place, name: str, *, deliver: bool) -> int:
        if not changes:
            changes.append(threading.Thread(target=change))
            changes[0].start()
            changes[0].join(0.3)
        return take_over(folder, name, deliver=deliver)

    monkeypatch.setattr("penstock.spark.run.system.take_over", meanwhile)
    System.lose(stage.system, "h2")
    changes[0].join(10)
    assert owner_of(place, "a")["generation"] == 0
    assert owner_of(place, placed.name)["generation"] == 1
    assert "h2" in stage.changes.members.down


def test_query_that_could_not_be_attached_is_told_of(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an attachment fails before anything of it is there, the report says so, and what ran goes on."""

    def fails(*_: object) -> None:
        stage.go.wait(10)
        raise EngineError("the folder cannot be read")

    monkeypatch.setattr(changing, "grown", lambda *_: Grown(stage.system.deployment, (unit("c", "h3"),), ()))
    monkeypatch.setattr(changing, "attach", fails)
    monkeypatch.setattr(Changes, "fuse", lambda _: None)
    stage.live._asked = float("inf")
    assert stage.apply(network=network("a", "b", "c"), placement={"c": "h3"}).begun
    stage.go.set()
    stage.changes.jobs["c"].exception(10)
    stage.live._tend()
    told = [{key: each[key] for key in ("unit", "host", "why")} for each in stage.live._told]
    assert told == [{"unit": "c", "host": "h3", "why": "it was not attached: the folder cannot be read"}]
    assert stage.changes.jobs == {}


def test_attached_query_that_fails_is_given_up_alone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was attached and fails again and again ends once no other unit changes its shape; the rest goes on."""
    found = Grown(stage.system.deployment, (), (), (stage.units["b"],))
    ended: list[Grown] = []
    monkeypatch.setattr(live, "shrunk", lambda *_: found)
    monkeypatch.setattr(changing, "attach", lambda _system, change, _intervals: ended.append(change))
    stage.live._first, stage.system.growing = frozenset({"a"}), True
    stage.system.goes_on = lambda _: False
    for _ in range(AGAIN + 1):
        stage.live._failed("b", EngineError("poison"))
        stage.settle()
    assert ended == []
    stage.system.growing = False
    stage.live._failed("b", EngineError("poison"))
    stage.settle()
    assert ended == [found]
    assert [told["unit"] for told in stage.live._told if "given up, with all of b" in told["why"]] == ["b"]


def test_query_is_refused_for_now_while_another_one_is_attached(stage: Stage) -> None:
    """While another query grows, and where the plan knows nothing of it yet, one may be attached soon."""
    stage.system.growing = True
    refused = stage.live.apply(Plan(network=network("a", "b", "c"), placement={"c": "h3"})).refused
    assert [(each.change.kind, each.soon) for each in refused] == [("attach", True)]
    stage.system.growing, stage.system.deployment.network = False, network("a", "b", "new")
    refused = stage.live.apply(Plan(network=network("a", "b", "c"), placement={"c": "h3"})).refused
    assert [(each.change.kind, each.soon) for each in refused] == [("attach", True)]
    refused = stage.live.apply(Plan(network=network("a", "b", "new", "c"), placement={"c": "none"})).refused
    assert [(each.change.kind, each.soon) for each in refused] == [("attach", False)]


def test_end_is_that_of_what_runs_now(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has done all that it began with goes on once a query without an end is attached."""
    monkeypatch.setattr(ending, "epoch_of", lambda _: 0.0)
    monkeypatch.setattr(Changes, "fuse", lambda _: None)
    deployment, idle = stage.system.deployment, (5, 5, 3, 3)
    deployment.schedules, whole = {}, deployment.network
    deployment.network = SimpleNamespace(scheduled=True)
    stage.system.look = lambda **_: idle
    stage.live._over, stage.live._asked = False, float("inf")
    stage.live._ending = Ending(deployment)
    # It has done nothing for long.
    stage.live._ending.over(idle, 0.0, 0.5)
    deployment.network = whole
    assert stage.live.wait(0.0)
    deployment.network = SimpleNamespace(scheduled=True)
    assert not stage.live.wait(0.0)


def test_what_decides_of_others_windows_is_not_split_off(stage: Stage) -> None:
    """Where a query follows which windows a unit drops, by its name, a part that would decide is refused at once.

    Whoever decides of moves is told that these operators go together.
    """
    both = Unit.new(Fragment("a", "h1", ("a", "b", "c"), frozenset()))
    stage.system.deployment.network = network("a", "b", "c")
    followed: dict[str, tuple[str, ...]] = {"a": ("rows->b",)}
    stage.system.queries = [SimpleNamespace(name="counts", spec=SimpleNamespace(knobs=Knobs((), {}, followed)))]
    assert parts_apart(stage.system, both) == (("a", "b"), ("c",))
    with pytest.raises(InputError, match="'counts' follows which windows are dropped on 'rows->b'"):
        stage.changes._parts(both, {"a": "h1", "b": "h2", "c": "h2"})
    assert len(stage.changes._parts(both, {"a": "h1", "b": "h1", "c": "h2"})) == 2


def test_copy_that_leads_and_fails_is_its_unit(stage: Stage) -> None:
    """What fails while the copy that leads is started is told of its unit, which is started again some times only."""
    led = Unit(unit("a", "h1").fragment, "a", copies={"a": "h1", "a#2": "h2"})
    stage.units["a"] = led
    del stage.system.runners["a"]
    for _ in range(AGAIN):
        stage.live._failed("a#1", EngineError("poison"))
        stage.settle()
    assert {told["unit"] for told in stage.live._told} == {"a"}
    with pytest.raises(EngineError, match="unit 'a' fails again and again"):
        stage.live._failed("a", EngineError("poison"))


def test_unit_is_not_taken_from_a_copy_that_came_to_lead(tmp_path: Path) -> None:
    """A unit that is to be started stays with the copy that has come to lead while its query was compiled."""
    before = Unit(unit("a", "h1").fragment, "a", copies={"a": "h1", "a#2": "h2"})
    system: Any = System.__new__(System)
    system.units, system.down, system.lock, system.runners = {"a": before}, set(), threading.RLock(), {}
    system.compile = lambda _: system.units.update(a=before.led_by("a#2"))
    with pytest.raises(EngineError, match="another copy leads"):
        system.move("a", "h1", 0.5)
    assert system.units["a"].saved == "a#2"
