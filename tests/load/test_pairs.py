"""Joins with a time window: their load is that of the pairs of rows that have come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster import Cluster, Placement
from penstock.latency.mace import RUNNING, mace
from penstock.load import load_model
from penstock.load.pairs import recent
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import simulate
from penstock.workload import Rates

BURST = Rates.of(1.0, {"a": [0, *[10] * 14, *[40] * 3, *[10] * 6], "b": [0, *[10] * 14, *[40] * 3, *[10] * 6]})
"""Nothing comes before it, and then a burst that is shorter than the window."""

NETWORK = Network.of(
    "n",
    [Source(name="a"), Source(name="b")],
    [
        Operator(name="j", kind="join", inputs=("a", "b"), cost=(1e-4, 1e-4), selectivity=(0.1, 0.1), within=10.0),
        Operator(name="m", kind="map", inputs=("j",), cost=(7e-4,)),
    ],
    [Sink(name="t", input="m")],
)


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=12), st.sampled_from([0.1, 1.0, 7.0]),
    st.sampled_from([0.05, 0.5, 1.0, 2.0, 3.3, 14.0, 40.0]),
)  # fmt: skip
def test_recent_rates_are_means_over_the_window(rates: list[float], period: float, within: float) -> None:
    """The rate of late is the mean over the window before each moment of a period, and before all it was the first."""
    row, fine = np.array([rates]), 2000
    ends = np.arange(len(rates) + 1) * period
    at = (np.arange(len(rates) * fine) + 0.5) * period / fine
    came = np.concatenate([[0.0], np.cumsum(row[0] * period)])

    def until(moments: Any) -> Any:
        return np.interp(moments, ends, came) + np.minimum(moments, 0.0) * row[0, 0]

    wanted = ((until(at) - until(at - within)) / within).reshape(len(rates), fine).mean(axis=1)
    assert recent(row, within, period)[0] == pytest.approx(wanted, rel=1e-3, abs=1e-2)


def test_constant_rates_stay_what_they_are() -> None:
    """Under constant rates a join meets them from the beginning on, to the last bit; none that come are none."""
    assert (recent(np.full((2, 99), 0.1), 7.3, 0.7) == 0.1).all()
    assert recent(np.array([[0.1, *[0.3] * 9, *[0.0] * 9]]), 3.0, 1.0)[0, -5:].tolist() == [0.0] * 5


def test_load_is_that_of_the_simulator() -> None:
    """A burst that is shorter than the window loads hosts as much as in the simulator, and not with its square."""
    model = load_model(NETWORK, BURST)
    where, host = Placement({"j": "h1", "m": "h1"}), Cluster.uniform(1)
    run = simulate(NETWORK, host, where, BURST)
    assert run.operators["m"]["busy"] == pytest.approx(float(model.load_of("m").mean()), rel=0.03)
    assert model.load_of("m").max() < 1 < load_model(NETWORK, Rates.constant({"a": 40, "b": 40})).load_of("m").max()
    found = mace(model, where, host)
    assert found.total.worst == 0
    # How it began is not known: then nothing is proved.
    assert found.bounds["lower"] is None
    assert RUNNING in found.notes


def test_a_controller_remembers_what_joins_meet(penstock: Any, tmp_path: Path) -> None:
    """A burst that is shorter than a join's window, in which nothing waits, makes a controller drop nothing."""
    path, rates = tmp_path / "network.toml", tmp_path / "rates.csv"
    path.write_text(
        'name = "n"\n[sources.a]\n[sources.b]\n[operators.j]\nkind = "join"\ninputs = ["a", "b"]\non = "x = y"\n'
        'within = "10 seconds"\ncost = 1e-4\nselectivity = 0.1\n[operators.m]\nkind = "map"\ninput = "j"\n'
        'select = ["*"]\ncost = 7e-4\n[sinks.t]\ninput = "m"\n'
    )
    rows = zip(*BURST.values.tolist(), strict=True)
    rates.write_text("time,a,b\n" + "".join(f"{at},{a:g},{b:g}\n" for at, (a, b) in enumerate(rows)))
    done = penstock(
        "control", path, "--rates", rates, "--hosts", 1, "--placement", "j=h1,m=h1", "--policy", "shed", "--act",
        "--directory", tmp_path / "run", "--json",
    )  # fmt: skip
    assert done.document["decisions"] == 0
    assert done.document["latency"]["max"] < 0.1
