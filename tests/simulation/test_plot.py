"""The picture of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.cluster import Cluster, Host, Placement
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import MicroBatch, Options, Recording, simulate
from penstock.simulation.plot import plot
from penstock.workload import Rates

NETWORK = Network.of(
    "rare",
    [Source(name="clicks", format="rate")],
    [
        Operator(name="views", kind="filter", inputs=("clicks",), cost=(0.0002,), selectivity=(0.8,)),
        Operator(name="seldom", kind="filter", inputs=("clicks",), cost=(0.0002,), selectivity=(0.002,)),
    ],
    [Sink(name="all", input="views"), Sink(name="alarms", input="seldom")],
)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures that are drawn, in place of files."""
    figures: list[Any] = []
    monkeypatch.setattr("penstock.simulation.plot.save", lambda figure, _path: figures.append(figure))
    return figures


@pytest.fixture
def lines(drawn: list[Any]) -> dict[str, Any]:
    """The lines of the latency by sink, in batches of 1 s sampled each 0.6 s; behind '' the axes."""
    rates, placement = Rates.constant({"clicks": 100.0}, 120.0), Placement({"views": "h1", "seldom": "h2"})
    options = Options(microbatch=MicroBatch(trigger=1.0))
    record = Recording(trace=True, sample=0.6)
    plot("x.png", simulate(NETWORK, Cluster.uniform(2), placement, rates, options, record=record))
    axes = drawn[0].axes[0]
    return {"": axes, **{line.get_label(): line for line in axes.get_lines()}}


def test_a_sink_that_seldom_has_rows_is_seen(lines: dict[str, Any]) -> None:
    """Where no line goes through an interval of a sink because its neighbours are empty, a marker stands."""
    values = lines["alarms"].get_ydata()
    known = np.flatnonzero(~np.isnan(values))
    assert 10 <= known.size <= values.size / 2
    assert lines["alarms"].get_markevery() == known.tolist()
    assert lines["alarms"].get_marker() == "o"


def test_no_line_lies_on_the_frame(lines: dict[str, Any]) -> None:
    """Above the highest value is room, also where latency is the same all the time."""
    values = lines["all"].get_ydata()
    low, high = lines[""].get_ylim()
    assert low == 0
    assert high >= 1.1 * np.nanmax(values)


def test_batches_leave_no_gaps(lines: dict[str, Any]) -> None:
    """Samples shorter than the batches are put together until each has rows, up to the end of the run."""
    times, values = lines["all"].get_data()
    assert not np.isnan(values).any()
    assert lines["all"].get_markevery() == []
    assert times.size >= 20
    assert times[-1] == pytest.approx(120, abs=1)


def test_the_legend_covers_nothing(lines: dict[str, Any]) -> None:
    """The legend stands beside the axes."""
    axes = lines[""]
    axes.figure.draw_without_rendering()
    assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1


def many(drawn: list[Any]) -> Any:
    """Return the picture of twelve sinks, each on a host of its own; the busier a host, the fewer rows wait for it."""
    names = [f"_h{k:02d}" for k in range(12)]
    network = Network.of(
        "many",
        [Source(name="s")],
        [Operator(name=f"o{k}", kind="map", inputs=("s",), cost=(0.002 + 0.0007 * k,)) for k in range(12)],
        [Sink(name=f"_t{k:02d}", input=f"o{k}") for k in range(12)],
    )
    cluster = Cluster.of([Host(name=name) for name in names])
    placement = Placement({f"o{k}": name for k, name in enumerate(names)})
    rates = Rates.constant({"s": 90.0}, 20.0)
    plot("x.png", simulate(network, cluster, placement, rates, Options(), record=Recording(trace=True, sample=0.5)))
    return drawn[0]


def test_every_name_is_in_the_legend(drawn: list[Any]) -> None:
    """Sinks and hosts whose names begin with an underscore stand in the legends, and so do those that are grey."""
    for axes in many(drawn).axes:
        words = [text.get_text() for text in axes.get_legend().get_texts()]
        assert len(words) == 11
        assert all(word.startswith("_") for word in words[:-1])
        assert words[-1] == "2 others"


def test_a_colour_is_the_same_host_in_both_panels(drawn: list[Any]) -> None:
    """The ten hosts with a colour are chosen once for a figure, and each has its colour wherever it is drawn."""
    _, *panels = many(drawn).axes
    colours = [
        {text.get_text(): line.get_color() for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)}
        for legend in (axes.get_legend() for axes in panels)
    ]
    assert colours[0] == colours[1]
    assert len({*colours[0].values()}) == 11


def test_heights_begin_at_nothing(drawn: list[Any]) -> None:
    """Latency, what waits and busy shares are drawn from 0 on, so that heights can be compared."""
    assert [axes.get_ylim()[0] for axes in many(drawn).axes] == [0, 0, 0]
