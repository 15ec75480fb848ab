"""Placement by load correlation, and its baselines (Xing et al., sections 3.3, 3.4 and 5.1.3).

Where hosts differ, shares of usable capacity take the place of loads. Score of operator o for host i:
``(1/n)·Σ_j ρ(o, j) − ρ(o, i)``, which is half the difference of the two correlations when n = 2. The copies of the
paper that we have lost its formulas; this general form is the one that reduces to the pair's.
"""

from __future__ import annotations

import attrs
import numpy as np

from penstock.errors import InputError
from penstock.load import correlation, correlation_matrix
from penstock.native.shipped import code
from penstock.placement.base import TIE, Arrays, Floats, Ints
from penstock.placement.distribute import Given, Rules, greedy, improve, pairwise
from penstock.placement.kernels import LEAST
from penstock.placement.layout import BY_CORRELATION, ONE_WAY

MODES, STEPS = ("correlation", "load", "chance"), ("one-way", "two-way", "exchange")
"""In the order of the kernel's numbers."""


@attrs.frozen(kw_only=True)
class LargestFirst:
    """LLF: each operator, by falling load, to the host that is then the least loaded (section 5.1.3).

    Attributes
    ----------
    fitted
        Whether the operator's own load counts when hosts are compared, which tells where hosts differ. ROD (Xiao et
        al., section 6.1) looks at the present load only.
    """

    fitted: bool = True

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        steps = len(arrays.mean) * (1 if np.ptp(arrays.usable) == 0 else len(arrays.hosts)) * 10
        where = arrays.fixed.copy()
        code(LEAST, steps).least_loaded(arrays.mean, arrays.usable, where, self.fitted)
        return where


@attrs.frozen(kw_only=True)
class EvenlyRandom:
    """RAND-GLB: operators in random order, each to the host that is then the least loaded (section 5.1.3)."""

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        order = rng.permutation(len(arrays.mean))
        where = np.empty(len(order), np.int64)
        mixed = attrs.evolve(arrays, mean=arrays.mean[order], fixed=arrays.fixed[order])
        where[order] = LargestFirst()(mixed, rng)
        return where


@attrs.frozen(kw_only=True)
class Random:
    """Each operator to a host drawn evenly from those that still have room; if none has, from all."""

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        where = arrays.fixed.copy()
        free = where < 0
        level = np.bincount(where[~free], weights=arrays.mean[~free], minlength=len(arrays.hosts))
        for index in np.flatnonzero(free):
            room = np.flatnonzero(level + arrays.mean[index] <= arrays.limit * (1 + TIE))
            where[index] = rng.choice(room) if len(room) else rng.integers(len(arrays.hosts))
            level[where[index]] += arrays.mean[index]
        return where


@attrs.frozen(kw_only=True)
class Connected:
    """Each connected query as a whole, the heaviest first, to the least loaded host.

    A query with operators that must stay on a host goes to the host of the heaviest of them; the others of these
    stay where they must.
    """

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        where = arrays.fixed.copy()
        level = np.zeros(len(arrays.hosts))
        np.add.at(level, where[where >= 0], arrays.mean[where >= 0])
        parts, first, index = np.unique(arrays.part, return_index=True, return_inverse=True)
        weight = np.bincount(index, weights=arrays.mean, minlength=len(parts))
        scale = float(weight.max(initial=0.0)) or 1.0
        for part in np.lexsort((first, -np.round(weight / scale, 11))):
            members = np.flatnonzero(index == part)
            pinned = where[members][where[members] >= 0]
            free = members[where[members] < 0]
            share = (level + arrays.mean[free].sum()) / arrays.usable
            host = int(pinned[0]) if len(pinned) else int(np.flatnonzero(share <= share.min() + TIE)[0])
            where[free] = host
            level[host] += arrays.mean[free].sum()
        return where


