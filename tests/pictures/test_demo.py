"""The demo's picture."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from penstock.cli.common import microseconds
from penstock.network import hybrid
from penstock.pictures.demo import bursts, demo_picture, drains, saturated, smoothed
from penstock.pictures.layers import layered
from penstock.pictures.network import BOX, _describe
from penstock.running import two_sites


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures that are drawn, in place of files."""
    figures: list[Figure] = []
    monkeypatch.setattr("penstock.pictures.demo.save", lambda figure, *_args, **_kwargs: figures.append(figure))
    return figures


def report() -> dict[str, Any]:
    time = list(range(20))
    rate = [300.0 if 8 <= t < 12 else 100.0 for t in time]
    return {
        "network": {
            "sources": ["s"],
            "operators": {
                "f": {"kind": "filter", "inputs": ["s"], "cost": [0.001], "selectivity": 0.5},
                "j": {"kind": "join", "inputs": ["f", "s"], "cost": [0.001, 0.002], "selectivity": None},
                "a_name_that_is_longer_than_its_box": {"kind": "map", "inputs": ["j"], "cost": None, "selectivity": 1},
            },
            "sinks": {"t": {"input": "j"}, "f2": {"input": "a_name_that_is_longer_than_its_box"}},
        },
        "placement": {"f": "h1", "j": "h2", "a_name_that_is_longer_than_its_box": "h1"},
        "series": {
            "time": time,
            "rate": {"s": rate},
            "hosts": {"h1": {"predicted": rate, "measured": [None, *rate[1:]]}, "h2": {"predicted": rate}},
            "latency": {"predicted": [0.1] * 20, "measured": [0.1] * 19 + [None]},
        },
        "latency": {"mean": 0.1, "p50": 0.1, "p99": 1.2, "max": None},
        "predicted": {"mean": 0.1, "p50": 0.1, "p99": 1.3, "max": 1.4},
    }


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_report_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    """A report becomes a picture of the format that the ending names, always of the same bytes."""
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    demo_picture(report(), first)
    demo_picture(report(), second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith({"png": b"\x89PNG", "svg": b"<?xml"}[ending])
    assert len(first.read_bytes()) > 10_000


def test_a_second_run_is_drawn_beside_the_first(tmp_path: Path) -> None:
    """What was measured with the queries dealt out in turn stands in the picture, however high."""
    both = report()
    both["series"]["latency"]["in_turn"] = [5.0] * 19 + [None]
    demo_picture(report(), tmp_path / "one.svg")
    demo_picture(both, tmp_path / "both.svg")
    words = [(tmp_path / f"{name}.svg").read_bytes() for name in ("one", "both")]
    assert words[0] != words[1]


@pytest.mark.parametrize("late", [0.5, 1.0, 3.0])
def test_the_figures_hide_no_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: float) -> None:
    """Whichever half of a run is the slower one, the box of figures lies on no point of it."""
    drawn: list[Figure] = []
    monkeypatch.setattr("penstock.pictures.demo.save", lambda figure, *_args, **_kwargs: drawn.append(figure))
    told = report()
    told["series"]["latency"]["in_turn"] = [4.0] * 10 + [4.0 * late] * 10
    told["interval"] = {word: [0.1, 2.0] for word in ("worst", "p99", "p50", "mean")}
    demo_picture(told, tmp_path / "picture.png")
    (figure,) = drawn
    figure.draw_without_rendering()
    axes = figure.axes[3]
    (box,) = [text.get_bbox_patch() for text in axes.texts if text.get_bbox_patch() is not None]
    assert box is not None
    place = box.get_window_extent()
    points = [axes.transData.transform(np.column_stack(line.get_data())) for line in axes.lines]
    assert not any(place.contains(*point) for point in np.concatenate(points))


