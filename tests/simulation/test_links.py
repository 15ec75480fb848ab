"""Links of limited bandwidth: what they pass, when it arrives, and what a failure of the sender leaves of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from penstock.cluster import Cluster, Host, Link
from penstock.network import Network, Operator, Sink, Source, chain
from penstock.simulation import Arrivals, Failure, MicroBatch, Options, Recording, simulate
from penstock.workload import Rates

SEEDS = range(40)


def drawn(seed):
    """Return a random link, which has no delay in one of three cases, and the generator that drew it."""
    rng = np.random.default_rng(seed)
    delay = 0.0 if seed % 3 == 0 else float(10 ** rng.uniform(-4, 1))
    return Link(delay, float(10 ** rng.uniform(-0.5, 3))), rng


def crossed(link, rates, options=None):
    """Return what becomes of tuples that cross a link once and cost nothing."""
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], link)
    placement = {"o1.1": "h1", "o1.2": "h2"}
    return simulate(chain([0.0, 0.0]), cluster, placement, rates, options, record=Recording(trace=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_full_link_passes_its_bandwidth(seed):
    """Whatever its delay, what a saturated link has brought by any moment is bandwidth times time, within one tuple."""
    link, rng = drawn(seed)
    span = link.delay + max(1.0, 200 / link.bandwidth)
    found = crossed(link, Rates.constant({"s1": float(rng.uniform(1.5, 20)) * link.bandwidth}, span))
    assert abs(found.latency["count"] - link.bandwidth * (span - link.delay)) <= 1 + 1e-9
    arrived = found.trace["egress"]
    np.testing.assert_allclose(arrived, link.delay + np.arange(arrived.size) / link.bandwidth, rtol=1e-9, atol=1e-9)
    row = found.links["h1->h2"]
    assert abs(row["sent"] - link.bandwidth * span) <= 1 + 1e-9
    assert row["queued"] == found.streams["o1.1->o1.2"]["queued"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_link_with_room_only_delays(seed):
    """What comes evenly to a link that can carry more is delayed by the link's delay and no further."""
    link, rng = drawn(seed)
    rate = float(rng.uniform(0.05, 0.99)) * link.bandwidth
    found = crossed(link, Rates.constant({"s1": rate}, max(1.0, 200 / rate)), Options(drain=True))
    took = found.trace["egress"] - found.trace["stimulus"]
    assert took.size >= 199
    np.testing.assert_allclose(took, link.delay, rtol=0, atol=1e-9 * (1 + found.end))


@pytest.mark.parametrize("seed", SEEDS)
def test_tuples_keep_their_distance(seed):
    """Whenever tuples come, they land in order, 1 / bandwidth apart or more, each as early as those before let it."""
    link, rng = drawn(seed)
    times = np.sort(rng.uniform(0, 300 / link.bandwidth, 200).round(2))
    found = crossed(link, Arrivals.of(times, "s1"), Options(drain=True)).trace
    free, expected = 0.0, []
    for time in times.tolist():
        leaves = max(time, free)
        free = leaves + 1 / link.bandwidth
        expected.append(leaves + link.delay)
    np.testing.assert_allclose(found["egress"], expected, rtol=1e-9, atol=1e-9)
    assert (np.diff(found["stimulus"]) >= 0).all()


@pytest.mark.parametrize("delay", [0.0, 0.3, 2.0])
def test_what_waits_is_lost_with_the_sender(delay):
    """Of what crosses when the sender fails, what has left it arrives, and what still waits for the link does not."""
    failing = Options(drain=True, failures=(Failure("h1", 1.05),))
    found = crossed(Link(delay, 10.0), Rates.constant({"s1": 100}, 1), failing)
    assert found.latency["count"] == 11
    assert found.streams["o1.1->o1.2"]["lost"] == 89
    assert found.links["h1->h2"] == {"sent": 11, "queued": 0}
    assert found.balanced


def test_readers_on_one_host_share_a_crossing_without_delay():
    """A tuple that several operators of a host read counts once for a link without delay, and reaches all at once."""
    readers = [Operator(name=f"r{k}", kind="map", inputs=("f",), cost=(0.0,), selectivity=(1.0,)) for k in range(3)]
    first = Operator(name="f", kind="map", inputs=("a",), cost=(0.0,), selectivity=(1.0,))
    sinks = [Sink(name=f"k{k}", input=f"r{k}") for k in range(3)]
    network = Network.of("shared", [Source(name="a")], [first, *readers], sinks)
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.0, 10.0))
    placement = {"f": "h1", **dict.fromkeys(("r0", "r1", "r2"), "h2")}
    found = simulate(network, cluster, placement, Rates.constant({"a": 40}, 10), record=Recording(trace=True))
    assert abs(found.links["h1->h2"]["sent"] - 100) <= 1
    for moment, rows in itertools.groupby(found.trace.tolist(), key=lambda row: row[1]):
        assert len(list(rows)) == 3, moment


def test_a_batch_crosses_at_the_bandwidth():
    """What a micro-batch puts out at once does not land at once where the link's bandwidth is limited."""
    options = Options(microbatch=MicroBatch(trigger=1.0, overhead=0.0), drain=True)
    for bandwidth in (50.0, 20.0):
        found = crossed(Link(0.0, bandwidth), Rates.constant({"s1": 40}, 10), options)
        assert found.balanced
        assert found.links["h1->h2"]["sent"] == 400
        # A batch of 40 has landed 39 / 50 s later, in time for the reader's next one; at half the rate it lasts twice
        # as long as the input.
        assert found.end == pytest.approx(11.0 if bandwidth == 50.0 else 21.0, abs=1e-6)
