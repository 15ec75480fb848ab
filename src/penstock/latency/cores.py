"""Who works when on cores that are shared: several queries of a host, and more hosts than a machine has cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

import attrs

from penstock.latency.shape import Batches, Shape

FIXED, WAITING, TASKS, COMMIT = range(4)
"""Stages of a batch: its fixed part, waiting for its tasks' turn, the tasks, the commit."""

DONE = 1e-12
"""Seconds of a stage that are as good as none."""


@attrs.define(eq=False)
class Under:
    """A batch under way.

    Attributes
    ----------
    query, batch, host
        Whose it is, its number, and where.
    left
        Seconds that each stage would still take alone.
    stage, turn
        The stage, and when it began to wait for its tasks.
    """

    query: int
    batch: int
    host: int
    left: list[float]
    stage: int = FIXED
    turn: float = 0.0


@attrs.define(eq=False)
class Group:
    """The batches under way of hosts that share cores, at a time ``now`` (s)."""

    cores: float
    under: list[Under] = attrs.field(factory=list)
    now: float = 0.0

    def advance(self, batches: Batches, until: float) -> None:
        """Let batches work until a time; note when their output is visible and when they end.

        A host divides its time equally between the fixed parts of its batches and the tasks of one; the tasks of the
        others wait for their turn. Hosts that are more than the cores divide these equally.
        """
        while self.under:
            self._give_turns()
            working = [each for each in self.under if each.stage != WAITING]
            together: dict[int, int] = {}
            for each in working:
                together[each.host] = together.get(each.host, 0) + 1
            share = min(1.0, self.cores / len(together))
            step = min(max(each.left[each.stage], 0.0) * together[each.host] / share for each in working)
            whole = self.now + step <= until
            span = step if whole else max(until - self.now, 0.0)
            for each in working:
                each.left[each.stage] -= span * share / together[each.host]
            self.now += span
            if not whole:
                return
            for each in working:
                if each.left[each.stage] <= DONE:
                    self._next(each, batches)
        self.now = max(self.now, until) if until < inf else self.now

    def _give_turns(self) -> None:
        """Let the tasks that have waited longest begin on each host where none are at work."""
        taken = {each.host for each in self.under if each.stage == TASKS}
        for each in sorted(self.under, key=lambda each: each.turn):
            if each.stage == WAITING and each.host not in taken:
                each.stage = TASKS
                taken.add(each.host)

    def _next(self, each: Under, batches: Batches) -> None:
        if each.stage == FIXED:
            each.stage, each.turn = WAITING, self.now
        elif each.stage == TASKS:
            each.stage = COMMIT
            batches.visible[each.batch] = self.now
        else:
            batches.end[each.batch] = self.now
            self.under.remove(each)

    def copy(self) -> Group:
        """Return the same batches, to look ahead with."""
        return Group(self.cores, [attrs.evolve(each, left=[*each.left]) for each in self.under], self.now)


def alone(spans: Sequence[tuple[float, float]], cores: float = 1.0) -> list[float]:
    """Return the seconds that batches would have taken alone, of those that shared cores, from when they ran.

    Each had, at every moment, an equal share of the cores with those that ran then. What the tasks of one took while
    others waited for them is divided among all of them, so that their sum is right.

    Examples
    --------
    >>> alone([(0.0, 2.0), (1.0, 3.0)])
    [1.5, 1.5]
    """
    moments = sorted({moment for span in spans for moment in span})
    found = [0.0] * len(spans)
    running: set[int] = set()
    begins = sorted(range(len(spans)), key=lambda k: spans[k][0])
    following = 0
    for start, end in pairwise(moments):
        running = {k for k in running if spans[k][1] > start}
        while following < len(begins) and spans[begins[following]][0] <= start:
            if spans[begins[following]][1] > start:
                running.add(begins[following])
            following += 1
        for k in running:
            found[k] += (end - start) * min(1.0, cores / len(running))
    return found


@attrs.define(eq=False)
class Cores:
    """The groups of queries that share cores."""

    host: Sequence[int]
    group: Sequence[int]
    groups: list[Group | None]

    @classmethod
    def of(cls, shape: Shape) -> Cores:
        """Return the groups without work; a query that shares with none needs no group."""
        sizes = [b - a for a, b in zip(shape.member_first, shape.member_first[1:], strict=False)]
        return cls(
            shape.host,
            shape.group,
            [Group(c) if size > 1 else None for c, size in zip(shape.cores, sizes, strict=True)],
        )

    def begin(self, batches: Batches, query: int, fixed: float, tasks: float, commit: float) -> None:
        """Begin the newest batch, and note when it and the others of its group will be visible and end.

        Parameters
        ----------
        fixed, tasks
            Seconds that its parts take alone.
        commit
            Seconds at its end for which its output is visible.
        """
        batch = len(batches.query) - 1
        start, group = batches.start[batch], self.groups[self.group[query]]
        batches.end.append(start + (fixed + tasks))
        batches.visible.append(max(start, batches.end[batch] - commit))
        if group is None:
            return
        group.advance(batches, start)
        late = min(commit, fixed + tasks)
        ahead = max(fixed - late, 0.0)
        left = [ahead, 0.0, fixed + tasks - late - ahead, late]
        group.under.append(Under(query, batch, self.host[query], left, FIXED, start))
        group.copy().advance(batches, inf)


def covered(spans: Iterable[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """Return the parts of an interval (s) that at least one of some spans covers, in order and apart from each other.

    The batches of several queries of a host overlap: it is busy once, whoever works.
    """
    parts: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        start, stop = max(start, begin, parts[-1][1] if parts else begin), min(stop, end)
        if stop > start:
            parts.append((start, stop))
    return parts
