"""What is learned of operators whose results come when windows close, and what is dropped in front of them."""

from __future__ import annotations

import math

import pytest
from engines import simulated
from hypothesis import given, settings
from hypothesis import strategies as st
from steered import steered

from penstock.control.flow import Flow
from penstock.control.knowledge import ENOUGH, Knowledge
from penstock.load.stretches import Stretch
from penstock.network import Network, Operator, Sink, Source
from penstock.workload import Rates


def shop(window: float, selectivity: float | None = 0.1, slide: float | None = None) -> Network:
    """Return sums over windows, worth much, beside a map, worth little."""
    share = None if selectivity is None else (selectivity,)
    return Network.of(
        "shop",
        [Source(name="noise"), Source(name="sales")],
        [
            Operator(
                name="total", kind="aggregate", inputs=("sales",), by=("shop",), window=window, slide=slide,
                cost=(0.002,), selectivity=share,
            ),
            Operator(name="junk", kind="map", inputs=("noise",), cost=(0.002,), selectivity=(1.0,)),
            Operator(name="large", kind="filter", inputs=("total",), cost=(0.001,), selectivity=(0.5,)),
        ],
        [Sink(name="report", input="large", weight=100.0), Sink(name="bin", input="junk", weight=1.0)],
    )  # fmt: skip


HERE = {"total": "h1", "junk": "h1", "large": "h1"}


@pytest.mark.parametrize("window", [5.0, 60.0, 600.0])
def test_the_selectivity_of_a_window_is_that_of_whole_ones_at_any_look(window):
    """Given, it counts until a window has closed; learned, it is right at each look, and so is the one behind it."""
    network = shop(window)
    engine, known = simulated(network, HERE, Rates.constant({"sales": 40.0}, 2.6 * window), 1), Knowledge()
    flow = Flow.of(network)
    row, behind = (list(network.operators).index(name) for name in ("total", "large"))
    for at in range(1, int(2.5 * window)):
        engine.wait(float(at))
        known = known.updated(engine.observe(), network)
        selectivity = known.costs(flow)[1]
        assert selectivity[row] == pytest.approx(0.1, rel=0.02)
        assert selectivity[behind] == pytest.approx(0.5, rel=0.2)
    told = known.statistics(network).operators["total"]
    assert told.selectivity == pytest.approx((0.1,), rel=0.02)
    assert known.paced(flow, flow.share * 0)[row] == pytest.approx(40, rel=0.05)


@settings(max_examples=150, deadline=None)
@given(
    window=st.floats(4, 600),
    hops=st.integers(1, 4),
    phase=st.floats(0, 1),
    late=st.floats(0, 20),
    period=st.sampled_from([0.5, 1.0]),
    rate=st.floats(10, 1000),
    true=st.floats(0.01, 3),
)
def test_a_learned_selectivity_does_not_ripple(window, hops, phase, late, period, rate, true):
    """Whatever the windows, their phase and their lateness, it is as wrong as one look is long beside a window."""
    slide = window / hops
    operator = Operator(name="o", kind="aggregate", inputs=("s",), window=window, slide=slide)
    found, before = Stretch(), 0.0
    for look in range(1, int((9 * window + late) / period)):
        # What windows that have closed hold of the rows since the start, each row in as many as there are hops.
        last = math.floor((look * period - late) / slide - phase)
        held = sum(min(window, max(0.0, (k + phase) * slide)) for k in range(1, last + 1))
        put, before = (held * rate * true / hops) - before, held * rate * true / hops
        found = found.after(operator, (period, period * rate, put), 10.0, ENOUGH)
        if look * period > 6 * window + late:  # those before hold windows that began before the rows
            assert found.closed[2] / found.closed[1] == pytest.approx(true, rel=1.1 * period / window)


def test_what_is_remembered_of_windows_is_read_again():
    """A controller that was killed goes on with the windows that are open."""
    network = shop(10.0)
    engine, known = simulated(network, HERE, Rates.constant({"sales": 40.0}, 30.0), 1), Knowledge()
    for at in range(1, 17):
        engine.wait(float(at))
        known = known.updated(engine.observe(), network)
    again = Knowledge.read(known.document())
    assert again.windows == known.windows
    assert again.windows["total"].since[0] > 0
    older = {key: value for key, value in known.document().items() if key != "windows"}
    assert not Knowledge.read(older).windows


@pytest.mark.parametrize("given", [0.05, None])
def test_a_query_over_long_windows_is_not_worthless_before_one_closes(given):
    """While two windows are open, an overload drops what is worth less, whether or not a selectivity is given."""
    network = shop(60.0, given)
    rates = Rates.of(10.0, {"sales": [100.0] * 16, "noise": [100.0] * 4 + [900.0] * 8 + [100.0] * 4})
    engine = simulated(network, HERE, rates, 1)
    lines, _ = steered(engine, "shed", 160)
    assert engine.report()["streams"]["sales->total"]["dropped"] == 0
    assert engine.report()["streams"]["noise->junk"]["dropped"] > 30_000
    assert given is None or len(lines) < 10
