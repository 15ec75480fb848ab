"""Mace-HC: placements whose worst latency is low, by hill climbing (Chandramouli et al., section IX.B).

Beside the paper's moves away from the bottleneck host there are swaps: plain moves stop well above the bound when
hosts hold few operators. The perfectly divided load bounds the latency of every placement from below.
"""

from __future__ import annotations

import attrs
import numpy as np

from penstock.errors import InputError
from penstock.placement.base import Arrays, Ints
from penstock.placement.correlation import LargestFirst, Random
from penstock.placement.jit import kernel
from penstock.placement.objective import latency_bound


@attrs.frozen(kw_only=True)
class MaceClimb:
    """Hill climbing from several starts; the best local optimum.

    Attributes
    ----------
    restarts
        Starts: the previous placement where there is one, largest-first, then random ones. None: 20, or one where
        loads are so many (over a million numbers) that each climb is long.
    steps
        Most steps of one climb.
    gap
        Relative distance from the lower bound that is near enough. None: 0, or 5 % with as many loads.
    """

    restarts: int | None = None
    steps: int = 10_000
    gap: float | None = None

    def __attrs_post_init__(self) -> None:
        if self.restarts is not None and self.restarts < 1:
            raise InputError(f"expected at least 1 start, got {self.restarts}", at="--restarts")

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        bound = latency_bound(arrays)
        large = arrays.load.size > 1_000_000
        starts = self.restarts or (1 if large else 20)
        near = bound * (1 + ((0.05 if large else 0.0) if self.gap is None else self.gap))
        code = kernel("climb_kernel", 20.0 * starts * arrays.load.size)
        best, least = None, np.inf
        for number in range(starts):
            where = self._start(arrays, number, rng)
            value = code.climb(
                arrays.load, arrays.mean, arrays.capacity, arrays.usable, arrays.fixed < 0, where, arrays.period,
                near, self.steps, 16,
            )  # fmt: skip
            if best is None or value < least - 1e-12:
                best, least = where, value
            if least <= near * (1 + 1e-9) + 1e-12:
                break
        assert best is not None  # noqa: S101 -- there is at least one start
        return best

    @staticmethod
    def _start(arrays: Arrays, number: int, rng: np.random.Generator) -> Ints:
        known = bool((arrays.previous >= 0).all()) and len(arrays.previous) > 0
        if known and number == 0:
            return np.where(arrays.fixed >= 0, arrays.fixed, arrays.previous)
        if number == int(known):
            return LargestFirst()(arrays, rng)
        return Random()(arrays, rng)
