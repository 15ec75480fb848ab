"""The recursion over micro-batches in plain Python, with lists of numbers: what the compiled one must do.

The shared cores are objects here: a batch under way, and the group of those that share cores.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, inf, sqrt
from typing import Any

import attrs
import numpy as np

from penstock.latency.shape import Pace, Shape
from penstock.latency.tables import LONGEST, SOON

Numbers = Sequence[int]
Figures = Sequence[float]

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
            batches.visible[each.batch] = max(batches.unseen[each.batch], self.now)
        else:
            batches.end[each.batch] = self.now
            self.under.remove(each)

    def copy(self) -> Group:
        """Return the same batches, to look ahead with."""
        return Group(self.cores, [attrs.evolve(each, left=[*each.left]) for each in self.under], self.now)


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

    def begin(self, batches: Batches, query: int, fixed: float, tasks: float, pace: Pace) -> None:
        """Begin the newest batch, and note when it and the others of its group will be visible and end.

        Parameters
        ----------
        fixed, tasks
            Seconds that its parts take alone.
        pace
            Tells for how many seconds at its end its output is visible.
        """
        batch = len(batches.query) - 1
        start, group = batches.start[batch], self.groups[self.group[query]]
        batches.end.append(start + (fixed + tasks))
        batches.unseen.append(start + pace.reading + SOON * pace.trigger)
        batches.visible.append(max(batches.unseen[batch], batches.end[batch] - pace.commit))
        if group is None:
            return
        group.advance(batches, start)
        late = min(pace.commit, fixed + tasks)
        ahead = max(fixed - late, 0.0)
        left = [ahead, 0.0, fixed + tasks - late - ahead, late]
        group.under.append(Under(query, batch, self.host[query], left, FIXED, start))
        group.copy().advance(batches, inf)


@attrs.define(eq=False)
class Batches:
    """The batches of a run, in the order of their starts.

    Attributes
    ----------
    query, start, end, visible, unseen, work
        Of each: its query, when it starts, ends, its output is visible and at the earliest so (s), and its seconds of
        work.
    upto
        How far each inlet of the query has come by its end.
    said
        Event times announced with it, by announcer of the query; None where nothing is new.
    of
        The batches of each query.
    """

    query: list[int] = attrs.field(factory=list)
    start: list[float] = attrs.field(factory=list)
    end: list[float] = attrs.field(factory=list)
    visible: list[float] = attrs.field(factory=list)
    unseen: list[float] = attrs.field(factory=list)
    work: list[float] = attrs.field(factory=list)
    upto: list[list[int]] = attrs.field(factory=list)
    said: list[list[float | None]] = attrs.field(factory=list)
    of: list[list[int]] = attrs.field(factory=list)


@attrs.define(eq=False)
class Side:
    """How far queries have come.

    Attributes
    ----------
    position
        Points by inlet.
    taken, heard
        How many batches of its writer each feed and each row of water has taken.
    water, before
        Event time by row, now and before the last batch.
    told
        What each announcer has said last.
    due
        Queries with windows that are over and not put out.
    """

    position: list[int]
    taken: list[int]
    heard: list[int]
    water: list[float]
    before: list[float]
    told: list[float]
    due: list[bool]


def sum_upto(shape: Shape, root: int, sums: Figures, first: int, point: int) -> float:
    """Return a sum over the first points of a root; ``first`` says where its sums by segment begin."""
    place = shape.point_first[root] + point
    base = shape.segment_first[root]
    if place >= shape.point_first[root + 1]:
        return sums[first + shape.segment_first[root + 1] - base - 1]
    edge = shape.segment[place]
    low = shape.edge[edge]
    at = first + edge - base
    below = sums[at]
    return below + (sums[at + 1] - below) * (point - low) / (shape.edge[edge + 1] - low)


def index_at(shape: Shape, root: int, time: float) -> int:
    """Return how many points of a root are at or before a time."""
    begin = shape.point_first[root]
    return bisect_right(shape.times, time, begin, shape.point_first[root + 1]) - begin


def share_shown(shape: Shape, side: Side, batches: Batches, feed: int, batch: int, stimulus: float) -> float:
    """Return which share of a batch's output on a feed has a stimulus of at most this."""
    shown, total = 0.0, 0.0
    for i in range(shape.feed_inlet[feed], shape.feed_end[feed]):
        parent, root, first = shape.inlet_parent[i], shape.inlet_root[i], shape.inlet_weight[i]
        local = parent - shape.inlet_first[shape.feed_writer[feed]]
        number = side.taken[feed]
        start = batches.upto[batches.of[shape.feed_writer[feed]][number - 1]][local] if number else 0
        end = batches.upto[batch][local]
        at = min(max(index_at(shape, root, stimulus), start), end)
        low = sum_upto(shape, root, shape.sums, first, start)
        shown += sum_upto(shape, root, shape.sums, first, at) - low
        total += sum_upto(shape, root, shape.sums, first, end) - low
    return shown / total if total > 0 else 0.0


