"""The recursion of the pipelined model: compiled where there is much to follow (`penstock.native.jit.kernel`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.native.jit import njit

PARTS = 3
"""Spans of time that the output of one slice is kept as, so that prompt and late inputs stay apart."""


@njit(cache=True)
def flow(
    resource: Any,
    capacity: Any,
    first: Any,
    count: Any,
    writer: Any,
    delay: Any,
    cost: Any,
    share: Any,
    gain: Any,
    arrivals: Any,
    join: Any,
    after: Any,
    slack: Any,
    ends: Any,
    width: float,
    fine: int,
    steps: int,
) -> Any:
    """Follow slices of stimulus time through stations, oldest first.

    A station is an operator on a host, or a stream on a link. The tuples of a slice reach it as a few spans of time,
    evenly spread over each. It serves them from the capacity that older slices leave, and what it puts out are spans
    again. A join with count windows pairs each tuple with the latest of the other input, so that what a late input
    yields has the stimulus of the prompt one: it belongs to the slice that has come by then.

    Parameters
    ----------
    resource, capacity
        Of each station its host or link; of those, capacity in units of work per second.
    first, count
        Where each station's inputs begin in the arrays that follow, and how many there are.
    writer, delay, cost, share
        Of each input: the station that writes it (-1 - row for a source), the seconds that it takes to arrive, work
        per tuple, and the part of the writer's output that it gets.
    gain
        Array (inputs, periods): output tuples per input tuple.
    arrivals
        Array (sources, periods): tuples per second.
    join
        Of each station its row in ``after`` where it is a join with count windows, else -1.
    after
        Array (joins, 2, slices): the next slice in which an input of the join has tuples.
    slack
        Array (resources, periods): seconds by which the parts of one slice may be apart without being late.
    ends
        Of each station its row in the answer, or -1.
    width, fine, steps
        Length of a slice and of a step of time (s), slices per period, number of steps.

    Returns
    -------
    ndarray, ndarray
        Arrays (ends, slices): when the slice has left (s), tuples that leave. Infinite beyond the last step.
    """
    stations, periods = resource.size, arrivals.shape[1]
    slices = periods * fine
    free = np.empty((capacity.size, steps))
    # Steps that are full point to the next one that may not be; paths to it are shortened as they are walked.
    follow = np.empty((capacity.size, steps + 1), np.int64)
    for r in range(capacity.size):
        for k in range(steps):
            free[r, k] = capacity[r] * width
        for k in range(steps + 1):
            follow[r, k] = k
    number = np.zeros(stations, np.int64)
    begin = np.zeros((stations, PARTS))
    end = np.zeros((stations, PARTS))
    amount = np.zeros((stations, PARTS))
    rows = 0
    most = 1
    for s in range(stations):
        rows = max(rows, ends[s] + 1)
        most = max(most, count[s] * PARTS)
    left = np.zeros((rows, slices))
    tuples = np.zeros((rows, slices))
    # Work at hand: the spans that reach one station in one slice.
    a_begin, a_end, a_tuples = np.empty(most), np.empty(most), np.empty(most)
    a_input = np.empty(most, np.int64)
    b_begin, b_end, b_tuples = np.empty(2 * most + 8), np.empty(2 * most + 8), np.empty(2 * most + 8)
    # Outputs of joins that wait for their slice, first in first out.
    joins = after.shape[0]
    room = slices * 2 * PARTS + 8 if joins else 1
    late_begin = np.empty((joins, 2, room))
    late_end = np.empty((joins, 2, room))
    late_tuples = np.empty((joins, 2, room))
    head = np.zeros((joins, 2), np.int64)
    tail = np.zeros((joins, 2), np.int64)
    progress, rated = np.empty(2), np.empty(2)
    for q in range(slices):
        p = q // fine
        for s in range(stations):
            # Collect the spans that arrive, by beginning; spans without tuples only where there are no others.
            have = 0
            for j in range(first[s], first[s] + count[s]):
                w = writer[j]
                for i in range(1 if w < 0 else number[w]):
                    if w < 0:
                        x, y, z = q * width, (q + 1) * width, arrivals[-1 - w, p] * width
                    else:
                        x, y, z = begin[w, i], end[w, i], amount[w, i] * share[j]
                    x += delay[j]
                    y += delay[j]
                    at = have
                    while at > 0 and a_begin[at - 1] > x:
                        a_begin[at], a_end[at] = a_begin[at - 1], a_end[at - 1]
                        a_tuples[at], a_input[at] = a_tuples[at - 1], a_input[at - 1]
                        at -= 1
                    a_begin[at], a_end[at], a_tuples[at], a_input[at] = x, y, z, j
                    have += 1
            some = False
            for i in range(have):
                some = some or a_tuples[i] > 0.0
            # Serve them.
            r = resource[s]
            rate = capacity[r]
            progress[0] = progress[1] = np.inf
            rated[0] = rated[1] = 0.0
            made = 0
            for i in range(have):
                if some and a_tuples[i] <= 0.0:
                    continue
                j = a_input[i]
                start, last = a_begin[i], a_end[i]
                whole = a_tuples[i] * cost[j]
                served, opened, finish = 0.0, -1.0, last
                k = int(start / width + 1e-9)
                if whole <= 0.0:
                    # Nothing to do is still done in turn: after what is older.
                    k = int(last / width + 1e-9)
                while served < whole * (1 - 1e-12) or (whole <= 0.0 and opened < 0.0):
                    root = k
                    while root < steps and follow[r, root] != root:
                        root = follow[r, root]
                    while k < root:
                        nearer = follow[r, k]
                        follow[r, k] = root
                        k = nearer
                    k = root
                    if k >= steps:
                        finish = np.inf
                        opened = start
                        break
                    edge = (k + 1) * width
                    if whole <= 0.0:
                        finish = max(last, edge - free[r, k] / rate)
                        opened = min(finish, start)
                        break
                    spare = min(free[r, k], rate * (edge - max(start, k * width)))
                    here = whole if edge >= last - 1e-12 else whole * max(0.0, (edge - start) / (last - start))
                    part = min(spare, here - served)
                    if part > 0.0:
                        if opened < 0.0:
                            opened = max(start, edge - free[r, k] / rate)
                        free[r, k] -= part
                        served += part
                        finish = max(last, edge - free[r, k] / rate)
                        if free[r, k] <= 1e-12 * rate * width:
                            follow[r, k] = k + 1
                    k += 1
                a_begin[i] = start if opened < 0.0 else opened
                a_end[i] = max(finish, last)
                if join[s] >= 0 and a_tuples[i] > 0.0:
                    side = j - first[s]
                    progress[side] = min(progress[side], a_end[i])
                    rated[side] += a_tuples[i]
            # The latest tuple of an input is as old as the gap between its tuples, besides late.
            for side in range(2):
                if rated[side] > 0.0:
                    progress[side] += slack[r, p] + width / rated[side]
            # Hand on what came out.
            for i in range(have):
                if some and a_tuples[i] <= 0.0:
                    continue
                j = a_input[i]
                out = a_tuples[i] * gain[j, p]
                if join[s] >= 0 and a_tuples[i] > 0.0 and q < slices - 1:
                    side = j - first[s]
                    other = progress[1 - side]
                    if other == np.inf:
                        other = after[join[s], 1 - side, q] * width
                    if a_end[i] > other and tail[join[s], side] < room:
                        t = tail[join[s], side]
                        late_begin[join[s], side, t] = a_begin[i]
                        late_end[join[s], side, t] = a_end[i]
                        late_tuples[join[s], side, t] = out
                        tail[join[s], side] += 1
                        continue
                b_begin[made], b_end[made], b_tuples[made] = a_begin[i], a_end[i], out
                made += 1
            if join[s] >= 0:
                for side in range(2):
                    # The other input has come so far, or will have nothing newer until then.
                    other = progress[1 - side]
                    if other < np.inf:
                        other = max(other, after[join[s], 1 - side, q] * width)
                    if q == slices - 1:
                        other = np.inf
                    elif other == np.inf:
                        continue
                    while head[join[s], side] < tail[join[s], side]:
                        h = head[join[s], side]
                        if late_end[join[s], side, h] > other or made >= b_begin.size - most:
                            if q < slices - 1 or made < 4:
                                break
                            b_end[made - 1] = max(b_end[made - 1], late_end[join[s], side, h])
                            b_tuples[made - 1] += late_tuples[join[s], side, h]
                            head[join[s], side] += 1
                            continue
                        b_begin[made] = late_begin[join[s], side, h]
                        b_end[made] = late_end[join[s], side, h]
                        b_tuples[made] = late_tuples[join[s], side, h]
                        made += 1
                        head[join[s], side] += 1
                if made == 0:
                    i = 0
                    for other_one in range(1, have):
                        if a_end[other_one] < a_end[i]:
                            i = other_one
                    b_begin[0], b_end[0], b_tuples[0] = a_begin[i], a_end[i], 0.0
                    made = 1
            # Order by beginning, and join spans that overlap, then the nearest, until few enough are left.
            for i in range(1, made):
                at = i
                x, y, z = b_begin[i], b_end[i], b_tuples[i]
                while at > 0 and b_begin[at - 1] > x:
                    b_begin[at], b_end[at], b_tuples[at] = b_begin[at - 1], b_end[at - 1], b_tuples[at - 1]
                    at -= 1
                b_begin[at], b_end[at], b_tuples[at] = x, y, z
            while made > 1:
                nearest, gap = 0, np.inf
                for i in range(made - 1):
                    if b_begin[i + 1] - b_end[i] < gap:
                        nearest, gap = i, b_begin[i + 1] - b_end[i]
                if gap > 0.0 and made <= PARTS:
                    break
                b_end[nearest] = max(b_end[nearest], b_end[nearest + 1])
                b_tuples[nearest] += b_tuples[nearest + 1]
                for i in range(nearest + 1, made - 1):
                    b_begin[i], b_end[i], b_tuples[i] = b_begin[i + 1], b_end[i + 1], b_tuples[i + 1]
                made -= 1
            number[s] = made
            total, latest, virtual = 0.0, -1.0, 0.0
            for i in range(made):
                begin[s, i], end[s, i], amount[s, i] = b_begin[i], b_end[i], b_tuples[i]
                total += b_tuples[i]
                virtual = max(virtual, b_end[i])
                if b_tuples[i] > 0.0:
                    latest = max(latest, b_end[i])
            if ends[s] >= 0:
                left[ends[s], q] = latest if latest >= 0.0 else virtual
                tuples[ends[s], q] = total
    return left, tuples
