"""What queries read of each other's batches, compiled: a part of `penstock.latency.recursion`.

How far a query has come on a feed is a number of points for each of its inlets; sums say what these points carry.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from numba import boolean, float64, from_dtype, int64, types

from penstock.latency.tables import GLOBALS, TABLES
from penstock.native.memory import inner, rows_of

announcers_at = rows_of(TABLES["announcers"])
batches_at = rows_of(TABLES["batches"])
edges_at = rows_of(TABLES["edges"])
feeds_at = rows_of(TABLES["feeds"])
figures_at = rows_of(TABLES["noise"])
groups_at = rows_of(TABLES["groups"])
hosts_at = rows_of(TABLES["hosts"])
inlets_at = rows_of(TABLES["inlets"])
numbers_at = rows_of(TABLES["upto"])
points_at = rows_of(TABLES["points"])
queries_at = rows_of(TABLES["queries"])
roots_at = rows_of(TABLES["roots"])
waters_at = rows_of(TABLES["waters"])
scalars_at = rows_of(GLOBALS)

_G = from_dtype(GLOBALS)
# Nothing here owns memory, so no references need counting.
inside = inner({"int": int64, "float": float64, "bool": boolean, "Scalars": _G, "None": types.none})
Scalars: TypeAlias = Any  # the record of globals


@inside
def sum_upto(g: Scalars, sums: int, number: int, first: int, point: int) -> float:
    """Return a sum over the first points of a root; ``first`` says where its sums by segment begin."""
    root = roots_at(g.roots, number)
    place = root.point + point
    if place >= root.points:
        return figures_at(sums, first + root.edges - root.edge - 1).value
    edge = points_at(g.points, place).segment
    low = edges_at(g.edges, edge).point
    at = first + edge - root.edge
    below = figures_at(sums, at).value
    return below + (figures_at(sums, at + 1).value - below) * (point - low) / (edges_at(g.edges, edge + 1).point - low)


@inside
def index_at(g: Scalars, number: int, time: float) -> int:
    """Return how many points of a root are at or before a time."""
    root = roots_at(g.roots, number)
    low, high = root.point, root.points
    while low < high:
        middle = (low + high) // 2
        if time < points_at(g.points, middle).time:
            high = middle
        else:
            low = middle + 1
    return low - root.point


@inside
def time_of(g: Scalars, number: int, point: int) -> float:
    """Return the stimulus time of a root's point."""
    return points_at(g.points, roots_at(g.roots, number).point + point).time


@inside
def upto(g: Scalars, batch: int, local: int) -> int:
    """Return how far an inlet of its query has come with a batch."""
    return numbers_at(g.upto, batch * g.wide + local).value


@inside
def batch_after(g: Scalars, batch: int, writer: int) -> int:
    """Return the batch of a query after one of its batches, or its first; -1 where there is none yet."""
    return queries_at(g.queries, writer).first if batch < 0 else batches_at(g.batches, batch).next


@inside
def share_shown(g: Scalars, number: int, batch: int, stimulus: float) -> float:
    """Return which share of a batch's output on a feed has a stimulus of at most this."""
    feed = feeds_at(g.feeds, number)
    base = queries_at(g.queries, feed.writer).inlet
    shown, total = 0.0, 0.0
    for i in range(feed.inlet, feed.inlets):
        inlet = inlets_at(g.inlets, i)
        start = upto(g, feed.taken, inlet.parent - base) if feed.taken >= 0 else 0
        end = upto(g, batch, inlet.parent - base)
        at = min(max(index_at(g, inlet.root, stimulus), start), end)
        low = sum_upto(g, g.sums, inlet.root, inlet.weight, start)
        shown += sum_upto(g, g.sums, inlet.root, inlet.weight, at) - low
        total += sum_upto(g, g.sums, inlet.root, inlet.weight, end) - low
    return shown / total if total > 0 else 0.0


@inside
def fed_at(g: Scalars, number: int) -> float:
    """Return when a feed shows something new (s); infinite if never."""
    feed = feeds_at(g.feeds, number)
    if feed.source >= 0:
        root = roots_at(g.roots, feed.source)
        place = root.point + inlets_at(g.inlets, feed.inlet).position
        return points_at(g.points, place).time if place < root.points else math.inf
    base = queries_at(g.queries, feed.writer).inlet
    n = batch_after(g, feed.taken, feed.writer)
    while n >= 0:
        youngest = math.inf
        for i in range(feed.inlet, feed.inlets):
            inlet = inlets_at(g.inlets, i)
            if upto(g, n, inlet.parent - base) > inlet.position:
                youngest = min(youngest, time_of(g, inlet.root, inlet.position))
        if youngest < math.inf:
            batch = batches_at(g.batches, n)
            if g.progressive == 0:
                return batch.visible
            return batch.start + (batch.visible - batch.start) * share_shown(g, number, n, youngest)
        feed.taken = n
        n = batches_at(g.batches, n).next
    return math.inf


@inside
def take_part(g: Scalars, number: int, batch: int, share: float) -> bool:
    """Take that share of a batch's output which has appeared already, the oldest stimulus first."""
    feed = feeds_at(g.feeds, number)
    base = queries_at(g.queries, feed.writer).inlet
    low, high = math.inf, -math.inf
    for i in range(feed.inlet, feed.inlets):
        inlet = inlets_at(g.inlets, i)
        end = upto(g, batch, inlet.parent - base)
        if end > inlet.position:
            low = min(low, time_of(g, inlet.root, inlet.position))
            high = max(high, time_of(g, inlet.root, end - 1))
    if low == math.inf or share_shown(g, number, batch, low) > share:
        return False
    for _ in range(60):
        middle = (low + high) / 2
        if share_shown(g, number, batch, middle) <= share:
            low = middle
        else:
            high = middle
    fed = False
    for i in range(feed.inlet, feed.inlets):
        inlet = inlets_at(g.inlets, i)
        place = min(index_at(g, inlet.root, low), upto(g, batch, inlet.parent - base))
        if place > inlet.position:
            inlet.position = place
            fed = True
    return fed


@inside
def take_feed(g: Scalars, number: int, until: float) -> bool:
    """Take what a feed shows by a time; return whether there was something."""
    feed = feeds_at(g.feeds, number)
    if feed.source >= 0:
        place = index_at(g, feed.source, until)
        inlet = inlets_at(g.inlets, feed.inlet)
        if place <= inlet.position:
            return False
        inlet.position = place
        water = waters_at(g.waters, feed.water)
        water.now = max(water.now, time_of(g, feed.source, place - 1))
        return True
    fed = False
    base = queries_at(g.queries, feed.writer).inlet
    n = batch_after(g, feed.taken, feed.writer)
    while n >= 0:
        batch = batches_at(g.batches, n)
        if batch.visible > until:
            if g.progressive != 0 and batch.start < until:
                share = (until - batch.start) / (batch.visible - batch.start)
                fed = take_part(g, number, n, share) or fed
            break
        for i in range(feed.inlet, feed.inlets):
            inlet = inlets_at(g.inlets, i)
            place = upto(g, n, inlet.parent - base)
            if place > inlet.position:
                inlet.position = place
                fed = True
        feed.taken = n
        n = batch.next
    return fed
