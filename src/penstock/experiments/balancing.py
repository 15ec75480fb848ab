"""Load distribution over time (Xing et al., section 5.1): chains under changing rates, with operators that move.

The policy that steers the simulator decides from what the simulator measures: see `penstock.control.rebalance`.
"""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement
from penstock.control.rebalance import Rebalance
from penstock.load import load_model
from penstock.network import Network
from penstock.network.shapes import chains
from penstock.placement import Arrays, algorithm
from penstock.placement.base import Algorithm, Floats, Ints
from penstock.placement.correlation import LargestFirst
from penstock.simulation import Arrivals, Options, SimulationResult, simulate
from penstock.workload import Rates

DELAY = 1e-3
"""Processing delay of an operator (s), all alike, so that the delay of a chain is known."""
MIGRATION = 0.2


@attrs.frozen
class EvenlyRandom:
    """RAND-GLB: operators in random order, each to the host that is then the least loaded (section 5.1.3)."""

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        order = rng.permutation(len(arrays.mean))
        where = np.empty(len(order), np.int64)
        where[order] = LargestFirst()(attrs.evolve(arrays, mean=arrays.mean[order]), rng)
        return where


GLOBAL: dict[str, str | Algorithm] = {
    "COR-GLB": "correlation", "LLF-GLB": "largest-first", "RAND-GLB": EvenlyRandom(),
}  # fmt: skip
PAIRS = {
    "COR-BAL": "correlation-one-way",
    "LLF-BAL": "largest-first-balance",
    "RAND-BAL": "random-balance",
    "COR-RD-IMP": "correlation-two-way",
    "COR-SE-IMP": "correlation-exchange",
}


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

    def policy(self, label: str | None, warmup: float, first: str | None = None) -> Rebalance:
        """Return the policy that the paper names so; with ``first`` a global algorithm goes before."""
        once = label if label in GLOBAL else first
        return Rebalance(
            algorithm=None if label is None or label in GLOBAL else PAIRS[label],
            initial=None if once is None else GLOBAL[once],
            every=1.0, window=self.samples, sample=self.window / self.samples, warmup=warmup,
        )  # fmt: skip


START = 20.0
"""End of the warm-up (s) of the experiments with static plans; the first statistics window is full after 10 s."""
TABLE_2 = "10 operators a host, chains of 10, phases evenly spread"


def base(quick: bool, level: float = 0.9, *, bursty: bool = False) -> Setting:
    """Return Table 2, or half as many hosts."""
    return Setting(hosts=10 if quick else 20, level=level, bursty=bursty)


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

    def load(self, at: float) -> Floats:
        """Return the load series of the operators in the window that ends at a time, array (operators, samples)."""
        setting = self.setting
        edges = at - setting.window + np.arange(setting.samples + 1) * (setting.window / setting.samples)
        counts = np.array([np.diff(np.searchsorted(times, edges)) for times in self.times])
        found: Floats = self.unit @ (counts / (setting.window / setting.samples))
        return found

    def hosts_load(self, placement: Placement, at: float) -> Floats:
        """Return the load series of the hosts in the window that ends at a time, array (hosts, samples)."""
        total = np.zeros((self.setting.hosts, self.setting.samples))
        np.add.at(total, [int(placement[name][1:]) - 1 for name in self.names], self.load(at))
        return total

    def scattered(self, rng: np.random.Generator) -> Placement:
        """Return a random placement."""
        drawn = rng.integers(self.setting.hosts, size=len(self.names))
        return Placement({name: f"h{host + 1}" for name, host in zip(self.names, drawn.tolist(), strict=True)})

    def connected(self, rng: np.random.Generator) -> Placement:
        """Return the placement with each chain as a whole on one host, as many chains on each as on the others."""
        return self.decided("connected", self.setting.window, rng)

    def decided(self, name: str | Algorithm, at: float, rng: np.random.Generator) -> Placement:
        """Return the placement that an algorithm decides from the tuples of a window."""
        arrays = Arrays.of(self.load(at), np.ones(self.setting.hosts), part=self.unit.argmax(axis=1))
        where = (algorithm(name) if isinstance(name, str) else name)(arrays, rng)
        hosts = dict(zip(arrays.names, where.tolist(), strict=True))
        return Placement({name: f"h{hosts[str(row)] + 1}" for row, name in enumerate(self.names)})

    def run(
        self, start: Placement, policy: Rebalance | None, begin: float, end: float, seed: int, *, trace: bool = False
    ) -> SimulationResult:
        """Simulate from a placement until a time; latencies count from ``begin`` on."""
        arrivals = Arrivals.merged({f"s{c + 1}": times[times < end] for c, times in enumerate(self.times)})
        options = Options(warmup=begin, duration=end, steer=policy, move_time=MIGRATION)
        cluster = Cluster.uniform(self.setting.hosts)
        return simulate(self.network, cluster, start, arrivals, options, seed=seed, trace=trace)

    def ratio(self, result: SimulationResult) -> float:
        """Return the mean latency over the processing delay of a chain."""
        return float(result.latency["mean"]) / (DELAY * self.setting.length)

    def steered(self, start: Placement, policy: Rebalance, begin: float, end: float, seed: int) -> float:
        """Return the latency ratio of a run."""
        return self.ratio(self.run(start, policy, begin, end, seed))

    def load_moved(self, result: SimulationResult, since: float) -> dict[float, float]:
        """Return by time the load that was moved, in hosts: mean loads of the operators (the paper's footnote 3)."""
        row = {name: index for index, name in enumerate(self.names)}
        moved: dict[float, float] = {}
        for time in sorted({move.time for move in result.moves if move.time >= since}):
            mean = self.load(time).mean(axis=1)
            moved[time] = float(sum(mean[row[m.operator]] for m in result.moves if m.time == time))
        return moved


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


def by_second(result: SimulationResult, begin: float, end: float) -> Floats:
    """Return the mean latency (s) of the results in each second."""
    trace = result.trace
    assert trace is not None  # noqa: S101 -- the run was asked for it
    second = np.floor(trace["egress"] - begin).astype(np.int64)
    inside = (second >= 0) & (second < int(end - begin))
    total = np.bincount(second[inside], (trace["egress"] - trace["stimulus"])[inside], int(end - begin))
    count = np.bincount(second[inside], minlength=int(end - begin))
    mean: Floats = total / np.maximum(count, 1)
    return mean
