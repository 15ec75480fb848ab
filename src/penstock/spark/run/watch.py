"""Watching a run until it is over."""

from __future__ import annotations

import math
import time

from penstock.errors import EngineError
from penstock.spark.run.ended import Ended, Heard
from penstock.spark.run.ending import Ending
from penstock.spark.run.failures import Failures
from penstock.spark.run.system import LOOK, Report, System

CHECK, HEAR = 5.0, 1.0
"""Seconds between two looks at the queries' errors, and at what batches have ended."""


def watch(system: System, trigger: float, seconds: float | None, tell: Report, heard: Heard | None) -> None:
    """Wait for the end of what a system works off, or for some seconds."""
    ended = Ended(system.deployment.place)
    ending, failures = Ending(system.deployment), Failures()
    # What is waited for is counted: the clock by which schedules go may be set.
    begun, begin = time.time(), time.monotonic()
    asked = listened = begin
    whole = max(ending.epoch, begun) - begun + max(0.0, ending.length - (begun - ending.epoch))
    # Nobody knows how far a run without an end is.
    span = seconds if seconds is not None else whole if ending.finite else math.inf
    while True:
        time.sleep(LOOK / 5)
        state = system.look()
        system.look_at_hosts()
        now = time.monotonic()
        if heard is not None and now - listened > HEAR:
            listened = now
            units = sorted(system.units.items())
            heard([batch for name, unit in units for batch in ended.fresh(name, unit.saved)], ending.epoch, time.time())
        if now - asked > CHECK:
            asked = now
            system.copies.check()
            _look_after(system, trigger, failures)
        tell("running", math.nan if span == math.inf else min(1.0, (now - begin) / span) if span > 0 else 0.0)
        over = ending.over(state, time.time(), trigger, system.copies.patience)
        if over or (seconds is not None and now - begin >= seconds):
            # In real-time mode what has come is gone over once more, which may take as long as its backlog.
            tell("finishing", 1.0)
            return


def _look_after(system: System, trigger: float, failures: Failures) -> None:
    """Start the units again whose queries have ended for a reason that passes, such as an executor that died.

    Raises
    ------
    EngineError
        If one ended for another reason, or too often.
    """
    for name, runner in [*system.runners.items()]:
        try:
            system.check(runner)
        except EngineError:
            if not runner.passing or failures.too_many(name):
                raise
            system.move(name, system.units[name].host, trigger)
