"""What the recursion over micro-batches reads and writes: a placed network in numbers, and batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs

Numbers = Sequence[int]
Figures = Sequence[float]


class Shape(NamedTuple):
    """A placed network in numbers; ``x_first`` says where the x of each thing begin, with one more entry at the end.

    Attributes
    ----------
    times, ends, segment
        Of each point: stimulus time (s), for windows their end, and its segment; by root.
    point_first, segment_first, edge
        By root: its points, its segments; by segment: its first point (one more entry for each root).
    inlet_root, inlet_parent, inlet_weight, inlet_late
        By inlet: its root; the inlet of the query that writes it, or -1; where the sums of its weights on its stream
        begin (-1: none); the lateness of the windows that it puts out.
    inlet_first, feed_first, own_first
        By query its inlets and its feeds, and the first inlet that is its own windows.
    feed_inlet, feed_end, feed_source, feed_writer, feed_water
        By feed: its inlets, the root it is (or -1), the query that writes it (or -1), the row of water it moves.
    sums
        Of weights, over the segments of roots.
    water_first, water_announcer, water_query, water_late, water_minded
        By query its rows of water; by row: who announces it (-1: a source) and for which query, its lateness, and
        whether the query's watermark minds it.
    announcer_first, announcer_behind, announcer_late, heard_first, heard
        By query its announcers; by announcer: whether a stateful operator lies before it, its lateness, and the rows of
        water that it heeds.
    host, group, member_first, member, cores
        By query its host and its group, those that work on the same cores; by group its queries, and how many of its
        hosts can work at once.
    progressive
        Whether output appears evenly during a batch.
    """

    times: Figures
    ends: Figures
    segment: Numbers
    point_first: Numbers
    segment_first: Numbers
    edge: Numbers
    inlet_root: Numbers
    inlet_parent: Numbers
    inlet_weight: Numbers
    inlet_late: Figures
    inlet_first: Numbers
    own_first: Numbers
    feed_first: Numbers
    feed_inlet: Numbers
    feed_end: Numbers
    feed_source: Numbers
    feed_writer: Numbers
    feed_water: Numbers
    sums: Figures
    water_first: Numbers
    water_announcer: Numbers
    water_query: Numbers
    water_late: Figures
    water_minded: Sequence[bool]
    announcer_first: Numbers
    announcer_behind: Sequence[bool]
    announcer_late: Figures
    heard_first: Numbers
    heard: Numbers
    host: Numbers
    group: Numbers
    member_first: Numbers
    member: Numbers
    cores: Figures
    progressive: bool


class Pace(NamedTuple):
    """What batches take.

    Attributes
    ----------
    trigger, phase
        Interval of the micro-batches (s), and the first multiple of it (s).
    overhead, idle
        By host: seconds per batch, and per batch without input.
    work
        By inlet: seconds that its points take, by segment from 0, summed.
    noise
        By host: by what its batches take longer, for those that start in one interval of the trigger after another; at
        the end it begins again.
    reading, commit
        Seconds from a batch's start until it sees its input, and from its output's being visible to its end.
    limit
        When the recursion stops at the latest (s).
    """

    trigger: float
    phase: float
    overhead: Figures
    idle: Figures
    work: Sequence[Figures]
    noise: Sequence[Figures]
    reading: float
    commit: float
    limit: float


@attrs.define(eq=False)
class Batches:
    """The batches of a run, in the order of their starts.

    Attributes
    ----------
    query, start, end, visible, work
        Of each: its query, when it starts, ends and its output is visible (s), and the seconds of work in it.
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
