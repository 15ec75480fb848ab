"""What the durations of a host's batches tell: overhead and factor, when it was warm, how steady it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.load.statistics import HostStatistics

Array = NDArray[np.float64]

FAR = 0.5
"""A batch that differs by more than this part of its duration counts as one that differs by as much."""

LEAST = 0.1
"""Smallest factor of a host: in place nothing costs less than a tenth of what it costs alone."""

TINY, TOLD = 1e-9, 2.0
"""Cost (s) of an operator that seems to take no time, and standard errors by which a cost is told from nothing."""

FEWEST = 8
"""Batches with input below which overhead and cost cannot be told apart."""

STRETCH = 10.0
"""Seconds of batches that are one look at a host's speed."""

AGREE = 0.05
"""Relative difference of two bursts' largest batches up to which they agree."""


@attrs.frozen
class Slope:
    """Seconds per tuple, the standard error of that, and how many tuples it rests on."""

    mean: float
    spread: float
    tuples: int = 0

    @classmethod
    def mixed(cls, parts: Sequence[tuple[Slope, float]]) -> Slope:
        """Return the slope of a mix of tuples: slopes with their shares."""
        spread = math.sqrt(sum((share * slope.spread) ** 2 for slope, share in parts))
        return cls(sum(share * slope.mean for slope, share in parts), spread)


def told_apart(slope: Slope, reading: Slope) -> tuple[float, float, float]:
    """Return an operator's cost (s), its relative error and its resolution: what could not be told from nothing (s).

    Parameters
    ----------
    slope
        Of reading its input and doing its work.
    reading
        Of reading alone.
    """
    spread = math.hypot(slope.spread, reading.spread)
    cost = max(slope.mean - reading.mean, TINY)
    return cost, min(spread / cost, 1.0), TOLD * spread


@attrs.frozen(eq=False)
class HostBatches:
    """The batches of a host with input, in the order of their starts, and those without.

    Attributes
    ----------
    at, load, took
        Arrays (batches,): when each began (s), its work (benchmark-core seconds over the capacity), and the seconds
        that it took, or would have taken alone.
    empty
        Array: seconds of batches without input.
    """

    at: Array
    load: Array
    took: Array
    empty: Array

    def __len__(self) -> int:
        return len(self.at)

    @property
    def telling(self) -> bool:
        """Whether there are enough of them, and of different sizes, to tell overhead from cost."""
        return len(self) >= FEWEST and float(self.load.max()) >= 2 * max(float(self.load.min()), 1e-12)

    def since(self, first: int) -> HostBatches:
        """Return the batches without the first ones."""
        return attrs.evolve(self, at=self.at[first:], load=self.load[first:], took=self.took[first:])

    def ratios(self, known: HostStatistics) -> Array:
        """Return the logarithms of how much longer batches took than a host's statistics say, at most `FAR` off."""
        ratio = np.log(np.maximum(self.took, 1e-6) / np.maximum(known.overhead + known.factor * self.load, 1e-6))
        return np.clip(ratio, -FAR, FAR)


def pooled(bursts: Sequence[HostBatches], apart: float = 1000.0) -> HostBatches:
    """Return the batches of several bursts as those of one run, the bursts so many seconds apart."""
    return HostBatches(
        at=np.concatenate([burst.at + number * apart for number, burst in enumerate(bursts)]),
        load=np.concatenate([burst.load for burst in bursts]),
        took=np.concatenate([burst.took for burst in bursts]),
        empty=np.concatenate([burst.empty for burst in bursts]),
    )


def told(batches: HostBatches) -> HostStatistics | None:
    """Return what a host's batches tell once it is warm, or None where they are too few or too alike.

    What they leave over tells how steady the host is (`unrest`), and how much batches differ by chance (`residual`).
    """
    if not batches.telling:
        return None
    warm = batches.since(warm_from(batches))
    found = fit(warm.load, warm.took)
    idle = float(np.median(batches.empty)) if batches.empty.size else None
    return attrs.evolve(found, idle=idle, unrest=unrest(warm.at, warm.ratios(found)))


