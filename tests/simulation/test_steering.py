"""Runs that are steered: what is counted at a look, and operators that move by what somebody decides."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import Arrivals, MicroBatch, Move, Options, Recording, simulate
from penstock.workload import Rates

spec = importlib.util.spec_from_file_location("simulation_networks", Path(__file__).with_name("networks.py"))
networks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)


@attrs.frozen
class Steer:
    """Moves operators by a function of the observation, and keeps what it saw."""

    decide: object
    tick: float = 0.25
    seen: list = attrs.field(factory=list)

    def begin(self, network, cluster, seed):
        """Return the function that each look is given to."""
        rng = np.random.default_rng(seed)

        def look(seen):
            self.seen.append(seen)
            return self.decide(seen, rng)

        return look


def anywhere(hosts):
    """Moves a few operators to hosts drawn at random."""

    def decide(seen, rng):
        free = [name for name in seen.operators if name not in seen.moving]
        return [(name, hosts[int(rng.integers(len(hosts)))]) for name in free if rng.random() < 0.4]

    return decide


def steered_case(seed, batches):
    """Return a random run of every feature without copies, that is steered at random."""
    network, cluster, placement, arrivals, options = networks.random_case(seed)
    copies = [name for name in placement if "#" in name]
    placement = {name: host for name, host in placement.items() if name not in copies}
    keep = {name: share for name, share in options.keep.items() if "#" not in name}
    kept = tuple(move for move in options.moves if move.operator not in copies)
    if batches:
        options = attrs.evolve(options, microbatch=MicroBatch(trigger=0.3, overhead=0.05, progressive=seed % 2 == 0))
    return network, cluster, placement, arrivals, attrs.evolve(options, keep=keep, moves=kept)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), batches=st.booleans())
def test_steered_runs_are_those_with_the_same_moves(seed, batches):
    """A run that is steered is event by event the run that is told its moves beforehand, whatever features it has."""
    network, cluster, placement, arrivals, options = steered_case(seed, batches)
    # A link that takes no time to cross, or one that takes the same everywhere.
    delay = (0.0, 0.05)[seed % 2]
    cluster = Cluster.of(cluster.hosts.values(), Link(delay, np.inf))
    options = attrs.evolve(options, moves=(), move_time_per_tuple=0.0)
    steer = Steer(anywhere(list(cluster.hosts)))
    first = simulate(
        network,
        cluster,
        placement,
        arrivals,
        attrs.evolve(options, steer=steer, seed=seed),
        record=Recording(trace=True, log=True),
    )
    told = tuple(Move(move.operator, move.end, move.time) for move in first.moves)
    again = simulate(
        network,
        cluster,
        placement,
        arrivals,
        attrs.evolve(options, moves=told, move_time=options.move_time + delay, seed=seed),
        record=Recording(trace=True, log=True),
    )
    assert first.balanced
    assert first.moves == again.moves
    assert first.streams == again.streams
    assert np.array_equal(first.trace, again.trace)
    assert np.array_equal(first.log[["time", "kind", "identity"]], again.log[["time", "kind", "identity"]])


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), batches=st.booleans())
def test_counts_of_looks_add_up(seed, batches):
    """What the looks count adds up to what the result counts, while operators move, hosts fail and queues are full."""
    network, cluster, placement, arrivals, options = steered_case(seed, batches)
    # Not a moment at which anything else happens: what happens at that of a look comes after it.
    tick = 0.250123
    steer = Steer(anywhere(list(cluster.hosts)), tick)
    options = attrs.evolve(options, steer=steer, duration=12 * tick, drain=False, move_time_per_tuple=0.01)
    result = simulate(network, cluster, placement, arrivals, attrs.evolve(options, seed=seed))
    assert result.balanced
    assert len(steer.seen) == 12
    assert [seen.at for seen in steer.seen] == pytest.approx(np.arange(1, 13) * tick)
    last = steer.seen[-1]
    served = np.sum([seen.served for seen in steer.seen], axis=0)
    assert dict(zip(last.operators, served.tolist(), strict=True)) == {
        name: row["served"] for name, row in result.operators.items()
    }
    for index, name in enumerate(last.sources):
        entered = sum(int(seen.entered[index]) for seen in steer.seen)
        shares = [stream.share for stream in network.outputs(name)]
        if shares and min(shares) == 1:
            assert entered == result.streams[network.outputs(name)[0].name]["arrived"]


def one(cost=0.01, **more):
    """Return a network of one operator."""
    operator = Operator(name="o", kind="map", inputs=("s",), cost=(cost,), selectivity=(0.5,), **more)
    return Network.of("one", [Source(name="s")], [operator], [Sink(name="t", input="o")])


def test_observation_of_one_operator():
    """A look counts tuples, work in benchmark cores at the host's own speed, and outputs."""
    steer = Steer(lambda seen, rng: [("o", "h2")] if seen.at == 1.0 else [], tick=1.0)
    cluster = Cluster.of([Host(name="h1", capacity=2.0), Host(name="h2", capacity=0.5)])
    simulate(one(), cluster, Placement({"o": "h1"}), Rates.constant({"s": 20.0}, 3.0), Options(steer=steer))
    assert [seen.entered.tolist() for seen in steer.seen] == [[20], [20], [20]]
    assert [seen.served.tolist() for seen in steer.seen] == [[20], [20], [20]]
    assert [seen.work[0] for seen in steer.seen] == pytest.approx([0.2, 0.2, 0.2])
    assert [seen.emitted[0] for seen in steer.seen] == [10, 10, 10]
    assert [seen.placement["o"] for seen in steer.seen] == ["h1", "h2", "h2"]


