"""The six schemes of Wang et al. (section 5.2, Tables 2 and 3), and runs of them as section 5.3 does them.

A run starts from a random placement. After a warm-up of 120 s an algorithm decides from what was measured in the last
50 s of it, in 10 samples; operators move, which costs 20 ms for each tuple of their queues and the time of the link.
The paper does not say when it measures: here it is two minutes that begin one minute after the moves, when what the
random start left in the queues has mostly gone.
"""

from __future__ import annotations

from functools import cached_property

import attrs
import numpy as np

from penstock.cluster import Cluster, Link, Placement
from penstock.cluster import shapes as clusters
from penstock.experiments.runs import rng
from penstock.load import load_model
from penstock.network import Network
from penstock.network.shapes import chains, hybrid
from penstock.placement import Arrays, Weights, algorithm
from penstock.placement.base import Ints
from penstock.running.rebalance import Memory, Rebalance, observed_problem
from penstock.simulation import Options, SimulationResult
from penstock.simulation.run import Simulation
from penstock.workload import Rates
from penstock.workload.phases import alternating

WARM_UP, MEASURE, DURATION = 120.0, 180.0, 300.0
QUEUE, PER_TUPLE, STEP = 100, 0.02, 0.1
MILLISECONDS = 1000.0
"""Delays here are in seconds, the paper's weights of the network fit milliseconds."""
RECOMMENDED = (100.0, 1.0, 1e-3)


def weights(load: float = 1.0, correlation: float = 1.0, network: float = 1.0) -> Weights:
    """Return weights in the paper's units."""
    return Weights(load, correlation, network * MILLISECONDS)


@attrs.frozen(eq=False)
class Scheme:
    """A network on a cluster under a workload, from time 0 to the end of the measurement."""

    network: Network
    cluster: Cluster
    rates: Rates


@attrs.define(eq=False, slots=False)
class Trial:
    """A scheme with one seed: of the random start, of the tuples and of their services."""

    scheme: Scheme
    seed: int

    @cached_property
    def start(self) -> Placement:
        """The placement that is called original: every operator on a host drawn evenly."""
        draw = rng(self.seed, 77)
        hosts = list(self.scheme.cluster.hosts)
        return Placement({o: hosts[int(draw.integers(len(hosts)))] for o in sorted(self.scheme.network.operators)})

    @cached_property
    def arrays(self) -> Arrays:
        """The problem as it is measured at the end of the warm-up."""
        found = self.held(0.0)
        assert found is not None  # noqa: S101 -- tuples came, and operators may move
        return found

    @cached_property
    def _warm(self) -> tuple[Simulation, Memory]:
        """A run at the end of its warm-up, which all placements have in common, and what was seen until then."""
        scheme, policy, memory = self.scheme, _policy(), Memory()
        options = Options(
            warmup=MEASURE, queue=QUEUE, move_time_per_tuple=PER_TUPLE, duration=scheme.rates.duration,
            changing=True, seed=self.seed,
        )  # fmt: skip
        run = Simulation(scheme.network, scheme.cluster, self.start, scheme.rates, options)
        for look in range(round(WARM_UP / policy.tick)):
            run.go((look + 1) * policy.tick)
            memory = memory.updated(run.observe(policy.tick), policy.looks)
        return run, memory

    def held(self, theta: float) -> Arrays | None:
        """Return the problem in which a share of the operators, the lightest, stays; None where all do."""
        scheme = self.scheme
        return observed_problem(_policy(theta), scheme.network, scheme.cluster, self._warm[1])

    def decided(self, chosen: Weights, rule: str = "potential-greedy") -> Ints:
        """Return the placement of least potential energy that a rule finds."""
        return algorithm(rule, weights=chosen)(self.arrays, rng(0))

    def optimised(self, chosen: Weights, rule: str, theta: float) -> Ints | None:
        """Return the same where the lightest operators stay (section 4.2); None where all do."""
        arrays = self.held(theta)
        return None if arrays is None else algorithm(rule, weights=chosen)(arrays, rng(0))

    def run(self, where: Ints | None) -> SimulationResult:
        """Simulate, with the moves to a placement at the end of the warm-up; None: none."""
        return self._runs(where)[1]

    def _runs(self, where: Ints | None) -> tuple[SimulationResult, SimulationResult]:
        """Return what has come of a run when measuring begins, and at the end."""
        moves = self._moves(where)
        known = self.__dict__.setdefault("_known", {})
        if moves not in known:
            run = self._warm[0].fork()
            for name, host in moves:
                run.move(name, host)
            run.go(MEASURE)
            before = run.result()
            run.go()
            known[moves] = before, run.result()
        found: tuple[SimulationResult, SimulationResult] = known[moves]
        return found

    def latency(self, where: Ints | None) -> float:
        """Return the mean latency of the results that are measured (s); nan where there are none."""
        found = self.run(where).latency
        return float(found["mean"]) if found["count"] else float("nan")

    def busy(self, where: Ints) -> list[float]:
        """Return the share of the measured time that each host works under a placement."""
        start, end = (run.hosts for run in self._runs(where))
        until = self.scheme.rates.duration
        return [(end[name] * until - start[name] * MEASURE) / (until - MEASURE) for name in self.scheme.cluster.hosts]

    def _moves(self, where: Ints | None) -> tuple[tuple[str, str], ...]:
        if where is None:
            return ()
        after = self.arrays.placement(where)
        return tuple((name, after[name]) for name in self.arrays.names if after[name] != self.start[name])


