"""What a policy is, and what several of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Protocol

import attrs
import numpy as np

from penstock.cluster import base_name, with_copies
from penstock.control.flow import Floats, Ints
from penstock.control.situation import Situation
from penstock.control.verify import Links
from penstock.files import Document
from penstock.placement import Arrays
from penstock.placement.base import links_between, ranked
from penstock.steering import Plan

BEYOND = 1.5
"""Factor on what an interval brings beyond which more waits than batches leave by nature."""


@attrs.frozen(kw_only=True, eq=False)
class Proposal:
    """What a policy wants, and why.

    Attributes
    ----------
    policy
        Its name.
    plan
        What is to be different.
    why
        A sentence with the numbers that decided.
    expected
        What should come of it: ``worst`` wait (s) with it and ``otherwise`` without it, ``score``, ``price``, ….
    hard
        Whether it is needed (a bound or quota is at stake) rather than nice.
    drain
        Hosts that are to become empty and then leave, if the plan is applied.
    course
        Of a policy that takes another one's plan: that one's name.
    asked
        Whether somebody has asked for it, so that it is done also where the controller only advises.
    dry
        Whether somebody only asks what would happen: it is never done.
    note
        What the policy wants to know of it at later looks, whatever becomes of it.
    promised
        The most (tuples/s) that was said of sources that come with it, by name.
    """

    policy: str
    plan: Plan
    why: str
    expected: Mapping[str, float] = attrs.field(factory=dict)
    hard: bool = True
    drain: tuple[str, ...] = ()
    course: str = ""
    asked: bool = False
    dry: bool = False
    note: Document | None = None
    promised: Mapping[str, float] = attrs.field(factory=dict)


class Policy(Protocol):
    """Decides what to change; a pure function of the situation and the generator's state."""

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return a proposal, or None where everything is to stay, or too little is known yet."""
        ...


def resting(now: Situation) -> set[str]:
    """Return operators that stay where they are: those that move, have just moved, or are pinned."""
    tired = {name for name, at in now.moved.items() if now.now - at < now.goals.rest}
    return tired | set(now.seen.moving) | set(now.network.pins)


def calm(now: Situation, policy: str) -> bool:
    """Whether a policy may move something: nothing moves now, and its last moves are long enough ago."""
    return not now.seen.moving and now.now - now.acted.get(policy, -np.inf) >= now.goals.cool_down


def usual(now: Situation, where: Ints) -> Floats:
    """Return how long (s) what comes in an interval takes each host, array (hosts,): so much waits by nature."""
    step = np.array([now.seen.triggers.get(name, 0.0) for name in now.hosts])
    share = now.host_load(where, now.seen.keep).mean(axis=1) / now.usable
    found: Floats = np.minimum(share, 1.0) * (step + now.fed_by(step))
    return found


def arrays_of(now: Situation, stay: Collection[str]) -> Arrays:
    """Return the placement problem of this moment: the units on hosts that are up, under the last rates.

    A unit has the name of one of its operators; `Situation.together` gives the others.

    A host may carry ``goals.high`` of what it can work off.
    """
    first = now.first
    where, load = now.where()[first], now.summed(now.load[now.base])
    mean = load.mean(axis=1)
    every = np.array(now.seen.operators)
    names = every[first]
    rows = np.flatnonzero(where >= 0)
    rows = rows[ranked(mean[rows], names[rows])]
    place = np.full(len(names), -1, np.int64)
    place[rows] = np.arange(rows.size)
    held = np.isin(every, list(stay)).astype(float)
    still = now.summed(held)[rows] > 0
    writer, reader, rate, shared = _streams(now, place)
    delay, bandwidth = links_between(now.seen.cluster, now.hosts)
    return Arrays(
        names=tuple(names[rows].tolist()),
        hosts=now.hosts,
        load=np.ascontiguousarray(load[rows]),
        mean=mean[rows],
        capacity=now.usable,
        usable=now.usable * now.goals.high,
        fixed=np.where(still, where[rows], -1),
        previous=where[rows],
        base=now.base[first[rows]],
        part=np.zeros(rows.size, np.int64),
        writer=writer,
        reader=reader,
        rate=rate,
        shared=shared,
        delay=delay,
        bandwidth=bandwidth,
        period=now.seen.period,
    )


def _streams(now: Situation, place: Ints) -> tuple[Ints, Ints, np.ndarray, np.ndarray]:
    """Return the streams between operators, of replicas those of the first copy."""
    flow, sources = now.flow, len(now.network.sources)
    first = np.full(len(now.network.operators), -1, np.int64)
    first[now.base[::-1]] = place[now.mover][::-1]
    inside = np.flatnonzero(flow.writer >= sources)
    rate = now.arrivals.mean(axis=1)
    start, end = first[flow.writer[inside] - sources], first[flow.reader[inside]]
    both = (start >= 0) & (end >= 0) & (start != end)
    return start[both], end[both], rate[inside][both], (flow.share[inside] == 1)[both]


@attrs.frozen(eq=False)
class Copies:
    """Where copies of operators are; two of one operator may not be on one host.

    Attributes
    ----------
    bases
        By number of a unit in `Situation.first`, the operators in it that have copies.
    there
        How many copies of an operator are on a host, by name and number; changed by moves that are made.
    """

    bases: Mapping[int, tuple[str, ...]]
    there: Counter[tuple[str, int]]

    @classmethod
    def of(cls, now: Situation, where: Ints) -> Copies:
        """Return the copies of this moment, on the hosts that an array (operators and replicas,) says."""
        copied = with_copies(now.seen.operators)
        bases: dict[int, tuple[str, ...]] = {}
        there: Counter[tuple[str, int]] = Counter()
        if not copied:
            return cls(bases, there)
        for unit, name, host in zip(now.mover.tolist(), now.seen.operators, where.tolist(), strict=True):
            if (base := base_name(name)) in copied:
                bases[unit] = (*bases.get(unit, ()), base)
                there[base, host] += 1
        return cls(bases, there)

    def meet(self, unit: int, host: int) -> bool:
        """Whether a unit from elsewhere would find a copy of something in it on a host."""
        return any(self.there[base, host] for base in self.bases.get(unit, ()))

    def doubled(self, unit: int, host: int) -> bool:
        """Whether a host has more than one copy of something in a unit."""
        return any(self.there[base, host] > 1 for base in self.bases.get(unit, ()))

    def move(self, unit: int, start: int, end: int) -> None:
        """Move a unit."""
        for base in self.bases.get(unit, ()):
            self.there[base, start] -= 1
            self.there[base, end] += 1


def state_of(now: Situation) -> Floats:
    """Return the bytes of state that each operator and replica keeps, array (operators and replicas,)."""
    return np.array([now.network.operators[base_name(name)].state or 0.0 for name in now.seen.operators], np.float64)


def memory_left(now: Situation, where: Ints, state: Floats) -> Floats:
    """Return the bytes of state that each host has memory for beside those that it has, array (hosts,)."""
    memory = np.array([now.seen.cluster.hosts[host].memory for host in now.hosts])
    found: Floats = memory - np.bincount(where[where >= 0], state[where >= 0], len(now.hosts))
    return found


def evacuated(now: Situation, hosts: Collection[str]) -> dict[str, str]:
    """Return where what runs on some hosts goes: the heaviest first, each to the host that it fills least.

    No host gets two copies of one operator, or more state than it has memory for, and one that does not answer gets
    nothing. A host to which a link is too narrow is taken only where no other fits. What fits nowhere stays, and so
    does what is pinned or moves already. An operator whose cost is not known counts as one that costs the mean of the
    others.
    """
    barred = {*hosts, *now.draining, *now.seen.silent}
    targets = [k for k, name in enumerate(now.hosts) if name not in barred]
    if not targets:
        return {}
    (cost, selectivity), where = now.costs, now.where()
    known = cost[~np.isnan(cost)]
    cost = np.where(np.isnan(cost), known.mean() if known.size else 1.0, cost)
    load = now.flow.run(now.rates, cost, selectivity, None, now.seen.period)[0].mean(axis=1)[now.base]
    level = np.bincount(where[where >= 0], load[where >= 0], len(now.hosts)).astype(float)
    mean, state = now.summed(load), state_of(now)
    room, state = memory_left(now, where, state), now.summed(state)
    copies, links = Copies.of(now, where), Links.of(now, where)
    keep = set(now.network.pins) | set(now.seen.moving)
    names = [now.seen.operators[k] for k in now.first]
    leaving = [k for k, name in enumerate(names) if now.seen.placement[name] in hosts]
    found: dict[str, str] = {}
    for k in sorted(leaving, key=lambda k: (-mean[k], names[k])):
        if keep & set(now.together({names[k]: ""})):
            continue
        fitting = [host for host in targets if state[k] <= room[host] and not copies.meet(k, host)]
        if not fitting:
            continue
        fitting.sort(key=lambda host: ((level[host] + mean[k]) / now.usable[host], now.hosts[host]))
        best = fitting[0]
        if links is not None:
            mine = np.flatnonzero(now.mover == k)
            best = next((host for host in fitting if not links.overloads(mine, np.full(mine.size, host))), best)
            links.made(mine, np.full(mine.size, best))
        level[best] += mean[k]
        room[best] -= state[k]
        copies.move(k, int(where[now.first[k]]), best)
        found |= now.together({names[k]: now.hosts[best]})
    return found


def counted(number: int, word: str) -> str:
    """Return a number of things for people: ``1 move``, ``2 moves``."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share for people."""
    return f"{100 * share:.0f} %"
