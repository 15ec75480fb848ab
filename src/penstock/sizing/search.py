"""The search that admission and provisioning share: depth first over the divisions of operators among hosts.

A host's worst wait only grows with what is put on it, so a branch that is too late, or no better than the best, is cut
off; and of hosts that are empty and alike the first stands for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.files import Document
from penstock.latency.estimate import Estimate
from penstock.latency.waits import worst_waits

TIE = 1e-9
"""Seconds of latency, and benchmark cores, that differ by less are the same."""

Key = tuple[float, ...]
"""What a partial division is worth, least first; it never falls when operators are added."""


@attrs.frozen(eq=False)
class Step:
    """An operator about to be put on a host.

    Attributes
    ----------
    operator, host
        Their numbers.
    before
        The key of the division so far.
    fresh
        Whether the host runs nothing of this division yet.
    used
        How many hosts of this division do.
    share
        What of the host's capacity would be loaded.
    spent
        Whether the budget is spent.
    wait
        Gives the host's worst wait (s) with the operator; infinite beyond its quota.
    """

    operator: int
    host: int
    before: Key
    fresh: bool
    used: int
    share: float
    spent: bool
    wait: Callable[[], float]


Put = tuple[Array, float, float]
"""What a division puts on a host: loads by period, their mean, bytes of state."""

Judge = Callable[[Step], tuple[Key, Key] | None]


@attrs.define(eq=False, kw_only=True)
class Search:
    """Depth first over the divisions of operators among hosts.

    Attributes
    ----------
    loads
        Array (operators, periods) in benchmark cores, in the order in which they are placed: the heaviest first, since
        what fits nowhere is found soon.
    places
        By operator, numbers of the hosts that it may be put on, in the order in which they are tried.
    capacity, usable
        Arrays (hosts,): benchmark cores, and the mean load up to which a host may be used.
    base
        Array (hosts, periods): what runs there anyway.
    kinds
        By host; those of one kind that run nothing of the division are alike.
    period
        Length of a period (s).
    budget
        How many loads of hosts are weighed; then the search ends once it has found anything.
    known
        Worst waits that need not be weighed: by operator an array (hosts,), alone on what runs there.
    state, room
        Arrays (operators,) and (hosts,): bytes of state that operators keep, and what hosts can still hold.
    """

    loads: Array
    places: Sequence[Sequence[int]]
    capacity: Array
    usable: Array
    base: Array
    kinds: Sequence[int]
    period: float
    budget: float
    known: Sequence[Array] = ()
    state: Array | None = None
    room: Array | None = None

    def divisions(self, judge: Judge, *, better: bool = False) -> Iterator[tuple[Key, tuple[int, ...]]]:
        """Iterate over divisions: their key, and the host of each operator.

        Parameters
        ----------
        judge
            Gives the key with a further step, and a rank by which the hosts of an operator are tried; or None to cut
            the step off.
        better
            Whether to yield only what is better than all before, so that the last one is the best.
        """
        mean = self.loads.mean(axis=1) if self.loads.size else np.zeros(len(self.loads))
        state = np.zeros(len(self.loads)) if self.state is None else self.state
        level = self.base.mean(axis=1)
        nothing: Put = (np.zeros(self.loads.shape[1:]), 0.0, 0.0)
        added: dict[int, Put] = {}
        where: list[int] = []
        best: Key | None = None

        def steps(before: Key) -> Iterator[tuple[Key, Key, int]]:
            index = len(where)
            if index == len(self.loads):
                return iter(())
            found: list[tuple[Key, Key, int]] = []
            seen: set[int] = set()
            for host in self.places[index]:
                fresh = host not in added
                if fresh and self.kinds[host] in seen:
                    continue
                if fresh:
                    seen.add(self.kinds[host])
                rows, weight, kept = added.get(host, nothing)
                load, kept = level[host] + weight + float(mean[index]), kept + float(state[index])
                if load > self.usable[host] * (1 + TIE) or not self._holds(kept, host):
                    continue

                def wait(host: int = host, fresh: bool = fresh, rows: Array = rows) -> float:
                    if fresh and self.known:
                        return float(self.known[index][host])
                    self.budget -= 1
                    row = self.base[host] + (rows + self.loads[index])
                    return float(worst_waits(row[None], self.capacity[[host]], self.period)[0])

                share = float(load / self.capacity[host])
                step = Step(index, host, before, fresh, len(added), share, self.budget <= 0, wait)
                judged = judge(step)
                if judged is not None:
                    found.append((judged[1], judged[0], host))
            return iter(sorted(found, key=lambda row: row[0]))

        # By operator the steps that are still to be tried, and what was on its host before: a stack of its own, since
        # there may be more operators than calls within calls.
        ways, had = [steps(())], list[Put | None]()
        if not len(self.loads):
            yield (), ()
        while ways:
            if (way := next(ways[-1], None)) is None:
                ways.pop()
                if where:
                    host, old = where.pop(), had.pop()
                    if old is None:
                        del added[host]
                    else:
                        added[host] = old
                continue
            _, key, host = way
            if best is not None and ((better and key >= best) or self.budget <= 0):
                continue
            had.append(added.get(host))
            rows, weight, kept = had[-1] or nothing
            index = len(where)
            added[host] = rows + self.loads[index], weight + float(mean[index]), kept + float(state[index])
            where.append(host)
            if len(where) == len(self.loads):
                best = key
                yield key, tuple(where)
            ways.append(steps(key))

    def _holds(self, kept: float, host: int) -> bool:
        """Whether a host can hold so many bytes of state."""
        return self.room is None or bool(kept == 0 or kept <= self.room[host])


def checked_document(simulated: float | None, *, holds: bool) -> Document:
    """Return what an answer says of its check by the simulator: the worst latency (s), and whether bounds are kept."""
    if simulated is None:
        return {}
    return {"checked": {"with": "simulation", "worst": simulated, "holds": holds}}


def interval_document(found: Estimate, sink: str | None = None) -> Document:
    """Return what an answer says of how far off its latencies may be, or those of a sink, if that is known."""
    if found.spread is None or not found.spread.draws:
        return {}
    whole = found.interval(sink)
    # Where nothing at all is known there is no series either that a number could be the largest of.
    unknown = sink is None and found.told()["worst"] is None
    return {"interval": dict.fromkeys(whole["interval"])} if unknown else whole
