"""Single moves off an overloaded host, where the papers' algorithms move nothing."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from engines import simulated, stepped
from steered import steered

from penstock.network import Network, Operator, Sink, Source
from penstock.workload import Rates


def chains(costs, pin=None):
    """Return operators of given costs (s), each between a source and a sink of its own; the first may be pinned."""
    operators = [
        Operator(name=f"o{k}", kind="map", inputs=(f"s{k}",), cost=(cost,), selectivity=(1.0,), pin=None if k else pin)
        for k, cost in enumerate(costs)
    ]
    sources = [Source(name=f"s{k}") for k in range(len(costs))]
    return Network.of("chains", sources, operators, [Sink(name=f"t{k}", input=f"o{k}") for k in range(len(costs))])


@pytest.mark.parametrize("policy", ["rebalance", "rebalance-two-way", "rebalance-exchange", "rebalance-potential"])
def test_an_overload_that_one_move_removes_does_not_last(policy):
    """Where a move is more than half of the difference of two hosts, it is made if it leaves neither with too much."""
    network = chains((0.008, 0.005, 0.005, 0.006), pin="h1")
    placement = {"o0": "h1", "o1": "h1", "o2": "h2", "o3": "h3"}
    engine = simulated(network, placement, stepped((60, 99.0), sources=tuple(network.sources)), 3)
    _, looks = steered(engine, policy, 60)
    report = engine.report()
    assert [move["operator"] for move in report["moves"]] == ["o1"]
    assert looks[-1].placement["o1"] == "h2"
    assert report["latency"]["max"] < 3


def test_what_would_only_change_places_stays():
    """An overload that every move would only take elsewhere stays where it is."""
    network = chains((0.012, 0.005))
    engine = simulated(network, {"o0": "h1", "o1": "h2"}, stepped((30, 99.0), sources=tuple(network.sources)))
    steered(engine, "rebalance", 30)
    assert not engine.report()["moves"]


@pytest.mark.parametrize(("silent", "moves"), [("h2", [("o1", "h3")]), ("h1", [])])
def test_nothing_moves_to_or_off_a_host_that_does_not_answer(monkeypatch, silent, moves):
    """Where the emptiest host does not answer the next one is relieved to, and an overload on such a host is left."""
    network = chains((0.008, 0.005, 0.002, 0.003), pin="h1")
    placement = {"o0": "h1", "o1": "h1", "o2": "h2", "o3": "h3"}
    engine = simulated(network, placement, stepped((30, 99.0), sources=tuple(network.sources)), 3)
    look = engine.observe
    monkeypatch.setattr(engine, "observe", lambda: attrs.evolve(look(), silent=frozenset({silent})))
    lines, _ = steered(engine, "rebalance", 30)
    assert [(move["operator"], move["to"]) for move in engine.report()["moves"]] == moves
    assert not any(line["refused"] for line in lines)


@pytest.mark.parametrize("policy", ["rebalance", "rebalance-two-way", "rebalance-exchange", "rebalance-potential"])
@pytest.mark.parametrize("silent", ["h2", "h3"])
def test_no_algorithm_uses_a_host_that_does_not_answer(monkeypatch, policy, silent):
    """Small operators of an overloaded host go to the one that answers, though another one is as empty."""
    network = chains((0.003,) * 4)
    rates = stepped((30, 99.0), sources=tuple(network.sources))
    engine = simulated(network, dict.fromkeys(network.operators, "h1"), rates, 3)
    look = engine.observe
    monkeypatch.setattr(engine, "observe", lambda: attrs.evolve(look(), silent=frozenset({silent})))
    _, looks = steered(engine, policy, 30)
    assert set(looks[-1].placement.values()) == {"h1", "h2", "h3"} - {silent}


@pytest.mark.parametrize("seed", range(6))
def test_moves_come_to_an_end(seed):
    """Under rates that stay, however many hosts have too much to do, nothing moves to and fro."""
    rng = np.random.default_rng(seed)
    network = chains(rng.uniform(0.002, 0.012, 8).tolist())
    rates = Rates.constant({name: float(rng.uniform(20, 80)) for name in network.sources}, 150.0)
    placement = {name: f"h{int(rng.integers(3)) + 1}" for name in network.operators}
    engine = simulated(network, placement, rates, 3, seed=seed)
    steered(engine, "rebalance", 150)
    moves = engine.report()["moves"]
    assert all(move["time"] < 90 for move in moves)
    assert len(moves) <= 1 + len({move["operator"] for move in moves})
