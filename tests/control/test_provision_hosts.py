"""The policy `provision`: when hosts join and leave, also where none is up or one cannot become empty."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from engines import APART, TOGETHER, simulated, stepped, two_queries
from steered import steered
from test_situation import moment

from penstock.cluster import Cluster, Host
from penstock.control.controller import drained
from penstock.control.goals import Goals, Prices
from penstock.control.knowledge import Knowledge
from penstock.control.loop import Asked, Control
from penstock.control.policies import policies
from penstock.control.policies.provision import Provision
from penstock.control.state import State
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import MicroBatch
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


def test_a_host_that_joins_works_in_batches_as_the_others_do():
    """With a host like the one that is there the load is half as much of what they can work off, batches and all."""
    batches = MicroBatch(trigger=0.5, overhead=0.45)
    now = moment(two_queries(), TOGETHER, stepped((20, 75.0)), 1, microbatch=batches)
    now = attrs.evolve(now, goals=Goals(spare=(Host(name="z1"),)))
    found = Provision()(now, np.random.default_rng(0))
    assert found.plan.add == now.goals.spare
    assert found.expected["load"] == pytest.approx(float(now.shares()[0]) / 2)


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


@pytest.mark.parametrize("policy", ["provision,rebalance", "cheapest"])
def test_host_stays_while_much_waits(policy):
    """A spare host that has joined in a burst leaves when nothing waits any more and the load has been low for 30 s."""
    rates = stepped((20, 45.0), (50, 300.0), (100, 45.0))
    # Dear rows are not dropped, and so they wait.
    goals = Goals(spare=(Host(name="z1"),), prices=Prices(value=1e-2))
    lines, looks = steered(simulated(two_queries(), TOGETHER, rates, 1), policy, 165, goals=goals)
    left = next(line["time"] for line in lines if "retire" in line["decided"])
    assert 100 <= left <= 112
    assert max(seen.waiting.sum() for seen in looks) > 3000
    assert next(seen.waiting.sum() for seen in looks if seen.at == left - 1) < 200
    assert set(looks[-1].cluster.hosts) == {"h1"}


def test_host_does_not_come_and_go_with_short_lulls():
    """Lulls of 15 s between bursts let no host go."""
    rates = stepped(*[(45, 140.0), (15, 45.0)] * 3)
    lines, looks = steered(
        simulated(two_queries(), TOGETHER, rates, 1), "provision,rebalance", 175, goals=Goals(spare=(Host(name="z1"),))
    )
    assert [line["decided"]["add"] for line in lines if "add" in line["decided"]] == [["z1"]]
    assert set(looks[-1].cluster.hosts) == {"h1", "z1"}


def test_host_with_batches_leaves():
    """What a long interval brings waits until its end, and keeps no host."""
    goals = Goals(spare=(Host(name="z1"),), bound=60.0)
    cluster = Cluster.of([Host(name="h1"), Host(name="z1")])
    placement = {name: "z1" if host == "h2" else host for name, host in APART.items()}
    batches = MicroBatch(trigger=10.0, overhead=0.1)
    engine = simulated(two_queries(), placement, stepped((80, 60.0)), cluster, microbatch=batches)
    _, looks = steered(engine, "provision", 75, goals=goals)
    assert max(seen.waiting.sum() for seen in looks) > 500
    assert set(looks[-1].cluster.hosts) == {"h1"}


@pytest.mark.parametrize(("period", "looks"), [(0.25, 120), (1.0, 32), (15.0, 32)])
def test_rates_are_kept_for_as_long_as_a_load_has_to_be_low(period, looks):
    """Who looks more often keeps more looks, for 30 s; a decision goes by the last ten all the same."""
    engine, known = simulated(two_queries(), APART, stepped((1000, 60.0)), 2), Knowledge()
    for k in range(140 if period < 1 else 40):
        engine.wait((k + 1) * period)
        known = known.updated(engine.observe(), two_queries())
    assert known.series(two_queries(), 1000).shape == (2, looks)
    assert known.series(two_queries()).shape == (2, 10)


def test_a_host_that_is_to_become_empty_is_no_room():
    """A spare host joins as soon as the load needs it without the host that is drained, and nothing waits for that."""
    operators = [
        Operator(name=f"o{k}", kind="filter", where="true", inputs=("s1",), cost=(0.0005,), selectivity=(1.0,))
        for k in range(30)
    ]
    network = Network.of("many", [Source(name="s1")], operators, [Sink(name=f"t{k}", input=f"o{k}") for k in range(30)])
    placement = {f"o{k}": "h1" if k % 2 else "h2" for k in range(30)}
    engine = simulated(network, placement, stepped((40, 95.0), sources=("s1",)))
    goals = Goals(moves=1, spare=(Host(name="h3"),))
    control = Control(policies=policies("provision,rebalance"), goals=goals, act=True)
    state, flow, waits = State(), None, []
    for at in range(1, 31):
        engine.wait(float(at))
        asked = [Asked("d", drained({"host": "h2"}))] if at == 5 else []
        turned = control.turn(engine, state, flow, asked)
        state, flow = turned.state, turned.flow
        waits.append(float(turned.seen.waiting.sum()))
    (added,) = [line for line in (each.line for each in state.open) if "add" in line["decided"]]
    assert added["time"] == 6.0
    assert added["why"].startswith("the load is 142 % of what 1 host can work off")
    assert set(turned.seen.cluster.hosts) == {"h1", "h3"}
    assert max(waits) < 100


def test_a_spare_host_joins_where_every_other_one_is_to_become_empty():
    """Where nothing can go that has to leave, as the other hosts have died, a spare host joins for it."""
    engine = simulated(two_queries(), APART, stepped((30, 60.0)), 2)
    control = Control(policies=policies("replicate,provision"), goals=Goals(spare=(Host(name="z1"),)), act=True)
    state, flow = State(draining=frozenset({"h2"})), None
    for at in range(1, 15):
        engine.wait(float(at))
        if at == 1:
            engine.happen(Kill("h1"))
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
    added = [line["why"] for line in (each.line for each in state.open) if "add" in line["decided"]]
    assert added == ["every host is to become empty: z1 joins"]
    assert set(turned.seen.placement.values()) == {"z1"}