def news_of(shape: Shape, side: Side, batches: Batches, query: int) -> float:
    """Return when a query sees something new (s); infinite if never."""
    news = inf
    for f in range(shape.feed_first[query], shape.feed_first[query + 1]):
        first = shape.feed_inlet[f]
        if shape.feed_source[f] >= 0:
            place = shape.point_first[shape.feed_source[f]] + side.position[first]
            if place < shape.point_first[shape.feed_source[f] + 1]:
                news = min(news, shape.times[place])
            continue
        writer = shape.feed_writer[f]
        theirs = batches.of[writer]
        while side.taken[f] < len(theirs):
            batch = theirs[side.taken[f]]
            youngest = inf
            for i in range(first, shape.feed_end[f]):
                local = shape.inlet_parent[i] - shape.inlet_first[writer]
                if batches.upto[batch][local] > side.position[i]:
                    youngest = min(youngest, shape.times[shape.point_first[shape.inlet_root[i]] + side.position[i]])
            if youngest < inf:
                visible = batches.visible[batch]
                if shape.progressive:
                    begin = batches.start[batch]
                    visible = begin + (visible - begin) * share_shown(shape, side, batches, f, batch, youngest)
                news = min(news, visible)
                break
            side.taken[f] += 1
    for w in range(shape.water_first[query], shape.water_first[query + 1]):
        announcer, writer = shape.water_announcer[w], shape.water_query[w]
        if announcer < 0:
            continue
        theirs = batches.of[writer]
        while side.heard[w] < len(theirs):
            batch = theirs[side.heard[w]]
            if batches.said[batch][announcer - shape.announcer_first[writer]] is not None:
                news = min(news, batches.visible[batch])
                break
            side.heard[w] += 1
    return news


def next_start(shape: Shape, pace: Pace, side: Side, batches: Batches, query: int) -> float:
    """Return when a query's next batch starts (s)."""
    trigger, phase = pace.trigger, pace.phase
    earliest = phase
    if batches.of[query]:
        last = batches.of[query][-1]
        multiple = (floor((batches.start[last] - phase) / trigger + 1e-9) + 1) * trigger + phase
        earliest = max(batches.end[last], multiple)
    if not side.due[query]:
        news = news_of(shape, side, batches, query) - pace.reading
        if news == inf:
            return inf
        if news > earliest:
            earliest = max(earliest, ceil((news - phase) / trigger - 1e-9) * trigger + phase)
    return earliest


def take_feed(shape: Shape, side: Side, batches: Batches, feed: int, until: float) -> bool:
    """Take what a feed shows by a time; return whether there was something."""
    first, fed = shape.feed_inlet[feed], False
    if shape.feed_source[feed] >= 0:
        root = shape.feed_source[feed]
        place = index_at(shape, root, until)
        if place > side.position[first]:
            side.position[first] = place
            row = shape.feed_water[feed]
            side.water[row] = max(side.water[row], shape.times[shape.point_first[root] + place - 1])
            return True
        return False
    writer = shape.feed_writer[feed]
    theirs = batches.of[writer]
    while side.taken[feed] < len(theirs):
        batch = theirs[side.taken[feed]]
        begin, visible = batches.start[batch], batches.visible[batch]
        if visible > until:
            if shape.progressive and begin < until:
                fed = take_part(shape, side, batches, feed, batch, (until - begin) / (visible - begin)) or fed
            break
        for i in range(first, shape.feed_end[feed]):
            place = batches.upto[batch][shape.inlet_parent[i] - shape.inlet_first[writer]]
            if place > side.position[i]:
                side.position[i] = place
                fed = True
        side.taken[feed] += 1
    return fed


