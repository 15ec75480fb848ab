"""Potential-driven placement (Wang et al., section 4): operators move to where their potential energy is low.

Energies are those of the operators placed before, as printed: what is placed later does not count. So a link counts
only where the reader is placed before the writer, and never in a chain whose loads fall from filter to filter; the
linked variant counts it when the second of the two is placed, whichever that is. Delays are in seconds; the paper's
recommended weights (100, 1, 0.001) fit milliseconds, so (100, 1, 1) here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.placement.base import TIE, Arrays, Floats, Ints
from penstock.placement.objective import Weights, load_potential

RULES = ("greedy", "accumulated", "printed")


@attrs.frozen(kw_only=True)
class Potential:
    """INIT_GREEDY and INIT_DYN_PROG (sections 4.1.1, 4.1.2); periodic optimisation fixes operators first (4.2).

    Attributes
    ----------
    rule
        ``greedy``; dynamic programming that minimises the ``accumulated`` sum of energies, which is what the text
        asks for; or with line 9 of Algorithm 1 as ``printed``, which minimises the last energy alone. The
        accumulated rule keeps the greedy answer where its own sum is larger: a state of the table holds one
        placement only, so the table alone may lose the greedy one.
    weights
        Of the energies of load, correlation and network.
    penalty
        Slope of the energy of load beyond the quota.
    linked
        Whether an operator's energy of network counts the links from its writers too, not only those to its readers.
    """

    rule: str = "greedy"
    weights: Weights = attrs.field(factory=Weights)
    penalty: float = 20.0
    linked: bool = False

    def __attrs_post_init__(self) -> None:
        if self.rule not in RULES:
            raise InputError(f"expected one of {', '.join(RULES)}, got {self.rule!r}")
        if not (math.isfinite(self.penalty) and self.penalty >= 0):
            raise InputError(f"expected a finite slope of at least 0, got {self.penalty}", at="--penalty")

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        return self.solved(arrays)[0]

    def solved(self, arrays: Arrays) -> tuple[Ints, float]:
        """Return the host number of each operator, and the sum of energies that was minimised."""
        if self.rule == "greedy":
            return self._greedy(arrays)
        found = self._dynamic(arrays)
        if self.rule == "accumulated":
            greedy = self._greedy(arrays)
            return greedy if greedy[1] < found[1] - TIE else found
        return found

    def _greedy(self, arrays: Arrays) -> tuple[Ints, float]:
        states = _States(arrays, 1, self)
        total = 0.0
        for operator in np.flatnonzero(arrays.fixed < 0):
            energy = states.energies(int(operator))
            host = _first(energy[0])
            total += float(energy[0, host])
            states.add(int(operator), np.array([host]))
        return states.where[0], total

    def _dynamic(self, arrays: Arrays) -> tuple[Ints, float]:
        n = len(arrays.hosts)
        states = _States(arrays, n, self)
        total = np.zeros(n)
        for operator in np.flatnonzero(arrays.fixed < 0):
            energy = states.energies(int(operator))
            judged = energy + total[:, None] if self.rule == "accumulated" else energy
            chosen = np.array([_first(judged[:, host]) for host in range(n)])
            total = total[chosen] + energy[chosen, np.arange(n)]
            states.take(chosen)
            states.add(int(operator), np.arange(n))
        best = _first(total)
        return states.where[best], float(total[best])


def _first(values: Floats) -> int:
    return int(np.flatnonzero(values <= values.min() + TIE)[0])


class _States:
    """Partial placements that grow side by side."""

    def __init__(self, arrays: Arrays, count: int, options: Potential) -> None:
        self.arrays, self.options = arrays, options
        m, k = arrays.load.shape
        n = len(arrays.hosts)
        centred = arrays.load - arrays.load.mean(axis=1, keepdims=True)
        norm = np.sqrt((centred**2).sum(axis=1))
        flat = norm <= TIE * arrays.mean * np.sqrt(k)
        self.unit = np.where(flat[:, None], 0.0, centred / np.where(flat, 1.0, norm)[:, None])
        self.centred = np.where(flat[:, None], 0.0, centred)
        self.where = np.full((count, m), -1, np.int64)
        self.level = np.zeros((count, n))
        self.series = np.zeros((count, n, k))
        self.flow = np.zeros((count, n, n))
        self.links = arrays.delay is not None and options.weights.network > 0
        self.out: list[list[int]] = [[] for _ in range(m)]
        self.into: list[list[int]] = [[] for _ in range(m)]
        self.sent: dict[int, list[int]] = {}
        if self.links:
            ends = zip(arrays.writer, arrays.reader, arrays.senders.tolist(), strict=True)
            for edge, (writer, reader, sender) in enumerate(ends):
                self.sent.setdefault(sender, []).append(edge)
                if writer >= 0:
                    self.out[writer].append(edge)
                if reader >= 0:
                    self.into[reader].append(edge)
        for operator in np.flatnonzero(arrays.fixed >= 0):
            self.add(int(operator), np.full(count, arrays.fixed[operator]))

    def energies(self, operator: int) -> Floats:
        """Return the energy of an operator on each host in each state, array (states, n)."""
        arrays, weights = self.arrays, self.options.weights
        level = self.level + arrays.mean[operator]
        energy = weights.load * load_potential(level, arrays.usable, self.options.penalty)
        if weights.correlation:
            size = np.sqrt((self.series**2).sum(axis=2))
            flat = size <= TIE * self.level * np.sqrt(self.series.shape[2])
            rho = (self.series @ self.unit[operator]) / np.where(flat, 1.0, size)
            energy = energy + weights.correlation * np.where(flat, 0.0, rho)
        if self.links:
            energy = energy + weights.network * self._network(operator)
        return energy

    def _sent(self, edges: Sequence[int], state: int) -> dict[int, float]:
        """Return what one operator or source sends on its edges to each host where a reader is placed."""
        arrays = self.arrays
        sent: dict[int, float] = {}
        for edge in edges:
            reader = arrays.reader[edge]
            end = int(self.where[state, reader]) if reader >= 0 else int(~reader)
            if end >= 0:
                rate = float(arrays.rate[edge])
                sent[end] = max(sent.get(end, 0.0), rate) if arrays.shared[edge] else sent.get(end, 0.0) + rate
        return sent

    def _network(self, operator: int) -> Floats:
        arrays = self.arrays
        delay, bandwidth = arrays.delay, arrays.bandwidth
        energy = np.zeros_like(self.level)
        if delay is None or bandwidth is None:
            return energy
        for state in range(len(self.where)):
            for end, rate in sorted(self._sent(self.out[operator], state).items()):
                used = (self.flow[state, :, end] + rate) / bandwidth[:, end]
                pull = delay[:, end] * np.where(used <= 1, 1.0, used)
                pull[end] = 0.0
                energy[state] += pull
            for start, reached, rate in self._received(operator, state) if self.options.linked else ():
                used = (self.flow[state, start] + rate) / bandwidth[start]
                pull = delay[start] * np.where(used <= 1, 1.0, used)
                pull[[start, *reached]] = 0.0
                energy[state] += pull
        return energy

    def _received(self, operator: int, state: int) -> list[tuple[int, list[int], float]]:
        """Return what an operator reads: its writer's host, the hosts that the writer reaches anyway, the rate."""
        arrays = self.arrays
        received = []
        for edge in self.into[operator]:
            writer = int(arrays.writer[edge])
            start = int(self.where[state, writer]) if writer >= 0 else ~writer
            if start >= 0:
                received.append((start, self._reached(edge, state), float(arrays.rate[edge])))
        return received

    def _reached(self, edge: int, state: int) -> list[int]:
        """Return the hosts that the tuples of an edge cross to anyway, for other readers there."""
        if not self.arrays.shared[edge]:
            return []
        return sorted(self._sent(self.sent[int(self.arrays.senders[edge])], state))

    def take(self, chosen: NDArray[np.int64]) -> None:
        """Let state j go on from state ``chosen[j]``."""
        self.where, self.level = self.where[chosen], self.level[chosen]
        self.series, self.flow = self.series[chosen], self.flow[chosen]

    def add(self, operator: int, hosts: Ints) -> None:
        """Place an operator on host ``hosts[j]`` in state j."""
        arrays = self.arrays
        rows = np.arange(len(hosts))
        if self.links:
            for state, host in enumerate(hosts):
                for end, rate in self._sent(self.out[operator], state).items():
                    self.flow[state, host, end] += rate if end != host else 0.0
                for edge in self.into[operator]:
                    writer = arrays.writer[edge]
                    start = int(self.where[state, writer]) if writer >= 0 else int(~writer)
                    if start >= 0 and start != host and int(host) not in self._reached(edge, state):
                        self.flow[state, start, host] += arrays.rate[edge]
        self.where[rows, operator] = hosts
        self.level[rows, hosts] += arrays.mean[operator]
        self.series[rows, hosts] += self.centred[operator]