@attrs.frozen(kw_only=True)
class Correlation:
    """COR-GLB: global operator distribution (section 3.4).

    Attributes
    ----------
    improvement_threshold
        Average correlation of all pairs of hosts that is good enough.
    load_threshold
        Difference of two hosts' shares of load above which the closing round balances them.
    """

    improvement_threshold: float = 0.8
    load_threshold: float = 0.1

    def __attrs_post_init__(self) -> None:
        _check_thresholds(load=self.load_threshold, improvement=self.improvement_threshold)

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        given = Given(arrays.load, arrays.mean, arrays.usable, arrays.fixed < 0, arrays.fixed.copy())
        greedy(given)
        pairwise(given, np.zeros(len(given.where)), Rules(BY_CORRELATION, ONE_WAY, self.load_threshold, 0.0, -2.0))
        if len(arrays.hosts) > 1:
            improve(given, self.improvement_threshold)
        return given.where


@attrs.frozen(kw_only=True)
class Pairwise:
    """Pairwise distribution from the previous placement, or from largest-first without one (section 3.3).

    The most loaded host is paired with the least loaded, the second with the last but one, and so on.

    Attributes
    ----------
    step
        ``one-way`` (COR-BAL), ``two-way`` (redistribution, COR-RE-IMP) or ``exchange`` (selective, COR-SE-IMP); the
        last two with the improvement step of section 3.3.4.
    by
        How operators are chosen: ``correlation``; ``load``, the largest first; ``chance``.
    load_threshold, score_threshold, improvement_threshold
        Of the difference of two hosts' shares of load, of an exchanged operator's score, and of the
        correlation of two hosts below which a host is improved whose divergent load level (mean plus standard
        deviation) exceeds what we may use of it.
    """

    step: str = "one-way"
    by: str = "correlation"
    load_threshold: float = 0.1
    score_threshold: float = 0.2
    improvement_threshold: float = 0.8

    def __attrs_post_init__(self) -> None:
        if self.step not in STEPS or self.by not in MODES:
            raise InputError(f"expected a pair step and a way to choose, got {self.step!r} and {self.by!r}")
        _check_thresholds(load=self.load_threshold, score=self.score_threshold, improvement=self.improvement_threshold)

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        steps = 4 * len(arrays.mean) * arrays.load.size
        where = np.where(arrays.fixed >= 0, arrays.fixed, arrays.previous)
        if (where < 0).any():
            code(LEAST, steps).least_loaded(arrays.mean, arrays.usable, where, True)
        priority = rng.random(len(where)) if self.by == "chance" else np.zeros(len(where))
        step = STEPS.index(self.step)
        given = Given(arrays.load, arrays.mean, arrays.usable, arrays.fixed < 0, where)
        better = self.improvement_threshold if step else -2.0
        rules = Rules(MODES.index(self.by), step, self.load_threshold, self.score_threshold, better)
        pairwise(given, priority, rules)
        return where


def _check_thresholds(**given: float) -> None:
    for name, value in given.items():
        least = 0.0 if name == "load" else -1.0
        if not least <= value <= 1.0:
            raise InputError(f"expected a threshold from {least:g} to 1, got {value}", at=f"--{name}-threshold")


def score(series: Floats, hosts: Floats, host: int) -> float:
    """Return the score of an operator for a host, plainly.

    Parameters
    ----------
    series
        Array (k,): the operator's load.
    hosts
        Array (n, k): the hosts' loads, without the operator.
    """
    each = [correlation(series, row) for row in hosts]
    return float(np.mean(each) - each[host])


