"""What holds for a period each is shown in bins of any length."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from folders import BEGIN, Folder, setting
from hypothesis import given
from hypothesis import strategies as st

from penstock.monitor import open_view
from penstock.monitor.periods import highest, mean
from penstock.monitor.run import RunView
from penstock.workload import Rates

VALUES = st.lists(st.integers(0, 100) | st.just(np.nan), min_size=1, max_size=30)


@given(VALUES, st.integers(-8, 8), st.integers(1, 12))
def test_bins_hold_all_of_their_periods(values: list[float], begin: int, length: int) -> None:
    """A bin has the greatest value and the mean over time of the periods that it reaches into, whole or in part."""
    parts = 4  # of a period: where bins begin and end
    held = np.array(values, float)
    edges = (begin + length * np.arange(8)) / parts
    fine = np.full(length * 8 + 400, np.nan)
    fine[100 : 100 + parts * held.size] = np.repeat(held, parts)
    rows = [fine[100 + begin + length * k : 100 + begin + length * (k + 1)] for k in range(7)]
    most = [np.nan if np.isnan(row).all() else np.nanmax(row) for row in rows]
    np.testing.assert_array_equal(highest(held, edges), most)
    plain, inside = np.nan_to_num(held), np.zeros(fine.size, bool)
    fine[100 : 100 + parts * held.size] = np.repeat(plain, parts)
    inside[100 : 100 + parts * held.size] = True
    places = [slice(100 + begin + length * k, 100 + begin + length * (k + 1)) for k in range(7)]
    means = [fine[place][inside[place]].mean() if inside[place].any() else np.nan for place in places]
    np.testing.assert_allclose(mean(np.stack([plain, 2 * plain]), edges), [means, 2 * np.array(means)], atol=1e-9)


def test_a_plan_shows_the_worst_and_the_mean_of_its_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its bins are, a plan's chart reaches the predicted worst latency, and its load is that of all time.

    Every other period is empty, and so are those in the middle of all bins.
    """
    monkeypatch.setattr("penstock.monitor.log.BINS", 20)
    (tmp_path / "network.toml").write_text(
        'name = "shop"\n[sources.clicks]\n[operators.views]\nkind = "map"\ninput = "clicks"\n'
        'cost = 0.005\nselectivity = 1.0\n[sinks.out]\ninput = "views"\n'
    )
    (tmp_path / "cluster.toml").write_text("[hosts.h1]\ncapacity = 1\n")
    (tmp_path / "placement.json").write_text('{"placement": {"views": "h1"}}')
    rates = [100 + k if k % 2 else 0 for k in range(80)]
    lines = [f"{15 * k},{rate}" for k, rate in enumerate(rates)]
    (tmp_path / "rates.csv").write_text("\n".join(["time,clicks", *lines]) + "\n")
    view = open_view([str(tmp_path)])
    work = view.needs_expecting(0.0)
    assert work is not None
    work()
    live = view.live(0.0)
    series, predicted = live["series"], live["totals"]["predicted"]
    assert live["step"] == 60
    assert max(series["predicted"]) == pytest.approx(predicted["worst"], rel=1e-3)
    bounds = zip(*(series[key] for key in ("low", "predicted", "high")), strict=True)
    assert all(low <= worst <= high for low, worst, high in bounds)
    assert np.mean(series["load"][0]) == pytest.approx(0.005 * np.mean(rates), rel=1e-3)


def test_told_rates_are_the_mean_of_their_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rates that were told of an ended run are those of all the seconds of a bin."""
    monkeypatch.setattr("penstock.monitor.run.BINS", 20)
    what = attrs.evolve(setting(), rates=Rates.of(1.0, {"clicks": np.tile([100.0, 0.0], 30)}))
    Folder(tmp_path, what).grow(29)
    view = RunView(tmp_path)
    view.look(BEGIN + 500)
    live = view.live(BEGIN + 500)
    assert live["step"] == 5
    assert live["series"]["offered"][0][:4] == [60, 40, 60, 40]
