"""The policy `cheapest`: what decides is what a course is good for, whatever hosts cost."""

from __future__ import annotations

import pytest
from engines import APART, TOGETHER, simulated, stepped, two_queries
from steered import steered

from penstock.cluster import Cluster, Host
from penstock.control.goals import Goals, Prices
from penstock.network import Network, Operator, Sink, Source
from penstock.steering import Kill


def whole(cost: float = 0.25) -> Network:
    """Return one query with nearly all its work in one operator."""
    operators = [
        Operator(name=name, kind="map", inputs=(given,), cost=(price,), selectivity=(1.0,))
        for name, given, price in (("f", "s1", 1e-4), ("model", "f", cost))
    ]
    return Network.of("whole", [Source(name="s1")], operators, [Sink(name="t", input="model")])


@pytest.mark.parametrize("price", [0.0, 32.0])
def test_what_hosts_cost_hides_no_lost_rows(price):
    """What is dropped follows the overload and ends with it, also where hosts cost a hundred times what is lost."""
    cluster = Cluster.of(Host(name=f"h{k + 1}", price=price) for k in range(2))
    rates = stepped((40, 2.0), (60, 6.0), (40, 2.0), sources=("s1",))
    engine = simulated(whole(), {"f": "h1", "model": "h2"}, rates, cluster)
    lines, looks = steered(engine, "cheapest", 140, goals=Goals(prices=Prices(late=5e-4)))
    assert lines[0]["decided"].keys() == {"keep"}
    assert not looks[-1].keep
    dropped = sum(int(seen.dropped.sum()) for seen in looks if seen.dropped is not None)
    assert 60 <= dropped <= 180  # of 360 a third is too much


def test_host_does_not_join_for_moves_that_cost_more():
    """Where a move costs more than lateness nothing moves, and so no host joins that only moves would fill."""
    rates = stepped((20, 60.0), (40, 180.0), (20, 60.0))
    for move, joins in ((0.01, True), (100.0, False)):
        goals = Goals(spare=(Host(name="z1"),), prices=Prices(move=move))
        lines, _ = steered(simulated(two_queries(), TOGETHER, rates, 1), "cheapest", 80, goals=goals)
        assert any("add" in line["decided"] for line in lines) == joins


def test_a_decision_names_the_course_that_it_takes():
    """A host that joins is an `add` in the reasons and prices of `cheapest`, and one that is let go a `retire`."""
    cluster = Cluster.of([Host(name="h1"), Host(name="z1")])
    goals = Goals(spare=(Host(name="z1"),), prices=Prices(hour=10.0))
    engine = simulated(two_queries(), APART | {"cheap2": "z1", "dear2": "z1"}, stepped((60, 20.0)), cluster)
    lines, _ = steered(engine, "cheapest", 60, goals=goals)
    assert any(line["why"].startswith("retire costs") for line in lines)
    assert not any("add " in line["why"] for line in lines)


@pytest.mark.parametrize("policy", ["cheapest", "provision,rebalance"])
def test_host_that_would_stay_empty_does_not_join(policy):
    """Where one operator is all the work, and too much for any host, another host is not paid for."""
    rates = stepped((20, 2.0), (40, 6.0), (20, 2.0), sources=("s1",))
    engine = simulated(whole(), {"f": "h1", "model": "h1"}, rates, 1)
    lines, looks = steered(engine, policy, 80, goals=Goals(spare=(Host(name="z1"), Host(name="z2"))))
    assert not any("add" in line["decided"] for line in lines)
    assert set(looks[-1].cluster.hosts) == {"h1"}


def test_host_does_not_join_for_what_others_take_over():
    """What a dead host ran has room on another one, so that none has to join for it, whoever starts it there."""
    goals = Goals(spare=(Host(name="z1"),))
    engine = simulated(two_queries(), APART, stepped((40, 100.0)), 2)
    lines, _ = steered(engine, "replicate,cheapest", 30, goals=goals, happen={10: [Kill("h1")]})
    assert not any("add" in line["decided"] for line in lines)
