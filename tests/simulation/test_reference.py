"""The kernel against the plain simulator, event by event."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from penstock.simulation import simulate


def _load(name):
    spec = importlib.util.spec_from_file_location(f"simulation_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Reference = _load("reference").Reference
random_case = _load("networks").random_case


def compare(seed):
    network, cluster, placement, arrivals, options = random_case(seed)
    fast = simulate(network, cluster, placement, arrivals, options, seed=seed, trace=True, log=True)
    slow = Reference(network, cluster, placement, arrivals, options, seed=seed)
    assert [(time, kind, identity) for time, identity, kind, _ in fast.log.tolist()] == slow.events
    sinks = list(network.sinks)
    rows = [] if fast.trace is None else [(sinks[sink], stimulus, at) for stimulus, at, sink in fast.trace.tolist()]
    assert rows == slow.rows
    for name, row in fast.streams.items():
        for key in ("arrived", "delivered", "dropped", "consumed", "lost"):
            assert row[key] == slow.counts[name][key]
    assert {n: row["sent"] for n, row in fast.links.items() if row["sent"]} == {
        f"{a}->{b}": link.sent for (a, b), link in slow.links.items() if link.sent
    }
    assert fast.balanced


@pytest.mark.parametrize("seed", range(80))
def test_kernel_agrees_with_reference(seed):
    """Every event, sink tuple, count and crossing of a random network is that of the plain simulator."""
    compare(seed)


@pytest.mark.slow
def test_kernel_agrees_with_reference_on_many_networks():
    """The same holds for several hundred further random networks."""
    for seed in range(1000, 1300):
        compare(seed)
