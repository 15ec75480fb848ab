"""The picture of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.cluster import Cluster, Placement
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
def lines(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The lines of the latency by sink, in batches of 1 s sampled each 0.6 s; behind '' the axes."""
    drawn: list[Any] = []
    monkeypatch.setattr("penstock.simulation.plot.save", lambda figure, _path: drawn.append(figure))
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
