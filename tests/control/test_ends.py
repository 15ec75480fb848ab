"""What comes of a controller that was killed, fails or is stopped, and of those who wait for it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any

import attrs
import numpy as np
import pytest
from engines import APART, simulated, stepped, two_queries

from penstock.control.controller import Controller
from penstock.control.folder import Folder, Request
from penstock.control.loop import Control
from penstock.control.policies import policies
from penstock.control.scenario import Happening
from penstock.control.totals import Totals
from penstock.errors import EngineError
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import held_back
from penstock.steering import Admit, Kill, Recover

NEW = Network.of(
    "new", [Source(name="s1")],
    [Operator(name="new", kind="map", inputs=("s1",), cost=(0.001,), selectivity=(1.0,))],
    [Sink(name="new-out", input="new")],
)  # fmt: skip


class Killed(BaseException):
    """The controller dies."""


def controller_of(folder: Folder, engine: Any, policy: str = "", **more: Any) -> Controller:
    """Return a controller that acts on the simulator, for so long as there is input."""
    control = Control(policies=policies(policy), act=True, journaled=more.pop("journaled", True))
    return Controller(engine=engine, control=control, folder=folder, **more)


@pytest.mark.parametrize("journaled", [True, False])
def test_a_query_that_waits_is_not_lost_with_the_controller(tmp_path: Any, journaled: bool) -> None:
    """What a scenario asks for and cannot be decided yet is decided by the controller that goes on."""
    rates = stepped((40, 30.0))
    scenario = (Happening(10.0, Kill("h2")), Happening(11.5, Admit(NEW)), Happening(20.0, Recover("h2")))

    def run(name: str, engine: Any, die_at: float | None = None) -> list[tuple[float, str, bool]]:
        folder = Folder(tmp_path / name)

        def tell(_what: str, share: float) -> None:
            if die_at is not None and share * rates.duration >= die_at:
                controller._save(controller._last)
                raise Killed

        controller = controller_of(
            folder, engine, scenario=scenario, until=rates.duration, tell=tell, journaled=journaled
        )
        with folder.held(), pytest.raises(Killed) if die_at is not None else contextlib.nullcontext():
            controller.run()
        return [(line["time"], line["policy"], line["acted"]) for line in folder.history()]

    whole = run("whole", simulated(two_queries(), APART, rates))
    assert whole == [(pytest.approx(20.0, abs=1.0), "admit", True)]
    first = simulated(two_queries(), APART, rates)
    run("killed", first, die_at=15.0)
    assert run("killed", simulated(two_queries(), APART, rates) if journaled else first) == whole


def test_totals_have_what_came_while_there_was_no_controller(tmp_path: Any) -> None:
    """Where an engine runs on without a controller, the next one counts what came meanwhile."""
    engine, folder = simulated(two_queries(), APART, stepped((40, 30.0))), Folder(tmp_path)

    def die(_what: str, share: float) -> None:
        if share >= 0.25:
            raise Killed

    with folder.held(), pytest.raises(Killed):
        controller_of(folder, engine, until=40.0, tell=die, journaled=False).run()
    engine.wait(20.0)
    engine.observe()
    with folder.held():
        report = controller_of(folder, engine, until=40.0, journaled=False).run()
    totals = (folder.read() or {})["status"]["totals"]
    assert report["streams"]["s1->cheap1"]["arrived"] > 1000
    for name, row in totals["streams"].items():
        assert row == {key: report["streams"][name][key] for key in ("arrived", "dropped")}
    assert {name: row["count"] for name, row in totals["sinks"].items()} == {
        name: row["latency"]["count"] for name, row in report["sinks"].items()
    }


def test_totals_are_no_less_than_either_count() -> None:
    """A report that does not count a batch which goes on takes nothing away, and adds streams that were attached."""
    mine = Totals(1.0, ("a", "b"), np.array([[9, 2], [1, 0]]), {"t": (5, 1.0, 0.5)})
    latency = {"mean": 0.25, "p50": 0.0, "p99": 0.0, "max": 0.75}
    report = {
        "streams": {"b": {"arrived": 7, "dropped": 3}, "c": {"arrived": 4, "dropped": 0}},
        "sinks": {"t": {"latency": {**latency, "count": 4}}, "u": {"latency": {**latency, "count": 8}}},
    }
    found = mine.counted_by(report)
    assert dict(zip(found.streams, found.rows.T.tolist(), strict=True)) == {"a": [9, 1], "b": [7, 3], "c": [4, 0]}
    assert found.sinks == {"t": (5, 1.0, 0.5), "u": (8, 2.0, 0.75)}


def test_what_waits_is_answered_when_the_controller_is_stopped(tmp_path: Any) -> None:
    """What cannot be decided before the controller is stopped is declined; a second stop is no failure."""
    folder = Folder(tmp_path)
    engine, asked = simulated(two_queries(), APART, stepped((40, 30.0))), []

    def tell(_what: str, _share: float) -> None:
        if len(asked) == 0:
            asked.append(("move", {"operator": "dear1", "host": "h2"}))
            controller._asked.append(attrs.evolve(waiting, identity="waits"))
            controller._take(Request("stops", "stop", {}))
            (folder.path / "requests" / "again.json").write_text(json.dumps({"kind": "stop", "token": token}))

    controller = controller_of(folder, engine, until=40.0, tell=tell, scenario=(Happening(1.0, Admit(NEW)),))
    waiting = controller._waiting(0)
    with folder.held():
        token = (folder.path / "token").read_text()
        controller.run()
    replies = {path.stem: json.loads(path.read_text()) for path in (folder.path / "replies").iterdir()}
    assert replies["stops"] == replies["again"] == {"done": True, "why": "stopped"}
    assert replies["waits"]["done"] is False
    assert "ends" in replies["waits"]["why"]


def test_a_stop_is_heard_between_looks(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where looks are rare a stop need not wait for the next one; what the engine had not yet done is not done."""
    folder, engine = Folder(tmp_path), simulated(two_queries(), APART, stepped((300, 30.0)))
    wait = engine.wait

    def waited(until: float) -> bool:
        (folder.path / "requests" / "stops.json").write_text(json.dumps({"kind": "stop", "token": token}))
        return wait(until)

    monkeypatch.setattr(engine, "wait", waited)
    control = Control(policies=(), every=100.0)
    with folder.held():
        token = (folder.path / "token").read_text()
        Controller(engine=engine, control=control, folder=folder, until=300.0).run()
    assert engine.now < 10.0


