"""Which moves pay: all trials priced at once, beside the plain loop over them."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from engines import simulated

from penstock.cluster import Cluster, Host
from penstock.control.flow import Flow
from penstock.control.knowledge import Knowledge
from penstock.control.policies.rebalance import paying, prices
from penstock.control.situation import Goals, Situation
from penstock.network import Network
from penstock.network.shapes import chains
from penstock.workload import Rates


def plain(now, where, target, before):
    """Return what `paying` returns, one trial after the other."""
    number = {name: k for k, name in enumerate(now.hosts)}
    row = {name: k for k, name in enumerate(now.seen.operators)}
    series, waits, price = now.host_load(where), now.host_backlog(where), before.copy()
    state = [now.network.operators[name].state or 0.0 for name in now.seen.operators]
    kept = np.bincount(where, state, len(now.hosts))
    memory = [now.seen.cluster.hosts[host].memory for host in now.hosts]
    load, backlog = now.load[now.base], now.backlog
    trials = [(row[name], int(where[row[name]]), number[host]) for name, host in target.items()]
    trials, found = [(k, a, b) for k, a, b in trials if price[a] > 0], {}

    def gain(trial):
        k, a, b = trial
        if kept[b] + state[k] > memory[b]:
            return -np.inf
        tried = np.array([series[a] - load[k], series[b] + load[k]])
        behind = np.maximum(0.0, [waits[a] - backlog[k], waits[b] + backlog[k]])
        return price[a] + price[b] - prices(now, tried, behind, np.array([a, b])).sum()

    while trials and len(found) < now.goals.moves:
        best = max(trials, key=lambda trial: (gain(trial), trial))
        if gain(best) <= now.goals.pause:
            break
        trials.remove(best)
        k, a, b = best
        series[a], series[b] = series[a] - load[k], series[b] + load[k]
        waits[a], waits[b] = max(0.0, waits[a] - backlog[k]), waits[b] + backlog[k]
        price[[a, b]] = prices(now, series[[a, b]], waits[[a, b]], np.array([a, b]))
        kept[a], kept[b] = kept[a] - state[k], kept[b] + state[k]
        found[now.seen.operators[k]] = now.hosts[b]
    return found


@pytest.mark.parametrize("memory", [np.inf, 22.0])
@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5])
def test_trials_priced_at_once_are_those_of_the_plain_loop(seed, memory):
    """Any targets on overloaded hosts give the moves, and their order, that pricing one by one gives."""
    rng = np.random.default_rng(seed)
    network = chains(rng.uniform(0.002, 0.02, (5, 3)).tolist(), [[1.0] * 3] * 5)
    kept = iter(np.random.default_rng(seed).integers(0, 10, 15).tolist())
    keeping = [attrs.evolve(operator, state=float(next(kept))) for operator in network.operators.values()]
    network = Network.of(network.name, network.sources.values(), keeping, network.sinks.values())
    placement = {name: f"h{rng.integers(1, 5)}" for name in network.operators}
    rates = Rates.of(1.0, {name: rng.uniform(10, 60, 8) for name in network.sources})
    cluster = Cluster.of([Host(name=f"h{k + 1}", memory=memory) for k in range(4)])
    engine, known = simulated(network, placement, rates, cluster), Knowledge()
    for k in range(5):
        engine.wait(k + 1.0)
        seen = engine.observe()
        known = known.updated(seen, network)
    now = Situation(seen=seen, known=known, flow=Flow.of(network), goals=Goals(moves=5, pause=0.1))
    where, every = now.where(), [*network.operators]
    before = prices(now, now.host_load(where), now.host_backlog(where))
    target = {name: f"h{rng.integers(1, 5)}" for name in rng.permutation(every)[:10].tolist()}
    target = {name: host for name, host in target.items() if host != placement[name]}
    found = paying(now, where, target, before)
    assert list(found.items()) == list(plain(now, where, target, before).items())
    assert len(found) <= 5
    assert found or memory < np.inf
    state, after = {name: operator.state for name, operator in network.operators.items()}, {**placement, **found}
    for host in {*found.values()}:
        assert sum(state[name] for name, place in after.items() if place == host) <= memory
