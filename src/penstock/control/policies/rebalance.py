"""The policy `rebalance`: operators move from hosts that have too much to do, as far as it pays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection

import attrs
import numpy as np

from penstock.control.flow import Floats, Ints
from penstock.control.policies.base import (
    Copies,
    Proposal,
    arrays_of,
    calm,
    counted,
    memory_left,
    percent,
    resting,
    state_of,
)
from penstock.control.situation import Situation
from penstock.control.verify import Links
from penstock.errors import InputError
from penstock.files import suggest
from penstock.placement import Arrays, algorithm
from penstock.steering import Plan

NAMES = {
    "one-way": "correlation-one-way",
    "two-way": "correlation-two-way",
    "exchange": "correlation-exchange",
    "potential": "potential-greedy",
}
"""Short names of what decides where operators go."""

ASKED = 4
"""How often an algorithm is asked at most: it knows nothing of copies, and may bring two of them to one host."""

PAIRS = 1_000
"""Exchanges of two units that are priced at most."""

SINGLE = 20
"""Single moves that are priced at most where the algorithm finds none."""


@attrs.frozen(kw_only=True)
class Rebalance:
    """Move what an algorithm would move, the moves that pay most first, and only those that pay.

    A placement is priced by how long tuples will wait at each host over the horizon (cumulative excess, with the
    backlog of now), plus the load above ``goals.high``; a move costs the pause that it makes. Once no host has too much
    to do nothing is worth a move, so that it rests after a drift.

    The papers' algorithms even out two hosts, and move nothing that is more than half of the difference between them.
    Where that leaves a host with more than it can work off, any single move is tried that relieves it (`relief`).

    Attributes
    ----------
    by
        One of `NAMES`, or an algorithm that improves a placement (Xing et al., section 3.3; Wang et al., section 4.2).
    theta
        Share of the operators, the lightest, that stay (Wang et al., section 4.2).
    """

    by: str = "one-way"
    theta: float = 0.0

    def __attrs_post_init__(self) -> None:
        if self.by not in NAMES:
            raise InputError(
                f"{self.by!r} does not rebalance", at="--policy", hint=suggest(self.by, NAMES, "rebalance")
            )
        if not 0 <= self.theta <= 1:
            raise InputError(f"expected a share from 0 to 1, got {self.theta:g}", at="--theta")

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return moves off hosts that have too much to do."""
        if now.known.looks < 2:
            self.prepare(rng)
        if not now.ready or not calm(now, "rebalance"):
            return None
        moves = self.moves(now, rng)
        if not moves:
            return None
        where, after = now.where(), now.where(moves)
        shares, then = now.shares(where), now.shares(after)
        hot, worst = int(np.argmax(shares)), now.worst(where)
        return Proposal(
            policy="rebalance",
            plan=Plan(placement=moves),
            why=f"{now.hosts[hot]} is at {percent(shares[hot])} of what it can work off, the mean is "
            f"{percent(float(shares.mean()))}: {counted(len(moves), 'move')} ({self.by}), after which the highest is "
            f"{percent(float(then.max()))}",
            expected={"worst": now.worst(after), "otherwise": worst, "highest": float(then.max())},
            hard=bool(worst > now.goals.bound or shares[hot] > 1),
        )

    def prepare(self, rng: np.random.Generator) -> None:
        """Load the compiled code, while nothing can be decided yet."""
        small = Arrays.of(np.outer(np.arange(1.0, 7.0), np.arange(1.0, 4.0)) / 100, np.ones(2))
        algorithm(NAMES[self.by])(small, rng)

    def moves(self, now: Situation, rng: np.random.Generator) -> dict[str, str]:
        """Return the moves that pay; none where no host has too much to do."""
        where = now.where()
        before = prices(now, now.host_load(where), now.host_backlog(where))
        if before.max(initial=0.0) <= 0 or len(now.hosts) < 2:
            return {}
        return paying(now, where, self.target(now, rng), before) or relief(now, where, before)

    def target(self, now: Situation, rng: np.random.Generator) -> dict[str, str]:
        """Return where the algorithm would have each operator that it moves, none of them beside a copy of its own."""
        number, copies = {name: k for k, name in enumerate(now.hosts)}, Copies.of(now, now.where())
        units = {now.seen.operators[row]: k for k, row in enumerate(now.first.tolist())}
        stay, found = resting(now), dict[str, str]()
        for _ in range(ASKED):
            found = self._asked(now, rng, stay)
            beside = {name for name, host in found.items() if copies.meet(units[name], number[host])}
            if not beside:
                break
            # Left where they are, they do not keep the others from leaving.
            stay |= beside
            found = {name: host for name, host in found.items() if name not in beside}
        return found

    def _asked(self, now: Situation, rng: np.random.Generator, stay: Collection[str]) -> dict[str, str]:
        """Return where the algorithm would have each operator that it moves, while some stay."""
        closed = now.draining | now.seen.silent
        held_there = {name for name, host in now.seen.placement.items() if host in closed} if closed else ()
        arrays = arrays_of(now, {*stay, *held_there})
        if closed:
            open_ones = np.array([host not in closed for host in arrays.hosts])
            chosen = np.flatnonzero(open_ones[arrays.previous])
            arrays = arrays.subset(chosen, np.flatnonzero(open_ones))
        if self.theta:
            held = arrays.fixed.copy()
            light = len(arrays.names) - math.floor(self.theta * len(arrays.names) + 1e-9)
            held[light:] = arrays.previous[light:]
            arrays = attrs.evolve(arrays, fixed=held)
        if len(arrays.hosts) < 2 or not len(arrays.names):
            return {}
        found = algorithm(NAMES[self.by])(arrays, rng)
        return {arrays.names[k]: arrays.hosts[found[k]] for k in np.flatnonzero(found != arrays.previous).tolist()}


