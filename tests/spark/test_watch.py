"""What a run does whose queries fail, on stand-ins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from penstock.errors import EngineError
from penstock.spark.run import watch as watch_module
from penstock.spark.run.failures import AGAIN
from penstock.spark.run.reports import was_passing
from penstock.spark.run.watch import watch

LOST = (
    "Job aborted due to stage failure: Task 1 in stage 9.0 failed 1 times, most recent failure: Lost task 1.0 in stage "
    "9.0 (TID 3) (127.0.0.1 executor 0): ExecutorLostFailure (executor 0 exited caused by one of the running tasks) "
    "Reason: Command exited with code 137\nDriver stacktrace:"
)


class Standing:
    """Stands in for a system of one unit whose query fails some times."""

    def __init__(self, text: str, times: int) -> None:
        self.text, self.times, self.moved = text, times, 0
        self.deployment = SimpleNamespace(place=None)
        self.copies = SimpleNamespace(check=lambda: None, patience=lambda: 0.0)
        self.units = {"bids": SimpleNamespace(host="h1")}
        self.runners = {"bids": SimpleNamespace(passing=was_passing(self.handle))}

    @property
    def handle(self) -> Any:
        """The query's handle, which tells what it ended with."""
        return SimpleNamespace(exception=lambda: PySparkException(self.text))

    def look(self) -> tuple[int, ...]:
        """Return that nothing has come."""
        return (0, 0)

    def look_at_hosts(self) -> None:
        """Find all hosts alive."""

    def check(self, _: Any) -> None:
        """Fail, unless it was started again often enough."""
        if self.moved < self.times:
            raise EngineError(f"query 'bids' failed: {self.text}")

    def move(self, name: str, host: str, interval: float) -> None:
        """Start the unit again."""
        assert (name, host, interval) == ("bids", "h1", 1.0)
        self.moved += 1


def watched(standing: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Watch a stand-in for a while; return how often its unit was started again."""
    monkeypatch.setattr(watch_module, "LOOK", 0.001)
    monkeypatch.setattr(watch_module, "CHECK", 0.0)
    ending: Any = SimpleNamespace(epoch=0.0, length=0.0, finite=True, over=lambda *_: standing.moved >= standing.times)
    monkeypatch.setattr(watch_module, "Ending", lambda _: ending)
    monkeypatch.setattr(watch_module, "Ended", lambda _: None)
    watch(standing, 1.0, None, lambda _what, _share: None, None)
    return int(standing.moved)


def test_a_clock_that_stands_makes_no_run_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run for some time takes that time also where the clock is set back meanwhile."""
    standing: Any = Standing(LOST, 0)
    looks = iter(range(500))
    standing.look = lambda: (next(looks), 0)
    ending: Any = SimpleNamespace(epoch=0.0, length=0.0, finite=False, over=lambda *_: False)
    monkeypatch.setattr(watch_module, "LOOK", 0.05)
    monkeypatch.setattr(watch_module, "Ending", lambda _: ending)
    monkeypatch.setattr(watch_module, "Ended", lambda _: None)
    monkeypatch.setattr("time.time", lambda: 0.0)
    watch(standing, 1.0, 0.1, lambda _what, _share: None, None)
    assert next(looks) > 0


@pytest.mark.parametrize("times", [1, AGAIN])
def test_a_query_that_lost_an_executor_goes_on(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an executor dies that may retry no task, the query is started again by the run itself."""
    assert watched(Standing(LOST, times), monkeypatch) == times


def test_executors_that_die_again_and_again_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query is started again so many times in a minute, and then the run fails with what Spark said."""
    standing = Standing(LOST, AGAIN + 1)
    with pytest.raises(EngineError, match="ExecutorLostFailure"):
        watched(standing, monkeypatch)
    assert standing.moved == AGAIN


def test_other_failures_end_a_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that fails by what it computes is not started again."""
    standing = Standing("Job aborted due to stage failure: division by zero", 1)
    with pytest.raises(EngineError, match="division by zero"):
        watched(standing, monkeypatch)
    assert standing.moved == 0
