"""Links: how many tuples are on the way at a time, when they land, and what a failure of the sender leaves of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from penstock.cluster import Cluster, Host, Link
from penstock.network import Network, Operator, Sink, Source, chain
from penstock.simulation import Arrivals, Failure, Options, Recording, SimulationEngine, simulate
from penstock.steering import Plan
from penstock.workload import Rates

PLACEMENT = {"o1.1": "h1", "o1.2": "h2"}


def crossed(link, rates, options=None, cost=0.0):
    """Return what becomes of tuples that cross a link once."""
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], link)
    return simulate(chain([cost, cost]), cluster, PLACEMENT, rates, options, record=Recording(trace=True))


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (Link(0.5, 10.0), [0.5] * 5 + [1.0] * 5),
        (Link(0.0, 10.0), [0.0] * 10),
        (Link(0.1, 1.0), [0.1 * k for k in range(1, 11)]),
        (Link(0.25, 8.0), [0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1.0, 1.0, 1.25, 1.25]),
        (Link(0.1, 29.9), [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4, 0.5, 0.5]),
        # In binary fractions 0.29 times 10 is a little less than 2.9, and times 100 a little less than 29.
        (Link(0.29, 10.0), [0.29, 0.29, 0.58, 0.58, 0.87, 0.87, 1.16, 1.16, 1.45, 1.45]),
        (Link(0.29, 100.0), [0.29] * 10),
        (Link(0.5), [0.5] * 10),
    ],
    ids=str,
)
def test_as_many_as_pass_during_the_delay_are_on_the_way(link, expected):
    """Of ten tuples at once, bandwidth times delay are on the way at a time, at least one; without a delay, all."""
    found = crossed(link, Arrivals.of(np.zeros(10), "s1"), Options(drain=True))
    assert found.trace["egress"].tolist() == pytest.approx(expected)
    assert found.links["h1->h2"] == {"sent": 10, "queued": 0}


def test_as_many_as_rounding_hides_are_on_the_way():
    """A product that is a whole number but for binary fractions counts as that number."""
    found = crossed(Link(0.29, 100.0), Arrivals.of(np.zeros(30), "s1"), Options(drain=True))
    assert found.trace["egress"].tolist() == pytest.approx([0.29] * 29 + [0.58])


def test_without_a_delay_nothing_waits():
    """A link without a delay passes all that comes at once, whatever its bandwidth."""
    found = crossed(Link(0.0, 10.0), Rates.constant({"s1": 100}, 10), Options(drain=True), cost=0.001)
    assert found.latency["max"] == pytest.approx(0.002)
    assert found.latency["count"] == found.links["h1->h2"]["sent"] == 1000


@pytest.mark.parametrize("seed", range(40))
def test_each_takes_off_when_there_is_room(seed):
    """Whenever tuples come, each takes off in order once few enough are on the way, and lands the delay later."""
    rng = np.random.default_rng(seed)
    link = Link(float(10 ** rng.uniform(-2, 1)), float(10 ** rng.uniform(-0.5, 3)))
    times = np.sort(rng.uniform(0, 300 / link.bandwidth, 200).round(2))
    found = crossed(link, Arrivals.of(times, "s1"), Options(drain=True)).trace
    most, lands = max(1, int(link.delay * link.bandwidth)), []
    for k, time in enumerate(times.tolist()):
        lands.append(max(time, lands[k - most] if k >= most else 0.0) + link.delay)
    np.testing.assert_allclose(found["egress"], lands, rtol=1e-9, atol=1e-9)
    assert (np.diff(found["stimulus"]) >= 0).all()


@pytest.mark.parametrize(("delay", "sent"), [(0.0, 100), (0.3, 12), (2.0, 20)])
def test_what_waits_is_lost_with_the_sender(delay, sent):
    """Of what crosses when the sender fails, what has left it arrives, and what still waits for the link does not."""
    failing = Options(drain=True, failures=(Failure("h1", 1.05),))
    found = crossed(Link(delay, 10.0), Rates.constant({"s1": 100}, 1), failing)
    assert found.latency["count"] == sent
    assert found.streams["o1.1->o1.2"]["lost"] == 100 - sent
    assert found.links["h1->h2"] == {"sent": sent, "queued": 0}
    assert found.balanced


def test_what_is_on_the_way_or_waits_at_the_end_is_queued():
    """A run that ends counts as sent what has taken off, and as queued that and what waits."""
    found = crossed(Link(0.5, 10.0), Rates.constant({"s1": 100}, 1), Options(duration=0.75))
    assert found.links["h1->h2"] == {"sent": 10, "queued": 70}
    assert found.streams["o1.1->o1.2"]["queued"] == 70


def test_readers_on_one_host_share_a_crossing():
    """A tuple that several operators of a host read counts once for a link, and reaches all at once."""
    readers = [Operator(name=f"r{k}", kind="map", inputs=("f",), cost=(0.0,), selectivity=(1.0,)) for k in range(3)]
    first = Operator(name="f", kind="map", inputs=("a",), cost=(0.0,), selectivity=(1.0,))
    sinks = [Sink(name=f"k{k}", input=f"r{k}") for k in range(3)]
    network = Network.of("shared", [Source(name="a")], [first, *readers], sinks)
    placement = {"f": "h1", **dict.fromkeys(("r0", "r1", "r2"), "h2")}
    for link, crossings in ((Link(0.0, 10.0), 40), (Link(0.1, 10.0), 10)):
        cluster = Cluster.of([Host(name="h1"), Host(name="h2")], link)
        found = simulate(network, cluster, placement, Rates.constant({"a": 40}, 1), record=Recording(trace=True))
        assert found.links["h1->h2"]["sent"] == pytest.approx(crossings, abs=1)
        for moment, rows in itertools.groupby(found.trace.tolist(), key=lambda row: row[1]):
            assert len(list(rows)) == 3, moment


def test_a_crowded_link_stays_so_when_a_query_is_attached():
    """What is on the way and what waits when a query comes lands when it would have landed anyway."""
    network = chain([0.0, 0.0])
    more = network.having(
        [*network.operators.values(), Operator(name="n", kind="map", inputs=("s1",), cost=(0.0,), selectivity=(1.0,))],
        [*network.sinks.values(), Sink(name="n-out", input="n")],
    )
    cluster = Cluster.of([Host(name=f"h{k}") for k in (0, 1, 2)], Link(0.5, 10.0))
    arrivals = Rates.of(1.0, {"s1": [20.0] + [0.0] * 9})
    reports = []
    for plan in (Plan(), Plan(network=more, placement={"n": "h0"})):
        engine = SimulationEngine(network, cluster, PLACEMENT, arrivals)
        engine.wait(1.2)
        engine.apply(plan)
        engine.wait(10.0)
        reports.append(engine.report())
    kept, plain = reports[1], reports[0]
    assert plain["links"]["h1->h2"] == kept["links"]["h1->h2"] == {"sent": 20, "queued": 0}
    sink = next(iter(network.sinks))
    assert kept["sinks"][sink] == plain["sinks"][sink]
    assert kept["balanced"]
