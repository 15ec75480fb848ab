"""The demo: how queries are dealt out in turn, and that its events show what placing is worth, by the model."""

from __future__ import annotations

import attrs
import pytest

from penstock.cluster import Cluster, SparkSettings
from penstock.load import OperatorStatistics, Statistics
from penstock.load.setting import Setting
from penstock.load.statistics import HostStatistics
from penstock.network.file import parse_network
from penstock.running.demo import IN_TURN, OURS, decide, in_turn, outcome_of
from penstock.running.prediction import predict
from penstock.running.two_sites import bursts, network, peak_of

SHARE = {"python": 1.0, "delay": 1.0, "aggregate": 0.3}


def test_queries_are_dealt_out_in_turn() -> None:
    """Each sink's operators go to the next host, and what several need goes with the first of them."""

    def step(given: str) -> dict[str, str]:
        return {"kind": "map", "input": given}

    graph = parse_network(
        {
            "name": "n",
            "sources": {"s": {}},
            "operators": {"a": step("s"), "b": step("a"), "c": step("a"), "d": step("s")},
            "sinks": {"t1": {"input": "b"}, "t2": {"input": "c"}, "t3": {"input": "d"}},
        }
    )
    assert dict(in_turn(graph, ["h1", "h2"])) == {"a": "h1", "b": "h1", "c": "h2", "d": "h1"}


@pytest.mark.parametrize(("overhead", "cost"), [(0.15, 0.00006), (0.3, 0.0002), (0.45, 0.00035), (0.6, 0.0004)])
def test_placing_is_worth_twice_by_the_model(overhead: float, cost: float) -> None:
    """On hosts fast or slow, or that become so, rows wait twice as long with queries dealt out in turn."""
    cluster, graph = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=2.0)), network()
    costs = {"python": 0.7 * cost, "delay": cost, "aggregate": 0.00001}
    operators = {
        name: OperatorStatistics(cost=(costs[operator.kind],), selectivity=(SHARE[operator.kind],))
        for name, operator in graph.operators.items()
    }

    def known(slow: float) -> Statistics:
        host = HostStatistics(overhead=overhead * slow, factor=1.15 * slow)
        return Statistics(operators=operators, hosts=dict.fromkeys(cluster.hosts, host))

    whole = known(1.0).complete(graph, override=True)
    plans = {OURS: decide(OURS, whole, cluster, bursts(), 0), IN_TURN: in_turn(graph, list(cluster.hosts))}
    rates = bursts(peak_of(whole, cluster, plans[OURS], known(1.0)))
    setting = Setting(network=whole, cluster=cluster, placement=plans[OURS])
    for slower in (0.75, 0.8, 0.85, 0.9, 1.0, 1.1, 1.2):
        settled = attrs.evolve(setting, statistics=known(slower))
        worst = {
            name: predict(attrs.evolve(settled, placement=placed), rates).result.quantiles().worst
            for name, placed in plans.items()
        }
        assert worst[IN_TURN] >= 2 * worst[OURS], slower


def test_the_demo_ends_with_one_sentence() -> None:
    """It says for both placements how long the slowest row took, and how many times as long that is."""
    told = outcome_of({OURS: {"measured": {"max": 5.0}}, IN_TURN: {"measured": {"max": 12.5}}})
    assert "5.0 s" in told
    assert "12.5 s" in told
    assert "2.5 times" in told
    assert told.count(". ") == 0


def test_the_demo_says_why_placing_was_worth_little() -> None:
    """Where the machine changed its speed since it was calibrated, the sentence says by how much, and what to do."""

    def told(theirs: float, slower: float) -> str:
        changed = {"measured": {"max": theirs}, "slower": {"h1": slower, "h2": 1.0}}
        return outcome_of({OURS: {"measured": {"max": 4.2}, "slower": {}}, IN_TURN: changed})

    assert "since batches took up to 0.55 times what they had taken while calibrated: try again" in told(4.25, 0.55)
    assert "since" not in told(12.5, 0.55)
    assert "since" not in told(4.25, 0.95)
