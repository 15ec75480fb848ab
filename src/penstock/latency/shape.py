"""What the recursion over micro-batches reads and writes: a placed network in numbers, and batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs
import numpy as np
from numpy.typing import ArrayLike

from penstock.arrays import Array, Bools, Ints


class Shape(NamedTuple):
    """A placed network in numbers; ``x_first`` says where the x of each thing begin, with one more entry at the end.

    Attributes
    ----------
    times, ends, segment
        Of each point: stimulus time (s), for windows their end, and its segment; by root.
    point_first, segment_first, edge
        By root: its points, its segments; by segment: its first point (one more entry for each root).
    inlet_root, inlet_parent, inlet_weight, inlet_work, inlet_late
        By inlet: its root; the inlet of the query that writes it, or -1; where the sums of its weights on its stream
        begin (-1: none), and those of its work in `Pace` (one more entry at the end); the lateness of the windows that
        it puts out.
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

    times: Array
    ends: Array
    segment: Ints
    point_first: Ints
    segment_first: Ints
    edge: Ints
    inlet_root: Ints
    inlet_parent: Ints
    inlet_weight: Ints
    inlet_work: Ints
    inlet_late: Array
    inlet_first: Ints
    own_first: Ints
    feed_first: Ints
    feed_inlet: Ints
    feed_end: Ints
    feed_source: Ints
    feed_writer: Ints
    feed_water: Ints
    sums: Array
    water_first: Ints
    water_announcer: Ints
    water_query: Ints
    water_late: Array
    water_minded: Bools
    announcer_first: Ints
    announcer_behind: Bools
    announcer_late: Array
    heard_first: Ints
    heard: Ints
    host: Ints
    group: Ints
    member_first: Ints
    member: Ints
    cores: Array
    progressive: bool


class Pace(NamedTuple):
    """What batches take.

    Attributes
    ----------
    trigger, phase
        Interval of the micro-batches (s), and the first multiple of it (s).
    overhead, idle
        By host: seconds per batch, and per batch without input.
    extra
        By query: seconds that each of its batches takes beside.
    work
        Seconds that the points of inlets take, by segment from 0, summed; of one inlet after another.
    noise
        By host: by what its batches take longer, for those that start in one interval of the trigger after another; at
        the end it begins again.
    jitter, residual
        By host: how its batches differ by chance, standard deviations in s: of every batch, and of a second's work,
        which averages out as batches grow longer.
    chance
        By host: by how many of these standard deviations they do, likewise.
    reading, commit
        Seconds from a batch's start until it sees its input, and from its output's being visible to its end.
    """

    trigger: float
    phase: float
    overhead: ArrayLike
    idle: ArrayLike
    work: Array
    noise: Sequence[Array]
    reading: float
    commit: float
    jitter: ArrayLike = 0.0
    residual: ArrayLike = 0.0
    chance: Sequence[Array] | None = None
    extra: ArrayLike = 0.0


@attrs.frozen(eq=False)
class Batches:
    """The batches of a run, in the order of their starts.

    Attributes
    ----------
    query, start, end, visible, work
        Arrays (batches,): of each its query, when it starts, ends and its output is visible (s), and the seconds of
        work in it.
    upto
        Array (batches, inlets of a query): how far each inlet of its query has come by its end.
    """

    query: Ints
    start: Array
    end: Array
    visible: Array
    work: Array
    upto: Ints

    def of(self, query: int) -> Ints:
        """Return the numbers of a query's batches."""
        return np.flatnonzero(self.query == query)
