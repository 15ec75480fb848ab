"""When a run is over: decided from what runs now, without Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark.run import ending
from penstock.spark.run.ending import Ending

BEGUN = 1000.0
IDLE = (5, 5, 3, 3)
"""The last batches begun and ended of two units that do nothing."""


def deployment(*lengths: int, scheduled: bool = True) -> Any:
    """Return something that stands for a deployment with schedules of some seconds."""
    schedules = {
        f"s{number}": {"rates": json.dumps({"period": 1.0, "values": [1] * length})}
        for number, length in enumerate(lengths)
    }
    return SimpleNamespace(network=SimpleNamespace(scheduled=scheduled), schedules=schedules, place=None)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Ending:
    """The end of a run with a schedule of a minute."""
    monkeypatch.setattr(ending, "epoch_of", lambda _: BEGUN)
    return Ending(deployment(60))


def ended(watched: Ending, at: float) -> bool:
    """Whether the run is over at a time, at which it has long done nothing."""
    watched.over(IDLE, BEGUN + at - 10, 0.5)
    return watched.over(IDLE, BEGUN + at, 0.5)


def test_run_is_over_when_its_schedule_is(watched: Ending) -> None:
    """It goes on while the schedule does, and a short time after it has done nothing more."""
    assert not ended(watched, 59.0)
    assert ended(watched, 62.0)


def test_a_clock_that_is_set_back_puts_no_end_off(watched: Ending) -> None:
    """What has long done nothing is over soon after the clock was set back, and not when it is as late again."""
    watched.over(IDLE, BEGUN + 900.0, 0.5)
    assert not watched.over(IDLE, BEGUN + 100.0, 0.5)
    assert watched.over(IDLE, BEGUN + 103.0, 0.5)


@pytest.mark.parametrize(
    ("more", "over"),
    [(deployment(60, 120), False), (deployment(60, scheduled=False), False), (deployment(60, 30), True)],
)
def test_what_is_attached_is_waited_for(watched: Ending, more: Any, over: bool) -> None:
    """A longer schedule, or a source without an end, that comes meanwhile is not cut off."""
    watched.see(more)
    assert ended(watched, 70.0) is over
    assert ended(watched, 200.0) is more.network.scheduled
    assert watched.epoch == BEGUN
