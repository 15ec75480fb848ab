"""What the durations of batches say about a host, without Spark."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster import Cluster, SparkSettings
from penstock.latency.batches import BatchHosts
from penstock.latency.estimate import Spread
from penstock.load import Statistics, load_model, read_statistics
from penstock.load.statistics import HostStatistics
from penstock.network.shapes import chain
from penstock.spark.calibrate import LEAST, fit
from penstock.workload import Rates

seeds = st.integers(0, 2**32 - 1)


@given(overhead=st.floats(0, 3), factor=st.floats(2 * LEAST, 20), seed=seeds)
def test_exact_batches_give_their_costs(overhead: float, factor: float, seed: int) -> None:
    """Batches that last just overhead and factor times load give both back."""
    load = np.random.default_rng(seed).uniform(0.01, 3.0, 20)
    found = fit(load, overhead + factor * load)
    assert found.overhead == pytest.approx(overhead, abs=1e-3)
    assert found.factor == pytest.approx(factor, rel=1e-3)


@given(share=st.floats(0, 0.2), seed=seeds)
def test_a_few_disturbed_batches_do_not_sway(share: float, seed: int) -> None:
    """Some batches that were held up, however long, change the costs little."""
    draw = np.random.default_rng(seed)
    load = draw.uniform(0.01, 3.0, 40)
    took = (0.5 + 1.2 * load) * draw.normal(1, 0.01, 40)
    took[: int(share * 40)] += draw.uniform(1, 10)
    found = fit(load, took)
    assert found.factor == pytest.approx(1.2, rel=0.1)
    assert found.overhead == pytest.approx(0.5, abs=0.1)


@given(seed=seeds)
def test_hidden_costs_are_not_negative(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where noise of the overhead hides the cost, the host's figures are still such as a statistics file may have."""
    draw = np.random.default_rng(seed)
    load = draw.uniform(0.001, 0.01, 20)
    found = fit(load, draw.uniform(0.4, 0.8, 20))
    assert found.factor >= LEAST
    assert 0 <= found.overhead <= 0.8
    assert found.error >= 0
    path = Path(tmp_path_factory.mktemp("fit")) / "statistics.json"
    Statistics(hosts={"h1": found}).write(path)
    assert read_statistics(path).hosts["h1"] == found


def test_errors_of_a_fit_cover_what_it_predicts() -> None:
    """Of hosts known from forty batches each, nine of ten predictions hold what the true hosts then do."""
    draw = np.random.default_rng(9)
    rates = Rates.of(1.0, {"s1": [60.0] * 4 + [290.0] * 5 + [60.0] * 16})
    model = load_model(chain([0.004]), rates)
    cluster = attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=1.0))

    def latency(host: HostStatistics, count: int) -> Spread:
        placed = BatchHosts.of(Statistics(hosts={"h1": host}), cluster).placed(model, {"o1.1": "h1"})
        found = placed.spread(draw, count=count)
        assert found is not None
        return found

    covered, repeats = [], 150
    for _ in range(repeats):
        true = HostStatistics(
            overhead=float(draw.uniform(0.1, 0.3)), factor=float(draw.uniform(0.8, 1.2)), residual=0.05
        )
        load = draw.uniform(0.05, 2.0, 40)
        took = (true.overhead + true.factor * load) * np.exp(draw.normal(0, true.residual, 40))
        told, then = latency(fit(load, took), 80), latency(true, 1)
        covered.append([low <= then.total[key][0] <= high for key, (low, high) in told.total.items()])
    share = np.mean(covered, axis=0)
    assert share == pytest.approx(np.full(4, 0.9), abs=3 * np.sqrt(0.9 * 0.1 / repeats))
