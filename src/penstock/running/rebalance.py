"""Rebalancing as the papers do it, for ``penstock simulate --rebalance`` and the experiments.

Which operators move where is decided from what the simulator observes. The policy of a controller is
`penstock.control.policies.rebalance`.

The decision is a pure function, `decide`: what is remembered and what is seen go in, what is remembered and moves come
out. `Rebalance` has the parameters, and steers a run of the simulator.

Loads are those of section 2.2 of Xing et al. and 2.2.1 of Wang et al.: observed costs times the ideal rates, which
follow from the observed rates of the sources and the observed selectivities. So an operator behind an overloaded host
counts with what it would have to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement
from penstock.errors import InputError
from penstock.files import suggest
from penstock.load import OperatorStatistics, Statistics, load_model
from penstock.network import Network
from penstock.placement import ALGORITHMS, Arrays, Problem, algorithm, as_arrays
from penstock.placement.base import Algorithm, Ints
from penstock.steering import Observation
from penstock.workload import Rates

PAIRWISE = (
    "correlation-one-way", "correlation-two-way", "correlation-exchange", "largest-first-balance", "random-balance",
)  # fmt: skip
WHOLE = ("potential-greedy", "potential-greedy-linked", "potential-dynamic", "potential-dynamic-printed")
OFFLOAD = "largest-first-balance"
"""How overloaded hosts give operators away during the warm-up; the paper does not say which it takes first."""

NUMBER = 8
"""Bytes of a number."""
_SLACK = 1e-6


@attrs.frozen(kw_only=True)
class Rebalance:
    """When operators may move, and by which algorithm.

    Attributes
    ----------
    algorithm
        What decides every ``every`` seconds: a pairwise one (Xing et al., section 3.3), which pairs the most loaded
        host with the least loaded and so on, anew each time, or one of potential energy (Wang et al., section 4.2).
        None: nothing after ``initial``. A name, or the algorithm itself.
    every
        Load distribution period (s).
    window
        Samples that a decision reads: the last ones.
    sample
        Length of a sample (s); None: as ``every``.
    warmup
        Until then (s) hosts only give operators away while they are overloaded (Xing et al., section 5.1.4).
    initial
        An algorithm that distributes all operators once, at the end of the warm-up, or as soon as the window is full.
    theta
        Share of the operators, the lightest, that stay (Wang et al., section 4.2).
    parameters
        Of ``algorithm``: thresholds, weights.
    """

    algorithm: str | Algorithm | None = "correlation-one-way"
    every: float = 1.0
    window: int = 10
    sample: float | None = None
    warmup: float = 0.0
    initial: str | Algorithm | None = None
    theta: float = 0.0
    parameters: Mapping[str, object] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for at, value in (("--every", self.every), ("--sample", self.step)):
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"expected a period > 0 s, got {value:g}", at=at)
        if self.window < 1:
            raise InputError(f"expected at least 1 sample, got {self.window}", at="--window")
        if not 0 <= self.theta <= 1:
            raise InputError(f"expected a share from 0 to 1, got {self.theta:g}", at="--theta")
        known = (*PAIRWISE, *WHOLE)
        if isinstance(self.algorithm, str) and self.algorithm not in known:
            hint = suggest(self.algorithm, known, "algorithms")
            raise InputError(f"{self.algorithm!r} does not move operators", at="--rebalance", hint=hint)
        able = [name for name, row in ALGORITHMS.items() if row.replicas != "apart"]
        if isinstance(self.initial, str) and self.initial not in able:
            hint = suggest(self.initial, able, "algorithms")
            raise InputError(
                f"{self.initial!r} is no placement algorithm for single operators", at="--initial", hint=hint
            )
        ratio = max(self.every, self.step) / min(self.every, self.step)
        if abs(ratio - round(ratio)) > _SLACK * ratio:
            raise InputError(
                f"expected one of the period ({self.every:g} s) and the sample ({self.step:g} s) to be a multiple of "
                "the other",
                at="--sample",
            )
        if isinstance(self.algorithm, str):
            algorithm(self.algorithm, **self.parameters)

    @property
    def step(self) -> float:
        """Length of a sample (s)."""
        return self.every if self.sample is None else self.sample

    @property
    def tick(self) -> float:
        """Time between two observations (s)."""
        return min(self.every, self.step)

    def statistics_bytes(self, placement: Mapping[str, str], hosts: Iterable[str]) -> dict[str, int]:
        """Return what each host sends for a decision: its own load and its operators', sample by sample.

        (m + 1)·k·D bytes for m operators, k samples and D = 8 bytes a number (Xing et al., section 4.1).
        """
        held = list(placement.values())
        return {host: (held.count(host) + 1) * self.window * NUMBER for host in hosts}

    @property
    def looks(self) -> int:
        """Observations in a window."""
        return self.window * round(self.step / self.tick)

    def begin(self, network: Network, cluster: Cluster, seed: int) -> Callable[[Observation], tuple[Move, ...]]:
        """Return a run of the policy: it remembers what it has seen, and draws from a generator of its own."""
        memory, rng = Memory(), np.random.default_rng([seed, 0x5E7])

        def step(seen: Observation) -> tuple[Move, ...]:
            nonlocal memory
            memory, moves = decide(self, network, cluster, memory, seen, rng)
            return moves

        return step


Move = tuple[str, str]
"""An operator and the host that it moves to."""


@attrs.frozen(eq=False)
class Memory:
    """What a decision knows of the past.

    Attributes
    ----------
    looks
        The last observations, as many as a window has.
    known
        What each operator was last seen to cost and to let through.
    distributed
        Whether the initial distribution was made.
    """

    looks: tuple[Observation, ...] = ()
    known: Statistics = attrs.field(factory=Statistics)
    distributed: bool = False

    def updated(self, seen: Observation, count: int) -> Memory:
        """Return the memory after one more observation; statistics are those of the window, or else the last ones."""
        looks = (*self.looks, seen)[-count:]
        served, work, tried, emitted = np.array([look.sums() for look in looks]).sum(axis=0)
        rows = dict(self.known.operators)
        for row, name in enumerate(seen.operators):
            if served[row]:
                before = rows.get(name, OperatorStatistics())
                share = (float(emitted[row] / tried[row]),) if tried[row] else before.selectivity
                rows[name] = OperatorStatistics(
                    cost=(float(work[row] / served[row]),), selectivity=share, tuples=int(served[row])
                )
        return attrs.evolve(self, looks=looks, known=Statistics(operators=rows))


def decide(
    policy: Rebalance, network: Network, cluster: Cluster, memory: Memory, seen: Observation, rng: np.random.Generator
) -> tuple[Memory, tuple[Move, ...]]:
    """Return what is remembered after an observation, and the moves that follow from it.

    Before the window is full there is nothing to decide. Operators that are moving, that were never seen to serve a
    tuple, or that are on a failed host stay; none goes to a failed host.
    """
    memory = memory.updated(seen, policy.looks)
    turn = seen.at / policy.every
    if len(memory.looks) < policy.looks or abs(turn - round(turn)) > _SLACK * max(1.0, turn):
        return memory, ()
    name, warm, parameters = policy.algorithm, seen.at >= policy.warmup - _SLACK, policy.parameters
    if not warm:
        name, parameters = OFFLOAD, {}
    elif policy.initial is not None and not memory.distributed:
        name, parameters = policy.initial, {}
        memory = attrs.evolve(memory, distributed=True)
    if name is None:
        return memory, ()
    arrays = observed_problem(policy, network, cluster, memory)
    if arrays is None:
        return memory, ()
    where = (algorithm(name, **parameters) if isinstance(name, str) else name)(arrays, rng)
    if not warm:
        where = _from_overloaded(arrays, where)
    moves = tuple(
        (arrays.names[row], arrays.hosts[where[row]]) for row in np.flatnonzero(where != arrays.previous).tolist()
    )
    return memory, moves


def observed_loads(policy: Rebalance, network: Network, memory: Memory) -> tuple[Network, Rates]:
    """Return the network with observed costs and selectivities, and the sources' rates sample by sample.

    An operator of which nothing is known yet has no cost.
    """
    last = memory.looks[-1]
    entered = np.array([look.entered for look in memory.looks]).T.reshape(len(last.sources), policy.window, -1)
    rates = entered.sum(axis=2) / policy.step
    nothing = OperatorStatistics(cost=(0.0,), selectivity=(1.0,))
    rows = {name: memory.known.operators.get(name, nothing) for name in network.operators}
    seen = Statistics(operators=rows).complete(network, override=True)
    # What was seen has the growth in it.
    seen = seen.having(attrs.evolve(operator, growth=None) for operator in seen.operators.values())
    return seen, Rates.of(policy.step, dict(zip(last.sources, rates, strict=True)))


def observed_problem(policy: Rebalance, network: Network, cluster: Cluster, memory: Memory) -> Arrays | None:
    """Return the problem that the window shows; None where nothing is to be done or nothing can."""
    last = memory.looks[-1]
    still = {name for name in network.operators if name not in memory.known.operators} | last.moving
    pins = {**network.pins, **{name: last.placement[name] for name in still}}
    problem = Problem(load_model(*observed_loads(policy, network, memory)), cluster, Placement(last.placement), pins)
    arrays = as_arrays(problem.held(policy.theta))
    if last.down:
        up = np.array([host not in last.down for host in arrays.hosts])
        arrays = arrays.subset(np.flatnonzero(up[arrays.previous]), np.flatnonzero(up))
    if arrays.mean.sum() <= 0 or len(arrays.hosts) < 2 or (arrays.fixed >= 0).all():
        return None
    return arrays


def _from_overloaded(arrays: Arrays, where: Ints) -> Ints:
    """Return a placement in which only operators of overloaded hosts have moved."""
    over = arrays.host_mean(arrays.previous) > arrays.usable
    return np.where(over[arrays.previous], where, arrays.previous)
