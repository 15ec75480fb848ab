"""Results that come back from other machines."""

from __future__ import annotations

import math
import pickle

import msgspec
import numpy as np
import pytest

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import Job, Options, Recording, SimulationResult, simulate
from penstock.simulation.passing import packed, unpacked
from penstock.workload import Rates

NETWORK = Network.of(
    "station",
    [Source(name="s")],
    [Operator(name="a", kind="map", inputs=("s",), cost=(0.01,))],
    [Sink(name="t", input="a")],
)


def run(warmup: float = 0.0) -> SimulationResult:
    """Return what a short run has shown, with all that can be asked for."""
    rates, options = Rates.constant({"s": 50}, 2), Options(warmup=warmup)
    return simulate(
        NETWORK, Cluster.uniform(1), {"a": "h1"}, rates, options, record=Recording(trace=True, log=True, sample=0.5)
    )


def test_a_result_comes_back_as_it_was():
    """Values and arrays of a result are the same after they were bytes."""
    before = run()
    after = unpacked(packed(before))
    assert after.document() == before.document()
    np.testing.assert_array_equal(after.trace, before.trace)
    np.testing.assert_array_equal(after.log, before.log)
    for name in ("times", "queued", "busy"):
        np.testing.assert_array_equal(getattr(after.series, name), getattr(before.series, name))


def test_what_is_not_known_stays_so():
    """A latency that no tuple tells is no number, also after it was bytes."""
    after = Job(NETWORK, Cluster.uniform(1), {"a": "h1"}, Rates.constant({"s": 50}, 2))
    assert math.isnan(after.unpacked(after.packed(run(warmup=10.0))).latency["p99"])


@pytest.mark.parametrize("content", [pickle.dumps({"latency": {}}), b"", msgspec.msgpack.encode({"end": "late"})])
def test_other_bytes_are_refused(content: bytes):
    """Bytes that are no result are refused, and nothing in them is run."""
    with pytest.raises(msgspec.DecodeError):
        unpacked(content)
