# mypy: disable-error-code="no-any-return"
"""The search of mace-climb, compiled: exchanges away from hosts whose worst wait is above a threshold.

A host's worst cumulative excess is the largest, over all intervals of time, of its load in the interval less its
capacity. Few intervals are ever the worst of a host. So exchanges are compared on the intervals that were the worst of
some host so far, and checked on the whole series before they are made; an interval that the check finds is added.

Nothing here makes an array: what is needed on the way is a part of the state, so that numba counts no references, which
would be most of what it compiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Bools, Grid, Ints
from penstock.native.jit import INNER, njit
from penstock.placement.episode import Loads
from penstock.placement.episode import episode as plain_episode

CUTS = 128
"""Intervals that are kept; the one that was the worst of a host least recently makes room."""
WIDTH = 128
"""Bundles of a host that are tried: operators, and pairs of them."""
FIRST = 4
"""Hosts with a useful exchange after which the best of these is made."""
STEP = 0.8
"""The next threshold's distance from the goal, as a share of the worst host's."""


class Bundles(NamedTuple):
    """What a host may give away at once: loads in the kept intervals (CUTS, WIDTH), mean loads, and the operators."""

    sums: Grid
    mean: Array
    one: Ints
    two: Ints


class State(NamedTuple):
    """Hosts and what runs on them, changed in place.

    ``host`` (n, d) and ``level`` (n,) are the loads, ``latency`` (n,) the worst waits in s. ``sums`` (m, CUTS) and
    ``excess`` (n, CUTS) are loads and excesses in the kept intervals, in benchmark-core seconds; ``used`` says when an
    interval was the worst of a host, ``counts`` how many there are and how often one was. ``head``, ``after`` and
    ``before`` chain the operators of each host. ``best`` (m,) is the best placement so far, ``least`` holds its worst
    latency (-1 before the first climb) and the threshold (s); ``asked`` says which neighbours of a host have been tried
    in vain. ``mine`` and ``theirs`` are two hosts' bundles, ``sizes`` (2,) how many each has, ``order`` (CUTS,) those
    intervals, the last used first, ``base`` (2, CUTS) the hosts' excesses in that order, ``values`` (2, WIDTH) those
    after exchanges; ``change`` (d,) and ``inside`` (CUTS,) are what an exchange adds to a host's load, ``trial`` (d,)
    the load then.
    """

    load: Grid
    mean: Array
    capacity: Array
    usable: Array
    movable: Bools
    where: Ints
    host: Grid
    level: Array
    latency: Array
    sums: Grid
    excess: Grid
    used: Ints
    counts: Ints
    head: Ints
    after: Ints
    before: Ints
    best: Ints
    least: Array
    asked: Ints
    mine: Bundles
    theirs: Bundles
    sizes: Ints
    order: Ints
    base: Grid
    values: Grid
    change: Array
    inside: Array
    trial: Array
    period: float


class Exchange(NamedTuple):
    """Operators (-1: none) that go from host b to host g, and from g to b; ``gain`` 0 where there is none."""

    gain: float
    g: int
    out: int
    out_too: int
    back: int
    back_too: int


episode = njit(**INNER)(plain_episode)


@njit(**INNER)
def worst(load: Array, capacity: float, period: float) -> float:
    """Return the largest cumulative excess of a series, over capacity (s)."""
    return episode(load, capacity)[0] * period / capacity


def begun(given: Loads) -> State:
    """Return the state of a placement."""
    (m, d), n = given.load.shape, len(given.capacity)
    mine, theirs = (
        Bundles(np.zeros((CUTS, WIDTH)), np.zeros(WIDTH), np.full(WIDTH, -1), np.full(WIDTH, -1)) for _ in range(2)
    )
    return State(
        given.load, given.mean, given.capacity, given.usable, given.movable, given.where, np.zeros((n, d)), np.zeros(n),
        np.zeros(n), np.zeros((m, CUTS)), np.zeros((n, CUTS)), np.zeros(CUTS, np.int64), np.zeros(2, np.int64),
        np.full(n, -1), np.full(m, -1), np.full(m, -1), given.where.copy(), np.array([-1.0, np.inf]),
        np.zeros(n, np.int64), mine, theirs, np.zeros(2, np.int64), np.zeros(CUTS, np.int64), np.zeros((2, CUTS)),
        np.zeros((2, WIDTH)), np.zeros(d), np.zeros(CUTS), np.zeros(d), given.period,
    )  # fmt: skip


@njit(**INNER)
def _begin(state: State) -> None:
    """Put the operators on their hosts."""
    m, d = state.load.shape
    n = len(state.capacity)
    for o in range(m - 1, -1, -1):
        h = state.where[o]
        for t in range(d):
            state.host[h, t] += state.load[o, t]
        state.level[h] += state.mean[o]
        _link(state, o, h)
    for h in range(n):
        state.latency[h] = worst(state.host[h], state.capacity[h], state.period)
    state.least[0] = _most(state.latency, n)


@njit(**INNER)
def _most(values: Array, count: int) -> float:
    """Return the largest of the first values."""
    most = values[0]
    for k in range(1, count):
        most = max(most, values[k])
    return most


@njit(**INNER)
def _sum(values: Array, first: int, end: int) -> float:
    total = 0.0
    for t in range(first, end):
        total += values[t]
    return total


@njit(**INNER)
def _link(state: State, o: int, h: int) -> None:
    state.after[o], state.before[o] = state.head[h], -1
    if state.head[h] >= 0:
        state.before[state.head[h]] = o
    state.head[h] = o
    state.where[o] = h


@njit(**INNER)
def _unlink(state: State, o: int) -> None:
    if state.before[o] >= 0:
        state.after[state.before[o]] = state.after[o]
    else:
        state.head[state.where[o]] = state.after[o]
    if state.after[o] >= 0:
        state.before[state.after[o]] = state.before[o]


@njit(**INNER)
def _learn(state: State, first: int, end: int) -> None:
    """Keep one more interval."""
    count = state.counts[0]
    k = count
    if count == CUTS:
        k = 0
        for q in range(1, CUTS):
            k = q if state.used[q] < state.used[k] else k
    state.counts[0] = min(count + 1, CUTS)
    state.counts[1] += 1
    state.used[k] = state.counts[1]
    for o in range(len(state.mean)):
        state.sums[o, k] = _sum(state.load[o], first, end) * state.period
    for h in range(len(state.level)):
        state.excess[h, k] = (_sum(state.host[h], first, end) - state.capacity[h] * (end - first)) * state.period


@njit(**INNER)
def _note(state: State, b: int) -> None:
    """See to it that the worst interval of a host is kept, and counts as used."""
    most, first, end = episode(state.host[b], state.capacity[b])
    count = state.counts[0]
    k = min(count, 1) - 1
    for q in range(1, count):
        k = q if state.excess[b, q] > state.excess[b, k] else k
    if k < 0 or state.excess[b, k] < most * state.period * (1 - 1e-9):
        _learn(state, first, end)
    else:
        state.counts[1] += 1
        state.used[k] = state.counts[1]


@njit(**INNER)
def _bundle(state: State, h: int, pairs: bool, bundles: Bundles) -> int:
    """Fill in what a host may give away: nothing, single operators, and where asked for pairs; return how many."""
    order = state.order
    count, o = 1, state.head[h]
    while o >= 0 and count < WIDTH:
        if state.movable[o]:
            bundles.one[count], bundles.two[count], bundles.mean[count] = o, -1, state.mean[o]
            count += 1
        o = state.after[o]
    single = count
    for i in range(1, single if pairs else 0):
        for j in range(1, i):
            if count < WIDTH:
                bundles.one[count], bundles.two[count] = bundles.one[i], bundles.one[j]
                bundles.mean[count] = bundles.mean[i] + bundles.mean[j]
                count += 1
    for q in range(state.counts[0]):
        row = bundles.sums[q]
        for i in range(1, count):
            row[i] = state.sums[bundles.one[i], order[q]]
            if i >= single:
                row[i] += state.sums[bundles.two[i], order[q]]
    return count


@njit(**INNER, fastmath={"nsz", "nnan"})
def _tried(state: State, a: int, most: float, other: float) -> bool:
    """Fill in the largest excess of both hosts if the first gives bundle a for each bundle of the second.

    False as soon as none of them stays below ``most`` and ``other``. There is no sum over intervals, so that vectors of
    any width give the same bytes.
    """
    mine, theirs, count = state.mine.sums, state.theirs.sums, state.sizes[1]
    base, values = state.base, state.values
    for i in range(count):
        values[0, i] = values[1, i] = -np.inf
    for q in range(state.counts[0]):
        row = theirs[q]
        left, right = base[0, q] - mine[q, a], base[1, q] + mine[q, a]
        alive = 0
        for i in range(count):
            x, y = left + row[i], right - row[i]
            x = x if x > values[0, i] else values[0, i]
            y = y if y > values[1, i] else values[1, i]
            values[0, i], values[1, i] = x, y
            alive += 1 if (x < most) and (y < other) else 0
        if alive == 0:
            return False
    return True


@njit(**INNER)
def _over(latency: float, threshold: float) -> float:
    return (latency - threshold) ** 2 if latency > threshold else 0.0


@njit(**INNER)
def _fits(state: State, b: int, g: int, change: float) -> bool:
    """Whether b may take this much mean load from g (or give it): no quota is passed that was kept."""
    if change > 0.0:
        return state.level[b] + change <= state.usable[b]
    return change == 0.0 or state.level[g] - change <= state.usable[g]


@njit(**INNER)
def _between(state: State, b: int, g: int, threshold: float, least: float) -> Exchange:
    """Return the best exchange of two hosts' bundles whose gain is above ``least``.

    The gain is what falls of the sum of squares by which waits exceed the threshold.
    """
    mine, theirs, values = state.mine, state.theirs, state.values
    now = _over(state.latency[b], threshold) + _over(state.latency[g], threshold)
    found = Exchange(0.0, -1, -1, -1, -1, -1)
    best = least
    for a in range(state.sizes[0]):
        # An exchange that gains more than the best so far leaves both hosts below this.
        most = threshold + np.sqrt(max(0.0, now - best))
        one, other = most * state.capacity[b], most * state.capacity[g]
        if not _tried(state, a, one, other):
            continue
        for i in range(state.sizes[1]):
            if values[0, i] >= one or values[1, i] >= other:
                continue
            after = _over(values[0, i] / state.capacity[b], threshold)
            gain = now - after - _over(values[1, i] / state.capacity[g], threshold)
            if gain > best and _fits(state, b, g, theirs.mean[i] - mine.mean[a]):
                best = gain
                found = Exchange(gain, g, mine.one[a], mine.two[a], theirs.one[i], theirs.two[i])
    return found


@njit(**INNER)
def _sorted(state: State) -> None:
    """Put the kept intervals in order, the last used first."""
    for q in range(state.counts[0]):
        k = q
        while k > 0 and state.used[state.order[k - 1]] < state.used[q]:
            state.order[k] = state.order[k - 1]
            k -= 1
        state.order[k] = q


@njit(**INNER)
def _search(state: State, b: int, threshold: float, turn: Ints, at: int) -> tuple[Exchange, int]:
    """Return the best exchange with the first hosts in turn that offer one, and how many were tried."""
    _sorted(state)
    pairs = state.asked[b] == 1
    for q in range(state.counts[0]):
        state.base[0, q] = state.excess[b, state.order[q]]
    state.sizes[0] = _bundle(state, b, pairs, state.mine)
    now = _over(state.latency[b], threshold)
    found = Exchange(0.0, -1, -1, -1, -1, -1)
    tried = offers = 0
    n = len(turn)
    for p in range(n):
        g = turn[(at + p) % n]
        if g == b:
            continue
        state.sizes[1] = _bundle(state, g, pairs, state.theirs)
        for q in range(state.counts[0]):
            state.base[1, q] = state.excess[g, state.order[q]]
        tried += state.sizes[0] * state.sizes[1]
        # Single operators must be worth a tenth of the host's excess: else pairs are asked.
        least = max(found.gain * (1 + 1e-9), 0.1 * now)
        offer = _between(state, b, g, threshold, least)
        if offer.g >= 0:
            found = offer
        if found.g >= 0:
            offers += 1
            if offers >= FIRST or found.gain >= 0.9 * now:
                break
    return found, tried


@njit(**INNER)
def _known(state: State, h: int, sign: float) -> float:
    """Return a host's largest excess in the kept intervals with what an exchange adds to them, or takes."""
    most = -np.inf
    for k in range(state.counts[0]):
        most = max(most, state.excess[h, k] + sign * state.inside[k])
    return most


