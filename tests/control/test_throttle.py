"""The policy `throttle`: which sources are limited, to how much, and until when."""

from __future__ import annotations

import numpy as np
import pytest
from engines import APART, TOGETHER, simulated, two_queries
from steered import steered
from test_situation import having, moment

from penstock.cluster import Cluster, Host
from penstock.control.policies.throttle import Throttle
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import MicroBatch
from penstock.steering import HostSeen, Kill, UnitSeen
from penstock.workload import Rates


def rates_of(*rows):
    """Return rates of two sources: (seconds, tuples/s of the first, of the second) after each other."""
    first, second = ([row[k] for row in rows for _ in range(row[0])] for k in (1, 2))
    return Rates.of(1.0, {"s1": first, "s2": second})


def throttled(network, placement, rates, *, policy="throttle", trigger=1.0, overhead=0.1, happen=None):
    """Return the decisions on two hosts that work in batches, and what was seen."""
    batches = MicroBatch(trigger=trigger, overhead=overhead)
    engine = simulated(network, placement, rates, 2, microbatch=batches)
    return steered(engine, policy, int(rates.duration) - 1, happen=happen)


def test_only_sources_whose_hosts_are_behind_are_limited():
    """A burst on one host limits the source that it reads; the other one's queue stays what an interval brings."""
    _, looks = throttled(two_queries(), APART, rates_of((10, 100.0, 100.0), (10, 600.0, 20.0), (60, 20.0, 200.0)))
    assert {name for seen in looks for name in seen.limits} == {"s1"}
    waiting = [seen.waiting[seen.operators.index("cheap2")] for seen in looks]
    assert max(waiting) < 300


def test_limits_need_no_batches():
    """Where tuples are served one by one, what waits is read in parts as well, until nothing waits any more."""
    rates = rates_of((10, 100.0, 100.0), (10, 600.0, 20.0), (40, 20.0, 200.0))
    lines, looks = steered(simulated(two_queries(), APART, rates, 2), "throttle", 59)
    assert [line["decided"]["limits"].keys() for line in lines] == [{"s1"}, {"s1"}]
    assert not any(line["refused"] for line in lines)
    assert not looks[-1].limits


def test_limit_and_trigger_go_when_the_burst_is_over():
    """Once its host has caught up a source is free again, and the trigger is what it was; nothing changes after."""
    lines, looks = throttled(two_queries(), APART, rates_of((10, 100.0, 100.0), (10, 500.0, 100.0), (80, 100.0, 100.0)))
    assert max(seen.triggers["h1"] for seen in looks) > 1.0
    assert {seen.triggers["h2"] for seen in looks} == {1.0}
    assert not looks[-1].limits
    assert looks[-1].triggers["h1"] == 1.0
    assert lines[-1]["time"] < 60
    assert len(lines) <= 4


def shared_host():
    """Return a network whose second source reaches both hosts, and its placement."""
    operators = [
        Operator(name=name, kind="filter", where="true", inputs=(given,), cost=(cost,), selectivity=(1.0,))
        for name, given, cost in (("a", "s1", 0.004), ("b", "s2", 0.0004), ("c", "b", 0.004))
    ]
    sources = [Source(name=name, format="nexmark") for name in ("s1", "s2")]
    network = Network.of("shared", sources, operators, [Sink(name="t", input="a"), Sink(name="u", input="c")])
    return network, {"a": "h1", "b": "h2", "c": "h1"}


def test_sources_of_one_host_share_it():
    """Sources that meet at a host get no more together than it can work off, each as much as it needs of that."""
    network, placement = shared_host()
    _, looks = throttled(network, placement, rates_of((10, 80.0, 80.0), (15, 400.0, 200.0), (30, 80.0, 80.0)))
    limits = next(seen.limits for seen in looks if len(seen.limits) == 2)
    overhead = 0.1  # of each second
    assert sum(limits.values()) == pytest.approx((1 - overhead) / 0.004, rel=0.02)
    assert 1.5 < limits["s1"] / limits["s2"] < 3.0


def test_limits_follow_what_there_is_to_read():
    """While limits are in force they are made anew when the mix has changed, though not at every look."""
    network, placement = shared_host()
    lines, looks = throttled(network, placement, rates_of((10, 80.0, 80.0), (10, 500.0, 100.0), (60, 20.0, 210.0)))
    first = next(seen.limits for seen in looks if len(seen.limits) == 2)
    last = [seen.limits for seen in looks if len(seen.limits) == 2][-1]
    assert first["s1"] > 2 * first["s2"]
    assert last["s2"] > 1.5 * first["s2"]
    assert 2 <= sum("limits" in line["decided"] for line in lines) <= 10