def test_only_a_picture_with_crossing_streams_explains_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The legend of the network says how streams that cross hosts are drawn where there are any."""
    drawn: list[Figure] = []
    monkeypatch.setattr("penstock.pictures.demo.save", lambda figure, *_args, **_kwargs: drawn.append(figure))
    together = report()
    together["placement"] = dict.fromkeys(together["placement"], "h1")
    demo_picture(report(), tmp_path / "picture.png")
    demo_picture(together, tmp_path / "picture.png")
    legends = [figure.axes[0].get_legend() for figure in drawn]
    words = [[text.get_text() for text in legend.get_texts()] for legend in legends if legend is not None]
    assert ["crosses hosts" in row for row in words] == [True, False]


def test_a_report_without_measurements_is_drawn(tmp_path: Path) -> None:
    """What is missing is left out: no hosts, no measurements, no burst, no periods."""
    empty = report()
    empty["series"] = {"time": [], "rate": {}, "hosts": {}, "latency": {}}
    empty["latency"] = empty["predicted"] = {}
    empty["placement"] = {}
    demo_picture(empty, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").exists()


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_dark_pages_have_a_picture_of_their_own(tmp_path: Path, ending: str) -> None:
    """The dark picture is another one than the light one, of either format."""
    light, dark = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    demo_picture(report(), light)
    demo_picture(report(), dark, "dark")
    assert light.read_bytes() != dark.read_bytes()


def test_phases_are_where_they_are() -> None:
    """A burst is where the rate is high, saturation where a host is busy, a drain while latency is not as usual."""
    time = np.arange(60.0)
    series = {
        "time": time,
        "rate": {"s": np.where((time >= 20) & (time < 30), 400.0, 100.0)},
        "hosts": {
            "h1": {"busy": np.where((time < 10) | ((time >= 20) & (time < 40)), 1.0, 0.4)},
            "h2": {"busy": np.full(60, 0.3)},
        },
        "latency": {"predicted": np.interp(time, [20, 30, 45], [1.0, 9.0, 1.0])},
    }
    assert bursts(series) == [(20.0, 30.0)]
    assert [*saturated(series)] == ["h1"]
    assert saturated(series)["h1"] == [pytest.approx((0, 7), abs=2), pytest.approx((23, 38), abs=2)]
    assert drains(series) == [(30.0, 45.0)]
    assert bursts({"time": []}) == drains({"time": []}) == [*saturated({"time": []})] == []


def two_bursts() -> dict[str, Any]:
    """Return the demo's rates; host h1 works on for 3 s after the first burst, h2 after the second."""
    rates = two_sites.bursts()
    time = np.arange(rates.periods + 5.0)
    # A host that is not full works for half of each trigger, and what enters waits for the next.
    rest, late = np.where(time % 2 == 0, 0.2, 1.0), np.where(time % 2 == 0, 2.5, 1.5)
    return {
        "time": time,
        "rate": {name: [*row, *[0.0] * 5] for name, row in zip(rates.sources, rates.values, strict=True)},
        "hosts": {
            "h1": {"busy": np.where((time >= 5) & (time < 28), 1.0, rest)},
            "h2": {"busy": np.where((time >= 29) & (time < 52), 1.0, rest)},
        },
        "latency": {"predicted": late + np.where((time >= 6) & (time < 25), 2.0, 0.0)},
    }


def test_the_demos_bursts_are_told_one_by_one(drawn: list[Figure]) -> None:
    """Bursts of one source after another are each named, though the total is high most of the time, with its drain."""
    told = report()
    told["series"] = two_bursts()
    assert bursts(told["series"]) == [(5.0, 25.0), (29.0, 49.0)]
    assert [*saturated(told["series"])] == ["h1", "h2"]
    assert drains(told["series"]) == [(25.0, 28.0), (49.0, 52.0)]
    demo_picture(told, "picture.png")
    words = [[text.get_text() for text in axes.texts] for axes in drawn[0].axes[1:]]
    assert words[:2] == [["burst", "burst"], ["h1 predicted full", "h2 predicted full"]]
    assert words[2][:2] == ["drain", "drain"]


