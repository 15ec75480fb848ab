"""The recursion of the pipelined model in plain Python, array by array.

A station is an operator on a host, or a stream on a link; those that write stand before those that read. Arrays tell:

* ``resource``, ``capacity``: Of each station its host or link; of those, capacity in units of work per second.
* ``first``, ``count``: Where each station's inputs begin in the arrays that follow, and how many there are.
* ``writer``, ``delay``, ``cost``, ``share``: Of each input: the station that writes it (-1 - row for a source), the
  seconds that it takes to arrive, work per tuple, and the part of the writer's output that it gets.
* ``gain`` (inputs, periods): output tuples per input tuple.
* ``arrivals`` (sources, periods): tuples per second.
* ``join``: Of each station its row in ``after`` where it is a join with count windows, else -1.
* ``after`` (joins, 2, slices): the next slice in which an input of the join has tuples.
* ``slack`` (resources, periods): seconds by which the parts of one slice may be apart without being late.
* ``ends``: Of each station its row in the answer, or -1.

Spans of time are columns of one array with the rows begin, end (s) and tuples.
"""

import numpy as np

PARTS = 3
"""Spans that the output of one slice is kept as, so that prompt and late inputs stay apart."""


def flow(
    resource, capacity, first, count, writer, delay, cost, share,
    gain, arrivals, join, after, slack, ends, width, fine,
    steps,
):  # fmt: skip
    """Follow slices of stimulus time through stations, oldest first.

    The tuples of a slice reach a station as a few spans of time, evenly spread over each. It serves them from the
    capacity that older slices leave, and what it puts out are spans again. A join with count windows pairs each tuple
    with the latest of the other input, so that what a late input yields has the stimulus of the prompt one: it belongs
    to the slice that has come by then.

    ``width`` and ``fine`` are the length of a slice and of a step of time (s) and slices per period, ``steps`` how many
    steps there are. Returned are arrays (ends, PARTS, slices): when a span of the slice has left (s; infinite beyond
    the last step; 0 where there are fewer spans), and the tuples that leave with it.
    """
    stations, slices = resource.size, arrivals.shape[1] * fine
    free, follow = _room(capacity, width, steps)
    most = max(1, count.max() * PARTS) if stations else 1
    rows = ends.max() + 1 if stations else 0
    left, tuples = np.zeros((rows, PARTS, slices)), np.zeros((rows, PARTS, slices))
    # What reaches a station and by which input, what comes out, and what readers of each station find.
    here, out, by = np.empty((3, most)), np.empty((3, 2 * most + 8)), np.empty(2 * most + 8, np.int64)
    kept, number = np.zeros((stations, 3, PARTS)), np.zeros(stations, np.int64)
    # Outputs of joins that wait for their slice, from the first in the queue to the last.
    late = np.empty((after.shape[0], 2, 3, slices * 2 * PARTS + 8 if after.shape[0] else 1))
    queue, come = np.zeros((after.shape[0], 2, 2), np.int64), np.empty(2)
    for q in range(slices):
        p = q // fine
        for s in range(stations):
            r, start, j = resource[s], first[s], join[s]
            have = _collect(
                start, start + count[s], writer, delay, share, arrivals, p, kept, number, q, width, here, by
            )
            # Spans without tuples count only where there are no others.
            some, made = False, 0
            for i in range(have):
                some = some or here[2, i] > 0.0
            for i in range(have):
                if here[2, i] > 0.0 or not some:
                    work = here[2, i] * cost[by[i]]
                    here[0, i], here[1, i] = _serve(free, follow, r, capacity[r], width, here[0, i], here[1, i], work)
                    if j < 0:
                        out[0, made], out[1, made], out[2, made] = here[0, i], here[1, i], here[2, i] * gain[by[i], p]
                        made += 1
            if j >= 0:
                _progress(here, by, have, start, slack[r, p], width, come)
                made = _hold(here, by, have, some, gain, p, start, come, after, j, q, width, late, queue, out)
                made = _release(come, after, j, q, width, late, queue, out, made, out.shape[1] - most)
                made = made if made > 0 else _nothing(here, have, out)
            number[s] = _fewer(out, by, made)
            for i in range(number[s]):
                kept[s, :, i] = out[:, i]
                if ends[s] >= 0:
                    left[ends[s], i, q], tuples[ends[s], i, q] = out[1, i], out[2, i]
    return left, tuples


def _room(capacity, width, steps):
    """Return the work that each step has room for, and for full steps one further on that may have some.

    Paths over full steps are shortened as they are walked.
    """
    free = np.empty((capacity.size, steps))
    follow = np.empty((capacity.size, steps + 1), np.int64)
    for r in range(capacity.size):
        free[r, :] = capacity[r] * width
        follow[r, :] = np.arange(steps + 1)
    return free, follow


