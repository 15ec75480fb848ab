# mypy: disable-error-code="no-any-return"
"""The search of mace-climb, compiled: exchanges away from hosts whose worst wait is above a threshold.

A host's worst cumulative excess is the largest, over all intervals of time, of its load in the interval less its
capacity. Few intervals are ever the worst of a host. So exchanges are compared on the intervals that were the worst of
some host so far, and checked on the whole series before they are made; an interval that the check finds is added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Bools, Ints
from penstock.native.jit import njit
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


class State(NamedTuple):
    """Hosts and what runs on them, changed in place.

    ``host`` (n, d) and ``level`` (n,) are the loads, ``latency`` (n,) the worst waits in s. ``sums`` (m, CUTS) and
    ``excess`` (n, CUTS) are loads and excesses in the kept intervals, in benchmark-core seconds; ``used`` says when an
    interval was the worst of a host, ``counts`` how many there are and how often one was. ``head``, ``after`` and
    ``before`` chain the operators of each host. ``best`` (m,) is the best placement so far, ``least`` holds its worst
    latency and the threshold (s); ``asked`` says which neighbours of a host have been tried in vain.
    """

    load: Array
    mean: Array
    capacity: Array
    usable: Array
    movable: Bools
    where: Ints
    host: Array
    level: Array
    latency: Array
    sums: Array
    excess: Array
    used: Ints
    counts: Ints
    head: Ints
    after: Ints
    before: Ints
    best: Ints
    least: Array
    asked: Ints
    period: float


class Bundles(NamedTuple):
    """What a host may give away at once: loads in the kept intervals (CUTS, WIDTH), mean loads, and the operators."""

    sums: Array
    mean: Array
    one: Ints
    two: Ints


class Sides(NamedTuple):
    """Two hosts that may exchange bundles, the first the later one: their numbers, and how many bundles each has.

    ``base`` (2, intervals) are their present excesses, ``limit`` (2,) what these must stay below, and ``values``
    (2, WIDTH) the excesses after the exchanges of one bundle of the first host.
    """

    mine: Bundles
    theirs: Bundles
    hosts: Ints
    counts: Ints
    base: Array
    limit: Array
    values: Array


class Exchange(NamedTuple):
    """Operators (-1: none) that go from host b to host g, and from g to b; ``gain`` 0 where there is none."""

    gain: float
    g: int
    out: int
    out_too: int
    back: int
    back_too: int


episode = njit(cache=True)(plain_episode)


@njit(cache=True)
def worst(load: Array, capacity: float, period: float) -> float:
    """Return the largest cumulative excess of a series, over capacity (s)."""
    return episode(load, capacity)[0] * period / capacity


@njit(cache=True)
def begun(given: Loads) -> State:
    """Return the state of a placement."""
    load, mean, capacity, where = given.load, given.mean, given.capacity, given.where
    m, d = load.shape
    n = len(capacity)
    state = State(
        load, mean, capacity, given.usable, given.movable, where, np.zeros((n, d)), np.zeros(n), np.zeros(n),
        np.zeros((m, CUTS)), np.zeros((n, CUTS)), np.zeros(CUTS, np.int64), np.zeros(2, np.int64), np.full(n, -1),
        np.full(m, -1), np.full(m, -1), where.copy(), np.full(2, np.inf), np.zeros(n, np.int64), given.period,
    )  # fmt: skip
    for o in range(m - 1, -1, -1):
        state.host[where[o]] += load[o]
        state.level[where[o]] += mean[o]
        _link(state, o, where[o])
    for h in range(n):
        state.latency[h] = worst(state.host[h], capacity[h], given.period)
    state.least[0] = state.latency.max()
    return state


@njit(cache=True)
def _link(state: State, o: int, h: int) -> None:
    state.after[o], state.before[o] = state.head[h], -1
    if state.head[h] >= 0:
        state.before[state.head[h]] = o
    state.head[h] = o
    state.where[o] = h


@njit(cache=True)
def _unlink(state: State, o: int) -> None:
    if state.before[o] >= 0:
        state.after[state.before[o]] = state.after[o]
    else:
        state.head[state.where[o]] = state.after[o]
    if state.after[o] >= 0:
        state.before[state.after[o]] = state.before[o]


@njit(cache=True)
def _learn(state: State, first: int, end: int) -> None:
    """Keep one more interval."""
    count = state.counts[0]
    k = count if count < CUTS else int(np.argmin(state.used))
    state.counts[0] = min(count + 1, CUTS)
    state.counts[1] += 1
    state.used[k] = state.counts[1]
    for o in range(len(state.mean)):
        state.sums[o, k] = state.load[o, first:end].sum() * state.period
    for h in range(len(state.level)):
        state.excess[h, k] = (state.host[h, first:end].sum() - state.capacity[h] * (end - first)) * state.period


@njit(cache=True)
def _note(state: State, b: int) -> None:
    """See to it that the worst interval of a host is kept, and counts as used."""
    most, first, end = episode(state.host[b], state.capacity[b])
    count = state.counts[0]
    k = int(np.argmax(state.excess[b, :count])) if count else -1
    if k < 0 or state.excess[b, k] < most * state.period * (1 - 1e-9):
        _learn(state, first, end)
    else:
        state.counts[1] += 1
        state.used[k] = state.counts[1]


@njit(cache=True)
def _bundle(state: State, h: int, pairs: bool, order: Ints, bundles: Bundles) -> int:
    """Fill in what a host may give away: nothing, single operators, and where asked for pairs; return how many."""
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
    for q in range(len(order)):
        row = bundles.sums[q]
        for i in range(1, count):
            row[i] = state.sums[bundles.one[i], order[q]]
            if i >= single:
                row[i] += state.sums[bundles.two[i], order[q]]
    return count


@njit(cache=True, fastmath={"nsz", "nnan"})
def _tried(sides: Sides, a: int) -> bool:
    """Fill in the largest excess of both hosts if the first gives bundle a for each bundle of the second.

    False as soon as none of them stays below both limits. There is no sum over intervals, so that vectors of any width
    give the same bytes.
    """
    mine, theirs, count = sides.mine.sums, sides.theirs.sums, sides.counts[1]
    base, limit, values = sides.base, sides.limit, sides.values
    for i in range(count):
        values[0, i] = values[1, i] = -np.inf
    for q in range(base.shape[1]):
        row = theirs[q]
        left, right = base[0, q] - mine[q, a], base[1, q] + mine[q, a]
        alive = 0
        for i in range(count):
            x, y = left + row[i], right - row[i]
            x = x if x > values[0, i] else values[0, i]
            y = y if y > values[1, i] else values[1, i]
            values[0, i], values[1, i] = x, y
            alive += 1 if (x < limit[0]) and (y < limit[1]) else 0
        if alive == 0:
            return False
    return True


@njit(cache=True)
def _over(latency: float, threshold: float) -> float:
    return (latency - threshold) ** 2 if latency > threshold else 0.0


@njit(cache=True)
def _fits(state: State, b: int, g: int, change: float) -> bool:
    """Whether b may take this much mean load from g (or give it): no quota is passed that was kept."""
    if change > 0.0:
        return state.level[b] + change <= state.usable[b]
    return change == 0.0 or state.level[g] - change <= state.usable[g]


@njit(cache=True)
def _between(state: State, sides: Sides, threshold: float, least: float) -> Exchange:
    """Return the best exchange of two hosts' bundles whose gain is above ``least``.

    The gain is what falls of the sum of squares by which waits exceed the threshold.
    """
    b, g = sides.hosts[0], sides.hosts[1]
    mine, theirs, limit, values = sides.mine, sides.theirs, sides.limit, sides.values
    now = _over(state.latency[b], threshold) + _over(state.latency[g], threshold)
    found = Exchange(0.0, -1, -1, -1, -1, -1)
    best = least
    for a in range(sides.counts[0]):
        # An exchange that gains more than the best so far leaves both hosts below this.
        most = threshold + np.sqrt(max(0.0, now - best))
        limit[0], limit[1] = most * state.capacity[b], most * state.capacity[g]
        if not _tried(sides, a):
            continue
        for i in range(sides.counts[1]):
            if values[0, i] >= limit[0] or values[1, i] >= limit[1]:
                continue
            after = _over(values[0, i] / state.capacity[b], threshold)
            gain = now - after - _over(values[1, i] / state.capacity[g], threshold)
            if gain > best and _fits(state, b, g, theirs.mean[i] - mine.mean[a]):
                best = gain
                found = Exchange(gain, g, mine.one[a], mine.two[a], theirs.one[i], theirs.two[i])
    return found


@njit(cache=True)
def _search(state: State, mine: Bundles, theirs: Bundles, b: int, threshold: float, turn: Ints) -> tuple[Exchange, int]:
    """Return the best exchange with the first hosts in turn that offer one, and how many were tried."""
    order, pairs = np.argsort(-state.used[: state.counts[0]]), state.asked[b] == 1
    sides = Sides(
        mine, theirs, np.full(2, b), np.empty(2, np.int64), np.empty((2, len(order))), np.empty(2),
        np.empty((2, WIDTH)),
    )  # fmt: skip
    sides.base[0] = state.excess[b][order]
    sides.counts[0] = _bundle(state, b, pairs, order, mine)
    now = _over(state.latency[b], threshold)
    found = Exchange(0.0, -1, -1, -1, -1, -1)
    tried = offers = 0
    for g in turn:
        if g == b:
            continue
        sides.hosts[1] = g
        sides.counts[1] = _bundle(state, g, pairs, order, theirs)
        sides.base[1] = state.excess[g][order]
        tried += sides.counts[0] * sides.counts[1]
        # Single operators must be worth a tenth of the host's excess: else pairs are asked.
        least = max(found.gain * (1 + 1e-9), 0.1 * now)
        offer = _between(state, sides, threshold, least)
        if offer.g >= 0:
            found = offer
        if found.g >= 0:
            offers += 1
            if offers >= FIRST or found.gain >= 0.9 * now:
                break
    return found, tried


@njit(cache=True)
def _made(state: State, b: int, found: Exchange, threshold: float) -> bool:
    """Make an exchange if the whole series agree that it is a gain; else keep the intervals that were overlooked."""
    g = found.g
    change = np.zeros(state.load.shape[1])
    inside = np.zeros(CUTS)
    mean = 0.0
    for sign, o in ((-1.0, found.out), (-1.0, found.out_too), (1.0, found.back), (1.0, found.back_too)):
        if o >= 0:
            change += sign * state.load[o]
            inside += sign * state.sums[o]
            mean += sign * state.mean[o]
    mine, first, end = episode(state.host[b] + change, state.capacity[b])
    theirs, other_first, other_end = episode(state.host[g] - change, state.capacity[g])
    left, right = mine * state.period / state.capacity[b], theirs * state.period / state.capacity[g]
    before = _over(state.latency[b], threshold) + _over(state.latency[g], threshold)
    if before - _over(left, threshold) - _over(right, threshold) < 0.001 * found.gain:
        count = state.counts[0]
        known, other = (state.excess[b] + inside)[:count].max(), (state.excess[g] - inside)[:count].max()
        if mine * state.period > known * (1 + 1e-9) + 1e-12:
            _learn(state, first, end)
        if theirs * state.period > other * (1 + 1e-9) + 1e-12:
            _learn(state, other_first, other_end)
        return False
    state.host[b] += change
    state.host[g] -= change
    state.excess[b] += inside
    state.excess[g] -= inside
    state.level[b] += mean
    state.level[g] -= mean
    state.latency[b], state.latency[g] = left, right
    for to, o in ((g, found.out), (g, found.out_too), (b, found.back), (b, found.back_too)):
        if o >= 0:
            _unlink(state, o)
            _link(state, o, to)
    return True


@njit(cache=True)
def _worst_host(state: State, threshold: float) -> int:
    """Return the latest host above the threshold that may still be helped, or -1."""
    b = -1
    for h in range(len(state.asked)):
        late = state.latency[h] > threshold and state.asked[h] < 2
        if late and (b < 0 or state.latency[h] > state.latency[b]):
            b = h
    return b


@njit(cache=True)
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
    n = len(turn)
    least, threshold = state.least[0], min(state.least[1], goal + STEP * (state.least[0] - goal))
    empty = np.zeros((CUTS, WIDTH))
    mine = Bundles(empty, np.zeros(WIDTH), np.full(WIDTH, -1), np.full(WIDTH, -1))
    theirs = Bundles(empty.copy(), np.zeros(WIDTH), np.full(WIDTH, -1), np.full(WIDTH, -1))
    made = tried = at = 0
    while made < steps and tried < budget and least > goal * (1 + 1e-9) + 1e-12:
        b = _worst_host(state, threshold)
        if b < 0:
            break
        _note(state, b)
        found, more = _search(state, mine, theirs, b, threshold, np.roll(turn, -at))
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
        now = state.latency.max()
        if now < least * (1 - 1e-9):
            least = now
            state.best[:] = state.where
            if least <= threshold:
                threshold = goal + STEP * (least - goal)
                state.asked[:] = 0
    state.least[0], state.least[1] = least, threshold
    return least, tried