def prices(now: Situation, load: Floats, backlog: Floats, hosts: Ints | None = None) -> Floats:
    """Return what each host's load is worth in seconds of waiting, array (hosts,).

    Parameters
    ----------
    load, backlog
        Arrays (hosts, k) in benchmark cores and (hosts,) in benchmark-core seconds.
    hosts
        Their numbers; None: all.
    """
    usable = now.usable if hosts is None else now.usable[hosts]
    step, k = now.seen.period, load.shape[1]
    excess = highest = backlog
    for t in range(max(1, round(now.goals.horizon / step))):
        excess = np.maximum(0.0, excess + (load[:, t % k] - usable) * step)
        highest = np.maximum(highest, excess)
    # A wait that one period of work makes up for is none.
    wait = np.maximum(0.0, highest / usable - step)
    over = np.maximum(0.0, load.mean(axis=1) / usable - now.goals.high)
    found: Floats = wait + now.goals.horizon * over
    return found


def paying(now: Situation, where: Ints, target: dict[str, str], before: Floats) -> dict[str, str]:
    """Return the moves towards a target that pay, the best first, at most as many as may move at a time.

    Where no move pays alone two may that exchange units between two hosts, or the whole target. None brings more state
    to a host than it has memory for, an operator to a host that has a copy of it, or more to a link than it can carry.
    """
    number = {name: k for k, name in enumerate(now.hosts)}
    names, home = [now.seen.operators[k] for k in now.first.tolist()], where[now.first]
    row = {name: k for k, name in enumerate(names)}
    ways = [(row[name], int(home[row[name]]), number[host]) for name, host in target.items()]
    trials = np.array(sorted(way for way in ways if way[1] >= 0), np.int64).reshape(-1, 3)
    state = state_of(now)
    trying = _Trials(
        now, trials, before.copy(), now.host_load(where), now.host_backlog(where), memory_left(now, where, state),
        now.summed(now.load[now.base]), now.summed(now.backlog), now.summed(state), Copies.of(now, where),
        Links.of(now, where),
    )  # fmt: skip
    gains, found = trying.gains(np.arange(len(trials))), dict[str, str]()
    left = np.ones(len(trials), bool)
    while len(found) < min(now.goals.moves, len(trials)):
        # Of equal gains the last counts.
        best = len(gains) - 1 - int(np.argmax(gains[::-1]))
        if gains[best] > now.goals.pause and trying.overloads([best]):
            gains[best] = -np.inf  # with others it may go on, or once others have moved
            continue
        most = now.goals.moves - len(found)
        made = [best] if gains[best] > now.goals.pause else trying.joint(np.flatnonzero(left).tolist(), most)
        if not made:
            break
        for one in made:
            trying.made(one)
            found[names[trials[one, 0]]] = now.hosts[trials[one, 2]]
        left[made], gains[made] = False, -np.inf
        others = np.flatnonzero(np.isin(trials[:, 1:], trials[made, 1:]).any(axis=1) & left)
        gains[others] = trying.gains(others)
    return now.together(found)


def relief(now: Situation, where: Ints, before: Floats) -> dict[str, str]:
    """Return a single move that pays off the fullest host that answers, if that has more to do than it can.

    Those come first that leave neither of the two hosts with too much, and of these the one that moves the least load.
    """
    level = now.host_load(where).mean(axis=1)
    answering = np.array([name not in now.seen.silent for name in now.hosts])
    hot = int(np.argmax(np.where(answering, level / now.usable, -1.0)))
    if level[hot] <= now.usable[hot]:
        return {}
    load = now.summed(now.load[now.base]).mean(axis=1)
    held = now.summed(np.isin(np.array(now.seen.operators), list(resting(now))).astype(float)) > 0
    units = np.flatnonzero((where[now.first] == hot) & ~held & (load > 0))
    barred = {now.hosts[hot], *now.draining, *now.seen.silent}
    ends = np.array([k for k, name in enumerate(now.hosts) if name not in barred], np.int64)
    unit, end = np.repeat(units, ends.size), np.tile(ends, units.size)
    left = (level[hot] - load[unit]) / now.usable[hot]
    fullest = np.maximum(left, (level[end] + load[unit]) / now.usable[end])
    beyond = np.round(np.maximum(0.0, fullest - 1), 2)
    for k in np.lexsort((fullest, load[unit], beyond))[:SINGLE].tolist():
        name = now.seen.operators[now.first[unit[k]]]
        if fullest[k] < level[hot] / now.usable[hot] and (
            found := paying(now, where, {name: now.hosts[end[k]]}, before)
        ):
            return found
    return {}


