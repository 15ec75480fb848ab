"""Mace-HC: placements whose worst latency is low, by hill climbing (Chandramouli et al., section IX.B).

Beside the paper's moves away from the latest host there are swaps, and exchanges of up to two operators for up to two:
plain moves stop well above the bound when hosts hold few operators. The perfectly divided load bounds the latency of
every placement from below.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.errors import InputError
from penstock.native.shipped import code
from penstock.placement.base import TIE, Arrays, Ints
from penstock.placement.correlation import LargestFirst, Random
from penstock.placement.episode import Loads, episode
from penstock.placement.kernels import CLIMB, EVEN_OUT
from penstock.placement.objective import latency_bound
from penstock.placement.repair import packed, repaired

if TYPE_CHECKING:
    from penstock.placement.climb_kernel import State

BUDGET, SMALL_BUDGET = 20_000_000, 20_000
"""Exchanges tried unless told otherwise: compiled, and interpreted, where each takes a hundred times as long."""
CHUNK = 2_000_000
"""Exchanges tried between two looks at the clock."""
EVEN = 16_000_000
"""Swaps tried at most to even out a start; they count, but are not cut short by the budget."""
STARTS, PATIENCE, INSIGNIFICANT = 20, 50, 1e-3
"""Starts unless told otherwise; starts without a relative gain of this much after which a larger budget is given up."""
KICK = 3
"""Operators of the latest host that are swapped by chance before the best placement is climbed from again."""


@attrs.frozen(kw_only=True)
class MaceClimb:
    """Hill climbing from several starts within a budget; the best placement that keeps the quotas.

    Every start is brought within the quotas first and never leaves them, so that only what may be answered is compared,
    and another start or a larger budget never makes the answer worse.

    Attributes
    ----------
    restarts
        Starts at most: the previous placement where there is one, largest-first, then the best placement disturbed,
        and every fourth time a random one. None: 20, or with a budget or a time limit until many starts in a row
        have gained nothing.
    steps
        Most exchanges made in one climb.
    gap
        Relative distance from the lower bound that is near enough. None: 0, or 5 % where loads are so many (over a
        million numbers) that each climb is long.
    budget
        Exchanges tried over all starts, after which the search ends. None: twenty million, or 20,000 on networks so
        small that loading compiled code would take longer.
    seconds
        Time after which no further climb begins; the answer then depends on the machine. None: no limit.
    clock
        Tells the time in seconds.
    """

    restarts: int | None = None
    steps: int = 10_000
    gap: float | None = None
    budget: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] = time.perf_counter

    def __attrs_post_init__(self) -> None:
        if self.restarts is not None and self.restarts < 1:
            raise InputError(f"expected at least 1 start, got {self.restarts}", at="--restarts")
        if self.budget is not None and self.budget < 1:
            raise InputError(f"expected at least 1 exchange, got {self.budget}", at="--budget")
        if self.steps < 1:
            raise InputError(f"expected at least 1 exchange a climb, got {self.steps}", at="--steps")
        if self.gap is not None and not self.gap >= 0:
            raise InputError(f"expected a distance of at least 0, got {self.gap}", at="--gap")
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"expected more than 0 s, got {self.seconds}", at="--seconds")

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        until = math.inf if self.seconds is None else self.clock() + self.seconds
        large = arrays.load.size > 1_000_000
        small = self.budget is None and 400 * arrays.load.size <= 400_000
        left: float = self.budget or (SMALL_BUDGET if small else BUDGET if self.seconds is None else math.inf)
        goal = latency_bound(arrays) * (1 + ((0.05 if large else 0.0) if self.gap is None else self.gap))
        search = _Search(arrays, goal, self.steps, 0.0 if small else math.inf)
        best, least = LargestFirst()(arrays, rng), math.inf
        free = self.restarts is None and (self.budget is not None or self.seconds is not None)
        number, idle, pack = 0, 0, cache(packed)
        while number < (self.restarts or STARTS) or (free and idle < PATIENCE):
            where, fresh = self._start(arrays, number, best if least < math.inf else None, rng, pack)
            number, idle = number + 1, idle + 1
            if where is None:
                continue
            turn = rng.permutation(len(arrays.hosts))
            # In full whatever is left: a larger budget then only adds to what a smaller one does.
            left -= search.even(where, turn, EVEN) if fresh else 0
            state = search.begun(where)
            while True:
                value, tried = search.climb(state, turn, int(min(max(left, 0), CHUNK)))
                left -= tried
                if tried < CHUNK or self.clock() >= until:
                    break
            where = state.best
            if value < least - 1e-12:
                idle = 0 if value < least * (1 - INSIGNIFICANT) else idle
                best, least = where, value
            if least <= goal * (1 + 1e-9) + 1e-12 or left <= 0 or self.clock() >= until:
                break
        return best

    @staticmethod
    def _start(
        arrays: Arrays,
        number: int,
        best: Ints | None,
        rng: np.random.Generator,
        pack: Callable[[Arrays], Ints | None],
    ) -> tuple[Ints | None, bool]:
        """Return where a climb begins, within the quotas (None where that failed), and whether to even it out first."""
        known, fresh = _known(arrays), True
        if known and number == 0:
            fresh = False
            where = np.where(arrays.fixed >= 0, arrays.fixed, arrays.previous)
        elif number == int(known):
            where = LargestFirst()(arrays, rng)
        elif best is not None and number % 4:
            fresh = False
            where = _disturbed(arrays, best, rng)
        else:
            where = Random()(arrays, rng)
        over = arrays.host_mean(where) > arrays.limit * (1 + TIE)
        return (repaired(arrays, where, pack) if over.any() else where), fresh


@attrs.frozen
class _Search:
    """The compiled or interpreted search on one problem."""

    arrays: Arrays
    goal: float
    most: int
    work: float

    def even(self, where: Ints, turn: Ints, budget: int) -> int:
        """Even a placement out, in place; return how many swaps were tried."""
        tried: int = code(EVEN_OUT, self.work).evened(self._loads(where), self.goal, turn, budget)
        return tried

    def begun(self, where: Ints) -> State:
        """Return the state from which a placement is climbed from."""
        state: State = code(CLIMB, self.work).begun(self._loads(where))
        return state

    def climb(self, state: State, turn: Ints, budget: int) -> tuple[float, int]:
        """Climb, in place; return the worst latency (s) and how many exchanges were tried."""
        found: tuple[float, int] = code(CLIMB, self.work).climb(state, self.goal, self.most, budget, turn)
        return found

    def _loads(self, where: Ints) -> Loads:
        a = self.arrays
        return Loads(a.load, a.mean, a.capacity, a.limit * (1 + TIE), a.fixed < 0, where, a.period)


def _known(arrays: Arrays) -> bool:
    return len(arrays.previous) > 0 and bool((arrays.previous >= 0).all())


def _disturbed(arrays: Arrays, best: Ints, rng: np.random.Generator) -> Ints:
    """Return a placement with a few operators of the latest host swapped for any others."""
    where = best.copy()
    load, free = arrays.host_load(where), arrays.fixed < 0
    late = [episode(row, capacity)[0] / capacity for row, capacity in zip(load, arrays.capacity, strict=True)]
    inside = np.flatnonzero((where == int(np.argmax(late))) & free)
    others = np.flatnonzero((where != int(np.argmax(late))) & free)
    count = min(KICK, len(inside), len(others))
    given, taken = rng.choice(inside, count, replace=False), rng.choice(others, count, replace=False)
    where[given], where[taken] = where[taken], where[given]
    return where
