"""Load distribution over time (Xing et al., section 5.1): chains under changing rates, with operators that move.

What is moved follows from the rates of the sources alone: loads are the ideal ones (section 2.2), whatever waits. So
all moves are decided first, each from the tuples that have entered by then, and then simulated with everything else.
"""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, Placement
from penstock.load import load_model
from penstock.network import Network
from penstock.network.shapes import chains
from penstock.placement import Arrays, algorithm
from penstock.placement.base import Floats, Ints
from penstock.placement.correlation import LargestFirst
from penstock.simulation import Arrivals, Move, Options, SimulationResult, simulate
from penstock.workload import Rates

GLOBAL = {"COR-GLB": "correlation", "LLF-GLB": "largest-first", "RAND-GLB": "even", "CONNECTED": "connected"}
PAIRS = {
    "COR-BAL": "correlation-one-way",
    "LLF-BAL": "largest-first-balance",
    "RAND-BAL": "random-balance",
    "COR-RD-IMP": "correlation-two-way",
    "COR-SE-IMP": "correlation-exchange",
}
DELAY = 1e-3
"""Processing delay of an operator (s), all alike, so that the delay of a chain is known."""
MIGRATION = 0.2


@attrs.frozen(kw_only=True)
class Setting:
    """Table 2 of the paper.

    Attributes
    ----------
    hosts, per_host, length
        Hosts, operators per host, operators per chain.
    level
        Load over capacity.
    cycle, ratio
        Length of a high and a low phase (s), and the high rate over the low one.
    window, samples
        Statistics window (s) and the samples in it.
    bursty
        On-off sources (section 5.1.2) in place of periodic ones.
    """

    hosts: int = 20
    per_host: int = 10
    length: int = 10
    level: float = 0.9
    cycle: float = 10.0
    ratio: float = 4.0
    window: float = 10.0
    samples: int = 10
    bursty: bool = False