def take_part(shape: Shape, side: Side, batches: Batches, feed: int, batch: int, share: float) -> bool:
    """Take that share of a batch's output which has appeared already, the oldest stimulus first."""
    writer = shape.feed_writer[feed]
    low, high = inf, -inf
    for i in range(shape.feed_inlet[feed], shape.feed_end[feed]):
        end = batches.upto[batch][shape.inlet_parent[i] - shape.inlet_first[writer]]
        if end > side.position[i]:
            base = shape.point_first[shape.inlet_root[i]]
            low, high = min(low, shape.times[base + side.position[i]]), max(high, shape.times[base + end - 1])
    if low == inf or share_shown(shape, side, batches, feed, batch, low) > share:
        return False
    for _ in range(60):
        middle = (low + high) / 2
        if share_shown(shape, side, batches, feed, batch, middle) <= share:
            low = middle
        else:
            high = middle
    fed = False
    for i in range(shape.feed_inlet[feed], shape.feed_end[feed]):
        end = batches.upto[batch][shape.inlet_parent[i] - shape.inlet_first[writer]]
        place = min(index_at(shape, shape.inlet_root[i], low), end)
        if place > side.position[i]:
            side.position[i] = place
            fed = True
    return fed


def take(shape: Shape, side: Side, batches: Batches, query: int, until: float) -> bool:
    """Take the input of a batch, and put out the windows that are over; return whether there was input."""
    fed = False
    rows = range(shape.water_first[query], shape.water_first[query + 1])
    for w in rows:
        side.before[w] = side.water[w]
    for f in range(shape.feed_first[query], shape.feed_first[query + 1]):
        fed = take_feed(shape, side, batches, f, until) or fed
    for w in rows:
        announcer, writer = shape.water_announcer[w], shape.water_query[w]
        theirs = batches.of[writer] if announcer >= 0 else ()
        while side.heard[w] < len(theirs):
            batch = theirs[side.heard[w]]
            said = batches.said[batch][announcer - shape.announcer_first[writer]]
            if said is not None:
                if batches.visible[batch] > until:
                    break
                fed = True
                side.water[w] = max(side.water[w], said)
            side.heard[w] += 1
    seen, passed = inf, inf
    for w in rows:
        if shape.water_minded[w]:
            seen = min(seen, side.before[w])
            passed = min(passed, side.water[w] - shape.water_late[w])
    side.due[query] = False
    for i in range(shape.own_first[query], shape.inlet_first[query + 1]):
        base, end = shape.point_first[shape.inlet_root[i]], shape.point_first[shape.inlet_root[i] + 1]
        while base + side.position[i] < end and shape.ends[base + side.position[i]] <= seen - shape.inlet_late[i]:
            side.position[i] += 1
        if base + side.position[i] < end and shape.ends[base + side.position[i]] <= passed:
            side.due[query] = True
    return fed


def announce(shape: Shape, side: Side, query: int) -> list[float | None]:
    """Return how far event time has come on what a query writes, where that is new."""
    found: list[float | None] = []
    for a in range(shape.announcer_first[query], shape.announcer_first[query + 1]):
        water = inf
        if shape.announcer_behind[a]:
            for w in range(shape.water_first[query], shape.water_first[query + 1]):
                if shape.water_minded[w]:
                    water = min(water, side.before[w] - shape.water_late[w])
        else:
            for k in range(shape.heard_first[a], shape.heard_first[a + 1]):
                w = shape.heard[k]
                water = min(water, side.water[w] - shape.water_late[w])
        water += shape.announcer_late[a]
        news = side.told[a] < water < inf
        if news:
            side.told[a] = water
        found.append(water if news else None)
    return found


def work_of(shape: Shape, pace: Pace, side: Side, was: Numbers, query: int) -> float:
    """Return the seconds of work that a query's inlets have brought since they were at ``was``."""
    work = 0.0
    low = shape.inlet_first[query]
    for i in range(low, shape.inlet_first[query + 1]):
        place, before, root = side.position[i], was[i - low], shape.inlet_root[i]
        if place > before:
            sums = pace.work[i]
            work += sum_upto(shape, root, sums, 0, place) - sum_upto(shape, root, sums, 0, before)
    return work


