"""The oracle: the best of all placements, by branch and bound, for small networks."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.errors import Infeasible, InputError
from penstock.native.shipped import code
from penstock.placement import objective as measure
from penstock.placement.base import Arrays, Ints, short
from penstock.placement.correlation import LargestFirst
from penstock.placement.kernels import EXACT
from penstock.placement.repair import repaired
from penstock.placement.verify import over_link
from penstock.units import size_text

GOALS = ("latency", "balance", "hosts", "potential")
STEP = 50
"""What a step takes besides the numbers that it looks at, in such numbers."""
CHUNK = 100_000_000
"""Numbers between two pauses, in which the program hears signals: tenths of a second."""


@attrs.frozen(kw_only=True)
class Exact:
    """The placement of least objective within all quotas and links.

    Attributes
    ----------
    objective
        ``latency``, ``balance``, ``hosts`` or ``potential``.
    weights
        Of the objective ``potential``.
    limit
        Numbers (of hosts, and of their periods where the objective asks for them) that are looked at until the
        network is called too large: some tens of seconds.
    """

    objective: str = "latency"
    weights: measure.Weights = attrs.field(factory=measure.Weights)
    limit: int = 10_000_000_000

    def __attrs_post_init__(self) -> None:
        if self.objective not in GOALS:
            raise InputError(f"expected one of {', '.join(GOALS)}, got {self.objective!r}", at="--objective")
        if self.limit < 1:
            raise InputError(f"expected at least 1 number, got {self.limit}", at="--limit")

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        m, n = len(arrays.names), len(arrays.hosts)
        best, least = np.full(m, -1, np.int64), np.inf
        start = repaired(arrays, LargestFirst()(arrays, rng))
        if start is not None and not over_link(arrays, start):
            best, least = start.copy(), measure.value(arrays, start, self.objective, self.weights)
        bound = measure.bound(arrays, self.objective)
        if bound is not None and least <= bound * (1 + 1e-12):
            return best
        delay = np.zeros((n, n)) if arrays.delay is None else np.ascontiguousarray(arrays.delay)
        bandwidth = np.full((n, n), np.inf) if arrays.bandwidth is None else np.ascontiguousarray(arrays.bandwidth)
        work = float(n) ** min(m, 30) * (arrays.load.shape[1] if self.objective in ("latency", "potential") else 1)
        kernel = code(EXACT, work)
        weights = np.array([self.weights.load, self.weights.correlation, self.weights.network])
        state = np.zeros(m) if arrays.state is None else arrays.state
        memory = np.full(n, np.inf) if arrays.memory is None else arrays.memory
        problem = kernel.Problem(
            arrays.load, arrays.mean, arrays.capacity, arrays.usable, arrays.limit, arrays.fixed, _alike(arrays),
            state, memory, arrays.period,
        )  # fmt: skip
        streams = kernel.Streams(
            arrays.writer, arrays.reader, arrays.rate, arrays.shared, arrays.senders, delay, bandwidth
        )
        none = -np.inf if bound is None else bound
        each = self._numbers(arrays)
        aim = kernel.Aim(GOALS.index(self.objective), weights, 20.0, none, max(min(CHUNK, self.limit) // each, 1))
        now, left = kernel.begun(problem, streams, aim.goal), self.limit
        while now.at[0] >= 0:
            if left <= 0:
                raise InputError(
                    f"{m} operators on {n} hosts are too many to try all placements", at="--algorithm",
                    hint="take mace-climb or correlation",
                )  # fmt: skip
            least, steps = kernel.search(problem, streams, aim, now, best, least)
            left -= steps * each
        if not np.isfinite(least):
            raise self._short(arrays, rng)
        return best

    def _numbers(self, arrays: Arrays) -> int:
        """Return about how many numbers each step of the search looks at."""
        m, n = len(arrays.names), len(arrays.hosts)
        rows = {"latency": n, "potential": m * m}.get(self.objective, 0)
        return STEP + n + rows * int(arrays.load.shape[1])

    def _short(self, arrays: Arrays, rng: np.random.Generator) -> Infeasible:
        """Return the answer no, with what is short: links, where hosts alone have room."""
        if arrays.bandwidth is not None:
            try:
                where = self(attrs.evolve(arrays, bandwidth=None), rng)
            except Infeasible as error:
                return error
            return Infeasible("; ".join(over_link(arrays, where)))
        if arrays.state is None:
            return short(arrays)
        return Infeasible(
            "no placement is within all quotas and memories: operators keep "
            f"{size_text(float(arrays.state.sum()))} of state"
        )


def _alike(arrays: Arrays) -> Ints:
    """Number the hosts so that those that can be exchanged for each other share a number."""
    n = len(arrays.hosts)
    ends = np.concatenate([arrays.writer, arrays.reader])
    told_apart = np.union1d(arrays.fixed[arrays.fixed >= 0], ~ends[ends < 0])
    uniform = arrays.delay is None or arrays.bandwidth is None or (_flat(arrays.delay) and _flat(arrays.bandwidth))
    if not uniform:
        return np.arange(n)
    kinds: dict[tuple[float, ...], int] = {}
    memory = np.zeros(n) if arrays.memory is None else arrays.memory
    rows = zip(arrays.capacity.tolist(), arrays.usable.tolist(), memory.tolist(), strict=True)
    return np.array(
        [kinds.setdefault((*row, host if host in told_apart else -1), len(kinds)) for host, row in enumerate(rows)],
        np.int64,
    )


def _flat(matrix: np.ndarray) -> bool:
    off = matrix[~np.eye(len(matrix), dtype=bool)]
    return bool(len(off) == 0 or (off == off[0]).all())
