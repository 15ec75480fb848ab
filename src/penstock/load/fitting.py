"""What the durations of a host's batches tell: overhead and factor, when it was warm, how steady it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array, deviation
from penstock.load.statistics import HostStatistics, OperatorStatistics, Statistics

FAR = 0.5
"""A batch that differs by more than this part of its duration counts as one that differs by as much."""

LEAST = 0.1
"""Smallest factor of a host: in place nothing costs less than a tenth of what it costs alone."""

ALONE = 0.5
"""How far from 1 a factor may well be where batches do not tell it: in place costs are about what they are alone."""

UNLIKE = 0.5
"""How far, as a share of it, the overhead in place may well be from that of a trivial query, or of another host."""

SHORTEST = 0.03
"""Overhead (s) that batches have at least: Spark's own bookkeeping takes as long."""

TINY, TOLD = 1e-9, 2.0
"""Cost (s) of an operator that seems to take no time, and standard errors by which a cost is told from nothing."""

FEWEST = 8
"""Batches with input below which overhead and cost cannot be told apart."""

STRETCH = 10.0
"""Seconds of batches that are one look at a host's speed."""

AGREE = 0.05
"""Relative difference of what the batches of two bursts took up to which they agree."""

FOLLOWS = 0.5
"""Power of the core's speed with which batches become shorter: the loop that tells it computes, batches also wait for
memory. Measured: 0.54 to 0.60 within runs, in looks of one batch as of 20 s together, and 0.46 between runs."""

LEVELLED, SAME = 30, 1e-3
"""Rounds at most in which bursts are brought to one level, and the change of a level below which they have it."""

USUAL, TRUSTED = 0.02, 2.0
"""How machines change their speed while nobody else uses them, and stretches of a calibration that this is worth."""


@attrs.frozen
class Slope:
    """Seconds per tuple, the standard error of that, and how many tuples it rests on."""

    mean: float
    spread: float
    tuples: int = 0

    @classmethod
    def between(cls, lows: Sequence[float], highs: Sequence[float], small: float, large: float) -> Slope:
        """Return the slope between what jobs of two sizes took (s), each as often.

        One that was held up changes little.
        """
        apart = large - small
        spread = float(np.std(np.subtract(highs, lows), ddof=1)) / math.sqrt(len(lows))
        return cls((float(np.median(highs)) - float(np.median(lows))) / apart, spread / apart, round(len(lows) * large))

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


def hidden(row: OperatorStatistics, cost: Sequence[float] | None) -> float:
    """Return an operator's resolution as a multiple of its cost; 0 of a cost that is not the measured one."""
    return row.resolution / max(*cost, TINY) if cost and row.cost and max(cost) == max(row.cost) else 0.0


def unmeasured(statistics: Statistics | None, hosts: Iterable[str]) -> list[str]:
    """Return those of some hosts that were never measured, while others were."""
    known = {} if statistics is None else statistics.hosts
    return sorted(set(hosts) - set(known)) if known else []


def host_of(statistics: Statistics | None, name: str) -> HostStatistics:
    """Return what is known of a host: of one that was never measured, while others were, what it may well be.

    Its costs are about what they are alone (`ALONE`), and its overhead about that of the others (`UNLIKE`).
    """
    known = {} if statistics is None else statistics.hosts
    if not unmeasured(statistics, [name]):
        return known.get(name, HostStatistics())
    overhead = float(np.median([row.overhead for row in known.values()]))
    idle = float(np.median([row.overhead if row.idle is None else row.idle for row in known.values()]))
    return HostStatistics(overhead=overhead, idle=idle, error=ALONE, overhead_error=UNLIKE * overhead)


