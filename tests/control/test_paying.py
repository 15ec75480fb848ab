"""Which moves pay: all trials priced at once, beside the plain loop over them."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from engines import simulated

from penstock.cluster import Cluster, Host
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.knowledge import Knowledge
from penstock.control.policies.rebalance import paying, prices
from penstock.control.situation import Situation
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


def seen_after(looks, network, placement, rates, cluster, goals):
    """Return the situation after some looks, one a second."""
    engine, known = simulated(network, placement, rates, cluster), Knowledge()
    for k in range(looks):
        engine.wait(k + 1.0)
        seen = engine.observe()
        known = known.updated(seen, network)
    return Situation(seen=seen, known=known, flow=Flow.of(network), goals=goals)


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
    now = seen_after(5, network, placement, rates, cluster, Goals(moves=5, pause=0.1))
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


def in_turn(count, memory=np.inf, copies=(), **goals):
    """Return a situation of chains, each on a host of its own, that are busy one after the other, three looks each."""
    network = chains([[0.001] * 2] * count, [[1.0] * 2] * count)
    network = Network.of(
        network.name, network.sources.values(),
        [attrs.evolve(operator, state=10.0) for operator in network.operators.values()], network.sinks.values(),
    )  # fmt: skip
    placement = {name: f"h{name[1]}" for name in network.operators} | dict(copies)
    busy = np.repeat(np.eye(count), 3, axis=1)
    rates = Rates.of(1.0, {f"s{k + 1}": row for k, row in enumerate(100 + 650 * busy)})
    hosts = enumerate(np.broadcast_to(memory, count).tolist(), 1)
    cluster = Cluster.of([Host(name=f"h{k}", memory=most) for k, most in hosts])
    return seen_after(3 * count, network, placement, rates, cluster, Goals(**goals))


def paid(now, target):
    """Return the moves towards a target that pay."""
    where = now.where()
    return paying(now, where, target, prices(now, now.host_load(where), now.host_backlog(where)))


@pytest.mark.parametrize("count", [2, 3])
def test_moves_that_pay_only_together_are_made_together(count):
    """Where units go round between hosts, and each move alone overloads the host it ends at, all or none are made."""
    target = {f"o{k + 1}.2": f"h{(k + 1) % count + 1}" for k in range(count)}
    now = in_turn(count)
    for name, host in target.items():
        assert paid(now, {name: host}) == {}
    assert paid(now, target) == target
    assert paid(in_turn(count, moves=count - 1), target) == {}
    assert paid(in_turn(count, pause=60.0), target) == {}
    # There is memory for no third unit, but for one that comes as another leaves.
    assert paid(in_turn(count, memory=20.0), target) == target


def test_no_exchange_brings_copies_together():
    """Of two moves that would pay together none is made where one of them ends beside a copy that stays."""
    # There is no memory for one of them alone.
    target, memory = {"o1.2": "h2", "o2.2": "h1"}, (20.0, 30.0)
    assert paid(in_turn(2, memory, {"o1.1#2": "h2"}), target) == target
    assert paid(in_turn(2, memory, {"o1.2#2": "h2"}), target) == {}


def test_one_exchange_of_many_pays():
    """Of a target with more moves than may be made at a time the two are found that pay together."""
    network = chains([[0.001] * 2] * 2 + [[0.00001] * 4] * 2, [[1.0] * 2] * 2 + [[1.0] * 4] * 2)
    placement = {name: f"h{2 - int(name[1]) % 2}" for name in network.operators}
    phases = {1: (750.0, 100.0), 2: (100.0, 750.0), 3: (10.0, 10.0), 4: (10.0, 10.0)}
    rates = Rates.of(1.0, {f"s{k}": np.repeat(pair, 3) for k, pair in phases.items()})
    now = seen_after(6, network, placement, rates, Cluster.uniform(2), Goals(moves=2))
    target = {name: f"h{1 + (host == 'h1')}" for name, host in placement.items() if name not in ("o1.1", "o2.1")}
    assert paid(now, target) == {"o1.2": placement["o2.2"], "o2.2": placement["o1.2"]}
