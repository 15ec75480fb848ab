"""Load distribution over time (Xing et al., section 5.1): chains under changing rates, with operators that move.

The policy that steers the simulator decides from what the simulator measures: see `penstock.running.rebalance`.
"""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement
from penstock.load import load_model
from penstock.network import Network
from penstock.network.shapes import chains
from penstock.placement import Arrays, algorithm
from penstock.placement.base import Floats
from penstock.running.rebalance import Rebalance
from penstock.simulation import Arrivals, Options, Recording, SimulationResult, simulate
from penstock.workload import Rates
from penstock.workload.phases import burst_phases, entering, even_phases

DELAY = 1e-3
"""Processing delay of an operator (s), all alike, so that the delay of a chain is known."""
MIGRATION = 0.2


GLOBAL = {"COR-GLB": "correlation", "LLF-GLB": "largest-first", "RAND-GLB": "random-even"}
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

    def decided(self, name: str, at: float, rng: np.random.Generator) -> Placement:
        """Return the placement that an algorithm decides from the tuples of a window."""
        arrays = Arrays.of(self.load(at), np.ones(self.setting.hosts), part=self.unit.argmax(axis=1))
        where = algorithm(name)(arrays, rng)
        hosts = dict(zip(arrays.names, where.tolist(), strict=True))
        return Placement({name: f"h{hosts[str(row)] + 1}" for row, name in enumerate(self.names)})

    def run(
        self, start: Placement, policy: Rebalance | None, begin: float, end: float, seed: int, *, trace: bool = False
    ) -> SimulationResult:
        """Simulate from a placement until a time; latencies count from ``begin`` on."""
        arrivals = Arrivals.merged({f"s{c + 1}": times[times < end] for c, times in enumerate(self.times)})
        options = Options(warmup=begin, duration=end, steer=policy, move_time=MIGRATION, seed=seed)
        cluster = Cluster.uniform(self.setting.hosts)
        return simulate(self.network, cluster, start, arrivals, options, record=Recording(trace=trace))

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
    if setting.bursty:
        phases = burst_phases(count, duration, rng)
    else:
        phases = even_phases(count, duration, cycle=setting.cycle, ratio=setting.ratio)
    times = []
    for c, each in enumerate(phases):
        parts = [np.zeros(0)]
        for (start, rate), (stop, _) in pairwise(changes):
            assert rate is not None  # noqa: S101 -- only the end has none
            parts += entering(each, (start, stop), rate[c], None if setting.bursty else rng)
        times.append(np.concatenate(parts))
    return System(setting, network, unit, tuple(times))