@njit(**INNER)
def _after(state: State, h: int, sign: float) -> tuple[float, int, int]:
    """Return the worst episode of a host with what an exchange adds to its load, or takes."""
    for t in range(len(state.change)):
        state.trial[t] = state.host[h, t] + sign * state.change[t]
    return episode(state.trial, state.capacity[h])


@njit(**INNER)
def _add(state: State, h: int, sign: float) -> None:
    """Add what an exchange changes to a host."""
    for t in range(len(state.change)):
        state.host[h, t] += sign * state.change[t]
    for k in range(CUTS):
        state.excess[h, k] += sign * state.inside[k]


@njit(**INNER)
def _made(state: State, b: int, found: Exchange, threshold: float) -> bool:
    """Make an exchange if the whole series agree that it is a gain; else keep the intervals that were overlooked."""
    g = found.g
    state.change[:] = 0.0
    state.inside[:] = 0.0
    mean = 0.0
    for sign, o in ((-1.0, found.out), (-1.0, found.out_too), (1.0, found.back), (1.0, found.back_too)):
        if o >= 0:
            for t in range(len(state.change)):
                state.change[t] += sign * state.load[o, t]
            for k in range(CUTS):
                state.inside[k] += sign * state.sums[o, k]
            mean += sign * state.mean[o]
    mine, first, end = _after(state, b, 1.0)
    theirs, other_first, other_end = _after(state, g, -1.0)
    left, right = mine * state.period / state.capacity[b], theirs * state.period / state.capacity[g]
    before = _over(state.latency[b], threshold) + _over(state.latency[g], threshold)
    if before - _over(left, threshold) - _over(right, threshold) < 0.001 * found.gain:
        known, other = _known(state, b, 1.0), _known(state, g, -1.0)
        if mine * state.period > known * (1 + 1e-9) + 1e-12:
            _learn(state, first, end)
        if theirs * state.period > other * (1 + 1e-9) + 1e-12:
            _learn(state, other_first, other_end)
        return False
    _add(state, b, 1.0)
    _add(state, g, -1.0)
    state.level[b] += mean
    state.level[g] -= mean
    state.latency[b], state.latency[g] = left, right
    for to, o in ((g, found.out), (g, found.out_too), (b, found.back), (b, found.back_too)):
        if o >= 0:
            _unlink(state, o)
            _link(state, o, to)
    return True