def greedy_plainly(arrays: Arrays) -> Ints:
    """Return the greedy distribution of section 3.4, step by step as printed: what the kernel is compared with.

    Of equally loaded hosts the one of the largest capacity comes first.
    """
    where = arrays.fixed.copy()
    left = [int(index) for index in np.flatnonzero(where < 0)]
    hosts = np.zeros((len(arrays.hosts), arrays.load.shape[1]))
    for index in np.flatnonzero(where >= 0):
        hosts[where[index]] += arrays.load[index]
    while left:
        share = hosts.mean(axis=1) / arrays.usable
        level = np.flatnonzero(share <= share.min() + TIE)
        receiver = int(level[arrays.usable[level].argmax()])
        scores = np.array([score(arrays.load[index], hosts, receiver) for index in left])
        chosen = left.pop(int(np.flatnonzero(scores >= scores.max() - TIE)[0]))
        where[chosen] = receiver
        hosts[receiver] += arrays.load[chosen]
    return where


def divide_plainly(load: Floats, mine: Ints) -> list[bool]:
    """Return which operators of two equal hosts go to the first by two-way redistribution (section 3.3.2), plainly.

    Parameters
    ----------
    load
        Array (m, k).
    mine
        Numbers of the operators of both hosts, in order.
    """
    hosts, side, left = np.zeros((2, load.shape[1])), dict[int, int](), list(mine)
    while left:
        to = 0 if hosts[0].mean() <= hosts[1].mean() + TIE * load[mine].mean(axis=1).sum() else 1
        scores = np.array([score(load[o], hosts, to) for o in left])
        chosen = left.pop(int(np.flatnonzero(scores >= scores.max() - TIE)[0]))
        side[chosen] = to
        hosts[to] += load[chosen]
    # What still moves from the fuller one: half their difference at most (section 3.3.1).
    full = 0 if hosts[0].mean() >= hosts[1].mean() else 1
    room = abs(hosts[0].mean() - hosts[1].mean()) / 2
    while fits := [o for o in mine if side[o] == full and 0 < load[o].mean() <= room * (1 + TIE)]:
        scores = np.array(
            [(correlation(load[o], hosts[full] - load[o]) - correlation(load[o], hosts[1 - full])) / 2 for o in fits]
        )
        chosen = fits[int(np.flatnonzero(scores >= scores.max() - TIE)[0])]
        side[chosen] = 1 - full
        hosts[full], hosts[1 - full] = hosts[full] - load[chosen], hosts[1 - full] + load[chosen]
        room -= load[chosen].mean()
    return [side[o] == 0 for o in mine]


def improve_plainly(arrays: Arrays, where: Ints, threshold: float) -> Ints:
    """Return a placement on equal hosts improved as in the second step of section 3.4, step by step."""
    where, closed, n = where.copy(), set[tuple[int, int]](), len(arrays.hosts)
    for _ in range(n * (n - 1) // 2):
        hosts = np.array([arrays.load[where == h].sum(axis=0) for h in range(n)])
        pairs = [(a, b) for a in range(n) for b in range(a + 1, n) if (a, b) not in closed]
        if average_correlation(hosts) > threshold or not pairs:
            break
        each = np.array([average_correlation(hosts[list(pair)]) for pair in pairs])
        pair = pairs[int(np.flatnonzero(each <= each.min() + TIE)[0])]
        mine = np.flatnonzero(np.isin(where, pair))
        first = np.array(divide_plainly(arrays.load, mine))
        made = np.array([arrays.load[mine[part]].sum(axis=0) for part in (first, ~first)])
        if average_correlation(made) > each.min() + TIE:
            where[mine] = np.where(first, *pair)
            closed = {other for other in closed if not set(other) & set(pair)}
        closed.add(pair)
    return where


def average_correlation(hosts: Floats) -> float:
    """Return the mean correlation of all pairs of hosts' load series, array (n, k); two flat ones correlate fully."""
    spread = hosts.std(axis=1) > 1e-9 * hosts.mean(axis=1)
    matrix = correlation_matrix(hosts)
    count = len(hosts)
    pairs = [matrix[a, b] if spread[a] and spread[b] else 1.0 for a in range(count) for b in range(a)]
    return float(np.mean(pairs)) if pairs else 1.0
