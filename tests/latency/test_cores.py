"""How long a host is busy with batches that overlap."""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.latency.batches import BatchHosts
from penstock.latency.cores import FEWEST, alone, beside
from penstock.load import Statistics, load_model
from penstock.load.spans import covered
from penstock.load.statistics import HostStatistics
from penstock.network import Network, Operator, Sink, Source
from penstock.workload import Rates

MOMENTS = st.integers(-5, 25)


@given(st.lists(st.tuples(MOMENTS, MOMENTS), max_size=8), MOMENTS, MOMENTS)
def test_what_is_covered_is_counted_once(spans: list[tuple[int, int]], begin: int, end: int) -> None:
    """The parts are in order and apart, and together the moments of the interval that lie in any span."""
    parts = covered(spans, begin, end)
    moments = np.arange(-6, 26) + 0.5
    inside = np.zeros(moments.size, bool)
    for start, stop in spans:
        inside |= (moments > start) & (moments < stop)
    inside &= (moments > begin) & (moments < end)
    assert sum(stop - start for start, stop in parts) == pytest.approx(float(inside.sum()))
    assert all(one[1] <= two[0] for one, two in pairwise(parts))


@given(st.floats(0.3, 1.0), st.integers(0, 2**32 - 1))
def test_a_core_is_compared_with_itself(slow: float, seed: int) -> None:
    """What a core loses while others work is found whatever its own speed, and its own batches do not count."""
    rng = np.random.default_rng(seed)
    spans = {"h1": [(0.0, 100.0)], "h2": [(20.0, 45.0), (40.0, 60.0)], "h3": [(80.0, 90.0)]}
    at = np.arange(0.5, 100.0)
    busy = ((at > 20) & (at < 60)) | ((at > 80) & (at < 90))
    steps = 3e7 * np.where(busy, slow, 1.0) * np.exp(rng.normal(0, 0.01, at.size))
    found = beside({"h1": list(zip(at.tolist(), steps.tolist(), strict=True)), "h2": []}, spans)
    assert found == {"h1": pytest.approx(slow, rel=0.02)}


def test_few_moments_tell_nothing_of_a_core() -> None:
    """A core that was hardly looked at while others worked, or while none did, is left out."""
    spans = {"h1": [], "h2": [(0.0, 10.0)]}
    for count in (FEWEST, FEWEST - 1):
        moments = [(1.0 + k, 5.0) for k in range(FEWEST)] + [(20.0 + k, 5.0) for k in range(count)]
        assert bool(beside({"h1": moments}, spans)) == (count == FEWEST)


@pytest.mark.parametrize("seed", range(20))
def test_what_batches_of_the_model_would_have_taken_alone_is_what_it_expects(seed: int) -> None:
    """However hosts share a machine and queries a host, the seconds of a host's batches add up to those of its work."""
    rng = np.random.default_rng(seed)
    hosts, queries, cores = int(rng.integers(1, 5)), int(rng.integers(1, 7)), int(rng.integers(1, 4))
    rows = [Host(name=f"h{k}", cores=int(rng.integers(1, 4)), machine="m") for k in range(hosts)]
    cluster = attrs.evolve(Cluster.of(rows, machines={"m": cores}), spark=SparkSettings(trigger=2.0))
    costs = {f"o{k}": float(rng.uniform(0.001, 0.004)) for k in range(queries)}
    # Windows over sources of their own are queries of their own.
    operators = [
        Operator(name=name, kind="aggregate", window=1.0, inputs=(f"s{name}",), cost=(cost,), selectivity=(0.1,))
        for name, cost in costs.items()
    ]
    sources, sinks = [Source(name=f"s{name}") for name in costs], [Sink(name=f"t{name}", input=name) for name in costs]
    rates = Rates.of(1.0, {source.name: rng.uniform(0, 300, 20) for source in sources})
    placement = {name: f"h{int(rng.integers(hosts))}" for name in costs}
    statistics = Statistics(hosts={row.name: HostStatistics(overhead=0.2) for row in rows})
    model = load_model(Network.of("n", sources, operators, sinks), rates)
    batches = BatchHosts.of(statistics, cluster).placed(model, placement).run().batches
    where = [placement[batch.query] for batch in batches]
    own = alone([(batch.start, batch.start + batch.duration) for batch in batches], cores, where)
    for host in set(where):
        expected = sum(0.2 + batch.load for batch, name in zip(batches, where, strict=True) if name == host)
        assert sum(x for x, name in zip(own, where, strict=True) if name == host) == pytest.approx(expected)