def test_nothing_flaps_at_a_host_that_is_always_nearly_full():
    """A host that stays at nine tenths is given a longer trigger once, and no limit."""
    lines, looks = throttled(two_queries(), APART, rates_of((80, 200.0, 50.0)))
    assert not any(seen.limits for seen in looks)
    assert len(lines) <= 2


def test_limit_stays_while_an_operator_has_no_host():
    """A source whose operators are down is not set free: all of it would come in one batch when they are back."""
    rates = rates_of((10, 100.0, 100.0), (10, 600.0, 100.0), (20, 100.0, 100.0))
    _, looks = throttled(two_queries(), APART, rates, happen={15: [Kill("h1")]})
    assert looks[-1].down == {"h1"}
    assert set(looks[-1].limits) == {"s1"}


BEHIND = {"cheap1": "h1", "dear1": "h2", "cheap2": "h1", "dear2": "h1"}
"""The second host works on what the first one puts out."""


@pytest.mark.parametrize(("placement", "most"), [(APART, 1.5), (BEHIND, 0.75)])
def test_triggers_grow_as_far_as_the_way_of_a_tuple_allows(placement, most):
    """Batches that follow each other on the longest way stay within 30 % of the latency bound together."""
    rates = rates_of((60, 220.0, 220.0) if placement is APART else (60, 239.0, 190.0))
    _, looks = throttled(two_queries(), placement, rates, trigger=0.5)
    assert max(step for seen in looks for step in seen.triggers.values()) == pytest.approx(most)


def test_no_trigger_keeps_up_with_too_much():
    """Where hosts have more to do than they can work off no trigger is made longer for it."""
    lines, looks = throttled(two_queries(), APART, rates_of((60, 300.0, 300.0)), trigger=0.5)
    assert {step for seen in looks for step in seen.triggers.values()} == {0.5}
    assert not any("triggers" in line["decided"] for line in lines)


@pytest.mark.parametrize(("cores", "need"), [(4, None), (2, 0.843), (1, 1.69)])
def test_overhead_of_queries_is_divided_by_the_cores_that_they_run_on(cores, need):
    """Four queries of 0.3 s a batch take 0.3 s on four cores, and a trigger of 0.5 s keeps up; on fewer cores not."""
    cluster = Cluster.of([Host(name="h1", capacity=4.0, cores=cores), Host(name="h2")])
    batches = MicroBatch(trigger=0.5, overhead=0.1)
    now = moment(two_queries(), TOGETHER, rates_of((20, 50.0, 50.0)), cluster, microbatch=batches)
    units = tuple(UnitSeen(name=f"u{k}", operators=(name,), host="h1") for k, name in enumerate(TOGETHER))
    now = having(now, units=units, hosts={"h1": HostSeen(overhead=0.3), "h2": HostSeen()})
    found = Throttle()(now, np.random.default_rng(0))
    if need is None:
        assert found is None
    else:
        assert f"{1.2 / cores:.3g} s a batch and 11 % work need {need} s" in found.why
        assert found.plan.triggers == {"h1": min(need, now.allowed)}


def test_a_host_with_nothing_to_do_keeps_its_trigger():
    """However long batches would be on a host without queries, there are none that it could not keep up with."""
    batches = MicroBatch(trigger=0.5, overhead=0.1)
    now = moment(two_queries(), TOGETHER, rates_of((20, 50.0, 50.0)), 2, microbatch=batches)
    units = (UnitSeen(name="u", operators=tuple(TOGETHER), host="h1"),)
    now = having(now, units=units, hosts={"h1": HostSeen(overhead=0.5), "h2": HostSeen()})
    assert set(Throttle()(now, np.random.default_rng(0)).plan.triggers) == {"h1"}


@pytest.mark.parametrize("placement", [APART, BEHIND])
def test_throttle_costs_little_beside_shed(placement):
    """Under twice what hosts can do, no more is lost than by shedding alone, little is slower, and triggers rest."""
    rates, worst, served = rates_of((20, 100.0, 100.0), (60, 450.0, 450.0), (30, 100.0, 100.0)), {}, {}
    for policy in ("shed", "throttle,shed"):
        lines, looks = throttled(two_queries(), placement, rates, policy=policy, trigger=0.5, overhead=0.02)
        worst[policy] = max(row.worst or 0.0 for seen in looks for row in seen.latency.values())
        served[policy] = sum(row.count for seen in looks for row in seen.latency.values())
    assert worst["throttle,shed"] <= 1.1 * worst["shed"]
    assert served["throttle,shed"] >= 0.99 * served["shed"]
    assert sum("triggers" in line["decided"] for line in lines) <= 5
