"""The policy that moves operators: what it reads, when it decides, what it may not do."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host, Placement
from penstock.errors import InputError
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source
from penstock.network.shapes import chains
from penstock.placement import ALGORITHMS, Problem, algorithm, as_arrays
from penstock.running.rebalance import Memory, Rebalance, decide, observed_loads
from penstock.simulation import Options, simulate
from penstock.steering import Observation
from penstock.workload import Rates
from penstock.workload.shapes import fluctuating


def network_of(costs, selectivity=0.5):
    """Return chains of operators of given costs (s)."""
    return chains(costs, [[selectivity] * len(row) for row in costs])


def seen_of(network, at, entered, placement, cost=None, **more):
    """Return what an engine without queues would see in a second: every tuple is served at once."""
    names = tuple(network.operators)
    model = load_model(network, Rates.of(1.0, {name: [float(n)] for name, n in entered.items()}))
    served = np.array([sum(model.arrivals[model.stream_index[s.name], 0] for s in network.inputs(n)) for n in names])
    out = np.array([model.arrivals[model.stream_index[network.outputs(n)[0].name], 0] for n in names])
    costs = np.array([network.operators[n].cost[0] for n in names]) if cost is None else np.asarray(cost)
    return Observation(
        at=float(at), period=1.0, network=network, cluster=CLUSTER, sources=tuple(network.sources),
        entered=np.array([entered[name] for name in network.sources]), operators=names,
        served=served, work=served * costs, tried=served, emitted=out, placement=placement, **more,
    )  # fmt: skip


CLUSTER = Cluster.uniform(2)


def walk(policy, network, cluster, looks, seed=0):
    """Return the moves of each look."""
    memory, rng, found = Memory(), np.random.default_rng(seed), []
    for seen in looks:
        memory, moves = decide(policy, network, cluster, memory, seen, rng)
        found.append(moves)
    return found


TWO = network_of([[0.002, 0.002], [0.002, 0.002]], 1.0)
APART = Placement({"o1.1": "h1", "o1.2": "h1", "o2.1": "h2", "o2.2": "h2"})
HOSTS = Cluster.uniform(2)


def alternating(count, placement=APART, network=TWO, **more):
    """Return looks at two chains in opposite phase."""
    return [
        seen_of(network, k + 1, {"s1": 300 if k % 2 else 100, "s2": 100 if k % 2 else 300}, placement, **more)
        for k in range(count)
    ]


def test_chains_in_opposite_phase_are_cut():
    """Two chains in opposite phase, each on a host of its own, are cut as section 1 of Xing et al. says."""
    for name in ("correlation-two-way", "correlation-exchange", "potential-greedy"):
        *waiting, moves = walk(Rebalance(algorithm=name, window=4), TWO, HOSTS, alternating(4))
        assert waiting == [(), (), ()]
        after = {**APART, **dict(moves)}
        assert len(moves) == 2
        for chain in ("o1", "o2"):
            assert {after[f"{chain}.1"], after[f"{chain}.2"]} == {"h1", "h2"}


def test_decisions_are_made_in_time():
    """Nothing is decided before the window is full, and then only every so often."""
    looks = alternating(12)
    found = walk(Rebalance(algorithm="correlation-exchange", every=3.0, sample=1.0, window=4), TWO, HOSTS, looks)
    assert [bool(moves) for moves in found] == [False] * 5 + [True, False, False] * 2 + [True]


def test_samples_of_several_looks():
    """A sample longer than the period is the sum of its looks, and the window ends at the last of them."""
    policy = Rebalance(algorithm="correlation-exchange", every=1.0, sample=2.0, window=2)
    memory = Memory()
    for k, count in enumerate([7, 10, 20, 30, 40]):
        memory = memory.updated(seen_of(TWO, k + 1, {"s1": count, "s2": 1}, APART), policy.looks)
    _, rates = observed_loads(policy, TWO, memory)
    assert rates.of_source("s1").tolist() == [15.0, 35.0]


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(["correlation-one-way", "correlation-exchange"]))
def test_only_the_window_counts(seed, name):
    """What was seen before the window changes no decision, and deciding changes nothing that it was given."""
    rng = np.random.default_rng(seed)
    network = network_of(rng.uniform(1e-3, 3e-3, (4, 3)).tolist(), 0.9)
    hosts = Cluster.uniform(3)
    placement = Placement({o: f"h{1 + int(rng.integers(3))}" for o in network.operators})
    looks = [seen_of(network, k + 1, {s: int(rng.integers(20, 300)) for s in network.sources}, placement)
             for k in range(8)]  # fmt: skip
    policy = Rebalance(algorithm=name, window=4)
    whole, last = walk(policy, network, hosts, looks)[-1], walk(policy, network, hosts, looks[4:])[-1]
    assert whole == last
    memory = Memory(looks=tuple(looks[4:7]))
    once = decide(policy, network, hosts, memory, looks[7], np.random.default_rng(0))
    again = decide(policy, network, hosts, memory, looks[7], np.random.default_rng(0))
    assert once[1] == again[1]
    assert memory.looks == tuple(looks[4:7])


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(["correlation-two-way", "potential-greedy"]))
def test_the_files_costs_do_not_count(seed, name):
    """Loads are what was measured: costs and selectivities in the network file change no decision."""
    rng = np.random.default_rng(seed)
    cost = rng.uniform(1e-3, 4e-3, (3, 3))
    network, wrong = network_of(cost.tolist(), 0.8), network_of(rng.uniform(1e-3, 1, (3, 3)).tolist(), 0.1)
    placement = Placement({o: f"h{1 + int(rng.integers(2))}" for o in network.operators})
    looks = [seen_of(network, k + 1, {s: int(rng.integers(20, 400)) for s in network.sources}, placement)
             for k in range(3)]  # fmt: skip
    policy = Rebalance(algorithm=name, window=3)
    assert walk(policy, network, HOSTS, looks) == walk(policy, wrong, HOSTS, looks)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(["correlation-one-way", "correlation-two-way",
       "correlation-exchange", "potential-greedy", "largest-first-balance"]))  # fmt: skip
def test_decisions_are_those_of_the_placement_algorithms(seed, name):
    """Exact observations show the true loads, and the moves are those of the algorithm that is handed these."""
    rng = np.random.default_rng(seed)
    network = network_of(rng.uniform(1e-3, 3e-3, (4, 3)).tolist(), 0.5)
    cluster = Cluster.of([Host(name=f"h{k}", capacity=float(rng.uniform(0.5, 2))) for k in range(3)])
    placement = Placement({o: f"h{int(rng.integers(3))}" for o in network.operators})
    counts = {s: rng.integers(20, 300, 5) for s in network.sources}
    looks = [seen_of(network, k + 1, {s: int(row[k]) for s, row in counts.items()}, placement) for k in range(5)]
    policy = Rebalance(algorithm=name, window=5)
    memory, moves = Memory(), ()
    for seen in looks:
        memory, moves = decide(policy, network, cluster, memory, seen, np.random.default_rng(0))
    model = load_model(*observed_loads(policy, network, memory))
    true = load_model(network, Rates.of(1.0, counts))
    for operator in network.operators:
        np.testing.assert_allclose(model.load_of(operator), true.load_of(operator), rtol=1e-9)
    # Not from the true loads: where two moves are worth the same, the last bit decides.
    arrays = as_arrays(Problem(model, cluster, placement))
    where = algorithm(name)(arrays, np.random.default_rng(0))
    assert {**placement, **dict(moves)} == dict(arrays.placement(where))


def test_what_stays():
    """Pinned and moving operators stay, and so do those that were never seen at work; none goes to a failed host."""
    policy = Rebalance(algorithm="correlation-two-way", window=4)
    assert walk(policy, TWO, HOSTS, alternating(4, moving=frozenset(APART)))[-1] == ()
    assert walk(policy, TWO, HOSTS, alternating(4, down=frozenset({"h2"})))[-1] == ()
    pinned = Network.of(
        "pinned", TWO.sources.values(),
        [attrs.evolve(operator, pin=APART[name]) for name, operator in TWO.operators.items()], TWO.sinks.values(),
    )  # fmt: skip
    assert walk(policy, pinned, HOSTS, alternating(4))[-1] == ()
    idle = [attrs.evolve(seen, served=np.where(np.arange(4) < 3, seen.served, 0)) for seen in alternating(4)]
    assert "o2.2" not in dict(walk(policy, TWO, HOSTS, idle)[-1])
    three = Cluster.uniform(3)
    moves = walk(Rebalance(algorithm="potential-greedy", window=4), TWO, three, alternating(4, down=frozenset({"h3"})))
    assert moves[-1]
    assert "h3" not in dict(moves[-1]).values()


def test_nothing_seen_nothing_moved():
    """Where no tuple has come, loads are equal whatever is done, and nothing is."""
    silent = [seen_of(TWO, k + 1, {"s1": 0, "s2": 0}, APART) for k in range(4)]
    assert walk(Rebalance(algorithm="potential-greedy", window=2), TWO, HOSTS, silent) == [()] * 4


def test_warm_up_only_relieves_overload():
    """Until the warm-up ends only overloaded hosts give operators away; then all do (section 5.1.4)."""
    network = network_of([[0.002] * 4], 1.0)
    placement = Placement(dict.fromkeys(network.operators, "h1"))
    policy = Rebalance(algorithm="correlation-one-way", window=2, warmup=3.0)
    calm = [seen_of(network, k + 1, {"s1": 100}, placement) for k in range(3)]
    assert [bool(moves) for moves in walk(policy, network, HOSTS, calm)] == [False, False, True]
    hot = [seen_of(network, k + 1, {"s1": 150}, placement) for k in range(3)]
    assert [bool(moves) for moves in walk(policy, network, HOSTS, hot)] == [False, True, True]


def test_initial_distribution_happens_once():
    """A global algorithm distributes everything once at the end of the warm-up; without another nothing follows."""
    looks = alternating(8)
    found = walk(Rebalance(algorithm=None, initial="correlation", window=2, warmup=4.0), TWO, HOSTS, looks)
    assert [bool(moves) for moves in found] == [False, False, False, True, False, False, False, False]


def test_theta_holds_the_lightest():
    """With theta the lightest operators stay, with theta = 1 all do (Wang et al., section 4.2)."""
    network = network_of([[0.004, 0.001, 0.001, 0.001]], 1.0)
    placement = Placement(dict.fromkeys(network.operators, "h1"))
    looks = [seen_of(network, k + 1, {"s1": 100}, placement) for k in range(2)]

    def moved(theta):
        return {name for name, _ in walk(Rebalance(algorithm="potential-greedy", window=2, theta=theta), network,
                                         HOSTS, looks)[-1]}  # fmt: skip

    assert moved(0.75) <= {"o1.1"}
    assert moved(1.0) == set()
    assert moved(0.0)


@pytest.mark.parametrize(
    ("more", "at"),
    [({"algorithm": "exact"}, "--rebalance"), ({"initial": "economical-replicated"}, "--initial"),
     ({"every": 0.0}, "--every"), ({"window": 0}, "--window"), ({"every": 1.0, "sample": 0.7}, "--sample"),
     ({"theta": 2.0}, "--theta"), ({"sample": float("nan")}, "--sample")],
)  # fmt: skip
def test_refusals(more, at):
    """Parameters that cannot be are refused with the option that they came from."""
    with pytest.raises(InputError) as error:
        Rebalance(**more)
    assert error.value.at == at


def spread(seed, loads=0.8):
    """Return four chains evenly out of phase with their rates, connected on four hosts."""
    network = network_of([[0.001] * 4] * 4, 1.0)
    rate = loads / 0.004
    series = {f"s{k + 1}": fluctuating(rate, 60, cycle=10, ratio=4, offset=2.5 * k) for k in range(4)}
    network = Network.of(
        network.name, [Source(name=s, arrivals="poisson") for s in network.sources], network.operators.values(),
        network.sinks.values(),
    )  # fmt: skip
    return network, Rates.of(1.0, series), Placement({name: f"h{name[1]}" for name in network.operators})


@pytest.mark.parametrize("name", ["correlation-two-way", "correlation-exchange", "potential-greedy"])
def test_the_simulator_steered_by_the_policy(name):
    """Chains evenly out of phase are cut by what the simulator measures: latency falls to a fraction, and stays low."""
    network, rates, placement = spread(0)
    cluster = Cluster.uniform(4)
    still = simulate(network, cluster, placement, rates, Options(warmup=20.0, seed=3))
    # The ten seconds before the warm-up ends are a whole cycle.
    policy = Rebalance(algorithm=name, warmup=10.0)
    moved = simulate(network, cluster, placement, rates, Options(warmup=20.0, steer=policy, move_time=0.2, seed=3))
    assert moved.balanced
    assert moved.moves
    assert moved.latency["mean"] < still.latency["mean"] / 5
    again = simulate(network, cluster, placement, rates, Options(warmup=20.0, steer=policy, move_time=0.2, seed=3))
    assert again.moves == moved.moves


def test_loads_are_ideal_behind_an_overloaded_host():
    """What waits behind an overloaded host counts: loads follow from the sources' rates, not from what gets through."""
    operators = [
        Operator(name="a", kind="map", inputs=("s",), cost=(0.02,), selectivity=(1.0,)),
        Operator(name="b", kind="map", inputs=("a",), cost=(0.01,), selectivity=(1.0,)),
    ]
    network = Network.of("two", [Source(name="s")], operators, [Sink(name="t", input="b")])
    memory, found = Memory(), []
    policy = Rebalance(window=4)

    @attrs.frozen
    class Keep:
        tick: float = 1.0

        def begin(self, network, cluster, seed):
            return lambda seen: found.append(seen) or ()

    simulate(network, HOSTS, {"a": "h1", "b": "h2"}, Rates.constant({"s": 100.0}, 10.0), Options(steer=Keep()))
    for seen in found:
        memory = memory.updated(seen, policy.looks)
    seen_network, rates = observed_loads(policy, network, memory)
    assert load_model(seen_network, rates).mean_load.tolist() == pytest.approx([2.0, 1.0])


def test_every_algorithm_is_known():
    """What the policy names is in the table of placement algorithms."""
    from penstock.running.rebalance import PAIRWISE, WHOLE

    assert set(PAIRWISE) | set(WHOLE) <= set(ALGORITHMS)