def test_who_asks_is_told_that_the_controller_has_ended(tmp_path: Any) -> None:
    """Where the controller ends without an answer that is said at once, and not that it was too slow."""
    folder, held = Folder(tmp_path), threading.Event()

    def hold() -> None:
        with folder.held():
            folder.ready()
            held.set()
            time.sleep(0.3)

    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(10)
    with pytest.raises(EngineError, match=r"has ended meanwhile \(nothing was changed\)"):
        Folder(tmp_path).ask("stop", {})
    holding.join()


def test_a_stop_is_over_when_another_may_begin(tmp_path: Any, penstock: Any) -> None:
    """Who stops a controller is let go once it has closed what it runs, and not as soon as it has heard."""
    folder, held, engine = Folder(tmp_path), threading.Event(), simulated(two_queries(), APART, stepped((9000, 30.0)))
    close = engine.close

    def slowly() -> None:
        time.sleep(0.5)
        close()

    def hold() -> None:
        with folder.held():
            held.set()
            Controller(engine=engine, control=Control(policies=()), folder=folder).run()

    engine.close = slowly  # type: ignore[method-assign]
    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(10)
    assert penstock("stop", tmp_path).code == 0
    assert not folder.alive
    holding.join()


def test_the_folder_says_why_a_controller_failed(tmp_path: Any, penstock: Any) -> None:
    """Status says what a controller failed of, and no longer once one goes on."""
    folder = Folder(tmp_path)

    def fail(_what: str, share: float) -> None:
        if share > 0.5:
            raise EngineError("the engine broke")

    engine = simulated(two_queries(), APART, stepped((10, 30.0)))
    with folder.held(), pytest.raises(EngineError), folder.noting_failure():
        controller_of(folder, engine, until=10.0, tell=fail).run()
    shown = penstock("status", tmp_path, "--json").document
    assert (shown["alive"], shown["over"], shown["failed"]) == (False, False, "the engine broke")
    assert "failed: the engine broke" in penstock("status", tmp_path).err
    with folder.held():
        controller_of(folder, simulated(two_queries(), APART, stepped((10, 30.0))), until=10.0).run()
    assert "failed" not in penstock("status", tmp_path, "--json").document


def test_the_clock_begins_where_a_run_goes_on() -> None:
    """What a killed run had done is done again at once; from there on it keeps its pace."""
    clock, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    hold = held_back(2.0, 50.0, lambda: clock[0], sleep)
    for now in (10.0, 40.0, 50.0):
        hold(now)
    assert slept == []
    for now in (51.0, 54.0):
        hold(now)
    assert slept == [0.5, 1.5]