@njit(**INNER)
def _worst_host(state: State, threshold: float) -> int:
    """Return the latest host above the threshold that may still be helped, or -1."""
    b = -1
    for h in range(len(state.asked)):
        late = state.latency[h] > threshold and state.asked[h] < 2
        if late and (b < 0 or state.latency[h] > state.latency[b]):
            b = h
    return b


@njit(**INNER)
def climb(state: State, goal: float, steps: int, budget: int, turn: Ints) -> tuple[float, int]:
    """Lower the worst latency by exchanges between hosts until the goal, the budget or a local optimum is reached.

    A threshold between the goal and the worst host falls whenever all hosts are below it. The latest host is helped
    first: by moving or swapping single operators, and where that gains little by exchanging up to two for up to two.
    Another call goes on where this one ends.

    Parameters
    ----------
    state
        The placement, changed in place; ``best`` is the best one found.
    goal
        Latency (s) that is good enough.
    steps, budget
        Most exchanges made, and tried.
    turn
        Array (n,): the order in which hosts are asked.

    Returns
    -------
    float, int
        The worst latency (s), and how many exchanges were tried.
    """
    if state.least[0] < 0.0:
        _begin(state)
    n = len(turn)
    least, threshold = state.least[0], min(state.least[1], goal + STEP * (state.least[0] - goal))
    # Where the turn begins is no literal, for which numba would compile the search once more.
    made, tried, at = 0, 0, 0 * n
    while made < steps and tried < budget and least > goal * (1 + 1e-9) + 1e-12:
        b = _worst_host(state, threshold)
        if b < 0:
            break
        _note(state, b)
        found, more = _search(state, b, threshold, turn, at)
        tried, at = tried + more, (at + 1) % n
        if found.g < 0:
            state.asked[b] += 1
            continue
        if not _made(state, b, found, threshold):
            continue
        made += 1
        state.asked[b] = state.asked[found.g] = 0
        if made % 256 == 0:
            state.asked[:] = 0
        now = _most(state.latency, n)
        if now < least * (1 - 1e-9):
            least = now
            for o in range(len(state.where)):
                state.best[o] = state.where[o]
            if least <= threshold:
                threshold = goal + STEP * (least - goal)
                state.asked[:] = 0
    state.least[0], state.least[1] = least, threshold
    return least, tried