@attrs.frozen(eq=False)
class _Trials:
    """What moves would gain; all of those asked for are priced at once.

    Attributes
    ----------
    trials
        Array (trials, 3): unit, the host that it is on, the host that it would go to.
    price, series, waits, room
        Of each host: what its load is worth (s), its load series, its backlog, and how many bytes of state it has
        memory for beside those that it has; changed by moves that are made.
    load, backlog, state
        Of each unit.
    copies
        Where they are; changed by moves that are made.
    links
        What they carry, None where all can carry everything; changed by moves that are made.
    """

    now: Situation
    trials: Ints
    price: Floats
    series: Floats
    waits: Floats
    room: Floats
    load: Floats
    backlog: Floats
    state: Floats
    copies: Copies
    links: Links | None

    def gains(self, chosen: Ints) -> Floats:
        """Return what some moves would gain (s), each made alone, array (chosen,)."""
        unit, pair = self.trials[chosen, 0], self.trials[chosen, 1:]
        sign = np.array([-1.0, 1.0])
        series = self.series[pair] + sign[:, None] * self.load[unit][:, None]
        waits = np.maximum(0.0, self.waits[pair] + sign * self.backlog[unit][:, None])
        after = prices(self.now, series.reshape(-1, series.shape[2]), waits.ravel(), pair.ravel())
        found: Floats = self.price[pair].sum(axis=1) - after.reshape(-1, 2).sum(axis=1)
        ways = zip(unit.tolist(), pair[:, 1].tolist(), strict=True)
        beside = np.array([self.copies.meet(*way) for way in ways] if self.copies.bases else False, bool)
        return np.where((self.state[unit] <= self.room[pair[:, 1]]) & ~beside, found, -np.inf)

    def overloads(self, chosen: list[int]) -> bool:
        """Whether some moves, made at once, ask a link for more than it can carry."""
        return self.links is not None and self.links.overloads(*self._rows(chosen))

    def joint(self, left: list[int], most: int) -> list[int]:
        """Return of the moves that are left some that pay only together; none: there are none."""
        hot = [one for one in left if self.price[self.trials[one, 1]] > 0]
        opposite: dict[tuple[int, ...], list[int]] = {}
        for one in left:
            opposite.setdefault((*self.trials[one, :0:-1].tolist(),), []).append(one)
        pairs = ([one, other] for one in hot for other in opposite.get((*self.trials[one, 1:].tolist(),), ()))
        tried = list(itertools.islice(pairs, PAIRS)) if most > 1 else []
        if len(left) <= most:
            tried.append(left)
        worth = [self.together(each) - self.now.goals.pause * len(each) for each in tried]
        paid = sorted((k for k in range(len(tried)) if worth[k] > 0), key=lambda k: -worth[k])
        return next((tried[k] for k in paid if not self.overloads(tried[k])), [])

    def together(self, chosen: list[int]) -> float:
        """Return what some moves would gain (s), made at once; -inf where they cannot be."""
        unit, start, end = self.trials[chosen].T
        series, waits, room = self.series.copy(), self.waits.copy(), self.room.copy()
        there = attrs.evolve(self.copies, there=self.copies.there.copy())
        for table, each in ((series, self.load), (waits, self.backlog), (room, -self.state)):
            np.subtract.at(table, start, each[unit])
            np.add.at(table, end, each[unit])
        for way in zip(unit.tolist(), start.tolist(), end.tolist(), strict=True):
            there.move(*way)
        if (room[end] < 0).any() or any(there.doubled(*way) for way in zip(unit.tolist(), end.tolist(), strict=True)):
            return -math.inf
        hosts = np.unique(self.trials[chosen, 1:])
        after = prices(self.now, series[hosts], np.maximum(0.0, waits[hosts]), hosts)
        return float(self.price[hosts].sum() - after.sum())

    def made(self, one: int) -> None:
        """Make a move."""
        if self.links is not None:
            self.links.made(*self._rows([one]))
        unit, start, end = self.trials[one].tolist()
        pair = self.trials[one, 1:]
        self.series[start] -= self.load[unit]
        self.series[end] += self.load[unit]
        self.waits[start] = max(0.0, self.waits[start] - self.backlog[unit])
        self.waits[end] += self.backlog[unit]
        self.room[start] += self.state[unit]
        self.room[end] -= self.state[unit]
        self.copies.move(unit, start, end)
        self.price[pair] = prices(self.now, self.series[pair], self.waits[pair], pair)

    def _rows(self, chosen: list[int]) -> tuple[Ints, Ints]:
        """Return the operators that some moves take along, and the host of each afterwards."""
        ends = np.full(self.now.first.size, -1)
        ends[self.trials[chosen, 0]] = self.trials[chosen, 2]
        there = ends[self.now.mover]
        rows = np.flatnonzero(there >= 0)
        return rows, there[rows]