def test_work_of_a_join_is_a_share_of_its_pairs():
    """A join tries the pairs within its windows: here ten, of which half come out."""
    join = Operator(
        name="j", kind="join", inputs=("a", "b"), cost=(0.01, 0.01), selectivity=(0.5, 0.5), counts=(10, 10)
    )
    network = Network.of("join", [Source(name="a"), Source(name="b")], [join], [Sink(name="t", input="j")])
    steer = Steer(lambda seen, rng: [], tick=2.0)
    arrivals = Arrivals.of(np.arange(12) * 0.1, ["a"] * 11 + ["b"])
    simulate(network, Cluster.uniform(1), {"j": "h1"}, arrivals, Options(steer=steer, duration=2.0))
    # Windows hold ten tuples each, so that the eleventh of a has pushed out the first.
    assert steer.seen[0].tried.tolist() == [10]
    assert steer.seen[0].emitted.tolist() == [5]


@pytest.mark.parametrize("queued", [0, 7])
def test_a_move_costs_what_it_is_said_to(queued):
    """An operator stands still for a fixed time, for each queued tuple, and while its queue crosses the link."""
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.25, 4.0))
    steer = Steer(lambda seen, rng: [("o", "h2")] if seen.at == 1.0 else [], tick=1.0)
    # One tuple is in service from 0.5 s to 1.5 s, the others wait.
    times = [0.5] + [0.6] * queued + [1.2]
    options = Options(steer=steer, move_time=0.2, move_time_per_tuple=0.03, drain=True)
    result = simulate(one(1.0), cluster, {"o": "h1"}, Arrivals.of(times, "s"), options, record=Recording(trace=True))
    pause = 0.2 + 0.03 * queued + 0.25 + queued / 4.0
    first = max(1.0 + pause, 1.2) + 1.0
    end = first + queued
    assert result.end == pytest.approx(end)
    assert [(m.time, m.operator, m.start, m.end) for m in result.moves] == [(1.0, "o", "h1", "h2")]
    assert steer.seen[1].moving == (frozenset({"o"}) if pause > 1 else frozenset())


def test_operators_with_copies_are_refused():
    """A policy that moves operators is refused where there are copies: it would know one of them only."""
    with pytest.raises(InputError, match="copies"):
        simulate(
            one(), Cluster.uniform(2), {"o": "h1", "o#2": "h2"}, Rates.constant({"s": 1.0}, 2.0),
            Options(steer=Steer(lambda seen, rng: [])),
        )  # fmt: skip


def test_a_failed_host_is_seen():
    """A look names the hosts that are down."""
    from penstock.simulation import Failure, Recovery

    steer = Steer(lambda seen, rng: [], tick=1.0)
    options = Options(steer=steer, failures=(Failure("h1", 0.5),), recoveries=(Recovery("h1", 1.5),))
    simulate(one(), Cluster.uniform(2), {"o": "h1"}, Rates.constant({"s": 1.0}, 3.0), options)
    assert [seen.down for seen in steer.seen] == [frozenset({"h1"}), frozenset(), frozenset()]
