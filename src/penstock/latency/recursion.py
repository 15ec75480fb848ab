"""The recursion over micro-batches, compiled: batch by batch, whatever the number of tuples.

What streams carry does not depend on time: every tuple derives from a point of a *root*, a source or an operator that
puts out windows, and roots have their points in order. So how far a query has come is a number of points for each of
its *inlets*, a root as it reaches the query along one way, and the work of a batch is a difference of sums. Batches
that share cores are followed in `_advance`: fixed parts and the tasks of one batch per host go on side by side.

It allocates nothing: where the table of batches is full, it returns and is called again with a larger one.
"""

from __future__ import annotations

import math
from typing import Any

from numba import int64, njit

from penstock.latency.inlets import (
    Scalars,
    announcers_at,
    batch_after,
    batches_at,
    fed_at,
    figures_at,
    groups_at,
    hosts_at,
    inlets_at,
    inside,
    numbers_at,
    points_at,
    queries_at,
    roots_at,
    scalars_at,
    sum_upto,
    take_feed,
    waters_at,
)
from penstock.latency.tables import COMMIT, DONE, ENDED, FIXED, FULL, LONGEST, SOON, TASKS, WAITING

# It is called by address, so it needs no wrappers.
_compiler: Any = njit
_entry = _compiler(int64(int64), no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


@inside
def _said(g: Scalars, batch: int, announcer: int, writer: int) -> float:
    """Return the event time that an announcer has said with a batch; NaN where it said nothing new."""
    local = announcer - queries_at(g.queries, writer).announcer
    return figures_at(g.said, batch * g.voices + local).value


@inside
def _told(g: Scalars, number: int) -> float:
    """Return when event time is announced to a row of water (s); infinite if never."""
    water = waters_at(g.waters, number)
    if water.announcer < 0:
        return math.inf
    n = batch_after(g, water.taken, water.writer)
    while n >= 0:
        if not math.isnan(_said(g, n, water.announcer, water.writer)):
            return batches_at(g.batches, n).visible
        water.taken = n
        n = batches_at(g.batches, n).next
    return math.inf


@inside
def _next_start(g: Scalars, number: int) -> float:
    """Return when a query's next batch starts (s)."""
    query = queries_at(g.queries, number)
    trigger, phase = g.trigger, g.phase
    earliest = phase
    if query.last >= 0:
        last = batches_at(g.batches, query.last)
        earliest = max(last.end, (math.floor((last.start - phase) / trigger + 1e-9) + 1) * trigger + phase)
    if query.due == 0:
        news = math.inf
        for f in range(query.feed, query.feeds):
            news = min(news, fed_at(g, f))
        for w in range(query.water, query.waters):
            news = min(news, _told(g, w))
        news -= g.reading
        if news == math.inf:
            return math.inf
        if news > earliest:
            earliest = max(earliest, math.ceil((news - phase) / trigger - 1e-9) * trigger + phase)
    return earliest


@inside
def _hear(g: Scalars, number: int, until: float) -> bool:
    """Hear how far event time has come on a row of water by a time; return whether there was something."""
    water, fed = waters_at(g.waters, number), False
    if water.announcer < 0:
        return False
    n = batch_after(g, water.taken, water.writer)
    while n >= 0:
        said = _said(g, n, water.announcer, water.writer)
        if not math.isnan(said):
            if batches_at(g.batches, n).visible > until:
                break
            water.now = max(water.now, said)
            fed = True
        water.taken = n
        n = batches_at(g.batches, n).next
    return fed


@inside
def _take(g: Scalars, number: int, until: float) -> bool:
    """Take the input of a batch, and put out the windows that are over; return whether there was input."""
    query, fed = queries_at(g.queries, number), False
    for w in range(query.water, query.waters):
        waters_at(g.waters, w).before = waters_at(g.waters, w).now
    for f in range(query.feed, query.feeds):
        fed = take_feed(g, f, until) or fed
    for w in range(query.water, query.waters):
        fed = _hear(g, w, until) or fed
    seen, passed = math.inf, math.inf
    for w in range(query.water, query.waters):
        water = waters_at(g.waters, w)
        if water.minded != 0:
            seen = min(seen, water.before)
            passed = min(passed, water.now - water.late)
    query.due = 0
    for i in range(query.own, query.inlets):
        inlet = inlets_at(g.inlets, i)
        root = roots_at(g.roots, inlet.root)
        place, over = root.point + inlet.position, seen - inlet.late
        while place < root.points and points_at(g.points, place).end <= over:
            place += 1
        inlet.position = place - root.point
        if place < root.points and points_at(g.points, place).end <= passed:
            query.due = 1
    return fed


@inside
def _announce(g: Scalars, number: int, batch: int) -> None:
    """Note how far event time has come on what a query writes, where that is new."""
    query = queries_at(g.queries, number)
    for a in range(query.announcer, query.announcers):
        announcer, time = announcers_at(g.announcers, a), math.inf
        if announcer.behind != 0:
            for w in range(query.water, query.waters):
                water = waters_at(g.waters, w)
                if water.minded != 0:
                    time = min(time, water.before - water.late)
        else:
            for k in range(announcer.heard, announcer.heards):
                water = waters_at(g.waters, numbers_at(g.heard, k).value)
                time = min(time, water.now - water.late)
        time += announcer.late
        said = figures_at(g.said, batch * g.voices + a - query.announcer)
        said.value = math.nan
        if announcer.told < time and time < math.inf:
            announcer.told = time
            said.value = time


@inside
def _give_turns(g: Scalars, first: int) -> None:
    """Let the tasks that have waited longest begin on each host where none are at work."""
    n = first
    while n >= 0:
        batch = batches_at(g.batches, n)
        hosts_at(g.hosts, queries_at(g.queries, batch.query).host).taken = 0
        n = batch.beside
    n = first
    while n >= 0:
        batch = batches_at(g.batches, n)
        if batch.stage == TASKS:
            hosts_at(g.hosts, queries_at(g.queries, batch.query).host).taken = 1
        n = batch.beside
    while True:
        longest, n = -1, first
        while n >= 0:
            batch = batches_at(g.batches, n)
            waits = batch.stage == WAITING and hosts_at(g.hosts, queries_at(g.queries, batch.query).host).taken == 0
            if waits and (longest < 0 or batch.turn < batches_at(g.batches, longest).turn):
                longest = n
            n = batch.beside
        if longest < 0:
            return
        batch = batches_at(g.batches, longest)
        batch.stage, batch.left = TASKS, batch.tasks
        hosts_at(g.hosts, queries_at(g.queries, batch.query).host).taken = 1


@inside
def _crowd(g: Scalars, first: int) -> int:
    """Count the batches at work on each host; return how many hosts work."""
    n, together = first, 0
    while n >= 0:
        batch = batches_at(g.batches, n)
        hosts_at(g.hosts, queries_at(g.queries, batch.query).host).working = 0
        n = batch.beside
    n = first
    while n >= 0:
        batch = batches_at(g.batches, n)
        host = hosts_at(g.hosts, queries_at(g.queries, batch.query).host)
        if batch.stage != WAITING:
            together += host.working == 0
            host.working += 1
        n = batch.beside
    return together


@inside
def _shown(g: Scalars, start: float, done: float) -> float:
    """Return when the output of a batch is visible (s): not yet to batches that start, and see their input, with it."""
    return max(done, start + g.reading + SOON * g.trigger)


@inside
def _move_on(g: Scalars, number: int) -> None:
    """Let the batches of a group whose stage is done begin their next one, and leave after the last."""
    group = groups_at(g.groups, number)
    before, n = -1, group.first
    while n >= 0:
        batch = batches_at(g.batches, n)
        after = batch.beside
        if batch.stage == WAITING or batch.left > DONE:
            before = n
        elif batch.stage == COMMIT:
            batch.end = group.now
            if before < 0:
                group.first = after
            else:
                batches_at(g.batches, before).beside = after
        else:
            if batch.stage == FIXED:
                batch.stage, batch.turn = WAITING, group.now
            else:
                batch.stage, batch.left = COMMIT, batch.commit
                batch.visible = _shown(g, batch.start, group.now)
            before = n
        n = after


@inside
def _advance(g: Scalars, number: int, until: float) -> None:
    """Let the batches of a group work until a time; note when their output is visible and when they end.

    A host divides its time equally between the fixed parts of its batches and the tasks of one; the tasks of the others
    wait for their turn. Hosts that are more than the cores divide these equally.
    """
    group = groups_at(g.groups, number)
    while group.first >= 0:
        _give_turns(g, group.first)
        share = min(1.0, group.cores / _crowd(g, group.first))
        n, step = group.first, math.inf
        while n >= 0:
            batch = batches_at(g.batches, n)
            if batch.stage != WAITING:
                working = hosts_at(g.hosts, queries_at(g.queries, batch.query).host).working
                step = min(step, max(batch.left, 0.0) * working / share)
            n = batch.beside
        whole = group.now + step <= until
        span = step if whole else max(until - group.now, 0.0)
        n = group.first
        while n >= 0:
            batch = batches_at(g.batches, n)
            if batch.stage != WAITING:
                batch.left -= span * share / hosts_at(g.hosts, queries_at(g.queries, batch.query).host).working
            n = batch.beside
        group.now += span
        if not whole:
            return
        _move_on(g, number)
    if until < math.inf:
        group.now = max(group.now, until)


@inside
def _look_ahead(g: Scalars, number: int) -> None:
    """Note when the batches of a group end if no other begins, and leave the group as it is."""
    group = groups_at(g.groups, number)
    first, now = group.first, group.now
    n = first
    while n >= 0:
        batch = batches_at(g.batches, n)
        batch.kept_stage, batch.kept_turn = batch.stage, batch.turn
        batch.kept_left, batch.kept_beside = batch.left, batch.beside
        n = batch.beside
    _advance(g, number, math.inf)
    n = first
    while n >= 0:
        batch = batches_at(g.batches, n)
        batch.stage, batch.turn = batch.kept_stage, batch.kept_turn
        batch.left, batch.beside = batch.kept_left, batch.kept_beside
        n = batch.beside
    group.first, group.now = first, now


@inside
def _begin(g: Scalars, n: int, fixed: float, tasks: float) -> None:
    """Begin a batch whose parts take so long alone, and note when it and others of its group are visible and end."""
    batch = batches_at(g.batches, n)
    batch.end = batch.start + (fixed + tasks)
    batch.visible = _shown(g, batch.start, batch.end - g.commit)
    number = queries_at(g.queries, batch.query).group
    group = groups_at(g.groups, number)
    if group.members < 2:
        return
    _advance(g, number, batch.start)
    late = min(g.commit, fixed + tasks)
    batch.stage, batch.turn, batch.beside = FIXED, batch.start, -1
    batch.left = max(fixed - late, 0.0)
    batch.tasks, batch.commit = fixed + tasks - late - batch.left, late
    if group.first < 0:
        group.first = n
    else:
        last = group.first
        while batches_at(g.batches, last).beside >= 0:
            last = batches_at(g.batches, last).beside
        batches_at(g.batches, last).beside = n
    _look_ahead(g, number)


@inside
def _longer(g: Scalars, number: int, turn: int, alone: float) -> float:
    """Return by what a batch of a host takes longer, that starts in an interval of the trigger, than usual (s)."""
    host = hosts_at(g.hosts, number)
    noise = figures_at(g.noise, host.noise + turn % host.noises).value
    chance = figures_at(g.chance, host.chance + turn % host.chances).value
    if chance != 0.0 and alone > 0.0:
        spread = math.sqrt(host.jitter * host.jitter + host.residual * host.residual * alone)
        noise *= max(1.0 + chance * spread / alone, 0.5)
    return noise


@inside
def _possible(seconds: float) -> float:
    """Return what a batch takes, which is never more than `LONGEST`, nor what is no number."""
    return seconds if seconds < LONGEST else LONGEST


@inside
def _batch(g: Scalars, number: int, start: float) -> None:
    """Let a query's next batch begin."""
    query = queries_at(g.queries, number)
    n = g.count
    g.count += 1
    for i in range(query.inlet, query.inlets):
        inlets_at(g.inlets, i).before = inlets_at(g.inlets, i).position
    fed = _take(g, number, start + g.reading)
    work = 0.0
    for i in range(query.inlet, query.inlets):
        inlet = inlets_at(g.inlets, i)
        if inlet.position > inlet.before:
            work += sum_upto(g, g.work, inlet.root, inlet.work, inlet.position) - sum_upto(
                g, g.work, inlet.root, inlet.work, inlet.before
            )
        numbers_at(g.upto, n * g.wide + i - query.inlet).value = inlet.position
    work = _possible(work)
    host = hosts_at(g.hosts, query.host)
    fixed, tasks = (host.overhead, work) if fed else (host.idle, 0.0)
    fixed += query.extra
    turn = math.floor((start - g.phase) / g.trigger + 1e-9)
    longer = _longer(g, query.host, turn, fixed + tasks)
    batch = batches_at(g.batches, n)
    batch.query, batch.next, batch.start, batch.work = number, -1, start, work
    if query.last < 0:
        query.first = n
    else:
        batches_at(g.batches, query.last).next = n
    query.last = n
    _announce(g, number, n)
    _begin(g, n, _possible(longer * fixed), _possible(longer * tasks))


@_entry
def follow(address):  # type: ignore[no-untyped-def]
    """Follow the batches of a placed network until all input is taken, or there is no room for them."""
    g = scalars_at(address, 0)
    if g.count == 0:
        for q in range(g.size_queries):
            queries_at(g.queries, q).start = _next_start(g, q)
    while True:
        number, start = -1, math.inf
        for q in range(g.size_queries):
            if queries_at(g.queries, q).start < start:
                number, start = q, queries_at(g.queries, q).start
        if number < 0:
            return ENDED
        if g.count == g.size_batches:
            return FULL
        _batch(g, number, start)
        query = queries_at(g.queries, number)
        for k in range(query.other, query.others):
            q = numbers_at(g.affected, k).value
            queries_at(g.queries, q).start = _next_start(g, q)
