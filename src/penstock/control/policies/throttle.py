"""The policy `throttle`: batches that are long enough for their overhead, and short enough for the latency bound."""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.arrays import Bools
from penstock.control.flow import Floats, Ints
from penstock.control.policies.base import BEYOND, Proposal, percent, usual
from penstock.control.situation import Situation
from penstock.steering import Plan

SETTLED = 0.1
"""Share of the longest batch up to which what waits at a host is nothing, where an interval brings less."""

LEAST = 0.05
"""Share of a host that sources under a limit have at least, whatever the others bring."""


@attrs.frozen(kw_only=True)
class Throttle:
    """Triggers and read limits from the measured overhead and load of each host.

    A host whose batches have overhead o and load r per capacity keeps up only with a trigger of at least o / (1 - r):
    r is the load of what is kept, and where it is 1 or more no trigger helps.
    After a stall everything that waits would come in one batch, and nothing of it would be visible before its end; a
    limit on what is read makes that several batches. It holds only for sources whose tuples reach a host that is
    behind, until these have caught up; none begins while tuples are dropped.

    Attributes
    ----------
    margin
        Factor on the least trigger that keeps up.
    longest
        Share of the latency bound that a batch of what waits may take.
    least
        Share by which another limit must differ from the one in force, and the least trigger be below the usual one
        before a host goes back to that: what reads a source starts anew for it.
    """

    margin: float = 1.25
    longest: float = 0.5
    least: float = 0.3

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return triggers that keep up, and limits where a stall is being worked off."""
        if not now.ready:
            return None
        most, where = self.longest * now.goals.bound, now.where()
        behind, by_nature = now.host_backlog(where) / now.usable, usual(now, where)
        settled = behind <= np.maximum(SETTLED * most, by_nature)
        triggers, words = self._triggers(now, settled)
        # Of what waits while something is dropped batches take only what is kept.
        late = (behind > np.maximum(most, BEYOND * by_nature)) & (not now.seen.keep)
        limits, more = self._limits(now, most, settled, late)
        if not triggers and not limits:
            return None
        return Proposal(
            policy="throttle",
            plan=Plan(triggers=triggers, limits=limits),
            why="; ".join([*words, *more]),
            expected={"worst": now.worst()},
            hard=False,
        )

    def _triggers(self, now: Situation, settled: Bools) -> tuple[dict[str, float], list[str]]:
        """Return longer triggers where hosts do not keep up, the first one where they do again, and why."""
        where, first = now.where(), now.seen.cluster.spark.trigger
        kept, whole = (now.host_load(where, keep).mean(axis=1) for keep in (now.seen.keep, None))
        triggers: dict[str, float] = {}
        words = []
        for name, fixed, mine, all_of_it, calm in zip(now.hosts, now.fixed, kept, whole, settled, strict=True):
            seen, host = now.seen.hosts.get(name), now.seen.cluster.hosts[name]
            if seen is None or not fixed or name not in now.seen.triggers:
                continue
            step, able = now.seen.triggers[name], host.usable * (1.0 if seen.speed is None else seen.speed)
            need, back = self._least(fixed, mine / able), self._least(fixed, all_of_it / able)
            if all_of_it and step * 1.1 < need < math.inf and step < now.allowed * 0.99:
                triggers[name] = float(min(need, now.allowed))
            elif calm and step > first and back <= first * (1 - self.least):
                triggers[name] = first  # not because something is dropped for a while
            else:
                continue
            words.append(
                f"{name}: {fixed:.3g} s a batch and {percent(mine / able)} work need {need:.3g} s, not {step:.3g} s"
            )
        return triggers, words

    def _least(self, overhead: float, share: float) -> float:
        """Return the least trigger (s) that keeps up with a load, a share of what a host can work off; inf: none."""
        return self.margin * overhead / (1 - share) if share < 1 else math.inf

    def _limits(
        self, now: Situation, most: float, settled: Bools, late: Bools
    ) -> tuple[dict[str, float | None], list[str]]:
        """Return the most tuples/s to read of sources whose hosts are behind, None where no limit is needed any more.

        While one is in force it follows what there is to read and what hosts can work off.
        """
        old = now.seen.limits
        if not old and not late.any():
            return {}, []
        names, where = tuple(now.network.sources), now.where()
        reach, lost = _reached(now, where)
        limited = np.array([name in old for name in names], bool)
        able = np.array([source.format is not None for source in now.network.sources.values()], bool)
        stays = limited & ((reach & ~settled).any(axis=1) | lost)
        wanted, there = _wanted(now, now.goals.horizon), _wanted(now, most)
        held = stays | (~limited & able & (reach & late).any(axis=1) & (wanted > 0))
        room = _room(now, where, reach, np.where(held, wanted, 0.0), held)
        limits: dict[str, float | None] = {}
        for k in np.flatnonzero(held & (wanted > 0) & np.isfinite(room)).tolist():
            limit, before = float(wanted[k] * room[k]), old.get(names[k], np.inf)
            # Of two limits above what there is to read, neither holds anything back.
            if min(limit, before) < there[k] and max(limit / before, before / limit) > 1 + self.least:
                limits[names[k]] = limit
        read = [f"{name} at {limit:.3g}/s" for name, limit in limits.items()]
        words = [f"what waits is read in parts: {', '.join(read)}"] if read else []
        if lifted := [names[k] for k in np.flatnonzero(limited & ~stays).tolist()]:
            words.append(f"nothing waits any more of {', '.join(lifted)}")
        return limits | dict.fromkeys(lifted), words


def _reached(now: Situation, where: Ints) -> tuple[Bools, Bools]:
    """Return whether tuples of each source reach each host, and an operator without one.

    Returns
    -------
    hosts, lost : ndarray, shapes (sources, hosts), (sources,)
    """
    sources, flow = len(now.network.sources), now.flow
    comes = np.zeros((sources + len(now.network.operators), sources), bool)
    comes[:sources] = np.eye(sources, dtype=bool)
    for level in flow.level:
        np.logical_or.at(comes, sources + flow.reader[level], comes[flow.writer[level]])
    found = np.zeros((len(now.hosts) + 1, sources), bool)
    np.logical_or.at(found, where, comes[sources + now.base])  # on hosts that are down, which have the number -1
    return found[:-1].T, found[-1]


def _wanted(now: Situation, within: float) -> Floats:
    """Return what would have to be read of each source so that nothing waits after a time (s), array (sources,)."""
    flow, count = now.flow, len(now.network.operators)
    outer = np.flatnonzero(flow.writer < len(now.network.sources))
    waiting = (
        np.zeros(count) if now.seen.waiting is None else np.bincount(now.base, np.nan_to_num(now.seen.waiting), count)
    )
    # Each copy reads everything.
    each = waiting / np.maximum(np.bincount(now.base, minlength=count) * flow.ports, 1)
    most = np.zeros(len(now.network.sources))
    np.maximum.at(most, flow.writer[outer], each[flow.reader[outer]] / np.maximum(flow.share[outer], 1e-12))
    found: Floats = now.known.steady(now.network, now.seen.period) + most / within
    return found


def _room(now: Situation, where: Ints, reach: Bools, wanted: Floats, held: Bools) -> Floats:
    """Return the share of what is wanted of each source that all hosts it reaches can work off, array (sources,).

    Parameters
    ----------
    wanted, held
        Arrays (sources,): tuples/s, and whether a limit is to hold; the others are read as they come.
    """
    rates = now.known.steady(now.network, now.seen.period)
    others = now.host_load(where, now.seen.keep, np.where(held, 0.0, rates))[:, 0]
    mine = now.host_load(where, now.seen.keep, np.where(held, wanted, rates))[:, 0] - others
    left = np.maximum(now.usable - others, LEAST * now.usable)
    share = np.where(mine > 0, left / np.maximum(mine, 1e-12), np.inf)
    found: Floats = np.where(reach, share, np.inf).min(axis=1, initial=np.inf)
    return found
