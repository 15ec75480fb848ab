import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.latency.estimate import Quantiles
from penstock.latency.mace import cumulative_excess, mace, mace_series
from penstock.load import OperatorStatistics, Statistics, load_model
from penstock.network import chain
from penstock.workload import Rates

# A reconstruction of the paper's Fig. 3 that has all values which the text gives.
FIGURE_3 = np.array([[2, 4, 1, 1, 2], [3, 6, 0, 1, 1], [2, 5, 1, 0, 6]]) / 2


def test_figure_3() -> None:
    """Excess and Mace are those of the paper's Fig. 3."""
    excess = cumulative_excess(FIGURE_3, np.ones(3), 2.0)
    assert excess.tolist() == [[0, 2, 1, 0, 0], [1, 5, 3, 2, 1], [0, 3, 2, 0, 4]]
    assert mace_series(FIGURE_3, np.ones(3), 2.0).tolist() == [1, 5, 3, 2, 4]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.floats(0, 5), min_size=7, max_size=7), min_size=1, max_size=4), st.floats(0.1, 3))
def test_excess_is_the_recursion(load: list[list[float]], capacity: float) -> None:
    """The excess of every host is the recursion of definition 8, period by period."""
    found = cumulative_excess(load, np.full(len(load), capacity), 0.5)
    for row, series in zip(found, load, strict=True):
        excess = 0.0
        for value, rate in zip(row, series, strict=True):
            excess = max(0.0, excess + (rate - capacity) * 0.5)
            assert value == pytest.approx(excess, abs=1e-12)


def test_tandem_counterexample_is_five() -> None:
    """Mace of the tandem whose true latency is 10 is 5: what the model leaves out stays visible."""
    load = np.array([[6.0, 0.5], [0.0, 6.0]])
    assert mace_series(load, np.ones(2), 1.0).max() == 5.0


def test_error_bar_amplifies_the_cost() -> None:
    """An error e of the bottleneck's cost is e·ρ/(ρ−1) in the error bar, and right to first order."""
    network = chain([0.01])
    model = load_model(network, Rates.of(1.0, {"s1": [125.0, 125.0, 0.0, 0.0]}))
    known = Statistics(operators={"o1.1": OperatorStatistics(cost=(0.01,), error=0.02)})
    found = mace(model, Placement({"o1.1": "h1"}), Cluster.uniform(1), known)
    assert found.error.amplification == pytest.approx(5.0)
    assert found.error.relative == pytest.approx(0.1)
    worse = mace(load_model(chain([0.0102]), model.rates), Placement({"o1.1": "h1"}), Cluster.uniform(1))
    assert worse.total.worst / found.total.worst == pytest.approx(1.1)


def test_links_are_hosts_and_delays_add() -> None:
    """A link's excess counts tuples over its bandwidth, and a path's delay adds to the value of its hosts."""
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.1, 50.0))
    model = load_model(chain([0.001, 0.001]), Rates.of(1.0, {"s1": [100.0, 0.0]}))
    found = mace(model, Placement({"o1.1": "h1", "o1.2": "h2"}), cluster)
    assert found.links["h1->h2"].tolist() == [50.0, 0.0]
    assert found.bottleneck == "h1->h2"
    assert found.total.worst == pytest.approx(1.1)
    assert found.bounds["lower"] <= found.bounds["upper"]


def test_quantiles_by_hand() -> None:
    """A quantile is the smallest value at or below which that share of the weight lies."""
    assert Quantiles.of([3.0, 1.0, 2.0], [1.0, 2.0, 0.0]) == Quantiles(3.0, 3.0, 1.0, 5 / 3)
    assert Quantiles.of([]) == Quantiles()