@attrs.frozen(eq=False)
class HostBatches:
    """The batches of a host with input, in the order of their starts, and those without.

    Attributes
    ----------
    at, load, took, speed
        Arrays (batches,): when each began (s), its work (benchmark-core seconds over the capacity), the seconds that it
        took, or would have taken alone, and the steps of a fixed loop that the core did a second meanwhile (NaN:
        unknown).
    empty, empty_speed
        Arrays: seconds of batches without input, and the core's speed in them.
    """

    at: Array
    load: Array
    took: Array
    empty: Array
    speed: Array = attrs.field()
    empty_speed: Array = attrs.field()

    @speed.default
    def _unknown(self) -> Array:
        return np.full(len(self.at), np.nan)

    @empty_speed.default
    def _unknown_empty(self) -> Array:
        return np.full(len(self.empty), np.nan)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def telling(self) -> bool:
        """Whether there are enough of them, and of different sizes, to tell overhead from cost."""
        return len(self) >= FEWEST and float(self.load.max()) >= 2 * max(float(self.load.min()), 1e-12)

    @property
    def pace(self) -> float | None:
        """The core's mean speed while these batches ran (steps/s); None: it was not looked at."""
        known = ~np.isnan(self.speed)
        took = float(self.took[known].sum())
        return float((self.took * self.speed)[known].sum()) / took if took > 0 else None

    def at_pace(self, pace: float | None) -> HostBatches:
        """Return the batches as they would have been had the core always had one speed (steps/s): see `FOLLOWS`."""
        if pace is None:
            return self
        ratio, empty = (np.nan_to_num((row / pace) ** FOLLOWS, nan=1.0) for row in (self.speed, self.empty_speed))
        return attrs.evolve(
            self,
            took=self.took * ratio,
            empty=self.empty * empty,
            speed=np.full(len(self), pace),
            empty_speed=np.full(len(self.empty), pace),
        )

    def where(self, chosen: NDArray[np.bool_]) -> HostBatches:
        """Return those with input that are chosen, array (batches,)."""
        rows = (self.at, self.load, self.took, self.speed)
        at, load, took, speed = (row[chosen] for row in rows)
        return attrs.evolve(self, at=at, load=load, took=took, speed=speed)

    def since(self, first: int) -> HostBatches:
        """Return the batches without the first ones."""
        return self.where(np.arange(len(self)) >= first)

    def expected(self, known: HostStatistics) -> Array:
        """Return what the batches should have taken as a host's statistics say (s), array (batches,)."""
        return np.maximum(known.overhead + known.factor * self.load, 1e-6)

    def level(self, known: HostStatistics) -> float:
        """Return how much longer these batches took together than a host's statistics say."""
        return max(float(self.took.sum()), 1e-6) / float(self.expected(known).sum())

    def doubt(self, known: HostStatistics) -> float:
        """Return the standard error of their level, by chance alone."""
        size = float(self.expected(known).sum())
        return math.sqrt(len(self) * known.jitter**2 + known.residual**2 * size) / size

    def ratios(self, known: HostStatistics) -> Array:
        """Return the logarithms of how much longer batches took than a host's statistics say, at most `FAR` off."""
        ratio = np.log(np.maximum(self.took, 1e-6) / self.expected(known))
        return np.clip(ratio, -FAR, FAR)


def pooled(bursts: Sequence[HostBatches]) -> HostBatches:
    """Return the batches of several bursts as those of one run."""
    columns = (np.concatenate(column) for column in zip(*map(_columns, bursts), strict=True))
    return HostBatches(*columns)


def _columns(batches: HostBatches) -> tuple[Array, ...]:
    return batches.at, batches.load, batches.took, batches.empty, batches.speed, batches.empty_speed


def levelled(bursts: Sequence[HostBatches], last: HostBatches) -> HostBatches:
    """Return the batches of bursts, those of earlier ones as they would have been in the last.

    Code that still warms up makes all batches of a burst longer: what a burst as a whole took more than the last is no
    cost, but how its batches differ by their size tells overhead from cost as well as the last one does.

    Parameters
    ----------
    bursts
        The earlier ones, at the same speed of the core as the last.
    last
        That whose level counts.
    """
    earlier, every = [burst for burst in bursts if len(burst)], pooled([*bursts, last])
    if not every.telling or not len(last):
        return every
    for _ in range(LEVELLED):
        known = fit(every.load, every.took)
        scales = [last.level(known) / burst.level(known) for burst in earlier]
        earlier = [attrs.evolve(burst, took=burst.took * scale) for burst, scale in zip(earlier, scales, strict=True)]
        every = pooled([*earlier, last])
        if all(abs(scale - 1) < SAME for scale in scales):
            break
    return every


def told(batches: HostBatches, pace: float | None = None) -> HostStatistics | None:
    """Return what a host's batches tell once it is warm, or None where they are too few or too alike.

    What they leave over tells how steady the host is (`unrest`), and how much batches differ by chance (`residual`).

    Parameters
    ----------
    pace
        Speed of the core (steps/s) for which it is told; None: its mean speed in these batches.
    """
    if not batches.telling:
        return None
    pace = pace or batches.pace
    even = batches.at_pace(pace)
    warm = even.since(warm_from(even))
    found = fit(warm.load, warm.took)
    steady = unrest(warm.at, warm.ratios(found), warm.expected(found))
    return _with_idle(attrs.evolve(found, unrest=steady, speed=pace, wander=wander([batches])), even)


def overhead_anew(known: HostStatistics, batches: HostBatches) -> HostStatistics:
    """Return a host's statistics with the overhead of batches that do not tell its cost, since they are all alike."""
    even = batches.at_pace(known.speed)
    rest = even.took - known.factor * even.load
    overhead = max(float(np.median(rest)), SHORTEST) if rest.size else known.overhead
    return _with_idle(attrs.evolve(known, overhead=overhead), even)