def test_rates_that_stay_level_have_no_burst() -> None:
    """Rates that end before the picture does, or that one small source changes, are no burst, and nothing drains."""
    time = np.arange(60.0)
    level = np.where(time < 20, 100.0, 0.0)
    for rate in ({"s": level}, {"s": level, "t": np.where(time < 5, 10.0, 1.0)}, {"s": 0 * time}, {}):
        series = {"time": time, "rate": rate, "latency": {"predicted": 5 - time / 30}}
        assert bursts(series) == drains(series) == []


def test_smoothing_keeps_the_mean_and_leaves_gaps() -> None:
    """A row that never changes stays as it is, single batches become their share, and what is unknown stays so."""
    assert smoothed(np.full(20, 0.3), 1.0) == pytest.approx(np.full(20, 0.3))
    assert smoothed(np.tile([1.0, 0.0], 20), 1.0)[10:30] == pytest.approx(np.full(20, 0.5))
    assert np.isnan(smoothed(np.array([np.nan, 1.0, 1.0]), 1.0)).tolist() == [True, False, False]
    assert smoothed(np.zeros(0), 1.0).size == 0


@given(seed=st.integers(0, 10**6), operators=st.integers(1, 30))
@settings(max_examples=40)
def test_boxes_do_not_overlap_and_edges_go_right(seed: int, operators: int) -> None:
    """In a layered graph every edge goes one layer at a time to the right, and no two boxes overlap."""
    network = hybrid(operators, 2, 0.5, np.random.default_rng(seed))
    inputs = {**{name: [] for name in network.sources}, **{o.name: [*o.inputs] for o in network.operators.values()}}
    layout = layered(inputs)
    for (start, stop), points in layout.paths.items():
        assert points[0] == layout.places[start]
        assert points[-1] == layout.places[stop]
        assert all(after[0] - before[0] == 1 for before, after in pairwise(points))
    for layer in {x for x, _ in layout.places.values()}:
        rows = sorted(y for x, y in layout.places.values() if x == layer)
        assert all(below - above >= BOX[1] for above, below in pairwise(rows))


def test_costs_below_the_resolution_say_so() -> None:
    """A cost that cannot be told from nothing is printed as less than the resolution, in tables and pictures."""
    assert microseconds({"cost": 1e-9, "resolution": 4.9e-7}) == "< 0.49"
    assert microseconds({"cost": [2e-6, 3e-6], "resolution": 4.9e-7}) == "3"
    assert microseconds({"cost": None}) == ""
    assert "< 0.49 µs" in _describe({"kind": "filter", "cost": 1e-9, "resolution": 4.9e-7})
    assert "< 130 µs" in _describe({"kind": "filter", "cost": 1e-9, "resolution": 1.3e-4})
    assert "3 µs" in _describe({"kind": "filter", "cost": [3e-6], "resolution": 4.9e-7})


def test_what_is_full_is_full_as_predicted(drawn: list[Figure]) -> None:
    """Each interval in which a host is predicted to be full has a bar, and the words say that it was predicted."""
    told = report()
    told["series"]["hosts"] = {"h1": {"busy": ([1.0] * 8 + [0.0] * 4) * 2, "measured": [0.5] * 20}}
    demo_picture(told, "picture.png")
    loads = drawn[0].axes[2]
    assert [text.get_text() for text in loads.texts] == ["h1 predicted full"]
    bars = [line for line in loads.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 3]
    assert len(bars) == 2


def test_every_name_is_in_the_legend(drawn: list[Figure]) -> None:
    """Hosts and sources whose names begin with an underscore stand in the legends as others do."""
    told = report()
    told["series"]["rate"] = {"_s": [100.0] * 20, "t": [50.0] * 20}
    told["series"]["hosts"] = {"_h1": {"busy": [0.5] * 20}, "h2": {"busy": [0.3] * 20}}
    demo_picture(told, "picture.png")
    words = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in drawn[0].axes[:3]]
    assert "_h1" in words[0]
    assert words[1:] == [["_s", "t"], ["_h1 predicted", "_h1 measured", "h2 predicted", "h2 measured"]]
