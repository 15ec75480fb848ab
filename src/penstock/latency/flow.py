"""The recursion of the pipelined model, compiled: slices of stimulus time pass the stations, oldest first.

A station is an operator on a host, or a stream on a link; those that write stand before those that read. It allocates
nothing: `penstock.latency.slices` lays the arrays out. Spans of time are columns of one array with the rows begin, end
(s) and tuples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from penstock.arrays import Array, Ints
from penstock.latency.flow_tables import PARTS, RECORD
from penstock.native.memory import rows_of
from penstock.native.views import grid, inside, lists, reals, whole

record_at = rows_of(RECORD)


class Stations(NamedTuple):
    """Stations, and the resources that serve them.

    ``resource``: of each station its host or link. ``first``, ``ports``: where its inputs begin, and how many it has.
    ``join``: its row in `Joins` where it is a join with count windows, else -1. ``ends``: its row in the answer, or -1.
    ``capacity`` is that of the resources (units of work/s).
    """

    resource: Ints
    first: Ints
    ports: Ints
    join: Ints
    ends: Ints
    capacity: Array


class Inputs(NamedTuple):
    """Inputs of stations.

    ``writer``: the station that writes it (-1 - row for a source). ``delay``: seconds that it takes to arrive.
    ``cost``: work per tuple. ``share``: the part of the writer's output that it gets. ``gain``, array (inputs,
    periods): output tuples per input tuple. ``arrivals``, array (sources, periods): tuples/s.
    """

    writer: Ints
    delay: Array
    cost: Array
    share: Array
    gain: Array
    arrivals: Array


class Now(NamedTuple):
    """Spans that reach a station, and by which input; what comes out; what readers of each station find.

    ``kept`` is an array (3 · stations, PARTS), ``number`` says how many spans of each are kept.
    """

    here: Array
    by: Ints
    out: Array
    kept: Array
    number: Ints


class Joins(NamedTuple):
    """Joins with count windows; rows of two inputs each.

    ``after``, array (2 · joins, slices): the next slice in which an input has tuples. ``slack``, array (resources,
    periods): seconds by which the parts of one slice may be apart without being late. ``late``, array (6 · joins,
    room): outputs that wait for their slice, from the first to the last of ``queue``, array (2 · joins, 2). ``come``:
    up to when (s) the inputs of the present one have come.
    """

    after: Array
    slack: Array
    late: Array
    queue: Ints
    come: Array


class Flow(NamedTuple):
    """All of it.

    ``width`` is the length of a slice and of a step of time (s), ``fine`` slices per period. ``free``, array
    (resources, steps): the work that each step has room for; ``follow``, array (resources, steps + 1): for full steps
    one further on that may have some. Paths over full steps are shortened as they are walked.
    """

    width: float
    fine: int
    stations: Stations
    inputs: Inputs
    now: Now
    joins: Joins
    free: Array
    follow: Ints


@inside()
def _insert(now: Now, spans: Array, have: int, span: tuple[float, float, float], source: int) -> None:
    """Put a span among the first ones, which are ordered by beginning, behind those that begin with it."""
    at = have
    while at > 0 and spans[0, at - 1] > span[0]:
        spans[0, at], spans[1, at], spans[2, at] = spans[0, at - 1], spans[1, at - 1], spans[2, at - 1]
        now.by[at] = now.by[at - 1]
        at -= 1
    spans[0, at], spans[1, at], spans[2, at], now.by[at] = span[0], span[1], span[2], source


@inside()
def _collect(f: Flow, s: int, q: int) -> int:
    """Gather the spans that reach a station, by beginning; return how many there are."""
    have, p, width = 0, q // f.fine, f.width
    inputs, now = f.inputs, f.now
    for j in range(f.stations.first[s], f.stations.first[s] + f.stations.ports[s]):
        w = inputs.writer[j]
        for i in range(1 if w < 0 else now.number[w]):
            if w < 0:
                x, y, z = q * width, (q + 1) * width, inputs.arrivals[-1 - w, p] * width
            else:
                x, y, z = now.kept[3 * w, i], now.kept[3 * w + 1, i], now.kept[3 * w + 2, i] * inputs.share[j]
            _insert(now, now.here, have, (x + inputs.delay[j], y + inputs.delay[j], z), j)
            have += 1
    return have


@inside()
def _open_step(follow: Ints, r: int, k: int, steps: int) -> int:
    """Return the first step from this one on that may have room, and shorten the path to it."""
    root = k
    while root < steps and follow[r, root] != root:
        root = follow[r, root]
    while k < root:
        nearer = follow[r, k]
        follow[r, k] = root
        k = nearer
    return root


@inside()
def _turn(f: Flow, r: int, come: float, k: int) -> float:
    """Return when (s) what has come, and asks for no work, is done: in the first step from this one that has room."""
    steps = f.free.shape[1]
    k = _open_step(f.follow, r, k, steps)
    return max(come, (k + 1) * f.width - f.free[r, k] / f.stations.capacity[r]) if k < steps else np.inf


@inside()
def _serve(f: Flow, r: int, start: float, last: float, work: float) -> tuple[float, float]:
    """Give a span the room of the first steps that have some; return when its service begins and ends (s)."""
    free, follow, rate, width = f.free, f.follow, f.stations.capacity[r], f.width
    steps = free.shape[1]
    if work <= 0.0:
        # Nothing to do is still done in turn: the first and the last of it after what is older.
        begin = _turn(f, r, start, int(min(start / width + 1e-9, steps)))
        finish = max(begin, _turn(f, r, last, int(min(max(last / width - 1e-9, 0.0), steps))))
        return begin if finish < np.inf else start, finish
    served, opened, finish = 0.0, -1.0, last
    k = int(start / width + 1e-9)
    while served < work * (1 - 1e-12):
        k = _open_step(follow, r, k, steps)
        if k >= steps:
            return start, np.inf
        edge = (k + 1) * width
        spare = min(free[r, k], rate * (edge - max(start, k * width)))
        come = work if edge >= last - 1e-12 else work * max(0.0, (edge - start) / (last - start))
        part = min(spare, come - served)
        if part > 0.0:
            if opened < 0.0:
                opened = max(start, edge - free[r, k] / rate)
            free[r, k] -= part
            served += part
            finish = max(last, edge - free[r, k] / rate)
            if free[r, k] <= 1e-12 * rate * width:
                follow[r, k] = k + 1
        k += 1
    return start if opened < 0.0 else opened, max(finish, last)


@inside()
def _progress(f: Flow, s: int, q: int, have: int) -> None:
    """Find up to when (s) the two inputs of a join have come; infinite without tuples."""
    here, by, start = f.now.here, f.now.by, f.stations.first[s]
    slack = f.joins.slack[f.stations.resource[s], q // f.fine]
    for side in range(2):
        until, tuples = np.inf, 0.0
        for i in range(have):
            if by[i] - start == side and here[2, i] > 0.0:
                until = min(until, here[1, i])
                tuples += here[2, i]
        # The latest tuple of an input is as old as the gap between its tuples, besides late.
        f.joins.come[side] = until + slack + f.width / tuples if tuples > 0.0 else np.inf


@inside()
def _hold(f: Flow, s: int, q: int, have: int, some: bool) -> int:
    """Put out what a join yields for this slice, and let wait what is for a later one; return how many spans come."""
    here, by, out, joins = f.now.here, f.now.by, f.now.out, f.joins
    made, final = 0, q == joins.after.shape[1] - 1
    for i in range(have):
        if some and here[2, i] <= 0.0:
            continue
        tuples = here[2, i] * f.inputs.gain[by[i], q // f.fine]
        if here[2, i] > 0.0 and not final:
            side = by[i] - f.stations.first[s]
            row = 2 * f.stations.join[s] + side
            other = joins.come[1 - side]
            if other == np.inf:
                other = joins.after[2 * f.stations.join[s] + 1 - side, q] * f.width
            t = joins.queue[row, 1]
            if here[1, i] > other and t < joins.late.shape[1]:
                joins.late[3 * row, t], joins.late[3 * row + 1, t] = here[0, i], here[1, i]
                joins.late[3 * row + 2, t] = tuples
                joins.queue[row, 1] += 1
                continue
        out[0, made], out[1, made], out[2, made] = here[0, i], here[1, i], tuples
        made += 1
    return made


@inside()
def _release(f: Flow, j: int, q: int, made: int) -> int:
    """Put out what has waited for the other input of a join to come so far, at the last slice everything."""
    out, joins, final = f.now.out, f.joins, q == f.joins.after.shape[1] - 1
    room = out.shape[1] - f.now.here.shape[1]
    for side in range(2):
        row = 2 * j + side
        # The other input has come so far, or will have nothing newer until then.
        other = joins.come[1 - side]
        if final:
            other = np.inf
        elif other == np.inf:
            continue
        else:
            other = max(other, joins.after[2 * j + 1 - side, q] * f.width)
        while joins.queue[row, 0] < joins.queue[row, 1]:
            h = joins.queue[row, 0]
            x, y, z = joins.late[3 * row, h], joins.late[3 * row + 1, h], joins.late[3 * row + 2, h]
            if y > other or made >= room:
                if not final or made < 4:
                    break
                out[1, made - 1] = max(out[1, made - 1], y)
                out[2, made - 1] += z
            else:
                out[0, made], out[1, made], out[2, made] = x, y, z
                made += 1
            joins.queue[row, 0] += 1
    return made


@inside()
def _nothing(now: Now, have: int) -> int:
    """Put out a span without tuples where the first input has ended, so that readers know how far it has come."""
    first = 0
    for i in range(1, have):
        if now.here[1, i] < now.here[1, first]:
            first = i
    now.out[0, 0], now.out[1, 0], now.out[2, 0] = now.here[0, first], now.here[1, first], 0.0
    return 1


@inside()
def _fewer(now: Now, made: int) -> int:
    """Order spans by beginning; join those that overlap, then the nearest, until few enough are left."""
    out = now.out
    for i in range(1, made):
        _insert(now, out, i, (out[0, i], out[1, i], out[2, i]), 0)
    while made > 1:
        nearest, gap = 0, np.inf
        for i in range(made - 1):
            if out[0, i + 1] - out[1, i] < gap:
                nearest, gap = i, out[0, i + 1] - out[1, i]
        if gap > 0.0 and made <= PARTS:
            break
        out[1, nearest] = max(out[1, nearest], out[1, nearest + 1])
        out[2, nearest] += out[2, nearest + 1]
        for i in range(nearest + 1, made - 1):
            out[0, i], out[1, i], out[2, i] = out[0, i + 1], out[1, i + 1], out[2, i + 1]
        made -= 1
    return made


@inside()
def _pass(f: Flow, s: int, q: int) -> None:
    """Let a slice pass a station, and keep its output for the readers."""
    now, r, j = f.now, f.stations.resource[s], f.stations.join[s]
    here, by, out = now.here, now.by, now.out
    have = _collect(f, s, q)
    # Spans without tuples count only where there are no others.
    some, made = False, 0
    for i in range(have):
        some = some or here[2, i] > 0.0
    for i in range(have):
        if here[2, i] > 0.0 or not some:
            here[0, i], here[1, i] = _serve(f, r, here[0, i], here[1, i], here[2, i] * f.inputs.cost[by[i]])
            if j < 0:
                gain = f.inputs.gain[by[i], q // f.fine]
                out[0, made], out[1, made], out[2, made] = here[0, i], here[1, i], here[2, i] * gain
                made += 1
    if j >= 0:
        _progress(f, s, q, have)
        made = _release(f, j, q, _hold(f, s, q, have, some))
        made = made if made > 0 else _nothing(now, have)
    now.number[s] = _fewer(now, made)
    for i in range(now.number[s]):
        for row in range(3):
            now.kept[3 * s + row, i] = out[row, i]


@inside(int64(int64))
def flow(address: int) -> int:
    """Follow slices of stimulus time through stations, oldest first.

    The tuples of a slice reach a station as a few spans of time, evenly spread over each. It serves them from the
    capacity that older slices leave, and what it puts out are spans again. A join with count windows pairs each tuple
    with the latest of the other input, so that what a late input yields has the stimulus of the prompt one: it belongs
    to the slice that has come by then.
    """
    g = record_at(address, 0)
    n, slices = g.stations, g.periods * g.fine
    stations = Stations(
        whole(g.resource, n), whole(g.first, n), whole(g.count, n), whole(g.join, n), whole(g.ends, n),
        reals(g.capacity, g.resources),
    )  # fmt: skip
    inputs = Inputs(
        whole(g.writer, g.inputs), reals(g.delay, g.inputs), reals(g.cost, g.inputs), reals(g.share, g.inputs),
        grid(g.gain, g.inputs, g.periods), grid(g.arrivals, g.sources, g.periods),
    )  # fmt: skip
    wide = 2 * g.most + 8
    now = Now(
        grid(g.here, 3, g.most), whole(g.by, wide), grid(g.out, 3, wide), grid(g.kept, 3 * n, PARTS),
        whole(g.number, n),
    )  # fmt: skip
    joins = Joins(
        grid(g.after, 2 * g.joins, slices), grid(g.slack, g.resources, g.periods),
        grid(g.late, 6 * g.joins, g.queued), lists(g.queue, 2 * g.joins, 2), reals(g.come, 2),
    )  # fmt: skip
    free, follow = grid(g.free, g.resources, g.steps), lists(g.follow, g.resources, g.steps + 1)
    f = Flow(g.width, g.fine, stations, inputs, now, joins, free, follow)
    left, tuples = grid(g.left, g.rows * PARTS, slices), grid(g.tuples, g.rows * PARTS, slices)
    for q in range(slices):
        for s in range(n):
            _pass(f, s, q)
            for i in range(now.number[s] if stations.ends[s] >= 0 else 0):
                row = stations.ends[s] * PARTS + i
                left[row, q], tuples[row, q] = now.kept[3 * s + 1, i], now.kept[3 * s + 2, i]
    return 0
