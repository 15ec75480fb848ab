"""The policy `provision` at its limits: no host is up, or one cannot become empty."""

from __future__ import annotations

import pytest
from engines import APART, simulated, stepped, two_queries
from steered import steered

from penstock.cluster import Cluster, Host
from penstock.control.situation import Goals
from penstock.network import Network, Operator, Sink, Source
from penstock.steering import Kill


@pytest.mark.parametrize(("rate", "joining"), [(60.0, ["z1"]), (150.0, ["z1", "z2"])])
def test_spare_hosts_join_where_none_is_up(rate, joining):
    """As many hosts as the load needs join at once, the line says why, and everything runs there."""
    engine = simulated(two_queries(), APART, stepped((30, rate)), 2)
    goals = Goals(spare=tuple(Host(name=f"z{k}") for k in (1, 2, 3)))
    lines, looks = steered(engine, "replicate,provision", 12, goals=goals, happen={5: [Kill("h1"), Kill("h2")]})
    added = [line for line in lines if "add" in line["decided"]]
    assert [line["decided"]["add"] for line in added] == [joining]
    assert added[0]["why"].startswith("no host is up")
    assert set(looks[-1].placement.values()) == set(joining)


def test_spare_hosts_join_before_anything_is_known():
    """Also where all hosts were down from the first second: one joins."""
    engine = simulated(two_queries(), APART, stepped((30, 60.0)), 2)
    goals = Goals(spare=(Host(name="z1"), Host(name="z2")))
    lines, _ = steered(engine, "provision", 3, goals=goals, happen={1: [Kill("h1"), Kill("h2")]})
    assert [line["decided"]["add"] for line in lines] == [["z1"]]


def test_no_spare_host_is_left():
    """Without a spare host nothing is proposed, and nothing fails."""
    engine = simulated(two_queries(), APART, stepped((30, 60.0)), 2)
    lines, _ = steered(engine, "provision,cheapest,throttle,rebalance", 10, happen={5: [Kill("h1"), Kill("h2")]})
    assert not lines


def test_cheapest_adds_a_host_where_none_is_up():
    """What is lost without any host costs more than one."""
    engine = simulated(two_queries(), APART, stepped((30, 60.0)), 2)
    goals = Goals(spare=(Host(name="z1"),))
    lines, _ = steered(engine, "cheapest", 10, goals=goals, happen={5: [Kill("h1"), Kill("h2")]})
    assert [line["decided"]["add"] for line in lines if "add" in line["decided"]] == [["z1"]]
    assert "no host is up" in lines[0]["why"]


def test_host_that_cannot_become_empty_does_not_leave():
    """A spare host stays while its state has room nowhere else."""
    operators = [
        Operator(name=name, kind="filter", where="true", inputs=("s1",), cost=(0.001,), selectivity=(1.0,), state=kept)
        for name, kept in (("a", 0.0), ("b", 100.0))
    ]
    network = Network.of("kept", [Source(name="s1")], operators, [Sink(name=f"t{name}", input=name) for name in "ab"])
    cluster, spare = Cluster.of([Host(name="h1", memory=50), Host(name="z1")]), (Host(name="z1"),)
    engine = simulated(network, {"a": "h1", "b": "z1"}, stepped((60, 50.0), sources=("s1",)), cluster)
    lines, looks = steered(engine, "provision", 50, goals=Goals(spare=spare))
    assert not lines
    assert set(looks[-1].cluster.hosts) == {"h1", "z1"}
