"""Hosts that do not answer: nobody waits for them, and what they say when they answer again counts. No Spark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import EngineError
from penstock.spark.run import deaths
from penstock.spark.run.copies import Copies
from penstock.spark.run.folder import ended, note_end
from penstock.spark.run.system import System
from penstock.spark.shipped.place import Place
from penstock.spark.silent import Asker, Silent, within


def soon(holds: Callable[[], bool]) -> bool:
    """Return whether something holds within some seconds."""
    deadline = time.monotonic() + 5
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


def test_a_host_that_does_not_answer_is_waited_for_once() -> None:
    """Until its late answer comes it is asked nothing else, others are, and then it is asked again."""
    asker, thaw, heard = Asker(0.1), threading.Event(), []
    with pytest.raises(Silent):
        asker.ask("h1", thaw.wait)
    assert asker.silent == {"h1"}
    with pytest.raises(Silent, match="'h1'"):
        asker.ask("h1", lambda: heard.append("h1"))
    assert asker.ask("h2", lambda: 2) == 2
    assert heard == []
    thaw.set()
    assert soon(lambda: not asker.silent)
    assert asker.ask("h1", lambda: 1) == 1


def test_what_a_host_fails_with_is_told() -> None:
    """An error is an answer, also one of time: only no answer at all makes a host silent."""

    def fail() -> None:
        raise TimeoutError("its own")

    asker = Asker()
    with pytest.raises(TimeoutError, match="its own"):
        asker.ask("h1", fail)
    assert asker.silent == frozenset()
    with pytest.raises(Silent):
        within(0.01, lambda: time.sleep(0.5))


class Frozen:
    """A query on a host; it answers once that is thawed."""

    def __init__(self, host: str, thaw: threading.Event, error: str | None = None) -> None:
        self.name, self.marks, self._thaw, self._error = host, (1, 0), thaw, error
        self.unit, self.looked = SimpleNamespace(name=host, host=host), 0
        self.ended: list[bool] = []

    def look(self, ask: Callable[[Any], Any]) -> None:
        """Ask, and count what is answered."""
        self.looked += bool(ask(lambda: self._thaw.wait(20)))

    def failed(self) -> str | None:
        """Return an error, if there is one."""
        self._thaw.wait(20)
        return self._error

    def goes_on(self) -> bool:
        """Whether there is no error."""
        return self.failed() is None

    def check(self) -> None:
        """Raise the error."""
        raise EngineError(str(self._error))

    def end(self, _: Any) -> None:
        """End once the host answers."""
        self.ended.append(self._thaw.wait(20))


def test_a_silent_host_keeps_nobody_from_the_others() -> None:
    """The others are looked at, their failures and ends noticed; one that has died meanwhile is not waited for."""
    thaw, thawed = threading.Event(), threading.Event()
    thawed.set()
    there = {"h1": True, "h2": True}
    system: Any = System.__new__(System)
    still, other = Frozen("h1", thaw), Frozen("h2", thawed, "broken")
    system.asker, system.units, system.growing, system.runners = Asker(0.1), {}, True, {"h1": still, "h2": other}
    system.copies = SimpleNamespace(runners={})
    system.hosts = {name: SimpleNamespace(alive=lambda name=name: there[name], log=None) for name in there}
    begun = time.monotonic()
    assert [system.look() for _ in range(3)] == [(1, 0, 1, 0)] * 3
    assert (still.looked, other.looked) == (0, 3)
    system.check(still)
    assert not system.goes_on(still)
    with pytest.raises(EngineError, match="broken"):
        system.check(other)
    copies: Any = Copies.__new__(Copies)
    copies._system, copies.runners, copies.missing = system, {"h1": still}, {}
    copies.check()
    assert copies.missing == {}
    there["h1"] = False
    with pytest.raises(EngineError, match="'h1' has died"):
        system.check(still)
    assert time.monotonic() - begun < 5
    thaw.set()
    assert soon(lambda: not system.asker.silent)
    system.look()
    assert still.looked == 1


def test_a_unit_is_not_begun_on_a_host_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while its host is named, and not what Spark's client says minutes later; a short pause is no matter."""
    monkeypatch.setattr("penstock.spark.run.system.MUTE", 0.5)
    thaw, copies = threading.Event(), list[str]()
    runner: Any = Frozen("h1", thaw)
    runner.launch, runner.ready = lambda _: None, lambda _: thaw.wait(20)
    system: Any = System.__new__(System)
    system.asker, system.ended, system.lock, system.runners = Asker(0.1), threading.Event(), threading.Lock(), {}
    system.compiled, system.units, system.deployment = {"u": None}, {}, None
    system.meters = SimpleNamespace(begin=lambda *_: None)
    system.copies = SimpleNamespace(follow=lambda name, _: copies.append(name))
    system.hosts = {"h1": SimpleNamespace(alive=lambda: True, log=None)}
    monkeypatch.setattr(system, "_runner", lambda _: runner)
    with pytest.raises(EngineError, match="host 'h1' does not answer; once it does, run the same command again"):
        system.begin("u", 1.0)
    threading.Timer(0.3, thaw.set).start()
    system.begin("u", 1.0)
    assert copies == ["u"]


def test_hosts_that_do_not_answer_are_told_from_those_that_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error is an answer."""
    monkeypatch.setattr(deaths, "PATIENCE", 0.1)
    thaw = threading.Event()

    def refuse(_: str) -> None:
        raise OSError("refused")

    gets = {"h1": refuse, "h2": lambda _: thaw.wait(20), "h3": lambda _: "UTC"}
    sessions: Any = {name: SimpleNamespace(conf=SimpleNamespace(get=get)) for name, get in gets.items()}
    assert deaths.mute(sessions) == ["h2"]
    thaw.set()


def test_a_run_ends_without_what_a_silent_host_has_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ending waits for a while only, and then nothing may deliver any more; when that was is noted."""
    monkeypatch.setattr("penstock.spark.run.system.ENDS", 0.1)
    thaw, thawed = threading.Event(), threading.Event()
    thawed.set()
    system: Any = System.__new__(System)
    system.ended, system.units, system.hosts = threading.Event(), {"h1": None}, {"h1": None, "h2": None}
    system.runners = {"h1": Frozen("h1", thaw), "h2": Frozen("h2", thawed)}
    system.copies = SimpleNamespace(guard=SimpleNamespace(end=lambda: None), leave=lambda _: thaw.wait(20))
    system.deployment, begin = SimpleNamespace(place=Place(str(tmp_path))), time.time()
    system.made = begin
    (system.deployment.place / "begun.json").publish(json.dumps([begin]).encode())
    fenced: list[bool] = []
    monkeypatch.setattr(system, "_finish", lambda: None)
    monkeypatch.setattr(system, "fence", lambda: fenced.append(True))
    system.stop()
    assert [runner.ended for runner in system.runners.values()] == [[], [True]]
    assert fenced == [True]
    assert [begin <= at <= time.time() for at in ended(system.deployment.place)] == [True]
    thaw.set()


def test_a_start_that_fails_ends_no_run(tmp_path: Path) -> None:
    """The end of a run is noted only if it has begun: the one before it, long ago, has not gone on until now."""
    place = Place(str(tmp_path))
    note_end(place, 100.0)
    (place / "begun.json").publish(b"[50.0]")
    note_end(place, 100.0)
    assert ended(place) == ()
    note_end(place, 50.0)
    assert len(ended(place)) == 1
