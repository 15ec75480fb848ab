"""Drift and forecasts while a run goes on: what is heard batch by batch is what the report says afterwards."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from test_forecast import overloaded, world
from test_report import EPOCH, outcome_of

from penstock.running.drift import Drift, Seen
from penstock.running.ended import seen
from penstock.running.forecast import Forecast
from penstock.running.lookout import Lookout
from penstock.running.outlook import EVERY, forecasts, with_measured
from penstock.spark.run import Batch


def hear(length: int, slow: tuple[float, float], seed: int) -> tuple[list[Drift], list[tuple[float, Forecast]], float]:
    """Let a lookout hear of a run second by second; return its drifts, its forecasts, and when the drift was told."""
    course, _, result = world(np.random.default_rng(seed), length, slow)
    outcome = outcome_of(result)
    drifts: list[Drift] = []
    told: list[tuple[float, Forecast]] = []
    heard_at = np.inf
    lookout = Lookout(
        course, drifts.append, lambda rows: told.extend((now, row) for row in rows), np.random.default_rng(0)
    )
    batches = sorted(outcome.batches, key=lambda batch: batch.start + batch.duration)
    count = 0
    for now in np.arange(1.0, length + 10):
        ended = [b for b in batches[count:] if b.start + b.duration <= EPOCH + now]
        count += len(ended)
        lookout.hear(ended, EPOCH, EPOCH + now)
        heard_at = min(heard_at, now) if drifts else heard_at
    return drifts, told, heard_at


@pytest.mark.parametrize("seed", range(3))
def test_a_host_that_becomes_slow_is_told_at_once(seed: int) -> None:
    """A host whose batches take half as long again is told within 15 s, once, and is the one that the report names."""
    drifts, _, heard_at = hear(70, (30.0, 1.5), seed)
    assert [drift.host for drift in drifts] == ["h1"]
    assert 30 <= heard_at <= 45
    assert drifts[0].slower == pytest.approx(1.5, rel=0.15)
    course, _, result = world(np.random.default_rng(seed), 70, (30.0, 1.5))
    outcome = outcome_of(result)
    rows = seen(course.network, course.cluster, course.placement, course.statistics, outcome)
    assert forecasts(course, rows, np.random.default_rng(0))[1] == tuple(drifts)


def test_forecasts_are_made_as_time_goes_on() -> None:
    """Every ten seconds there is a forecast for each horizon, made from what had ended by then."""
    drifts, told, _ = hear(45, (1e9, 1.0), 1)
    assert drifts == []
    times = sorted({row.time for _, row in told})
    assert len(times) == 4
    assert all(b - a == pytest.approx(EVERY, abs=1.0) for a, b in pairwise(times))
    assert all(now - row.time == pytest.approx(1.0) for now, row in told)
    assert all(row.low <= row.predicted * 1.001 and row.predicted <= row.high * 1.001 for _, row in told)


def test_forecasts_made_meanwhile_know_a_backlog_however_old_it_is() -> None:
    """Batches since nothing waited are kept, and no others: forecasts are those of the report."""
    course, _, result = overloaded(2.0, 400)
    batches = [
        Batch(b.query, k, EPOCH + b.start, b.duration, 1, {"s1->o1.1": (round(b.load / 0.01), 0)})
        for k, b in enumerate(result.batches)
    ]
    told: list[Forecast] = []
    lookout = Lookout(course, lambda _drift: None, told.extend, np.random.default_rng(0))
    kept = {}
    for now in np.arange(0.0, 720.0, 10.0):
        ended = [b for b in batches if now - 10 < b.start + b.duration - EPOCH <= now]
        lookout.hear(ended, EPOCH, EPOCH + now)
        kept[now] = len(lookout._batches)
    stimulus, latency, weight = result.whole()
    last = [each for each in with_measured(told, stimulus[weight > 0], latency[weight > 0]) if each.time > 690]
    assert [each.predicted for each in last] == pytest.approx([each.measured for each in last], rel=0.03)
    assert kept[710.0] <= kept[390.0] <= 120


def test_a_quiet_second_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the ends of batches and forecasts nothing is computed anew."""
    course, _, result = world(np.random.default_rng(0), 30, (1e9, 1.0))
    batches = outcome_of(result).batches
    first = min(batch.start + batch.duration for batch in batches) - EPOCH
    asked: list[tuple[Any, ...]] = []

    def counted(*given: Any) -> list[Seen]:
        asked.append(given)
        return seen(*given)

    monkeypatch.setattr("penstock.running.lookout.seen", counted)
    lookout = Lookout(course, lambda _drift: None, lambda _rows: None, np.random.default_rng(0))
    lookout.hear([batch for batch in batches if batch.start + batch.duration <= EPOCH + first], EPOCH, EPOCH + 5)
    assert len(asked) == 1
    for k in range(3):
        lookout.hear([], EPOCH, EPOCH + 6 + k)
    assert len(asked) == 1


def test_a_lookout_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong while batches are judged is told once, and the run goes on."""
    course, _, result = world(np.random.default_rng(0), 30, (1e9, 1.0))
    batches = outcome_of(result).batches

    def broken(*_given: object) -> None:
        raise ZeroDivisionError("no cores")

    monkeypatch.setattr("penstock.running.lookout.seen", broken)
    said: list[str] = []
    lookout = Lookout(course, lambda _drift: None, lambda _rows: None, np.random.default_rng(0), said.append)
    for now in (10.0, 20.0):
        lookout.hear(batches, EPOCH, EPOCH + now)
    assert said == ["hosts are not watched any more: ZeroDivisionError: no cores"]