def _insert(spans, by, have, begin, end, tuples, source):
    """Put a span among the first ones, which are ordered by beginning, behind those that begin with it."""
    at = have
    while at > 0 and spans[0, at - 1] > begin:
        spans[0, at], spans[1, at], spans[2, at] = spans[0, at - 1], spans[1, at - 1], spans[2, at - 1]
        by[at] = by[at - 1]
        at -= 1
    spans[0, at], spans[1, at], spans[2, at], by[at] = begin, end, tuples, source


def _collect(
    start, stop, writer, delay, share, arrivals, p, kept,
    number, q, width, here, by,
):  # fmt: skip
    """Gather the spans that reach a station, by beginning; return how many there are."""
    have = 0
    for j in range(start, stop):
        w = writer[j]
        for i in range(1 if w < 0 else number[w]):
            if w < 0:
                x, y, z = q * width, (q + 1) * width, arrivals[-1 - w, p] * width
            else:
                x, y, z = kept[w, 0, i], kept[w, 1, i], kept[w, 2, i] * share[j]
            _insert(here, by, have, x + delay[j], y + delay[j], z, j)
            have += 1
    return have


def _open_step(follow, r, k, steps):
    """Return the first step from this one on that may have room, and shorten the path to it."""
    root = k
    while root < steps and follow[r, root] != root:
        root = follow[r, root]
    while k < root:
        nearer = follow[r, k]
        follow[r, k] = root
        k = nearer
    return root


def _turn(free, follow, r, rate, width, come, k):
    """Return when (s) what has come, and asks for no work, is done: in the first step from this one that has room."""
    k = _open_step(follow, r, k, free.shape[1])
    return max(come, (k + 1) * width - free[r, k] / rate) if k < free.shape[1] else np.inf


def _serve(free, follow, r, rate, width, start, last, work):
    """Give a span the room of the first steps that have some; return when its service begins and ends (s)."""
    steps = free.shape[1]
    if work <= 0.0:
        # Nothing to do is still done in turn: the first and the last of it after what is older.
        begin = _turn(free, follow, r, rate, width, start, int(min(start / width + 1e-9, steps)))
        step = int(min(max(last / width - 1e-9, 0.0), steps))
        finish = max(begin, _turn(free, follow, r, rate, width, last, step))
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


def _progress(here, by, have, start, slack, width, come):
    """Find up to when (s) the two inputs of a join have come, which begin at ``start``; infinite without tuples."""
    for side in range(2):
        until, tuples = np.inf, 0.0
        for i in range(have):
            if by[i] - start == side and here[2, i] > 0.0:
                until = min(until, here[1, i])
                tuples += here[2, i]
        # The latest tuple of an input is as old as the gap between its tuples, besides late.
        come[side] = until + slack + width / tuples if tuples > 0.0 else np.inf


def _hold(
    here, by, have, some, gain, p, start, come, after, j,
    q, width, late, queue, out,
):  # fmt: skip
    """Put out what a join yields for this slice, and let wait what is for a later one; return how many spans come."""
    made, final = 0, q == after.shape[2] - 1
    for i in range(have):
        if some and here[2, i] <= 0.0:
            continue
        tuples = here[2, i] * gain[by[i], p]
        if here[2, i] > 0.0 and not final:
            side = by[i] - start
            other = come[1 - side]
            if other == np.inf:
                other = after[j, 1 - side, q] * width
            t = queue[j, side, 1]
            if here[1, i] > other and t < late.shape[3]:
                late[j, side, 0, t], late[j, side, 1, t], late[j, side, 2, t] = here[0, i], here[1, i], tuples
                queue[j, side, 1] += 1
                continue
        out[0, made], out[1, made], out[2, made] = here[0, i], here[1, i], tuples
        made += 1
    return made


def _release(come, after, j, q, width, late, queue, out, made, room):
    """Put out what has waited for the other input of a join to come so far, at the last slice everything."""
    final = q == after.shape[2] - 1
    for side in range(2):
        # The other input has come so far, or will have nothing newer until then.
        other = come[1 - side]
        if final:
            other = np.inf
        elif other == np.inf:
            continue
        else:
            other = max(other, after[j, 1 - side, q] * width)
        while queue[j, side, 0] < queue[j, side, 1]:
            h = queue[j, side, 0]
            if late[j, side, 1, h] > other or made >= room:
                if not final or made < 4:
                    break
                out[1, made - 1] = max(out[1, made - 1], late[j, side, 1, h])
                out[2, made - 1] += late[j, side, 2, h]
            else:
                out[0, made], out[1, made], out[2, made] = late[j, side, 0, h], late[j, side, 1, h], late[j, side, 2, h]
                made += 1
            queue[j, side, 0] += 1
    return made


def _nothing(here, have, out):
    """Put out a span without tuples where the first input has ended, so that readers know how far it has come."""
    first = 0
    for i in range(1, have):
        if here[1, i] < here[1, first]:
            first = i
    out[0, 0], out[1, 0], out[2, 0] = here[0, first], here[1, first], 0.0
    return 1


def _fewer(out, by, made):
    """Order spans by beginning; join those that overlap, then the nearest, until few enough are left."""
    for i in range(1, made):
        _insert(out, by, i, out[0, i], out[1, i], out[2, i], 0)
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