def _with_idle(known: HostStatistics, batches: HostBatches) -> HostStatistics:
    """Return a host's statistics with what batches without input took, where there were any."""
    return attrs.evolve(known, idle=float(np.median(batches.empty)) if batches.empty.size else known.idle)


def wander(rows: Sequence[HostBatches], stretch: float = STRETCH) -> float:
    """Return how the speed of cores makes batches longer and shorter from one stretch of time to another.

    That is the standard deviation of the speed's logarithm, times `FOLLOWS`.

    Parameters
    ----------
    rows
        Of each core all batches, those of cold code too. What a shared machine does to one core it may do to the
        others, so that each tells of all.
    stretch
        Length of a stretch (s).
    """
    square, freedom = 0.0, 0
    for row in rows:
        known = ~np.isnan(row.speed)
        place = (row.at[known] / stretch).astype(np.int64)
        weight, level = row.took[known], np.log(row.speed[known])
        means = [np.average(level[place == k], weights=weight[place == k]) for k in np.unique(place)]
        square += float(((np.array(means) - np.mean(means)) ** 2).sum()) if means else 0.0
        freedom += max(len(means) - 1, 0)
    return FOLLOWS * math.sqrt(square / freedom) if freedom else 0.0


def warm_from(batches: HostBatches) -> int:
    """Return how many batches at the beginning are to be left out: code that is young runs slowly.

    Those without which the standard error of the mean of what is left is the least (White 1997, MSER), at most half of
    the batches and half of the work, so that a burst at the beginning counts: what each took is compared with what a
    fit on the later half says of a batch of its size.
    """
    most = min(len(batches) // 2, int(np.searchsorted(np.cumsum(batches.load), batches.load.sum() / 2)))
    half = batches.since(most)
    ratio = batches.ratios(fit(*((half.load, half.took) if half.telling else (batches.load, batches.took))))
    while most and not batches.since(most).telling:
        most -= 1
    return least_unsteady(ratio, most)


def least_unsteady(ratio: Array, most: int) -> int:
    """Return how many of a row's first numbers, at most, to leave out for the mean of the others to be surest."""
    rests = [ratio[first:] for first in range(most + 1)]
    errors = [float(((rest - rest.mean()) ** 2).sum()) / len(rest) ** 2 for rest in rests]
    best = 0
    for first, error in enumerate(errors):
        if error < errors[best] - 1e-15:
            best = first
    return best


def unrest(at: Array, ratio: Array, size: Array | None = None, stretch: float = STRETCH) -> float:
    """Return the standard deviation of a host's speed between stretches of time, less what chance alone makes of it.

    A few stretches tell it badly: what machines usually have (`USUAL`) counts as much as `TRUSTED` stretches.

    Parameters
    ----------
    at
        Array (batches,): when each began (s).
    ratio
        Array (batches,): logarithms of how much longer each took than it should.
    size
        Array (batches,): how much each counts; long batches tell more.
    stretch
        Length of a stretch (s).
    """
    size = np.ones(len(at)) if size is None else size
    place = ((at - at.min()) / stretch).astype(np.int64) if at.size else np.zeros(0, np.int64)
    means, chances = [], []
    for k in np.unique(place):
        row, weight = ratio[place == k], size[place == k] / size[place == k].sum()
        if len(row) >= 2:
            means.append(float(weight @ row))
            # The variance of a weighted mean, from how its parts differ.
            chances.append(float(weight**2 @ (row - means[-1]) ** 2) / max(1 - float(weight @ weight), 1e-9))
    extra = max(float(((np.array(means) - np.mean(means)) ** 2).sum()) - _beyond(chances), 0.0) if means else 0.0
    return math.sqrt((extra + TRUSTED * USUAL**2) / (max(len(means) - 1, 0) + TRUSTED))


def between(bursts: Sequence[HostBatches], known: HostStatistics) -> float:
    """Return the standard deviation of a host's speed between bursts, less what chance makes of it.

    Where two bursts are all that there is, this is one difference: what machines usually have (`USUAL`) counts beside
    it, as in `unrest`, and alone where there are fewer.

    Parameters
    ----------
    bursts
        Of one host.
    known
        What the batches of all of them told.
    """
    if len(bursts) < 2:
        return USUAL
    level = np.log([each.level(known) for each in bursts])
    chance = [each.doubt(known) ** 2 for each in bursts]
    extra = max(float(((level - level.mean()) ** 2).sum()) - _beyond(chance), 0.0)
    return math.sqrt((extra + TRUSTED * USUAL**2) / (len(bursts) - 1 + TRUSTED))


def _beyond(chances: Sequence[float]) -> float:
    """Return the sum of squares about their mean that chance alone gives to means with these variances."""
    return float(np.sum(chances)) * (len(chances) - 1) / len(chances)


@attrs.frozen
class Agreement:
    """Whether the last two bursts agree, and how far apart they are, by host, as a share of what batches take."""

    done: bool
    apart: Mapping[str, float]


def agreement(bursts: Sequence[Mapping[str, HostBatches]], tolerance: float = AGREE) -> Agreement:
    """Compare what the batches of the last two bursts took, each as a share of what a fit on both says.

    Parameters
    ----------
    bursts
        By burst and host its batches.
    tolerance
        Relative difference up to which they agree.
    """
    if len(bursts) < 2:
        return Agreement(False, {})
    apart, missing = {}, False
    for host in bursts[-1]:
        both = [burst[host] for burst in bursts[-2:]]
        pace = pooled(both).pace
        both = [each.at_pace(pace) for each in both]
        every = pooled(both)
        if not every.telling or not all(map(len, both)):
            missing = True
            continue
        known = fit(every.load, every.took)
        one, two = (each.level(known) for each in both)
        apart[host] = 2 * abs(one - two) / (one + two)
    return Agreement(not missing and all(gap <= tolerance for gap in apart.values()), apart)


def fit(load: Array, took: Array) -> HostStatistics:
    """Fit ``took = overhead + factor · load`` by a regression that a few disturbed batches do not sway.

    Disturbances only lengthen batches, so that plain least squares would take them for cost: residuals beyond a
    scale, the median of the absolute ones, count by their size only (Huber's loss). Where the overhead hides the
    cost, noise alone would give it any sign: the overhead is `SHORTEST` at least, the factor `LEAST`, and that it is 1
    to within `ALONE` counts as one observation more, which batches of many sizes outweigh.
    """
    from scipy.optimize import least_squares

    table = np.column_stack([np.ones(len(load)), load])

    def misfit(guess: Array) -> Array:
        return np.append(table @ guess - took, scale * (guess[1] - 1) / ALONE)

    least = (SHORTEST, LEAST)
    (overhead, factor), *_ = np.linalg.lstsq(table, took, rcond=None)
    overhead, factor = max(overhead, SHORTEST), max(factor, LEAST)
    before, scale = math.inf, max(deviation(took - overhead - factor * load), 1e-6)
    for _ in range(50):
        found = least_squares(
            misfit, (overhead, factor), bounds=(least, np.inf), loss="huber", f_scale=scale, x_scale=(0.1, 1.0)
        )
        overhead, factor = (float(value) for value in found.x)
        rest = took - overhead - factor * load
        if abs(scale - before) <= 0.01 * scale:
            break
        before, scale = scale, max(deviation(rest), 1e-6)
    weight = np.minimum(1.0, scale / np.maximum(np.abs(rest), 1e-12))
    sigma = float(np.sqrt((weight * rest**2).sum() / max(weight.sum() - 2, 1.0)))
    centre = float((weight * load).sum() / weight.sum())
    spread = float(np.sqrt((weight * (load - centre) ** 2).sum()))
    residual, jitter = _chance(np.maximum(overhead + factor * load, 1e-9), rest)
    # Far from 1 what is usual counts by its distance only.
    doubt = (ALONE**-2 * min(1.0, ALONE / max(abs(factor - 1), 1e-9)) + (spread / max(sigma, 1e-9)) ** 2) ** -0.5
    across = math.hypot(sigma / math.sqrt(weight.sum()), centre * doubt)
    return HostStatistics(
        overhead=overhead,
        factor=factor,
        error=doubt / factor,
        overhead_error=across,
        correlation=-centre * doubt / across if across > 0 else 0.0,
        residual=residual,
        jitter=jitter,
    )


def _chance(expected: Array, rest: Array) -> tuple[float, float]:
    """Return how batches differ by chance: standard deviations (s) of one that takes a second, and of any.

    The hiccups of small batches, which are mostly their fixed part, must not be taken for a share of large ones: what
    disturbs work now and then averages out, so that variance grows with duration, and not its square. A few disturbed
    batches count among the others: the run to come will have such, too.

    Parameters
    ----------
    expected, rest
        Arrays (batches,): what each should have taken, and what it took more (s).
    """
    square = np.clip(rest, -FAR * expected, FAR * expected) ** 2 * len(rest) / max(len(rest) - 2, 1)
    large = expected >= np.median(expected)
    whole = float(square.sum() / expected.sum())
    if large.all():
        return math.sqrt(whole), 0.0
    few, many = (float(expected[part].mean()) for part in (~large, large))
    below, above = (float(square[part].mean()) for part in (~large, large))
    rate = min(max(above - below, 0.0) / max(many - few, 1e-12), whole)
    return math.sqrt(rate), math.sqrt(max(below - rate * few, 0.0))
