"""Where operators go that have to leave a host: only where they may be."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
from engines import simulated, stepped
from steered import steered

from penstock.cluster import Cluster, Host
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.knowledge import Knowledge
from penstock.control.policies.base import evacuated
from penstock.control.situation import Situation
from penstock.network import Network, Operator, Sink, Source
from penstock.steering import Kill, Recover


def network_of(**state):
    """Return operators beside each other that keep so many bytes of state."""
    operators = [
        Operator(name=name, kind="filter", where="true", inputs=("s1",), cost=(0.002,), selectivity=(1.0,), state=kept)
        for name, kept in state.items()
    ]
    return Network.of("kept", [Source(name="s1")], operators, [Sink(name=f"t{name}", input=name) for name in state])


def failed_over(network, placement, memory):
    """Return the decisions and the placement after the first host has died."""
    cluster = Cluster.of([Host(name=f"h{k}", memory=size) for k, size in enumerate(memory, 1)])
    engine = simulated(network, placement, stepped((20, 100.0), sources=("s1",)), cluster)
    lines, looks = steered(engine, "replicate", 15, happen={5: [Kill("h1")]})
    return lines, looks[-1].placement


def test_state_goes_where_there_is_memory_for_it():
    """The emptiest host is passed over where it has no room for the state."""
    lines, placement = failed_over(network_of(a=100.0, b=0.0), {"a": "h1", "b": "h3"}, (1000, 50, 1000))
    assert [line["refused"] for line in lines] == [[]]
    assert placement == {"a": "h3", "b": "h3"}


def test_memory_is_divided_among_those_that_leave():
    """Operators that fit on a host one by one, but not together, go to different ones."""
    _, placement = failed_over(network_of(a=60.0, b=60.0, c=0.0), {"a": "h1", "b": "h1", "c": "h2"}, (1000, 100, 100))
    assert {placement["a"], placement["b"]} == {"h2", "h3"}


def test_what_fits_nowhere_keeps_nothing_else_from_starting():
    """An operator that no host has memory for is left; the others start elsewhere."""
    lines, placement = failed_over(
        network_of(a=100.0, b=10.0, c=0.0), {"a": "h1", "b": "h1", "c": "h2"}, (1000, 50, 50)
    )
    assert [line["refused"] for line in lines] == [[], []]
    assert placement == {"a": "h1", "b": "h3", "c": "h2"}


@pytest.mark.parametrize(
    ("killed", "why"),
    [
        (["h1"], "h1 is down, and a stands still: no other host has memory for it"),
        (["h1", "h2"], "h1, h2 are down, and a, c stand still: no other host is up"),
    ],
)
def test_what_stands_still_is_told_once(killed, why):
    """Operators that nobody can start elsewhere are told with the reason, once for each time that their host dies."""
    cluster = Cluster.of([Host(name="h1", memory=1000.0), Host(name="h2", memory=50.0)])
    happen = {at: [kind(host) for host in killed] for at, kind in ((5, Kill), (45, Recover), (90, Kill))}
    network, rates = network_of(a=100.0, c=0.0), stepped((100, 100.0), sources=("s1",))
    lines, _ = steered(
        simulated(network, {"a": "h1", "c": "h2"}, rates, cluster), "replicate,shed,rebalance", 100, happen=happen
    )
    told = [line["time"] for line in lines if line["why"] == why]
    assert told == [6.0, 91.0]


def test_a_copy_that_is_alive_stands_for_the_other():
    """Nothing stands still where another copy runs, though no host can take the one that is missing."""
    lines, _ = failed_over(network_of(a=0.0), {"a": "h1", "a#2": "h2"}, (float("inf"), float("inf")))
    assert not lines


def test_copy_without_a_host_of_its_own_keeps_nothing_else_from_starting():
    """Where every host that is up has a copy already, the other operators start without that one."""
    lines, placement = failed_over(
        network_of(a=0.0, b=0.0), {"a": "h1", "a#2": "h2", "b": "h1"}, (float("inf"), float("inf"))
    )
    assert [line["refused"] for line in lines] == [[]]
    assert placement == {"a": "h1", "a#2": "h2", "b": "h2"}


def test_nothing_goes_to_a_host_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has to leave a dead host goes where more runs, rather than where nothing could be started."""
    engine = simulated(network_of(a=0.0, b=0.0), {"a": "h1", "b": "h3"}, stepped((20, 100.0), sources=("s1",)), 3)
    look = engine.observe
    monkeypatch.setattr(engine, "observe", lambda: attrs.evolve(look(), silent=frozenset({"h2"})))
    _, looks = steered(engine, "replicate", 15, happen={5: [Kill("h1")]})
    assert looks[-1].placement == {"a": "h3", "b": "h3"}


@pytest.mark.parametrize("costs", [(None,) * 12, (0.001,) * 4 + (None,) * 8, (0.001,) * 12])
def test_what_leaves_is_spread_where_costs_are_not_known(costs):
    """Operators that nobody knows a cost of go to all hosts that are up, as those that cost the same do."""
    operators = [
        Operator(name=f"o{k}", kind="filter", where="true", inputs=("s1",), cost=cost and (cost,))
        for k, cost in enumerate(costs)
    ]
    sinks = [Sink(name=f"t{k}", input=f"o{k}") for k in range(len(costs))]
    network = Network.of("unknown", [Source(name="s1")], operators, sinks)
    told = Network.of("unknown", [Source(name="s1")], [attrs.evolve(o, cost=(0.001,)) for o in operators], sinks)
    engine = simulated(told, dict.fromkeys(told.operators, "h1"), stepped((9, 20.0), sources=("s1",)), 4)
    engine.wait(1.0)
    seen = attrs.evolve(engine.observe(), network=network, down=frozenset({"h1"}))
    known = Knowledge(looks=1, rates={"s1": (20.0,)})
    now = Situation(seen=seen, known=known, flow=Flow.of(network), goals=Goals())
    assert Counter(evacuated(now, ["h1"]).values()) == {"h2": 4, "h3": 4, "h4": 4}