def affected(shape: Shape) -> list[list[int]]:
    """Return by query whose next start a batch of it may change: its group, and those that read what that writes."""
    queries = len(shape.host)
    readers: list[set[int]] = [set() for _ in range(queries)]
    for query in range(queries):
        for f in range(shape.feed_first[query], shape.feed_first[query + 1]):
            if shape.feed_writer[f] >= 0:
                readers[shape.feed_writer[f]].add(query)
    found = []
    for query in range(queries):
        group = shape.group[query]
        members = shape.member[shape.member_first[group] : shape.member_first[group + 1]]
        found.append(sorted(set(members).union(*(readers[q] for q in members))))
    return found


def listed(shape: Shape, pace: Pace) -> tuple[Any, Any]:
    """Return shape and pace with lists, which Python reads faster than arrays, one number at a time."""
    lists = {name: row.tolist() for name, row in shape._asdict().items() if isinstance(row, np.ndarray)}
    first = lists["inlet_work"]
    work = [pace.work[a:b].tolist() for a, b in pairwise(first)]
    noise, chance = ([np.asarray(row).tolist() for row in rows] for rows in (pace.noise, pace.chance))
    spread = {"jitter": np.asarray(pace.jitter).tolist(), "residual": np.asarray(pace.residual).tolist()}
    spread["extra"] = (np.zeros(len(shape.host)) + pace.extra).tolist()
    given = {"overhead": np.asarray(pace.overhead).tolist(), "idle": np.asarray(pace.idle).tolist()}
    return shape._replace(**lists), pace._replace(work=work, noise=noise, chance=chance, **spread, **given)


def longer_by(pace: Any, host: int, turn: int, alone: float) -> float:
    """Return by what a batch takes longer: by the noise of its interval, and by its chance."""
    noise, chance = (rows[host][turn % len(rows[host])] for rows in (pace.noise, pace.chance))
    if chance == 0 or alone <= 0:
        return noise
    spread = sqrt(pace.jitter[host] * pace.jitter[host] + pace.residual[host] * pace.residual[host] * alone)
    return noise * max(1 + chance * spread / alone, 0.5)


def possible(seconds: float) -> float:
    """Return what a batch takes: never more than the longest, nor what is no number."""
    return seconds if seconds < LONGEST else LONGEST


def follow(shape: Shape, pace: Pace) -> Batches:
    """Follow the batches of a placed network."""
    shape, pace = listed(shape, pace)
    queries = len(shape.host)
    rows = len(shape.water_announcer)
    batches = Batches(of=[[] for _ in range(queries)])
    side = Side(
        position=[0] * len(shape.inlet_root),
        taken=[0] * len(shape.feed_source),
        heard=[0] * rows,
        water=[-inf] * rows,
        before=[-inf] * rows,
        told=[-inf] * len(shape.announcer_behind),
        due=[False] * queries,
    )
    cores = Cores.of(shape)
    others = affected(shape)
    starts = [next_start(shape, pace, side, batches, q) for q in range(queries)]
    while starts:
        start = min(starts)
        if start == inf:
            break
        query = starts.index(start)
        low, high = shape.inlet_first[query], shape.inlet_first[query + 1]
        was = side.position[low:high]
        fed = take(shape, side, batches, query, start + pace.reading)
        work, host = possible(work_of(shape, pace, side, was, query)), shape.host[query]
        batches.of[query].append(len(batches.query))
        batches.query.append(query)
        batches.start.append(start)
        batches.work.append(work)
        batches.upto.append(side.position[low:high])
        batches.said.append(announce(shape, side, query))
        fixed, tasks = (pace.overhead[host], work) if fed else (pace.idle[host], 0.0)
        fixed += pace.extra[query]
        longer = longer_by(pace, host, floor((start - pace.phase) / pace.trigger + 1e-9), fixed + tasks)
        cores.begin(batches, query, possible(longer * fixed), possible(longer * tasks), pace)
        for q in others[query]:
            starts[q] = next_start(shape, pace, side, batches, q)
    return batches
