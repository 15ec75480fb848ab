import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Placement
from penstock.latency import kernel
from penstock.latency.mace import mace
from penstock.latency.pipelined import flow_plain, pipelined
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source, hybrid
from penstock.simulation import Options, simulate
from penstock.workload import Rates


def tandem(hosts: int) -> tuple[Network, Rates]:
    """Return a chain over hosts where source k loads host k in period k only, six seconds' work in one."""
    sources = [Source(name=f"s{k}") for k in range(hosts)]
    operators = []
    for k in range(hosts):
        before = [f"s{k}", *([f"u{k - 1}"] if k else [])]
        cost = (6e-3, 1e-9) if k else (6e-3,)
        operators.append(
            Operator(name=f"u{k}", kind="union", inputs=tuple(before), cost=cost, selectivity=(1.0,) * len(before))
        )
    network = Network.of("tandem", sources, operators, [Sink(name="t", input=f"u{hosts - 1}")])
    return network, Rates.of(1.0, {f"s{k}": [1000.0 * (p == k) for p in range(hosts)] for k in range(hosts)})


@pytest.mark.parametrize("hosts", [2, 3, 5, 10])
def test_tandem_counterexample(hosts: int) -> None:
    """Where backlog forms host after host, Mace stays 5 and pipelined Mace reaches what the simulator measures."""
    network, rates = tandem(hosts)
    cluster, model = Cluster.uniform(hosts), load_model(network, rates)
    placement = Placement({f"u{k}": f"h{k + 1}" for k in range(hosts)})
    measured = simulate(network, cluster, placement, rates, Options(policy="stimulus", drain=True)).document()
    found = pipelined(model, placement, cluster)
    assert mace(model, placement, cluster).total.worst == pytest.approx(5.0, rel=1e-5)
    assert abs(found.total.worst - measured["latency"]["max"]) <= 0.1 + 6e-3 * hosts


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_one_host_is_mace(seed: int) -> None:
    """On one host the series is that of Mace."""
    rng = np.random.default_rng(seed)
    network = hybrid(6, 2, 1.0, rng)
    model = load_model(network, Rates.of(1.0, {name: rng.uniform(0, 150, 12) for name in network.sources}))
    placement = Placement(dict.fromkeys(network.operators, "h1"))
    cluster = Cluster.uniform(1)
    assert pipelined(model, placement, cluster).series == pytest.approx(
        mace(model, placement, cluster).series, abs=1e-6
    )


def test_kernel_is_the_plain_recursion() -> None:
    """The compiled loop and the plain one give the same times."""
    rng = np.random.default_rng(7)
    work = rng.uniform(0, 0.12, (4, 30))
    host, capacity = np.array([0, 1, 0, 1]), np.array([1.0, 2.0])
    first, count = np.array([0, 1, 2, 3]), np.array([1, 1, 1, 2])
    inputs, delays = np.array([-1, 0, 1, 2, -1]), np.array([0.0, 0.05, 0.0, 0.0, 0.0])
    arguments = (work, host, capacity, first, count, inputs, delays, 0.1, 400)
    assert np.allclose(kernel.flow(*arguments), flow_plain(*arguments), atol=1e-9)