@attrs.frozen(eq=False)
class System:
    """Chains with the tuples that enter them.

    Attributes
    ----------
    unit
        Array (operators, chains): load per unit of a chain's rate.
    times
        For each chain the sorted times at which its tuples enter (s).
    """

    setting: Setting
    network: Network
    unit: Floats
    times: tuple[Floats, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the operators, as the rows of ``unit``."""
        return tuple(self.network.operators)

    def arrays(self, at: float, previous: Ints | None = None) -> Arrays:
        """Return the problem as the statistics window that ends at a time shows it; row r is operator ``str(r)``."""
        setting = self.setting
        edges = at - setting.window + np.arange(setting.samples + 1) * (setting.window / setting.samples)
        counts = np.array([np.diff(np.searchsorted(times, edges)) for times in self.times])
        load = self.unit @ (counts / (setting.window / setting.samples))
        part = self.unit.argmax(axis=1)
        return Arrays.of(load, np.ones(setting.hosts), previous=previous, part=part)

    def decided(self, name: str, at: float, previous: Ints | None, rng: np.random.Generator) -> Ints:
        """Return where an algorithm puts the operators, array (operators,), from the statistics at a time."""
        arrays = self.arrays(at, previous)
        rows = np.array(arrays.names, np.int64)
        where = np.empty(len(rows), np.int64)
        if name == "even":
            # RAND: operators in random order, each to the host that is then the least loaded.
            order = rng.permutation(len(rows))
            drawn = LargestFirst()(attrs.evolve(arrays, mean=arrays.mean[order]), rng)
            where[rows[order]] = drawn
        else:
            where[rows] = algorithm(name)(arrays, rng)
        return where

    def placement(self, where: Ints) -> Placement:
        """Return the placement of the simulator."""
        return Placement({name: f"h{host + 1}" for name, host in zip(self.names, where, strict=True)})

    def run(self, plan: Plan, begin: float, end: float, seed: int, *, trace: bool = False) -> SimulationResult:
        """Simulate a plan until a time; latencies count from ``begin`` on."""
        moves = tuple(
            Move(self.names[row], f"h{after[row] + 1}", at)
            for before, (at, after) in zip([plan.start, *(w for _, w in plan.steps)], plan.steps, strict=False)
            for row in np.flatnonzero(before != after)
        )
        when = np.concatenate(self.times)
        source = np.repeat(np.arange(len(self.times)), [len(times) for times in self.times])
        order = np.lexsort((source, when))
        labels = [f"s{c + 1}" for c in range(len(self.times))]
        inside = order[when[order] < end]
        arrivals = Arrivals.of(when[inside], [labels[c] for c in source[inside]])
        options = Options(warmup=begin, duration=end, moves=moves, move_time=MIGRATION)
        cluster = Cluster.uniform(self.setting.hosts)
        return simulate(self.network, cluster, self.placement(plan.start), arrivals, options, seed=seed, trace=trace)

    def ratio(self, plan: Plan, begin: float, end: float, seed: int) -> float:
        """Return the mean latency of the results after ``begin`` over the processing delay of a chain."""
        return float(self.run(plan, begin, end, seed).latency["mean"]) / (DELAY * self.setting.length)


@attrs.frozen(eq=False)
class Plan:
    """A placement at the start, and those that follow at given times; ``moved`` is the load moved at each of them."""

    start: Ints
    steps: tuple[tuple[float, Ints], ...] = ()
    moved: tuple[float, ...] = ()


def system(
    setting: Setting, duration: float, rng: np.random.Generator, rise: tuple[float, float] | None = None
) -> System:
    """Draw chains and their tuples.

    Parameters
    ----------
    rise
        A time (s) and the level from then on, with rates that are drawn anew.
    """
    count = max(1, setting.hosts * setting.per_host // setting.length)
    share = rng.uniform(0.8, 1.2, (count, setting.length))
    network = chains([[DELAY] * setting.length] * count, share.tolist())
    operators = [attrs.evolve(operator, emit="chance") for operator in network.operators.values()]
    network = Network.of(network.name, network.sources.values(), operators, network.sinks.values())
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 1.0), 1.0))
    # Rates order sources by name; the columns here are the chains in order.
    unit = model.coefficients[:, [model.rates.sources.index(f"s{c + 1}") for c in range(count)]]

    def means(level: float) -> Floats:
        drawn = rng.uniform(0.8, 1.2, count)
        return np.asarray(drawn * (level * setting.hosts / (unit @ drawn).sum()))

    changes = [(0.0, means(setting.level)), *([(rise[0], means(rise[1]))] if rise else []), (duration, None)]
    phases = _bursts(count, duration, rng) if setting.bursty else _phases(setting, count, duration)
    times = []
    for c, (edges, factor) in enumerate(phases):
        parts = [np.zeros(0)]
        for (start, rate), (stop, _) in pairwise(changes):
            assert rate is not None  # noqa: S101 -- only the end has none
            cut = np.clip(edges, start, stop)
            for first, last, high in zip(cut[:-1], cut[1:], factor, strict=True):
                if last > first and high > 0:
                    parts.append(_enter(first, last, rate[c] * high, setting.bursty, rng))
        times.append(np.concatenate(parts))
    return System(setting, network, unit, tuple(times))


def _enter(first: float, last: float, rate: float, even: bool, rng: np.random.Generator) -> Floats:
    if even:
        return np.asarray(np.arange(first, last, 1 / rate), np.float64)
    return np.sort(rng.uniform(first, last, rng.poisson(rate * (last - first))))


def _phases(setting: Setting, count: int, duration: float) -> list[tuple[Floats, Floats]]:
    """Return for each chain edges of phases and rates over the mean; the chains are evenly out of step."""
    half = setting.cycle / 2
    high = 2 * setting.ratio / (setting.ratio + 1)
    found = []
    for c in range(count):
        edges = np.asarray(setting.cycle * (c / count - 1) + np.arange(int(duration / half) + 5) * half, np.float64)
        factor = np.where(np.arange(len(edges) - 1) % 2 == 0, high, high / setting.ratio)
        found.append((edges, factor))
    return found


def _bursts(count: int, duration: float, rng: np.random.Generator) -> list[tuple[Floats, Floats]]:
    """Return on-off phases of 5 s each in the mean: a quarter independent, the others opposite to one, or shifted."""
    base = []
    for _ in range(max(1, count // 4)):
        edges = np.concatenate([[-20.0], -20.0 + np.cumsum(rng.exponential(5.0, int(duration) + 60))])
        first = int(rng.integers(2))
        base.append((edges, np.where(np.arange(len(edges) - 1) % 2 == first, 2.0, 0.0)))
    found = list(base)
    while len(found) < count:
        edges, factor = base[int(rng.integers(len(base)))]
        if rng.random() < 0.5:
            found.append((edges, 2.0 - factor))
        else:
            found.append((edges + rng.uniform(0.0, 10.0), factor))
    return found


def adapted(
    given: System, start: Ints, name: str, begin: float, end: float, rng: np.random.Generator,
    *, once: bool = False, warm: bool = False,
) -> Plan:  # fmt: skip
    """Return a plan in which an algorithm runs every second from ``begin`` on, or at ``begin`` only.

    Parameters
    ----------
    once
        Whether it runs at ``begin`` only.
    warm
        Whether before that, once a statistics window has passed, hosts that are overloaded give operators to the hosts
        that they are paired with (section 5.1.4).
    """
    where, steps, moved = start, [], []
    first = begin if not warm else float(np.ceil(given.setting.window))
    for at in np.arange(first, begin + 0.5 if once else end, 1.0):
        if at < begin:
            after = given.decided("largest-first-balance", at, where, rng)
            arrays = given.arrays(at)
            mean = np.empty(len(where))
            mean[np.array(arrays.names, np.int64)] = arrays.mean
            over = np.bincount(where, weights=mean, minlength=given.setting.hosts) > 1
            after = np.where(over[where], after, where)
        else:
            after = given.decided(name, at, where, rng)
        changed = after != where
        if changed.any():
            arrays = given.arrays(at)
            rows = np.array(arrays.names, np.int64)
            steps.append((float(at), after))
            moved.append(float(arrays.mean[changed[rows]].sum()))
            where = after
    return Plan(start, tuple(steps), tuple(moved))


def by_second(result: SimulationResult, begin: float, end: float) -> NDArray[np.float64]:
    """Return the mean latency (s) of the results in each second."""
    trace = result.trace
    assert trace is not None  # noqa: S101 -- the run was asked for it
    second = np.floor(trace["egress"] - begin).astype(np.int64)
    inside = (second >= 0) & (second < int(end - begin))
    total = np.bincount(second[inside], (trace["egress"] - trace["stimulus"])[inside], int(end - begin))
    count = np.bincount(second[inside], minlength=int(end - begin))
    mean: NDArray[np.float64] = total / np.maximum(count, 1)
    return mean
