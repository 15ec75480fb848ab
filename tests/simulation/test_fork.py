"""Copies of a run that go on by themselves."""

import attrs
import numpy as np
import pytest

from penstock.cluster import Cluster, Host, Link
from penstock.network.shapes import chains
from penstock.simulation import Options, Recording, simulate
from penstock.simulation.run import Simulation
from penstock.workload import Rates

NETWORK = chains([[0.02, 0.01], [0.03, 0.02]])
CLUSTER = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.05))
PLACEMENT = {"o1.1": "h1", "o1.2": "h2", "o2.1": "h1", "o2.2": "h2"}
RATES = Rates.of(1.0, {"s1": np.full(20, 30.0), "s2": [10.0, 40.0] * 10})


@pytest.mark.parametrize("policy", ["fcfs", "round-robin", "stimulus", "longest-queue"])
def test_a_fork_goes_on_as_the_run_itself(policy):
    """Two forks and the run they were taken from end as a run that was never stopped, whichever goes first."""
    options = Options(policy=policy, warmup=3.0)
    whole = simulate(NETWORK, CLUSTER, PLACEMENT, RATES, attrs.evolve(options, seed=2), record=Recording(trace=True))
    run = Simulation(NETWORK, CLUSTER, PLACEMENT, RATES, attrs.evolve(options, seed=2), record=Recording(trace=True))
    run.go(7.0)
    futures = [run.fork(), run.fork(), run]
    for future in futures:
        future.go()
    assert len(whole.trace)
    for future in futures:
        found = future.result()
        assert np.array_equal(found.trace, whole.trace)
        assert (found.latency, found.hosts, found.streams) == (whole.latency, whole.hosts, whole.streams)


def test_what_happens_to_a_fork_does_not_happen_to_the_run():
    """An operator that moves in a fork stays in the run, which ends as if there had been no fork."""
    whole = simulate(NETWORK, CLUSTER, PLACEMENT, RATES, Options(), record=Recording(trace=True))
    run = Simulation(NETWORK, CLUSTER, PLACEMENT, RATES, Options(changing=True), record=Recording(trace=True))
    run.go(5.0)
    other = run.fork()
    assert other.move("o2.1", "h2")
    other.go()
    moved = other.result()
    assert [move.operator for move in moved.moves] == ["o2.1"]
    run.go()
    stayed = run.result()
    assert stayed.moves == ()
    assert np.array_equal(stayed.trace, whole.trace)
    assert moved.latency != stayed.latency


def test_a_run_whose_rows_are_in_other_hands_does_not_fork():
    """A receiver of rows would be given those of both."""
    run = Simulation(NETWORK, CLUSTER, PLACEMENT, RATES, Options(), record=Recording(trace=lambda rows: None))
    with pytest.raises(ValueError, match="fork"):
        run.fork()
