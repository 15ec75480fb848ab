"""Forecasts: a season is found, its error is stated honestly, and too little history is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.advice import Aims, Burst, consult, forecast
from penstock.advice.outlook import outlook
from penstock.errors import InputError

DAY = 86400.0


def days(count: float, period: float = 600.0, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Return rates with a daily season."""
    times = np.arange(round(count * DAY / period)) * period
    rng = np.random.default_rng(seed)
    season = 500 + 300 * np.sin(2 * np.pi * times / DAY) + 80 * np.sin(4 * np.pi * times / DAY)
    return np.asarray(season * np.exp(noise * rng.standard_normal(times.size)))


def test_a_season_goes_on() -> None:
    """A noiseless season is forecast within a few percent, at every step of the day."""
    found = forecast(days(5), 600.0, DAY)
    true = days(6)[-144:].reshape(48, 3).mean(axis=1)
    assert np.abs(found.middle - true).max() < 0.05 * true.max()
    assert found.error < 0.05


def test_the_error_is_that_of_the_next_day() -> None:
    """On noisy seasons, the stated error is about the error on a day that the forecast has not seen."""
    stated, came = [], []
    for seed in range(5):
        rates = days(7, noise=0.2, seed=seed)
        found = forecast(rates[:-144], 600.0, DAY)
        true = rates[-144:].reshape(48, 3).mean(axis=1)
        stated.append(found.error)
        came.append(np.abs(found.middle - true).sum() / true.sum())
        assert (true <= found.high).mean() > 0.8
    assert np.mean(came) == pytest.approx(np.mean(stated), rel=0.5)


def test_smoothing_beats_the_day_before() -> None:
    """On noisy seasons the forecast is better than the day before, whose noise it would repeat."""
    found = forecast(days(7, noise=0.3), 600.0, DAY)
    assert found.error < found.naive


def test_too_little_history_is_refused() -> None:
    """A forecast of a day needs three days, and says so."""
    with pytest.raises(InputError, match=r"48 h long.*needs 72 h"):
        forecast(days(2), 600.0, DAY)
    assert forecast(days(3), 600.0, DAY).middle.size == 48


def test_a_query_learns_from_its_own_time(job: Any, deployment: Any) -> None:
    """A query that began later than others has the history of its own time: too little of it is no forecast."""
    old, late = job("old", rates=days(4)), job("late", rates=days(4) * (np.arange(576) >= 360))
    found = outlook(deployment(old, late, period=600.0), DAY)
    assert list(found.forecasts) == list(found.deployment.jobs) == ["old"]
    (note,) = found.notes
    assert note.startswith("late is left out of the forecast")
    assert "36 h long" in note
    with pytest.raises(InputError, match=r"36 h long.*needs 72 h"):
        outlook(deployment(late, period=600.0), DAY)


def test_no_rows_are_forecast_where_none_came() -> None:
    """A source without rows is forecast to have none."""
    assert forecast(np.zeros(6 * 24 * 3), 600.0, DAY).middle.max() == 0


def test_the_forecast_changes_the_advice(job: Any, deployment: Any) -> None:
    """Where rates double from day to day, tomorrow's advice differs from today's, and says in what."""
    rates = np.concatenate([days(1), days(1), days(1) * 1.0, days(1) * 2.2])
    grows = deployment(job(rates=rates, trigger=10.0, cost=4e-4), period=600.0)
    found = consult(grows, Aims(latency=25.0), Burst(), np.random.default_rng(0), DAY)
    document = found.document()["forecast"]
    assert set(document["changes"]) == {"new", "gone", "other"}
    assert document["queries"]["q"]["error"] > 0
    assert found.later is not None
    assert found.later.deployment.jobs["q"].rates.max() >= 0.8 * rates.max()