def warm_from(batches: HostBatches) -> int:
    """Return how many batches at the beginning are to be left out: code that is young runs slowly.

    Those without which the standard error of the mean of what is left is the least (White 1997, MSER), at most half:
    what each took is compared with what a fit on the later half says of a batch of its size.
    """
    half = batches.since(len(batches) // 2)
    ratio = batches.ratios(fit(*((half.load, half.took) if half.telling else (batches.load, batches.took))))
    best, least = 0, math.inf
    for first in range(len(batches) // 2 + 1):
        if not batches.since(first).telling:
            break
        rest = ratio[first:]
        error = float(((rest - rest.mean()) ** 2).sum()) / len(rest) ** 2
        if error < least - 1e-15:
            best, least = first, error
    return best


def unrest(at: Array, ratio: Array, stretch: float = STRETCH) -> float:
    """Return the standard deviation of a host's speed between stretches of time, less what chance alone makes of it.

    Parameters
    ----------
    at
        Array (batches,): when each began (s).
    ratio
        Array (batches,): logarithms of how much longer each took than it should.
    stretch
        Length of a stretch (s).
    """
    place = ((at - at.min()) / stretch).astype(np.int64) if at.size else np.zeros(0, np.int64)
    rows = [ratio[place == k] for k in np.unique(place)]
    rows = [row for row in rows if len(row) >= 2]
    if len(rows) < 2:
        return 0.0
    inside = sum(float(((row - row.mean()) ** 2).sum()) for row in rows) / max(sum(len(row) - 1 for row in rows), 1)
    chance = inside * float(np.mean([1 / len(row) for row in rows]))
    between = float(np.var([row.mean() for row in rows], ddof=1))
    return math.sqrt(max(between - chance, 0.0))


@attrs.frozen
class Agreement:
    """Whether the last two bursts agree, and how far apart they are, by host, as a share of the largest batch."""

    done: bool
    apart: Mapping[str, float]


def agreement(
    bursts: Sequence[Mapping[str, HostStatistics | None]], work: Mapping[str, float], tolerance: float = AGREE
) -> Agreement:
    """Compare what the last two bursts tell of each host's largest batch.

    Parameters
    ----------
    bursts
        By burst and host what was told; None where it told nothing.
    work
        By host: work of its largest batch (s over the capacity).
    tolerance
        Relative difference up to which they agree.
    """
    if len(bursts) < 2:
        return Agreement(False, {})
    apart, missing = {}, False
    for host, load in work.items():
        first, second = (burst.get(host) for burst in bursts[-2:])
        if first is None or second is None:
            missing = True
            continue
        one, two = (row.overhead + row.factor * load for row in (first, second))
        apart[host] = 2 * abs(one - two) / max(one + two, 1e-12)
    return Agreement(not missing and all(gap <= tolerance for gap in apart.values()), apart)


def fit(load: np.ndarray[Any, Any], took: np.ndarray[Any, Any]) -> HostStatistics:
    """Fit ``took = overhead + factor · load`` by a regression that a few disturbed batches do not sway.

    Disturbances only lengthen batches, so that plain least squares would take them for cost: residuals beyond a
    scale, the median of the absolute ones, count by their size only (Huber's loss). Where the overhead hides the
    cost, noise alone would give it any sign: the overhead is not negative, and the factor is `LEAST` at least.
    """
    from scipy.optimize import least_squares

    table = np.column_stack([np.ones(len(load)), load])

    def misfit(guess: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(table @ guess - took)

    least = (0.0, LEAST)
    (overhead, factor), *_ = np.linalg.lstsq(table, took, rcond=None)
    overhead, factor = max(overhead, 0.0), max(factor, LEAST)
    scale = math.inf
    for _ in range(50):
        rest = took - overhead - factor * load
        before, scale = scale, max(1.4826 * float(np.median(np.abs(rest))), 1e-6)
        found = least_squares(
            misfit, (overhead, factor), bounds=(least, np.inf), loss="huber", f_scale=scale, x_scale=(0.1, 1.0)
        )
        overhead, factor = (float(value) for value in found.x)
        if abs(scale - before) <= 0.01 * scale:
            break
    rest = took - overhead - factor * load
    weight = np.minimum(1.0, scale / np.maximum(np.abs(rest), 1e-12))
    sigma = float(np.sqrt((weight * rest**2).sum() / max(weight.sum() - 2, 1.0)))
    centre = float((weight * load).sum() / weight.sum())
    spread = float(np.sqrt((weight * (load - centre) ** 2).sum()))
    # A few disturbed batches count among the others: the run to come will have such, too.
    share = np.clip(rest / np.maximum(overhead + factor * load, 1e-9), -FAR, FAR)
    across = math.sqrt(1 / weight.sum() + (centre / spread) ** 2) if spread > 0 else 0.0
    return HostStatistics(
        overhead=overhead,
        factor=factor,
        error=sigma / spread / factor if spread > 0 else 1.0,
        overhead_error=sigma * across,
        correlation=-centre / spread / across if spread > 0 and across > 0 else 0.0,
        residual=float(np.sqrt((share**2).sum() / max(len(share) - 2, 1))),
    )