def _policy(theta: float = 0.0) -> Rebalance:
    return Rebalance(algorithm=None, every=5.0, window=10, warmup=WARM_UP, theta=theta)


def _stable(network: Network, gap: float) -> Rates:
    return Rates.constant(dict.fromkeys(network.sources, 1 / gap), DURATION, STEP)


def _fluctuating(network: Network, gap: float, ratio: float, draw: np.random.Generator) -> tuple[Network, Rates]:
    """Return the network with Poisson sources, and rates that alternate."""
    drawn = [attrs.evolve(source, arrivals="poisson") for source in network.sources.values()]
    random = Network.of(network.name, drawn, network.operators.values(), network.sinks.values())
    return random, alternating(network.sources, DURATION, draw, high=1 / gap, ratio=ratio, step=STEP)


def _filters(
    count: int, length: int, draw: np.random.Generator, cost: float | None = None, selectivity: float | None = None
) -> Network:
    """Return chains of filters with costs U(1, 5) ms and selectivities U(0.8, 1), or all alike.

    Chains of different length have their beginning in common.
    """
    size = (count, max(length, 30))
    costs = draw.uniform(1e-3, 5e-3, size) if cost is None else np.full(size, cost)
    shares = draw.uniform(0.8, 1.0, size) if selectivity is None else np.full(size, selectivity)
    return chains(costs[:, :length].tolist(), shares[:, :length].tolist())


def scheme_1(cost: float) -> Scheme:
    """Return one chain of nine equal filters on three equal hosts, stable."""
    network = chains([[cost] * 9], name="scheme 1")
    return Scheme(network, clusters.drawn(3, (1, 1), rng(0), Link(0.1, 10_000 / 0.1)), _stable(network, 0.1))


def scheme_2(draw: np.random.Generator, *, length: int = 10, hosts: int = 20, quotas: bool = False) -> Scheme:
    """Return twenty chains on unequal hosts, stable."""
    network = _filters(20, length, draw)
    return Scheme(network, clusters.drawn(hosts, (1, 10), draw, quotas=quotas), _stable(network, 0.07))


def scheme_3(
    draw: np.random.Generator, *, length: int = 30, hosts: int = 10, cost: float = 0.01, gap: float = 0.1
) -> Scheme:
    """Return three long chains on slightly unequal hosts, fluctuating."""
    network, rates = _fluctuating(_filters(3, length, draw, cost), gap, 2.5, draw)
    return Scheme(network, clusters.drawn(hosts, (1, 2), draw), rates)


def scheme_4(draw: np.random.Generator) -> Scheme:
    """Return a hybrid network, half filters, on equal hosts, stable."""
    network = hybrid(40, 5, 0.5, draw)
    return Scheme(network, clusters.drawn(5, (1, 1), draw), _stable(network, 0.07))


def scheme_5(draw: np.random.Generator, *, hosts: int = 10, quotas: bool = False) -> Scheme:
    """Return a hybrid network, mostly filters, on unequal hosts, fluctuating.

    What asks ten hosts for more than nine tenths of their capacity is drawn again: a hybrid network may ask for twice
    as much, and then no placement gives results in time.
    """
    while True:
        network, rates = _fluctuating(hybrid(100, 5, 0.85, draw), 0.05, 4, draw)
        number = int(draw.integers(2**31))
        ten, cluster = (clusters.drawn(n, (1, 10), rng(number), quotas=quotas, most=30) for n in (10, hosts))
        room = sum(host.capacity for host in ten.hosts.values())
        if load_model(network, rates).mean_load.sum() <= 0.9 * room:
            return Scheme(network, cluster, rates)


def scheme_6(draw: np.random.Generator, *, length: int = 10, gap: float = 0.015) -> Scheme:
    """Return twenty chains on equal hosts with free links, fluctuating."""
    network, rates = _fluctuating(_filters(20, length, draw), gap, 4, draw)
    return Scheme(network, clusters.drawn(20, (1, 1), draw, Link()), rates)
