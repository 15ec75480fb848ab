"""The kernel against the plain simulator, event by event."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import attrs
import pytest

from penstock.simulation import MicroBatch, Recording, simulate


def _load(name):
    spec = importlib.util.spec_from_file_location(f"simulation_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _load("reference")
Reference, Batches = reference.Reference, reference.Batches
random_case = _load("networks").random_case


def compare(seed, batches=False):
    network, cluster, placement, arrivals, options = random_case(seed)
    if batches:
        trigger = (0.0, 0.1, 0.25)[seed % 3]
        batch = MicroBatch(trigger=trigger, overhead=0.01 * (1 + seed % 4), progressive=seed % 2 == 0)
        options = attrs.evolve(options, microbatch=batch)
    fast = simulate(
        network, cluster, placement, arrivals, attrs.evolve(options, seed=seed), record=Recording(trace=True, log=True)
    )
    slow = (Batches if batches else Reference)(network, cluster, placement, arrivals, options, seed=seed)
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


@pytest.mark.parametrize("seed", range(60))
def test_micro_batches_agree_with_reference(seed):
    """The same holds where hosts work in micro-batches."""
    compare(seed, batches=True)


@pytest.mark.slow
def test_kernel_agrees_with_reference_on_many_networks():
    """The same holds for several hundred further random networks."""
    for seed in range(1000, 1300):
        compare(seed)
        compare(seed, batches=True)
