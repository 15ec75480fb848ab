"""Tuples on their way: from an output over a link to a reader, or into the network through a gate."""

from __future__ import annotations

import math

import numpy as np

from penstock.simulation.kernel.draws import mix, uniform
from penstock.simulation.kernel.heap import push
from penstock.simulation.kernel.routine import Content, Hash, Readers, Scalars, routine
from penstock.simulation.kernel.tables import (
    cores_at,
    gates_at,
    hosts_at,
    inputs_at,
    keeps_at,
    links_at,
    nodes_at,
    outputs_at,
    rows_at,
    seen_at,
    sources_at,
    streams_at,
    units_at,
)
from penstock.simulation.kernel.waiting import begin, enqueue, free_node, leave, new_node
from penstock.simulation.state import BATCH, EPSILON, LET, LINK, ROUND_ROBIN

_11 = np.uint64(11)


@routine
def _seen(g: Scalars, key: Hash, copies: int, mark: bool) -> bool:
    """Whether a copy of this tuple was here before; forget it after the last copy. ``mark``: remember the first."""
    mask = g.size_seen - 1
    at = np.int64(key >> _11) & mask
    while seen_at(g.seen, at).count != 0 and seen_at(g.seen, at).key != key:
        at = (at + 1) & mask
    if seen_at(g.seen, at).count == 0 and not mark:
        return False
    seen_at(g.seen, at).count += 1
    if seen_at(g.seen, at).count == 1:
        seen_at(g.seen, at).key = key
        g.known += 1
        return False
    if seen_at(g.seen, at).count == copies:
        g.known -= 1
        # Close the gap, so that no later search stops at it.
        gap, probe = at, (at + 1) & mask
        while seen_at(g.seen, probe).count != 0:
            home = np.int64(seen_at(g.seen, probe).key >> _11) & mask
            if ((probe - home) & mask) >= ((probe - gap) & mask):
                seen_at(g.seen, gap).key, seen_at(g.seen, gap).count = (
                    seen_at(g.seen, probe).key,
                    seen_at(g.seen, probe).count,
                )
                gap = probe
            probe = (probe + 1) & mask
        seen_at(g.seen, gap).count = 0
    return True


@routine
def plan_batch(g: Scalars, h: int, now: float) -> None:
    """Plan the next micro-batch: the later of the last end and the next multiple of the trigger after its start."""
    host = hosts_at(g.hosts, h)
    start = max(now, host.until)
    if host.trigger > 0.0:
        start = max(host.until, (math.floor(host.began / host.trigger + EPSILON) + 1.0) * host.trigger)
        if start < now:
            # It came when a batch could have started: the next multiple is the next look.
            start = max(now, math.ceil(now / host.trigger - EPSILON) * host.trigger)
    host.planned = 1
    push(g, start, BATCH, h)


@routine
def _double(g: Scalars, n: int, mark: bool) -> bool:
    """Whether a tuple is a copy of one that was here before, which is then taken away."""
    node = nodes_at(g.nodes, n)
    i = inputs_at(g.inputs, node.input)
    if i.copies < 2 or not _seen(g, mix(node.identity ^ i.key), i.copies, mark):
        return False
    i.arrived -= 1
    g.duplicates += 1
    free_node(g, n)
    return True


@routine
def deliver(g: Scalars, n: int, now: float) -> None:
    """Let a tuple arrive at its reader; of its copies the first that is neither lost nor dropped."""
    node = nodes_at(g.nodes, n)
    i = inputs_at(g.inputs, node.input)
    if i.sink >= 0:
        if _double(g, n, True):
            return
        i.delivered += 1
        row = rows_at(g.rows, g.rowed)
        row.sink, row.stimulus, row.egress = i.sink, node.stimulus, now
        g.rowed += 1
        free_node(g, n)
        return
    unit = units_at(g.units, i.unit)
    host = hosts_at(g.hosts, unit.host)
    if host.down > 0:
        i.lost += 1
        free_node(g, n)
        return
    idle = host.idle > 0 and unit.paused == 0 and host.batch == 0
    full = not idle and i.waiting >= g.queue
    if full and unit.paused == 0 and g.leaving >= 0 and cores_at(g.cores, g.leaving).host == unit.host:
        # What put it out leaves its place: the core takes what is next before anything is dropped.
        leave(g, now)
        idle = host.idle > 0
        full = not idle and i.waiting >= g.queue
    if _double(g, n, not full):
        return
    node.enqueued = now
    if idle:
        core = host.core
        while cores_at(g.cores, core).node >= 0:
            core += 1
        if g.policy >= ROUND_ROBIN:
            host.cursor = unit.position + 1 if unit.position + 1 < host.size else 0
        begin(g, n, core, now)
        return
    if full:
        i.dropped += 1
        free_node(g, n)
        return
    i.waiting += 1
    enqueue(g, n, i.unit, now)
    if host.batch > 0 and host.planned == 0 and unit.paused == 0:
        plan_batch(g, unit.host, now)


@routine
def _between(g: Scalars, start: int, end: int) -> int:
    """Find the link of two hosts, -1 for none: only for what finishes on a host that its operator has left."""
    low, high = 0, g.size_links
    while low < high:
        middle = (low + high) >> 1
        link = links_at(g.links, middle)
        if link.start < start or (link.start == start and link.end < end):
            low = middle + 1
        else:
            high = middle
    if low < g.size_links and links_at(g.links, low).start == start and links_at(g.links, low).end == end:
        return low
    return -1


@routine
def fly(g: Scalars, l: int, n: int, now: float) -> None:  # noqa: E741
    """Send a tuple over a link; only the first in flight has an event, since all take equally long."""
    link = links_at(g.links, l)
    link.flying += 1
    link.sent += 1
    nodes_at(g.nodes, n).enqueued = now + link.delay
    if link.head < 0:
        link.head = n
        nodes_at(g.nodes, n).order = push(g, now + link.delay, LINK, l)
    else:
        nodes_at(g.nodes, link.tail).next = n
        g.sequence += 1
        nodes_at(g.nodes, n).order = (LINK << 56) | g.sequence
    link.tail = n


@routine
def _kept(g: Scalars, o: int, identity: Hash, stimulus: float) -> bool:
    """Whether an output's keep fraction lets a tuple through."""
    out = outputs_at(g.outputs, o)
    stream = streams_at(g.streams, inputs_at(g.inputs, out.input).stream)
    keep, salt = out.keep, identity
    if stream.window > 0.0:
        # In front of an aggregate whole windows are dropped, by what was in force when each began, so that
        # what remains is part of the true answer.
        number = math.floor(stimulus / stream.window)
        salt = mix(np.uint64(number))
        k = out.history
        if k >= 0:
            keep = 1.0
        while k >= 0 and keeps_at(g.keeps, k).since > number * stream.window:
            k = keeps_at(g.keeps, k).before
        if k >= 0:
            keep = keeps_at(g.keeps, k).keep
    kept: bool = uniform(stream.key, salt) < keep
    return kept


@routine
def _send(g: Scalars, o: int, n: int, start: int, now: float) -> None:
    """Bring a tuple from a host (-1: from outside) to its reader; readers on one host share a crossing."""
    i = inputs_at(g.inputs, nodes_at(g.nodes, n).input)
    if start >= 0 and hosts_at(g.hosts, start).down > 0:
        # Only sources send from a host that is down: what enters there is lost.
        i.lost += 1
        free_node(g, n)
        return
    if i.unit < 0 or start < 0 or units_at(g.units, i.unit).host == start:
        deliver(g, n, now)
        return
    home = units_at(g.units, i.unit).host
    end = hosts_at(g.hosts, home)
    if end.down > 0:
        i.lost += 1
        free_node(g, n)
        return
    at = outputs_at(g.outputs, o).link
    if at < 0 or links_at(g.links, at).start != start:
        at = _between(g, start, home)
    if at < 0:
        deliver(g, n, now)  # whoever changes the run lays all links, so that this happens to nobody
        return
    link = links_at(g.links, at)
    first_there = end.stamp != g.stamp
    end.stamp = g.stamp
    if link.delay == 0.0:
        link.sent += first_there
        deliver(g, n, now)
    elif not first_there:
        nodes_at(g.nodes, end.last).child = n
        end.last = n
    else:
        end.last = n
        if link.flying < link.capacity:
            fly(g, at, n, now)
        else:
            if link.waithead < 0:
                link.waithead = n
            else:
                nodes_at(g.nodes, link.waittail).next = n
            link.waittail = n


@routine
def _admit(g: Scalars, o: int, n: int, start: int, now: float) -> None:
    """Drop a tuple that has arrived on its stream, or send it."""
    node = nodes_at(g.nodes, n)
    if outputs_at(g.outputs, o).keep < 1.0 and not _kept(g, o, node.identity, node.stimulus):
        inputs_at(g.inputs, node.input).dropped += 1
        free_node(g, n)
        return
    _send(g, o, n, start, now)


@routine
def write(g: Scalars, o: int, n: int, start: int, now: float) -> None:
    """Write a tuple to one reader, from a host (-1: from outside)."""
    i = inputs_at(g.inputs, outputs_at(g.outputs, o).input)
    i.arrived += 1
    _admit(g, o, n, start, now)


@routine
def _hold(g: Scalars, h: int, n: int, before: int) -> None:
    """Hold a tuple for a reader until a host's batch ends; ``before``: what it holds for another one, or -1."""
    if before >= 0:
        nodes_at(g.nodes, before).child = n
        return
    host = hosts_at(g.hosts, h)
    if host.held < 0:
        host.held = n
    else:
        nodes_at(g.nodes, host.heldtail).next = n
    host.heldtail = n
    host.outputs += 1


@routine
def put_out(g: Scalars, readers: Readers, start: int, batch: bool, content: Content, now: float) -> None:
    """Write one tuple to its readers, from a host (-1: from outside); in a batch, hold it for those that are elsewhere.

    Where a reader is, is asked here alone: it may move before the batch ends.
    """
    g.stamp += 1
    before = -1
    identity, stimulus, work = content
    for o in range(readers.first, readers.first + readers.number):
        out = outputs_at(g.outputs, o)
        if out.routed > 0:
            drawn = uniform(out.draw, identity)
            if drawn < out.low or drawn >= out.high:
                continue
        u = inputs_at(g.inputs, out.input).unit
        if batch and (u < 0 or units_at(g.units, u).host != start):
            n = new_node(g, -2 - o, identity, stimulus, work)
            _hold(g, start, n, before)
            before = n
        else:
            write(g, o, new_node(g, out.input, identity, stimulus, work), start, now)


@routine
def _pass(g: Scalars, o: int, now: float) -> None:
    """Let the first tuple at a gate in."""
    gate = gates_at(g.gates, o)
    n = gate.head
    node = nodes_at(g.nodes, n)
    gate.head = node.next
    gate.held -= 1
    node.next = -1
    g.stamp += 1
    _admit(g, o, n, sources_at(g.sources, gate.source).host, now)


@routine
def let_in(g: Scalars, o: int, now: float) -> None:
    """Let in what the limit of a gate allows by now, and see to the rest; while its reader is away, nothing.

    What the next batch may read goes to its host at once, so that without a need for the limit nothing is different.
    """
    gate, u = gates_at(g.gates, o), inputs_at(g.inputs, outputs_at(g.outputs, o).input).unit
    if u >= 0 and (units_at(g.units, u).paused > 0 or hosts_at(g.hosts, units_at(g.units, u).host).down > 0):
        return
    if gate.most == 0:
        if gate.head >= 0 and gate.pending == 0:
            if gate.last + gate.step <= now:
                gate.last = now
                _pass(g, o, now)
            if gate.head >= 0:
                gate.pending = 1
                push(g, gate.last + gate.step, LET, o)
        return
    while gate.head >= 0 and gate.passed < gate.most:
        gate.passed += 1
        _pass(g, o, now)
    # A batch without tuples also begins, where all of those before were dropped or are on their way.
    if gate.head >= 0 and hosts_at(g.hosts, units_at(g.units, u).host).planned == 0:
        plan_batch(g, units_at(g.units, u).host, now)


@routine
def enter(g: Scalars, index: int, identity: Hash, work: float, now: float) -> None:
    """Write a tuple of a source to its readers; under a limit it waits at the gate of each."""
    source = sources_at(g.sources, index)
    free = source.limit == math.inf
    for o in range(source.outputs, source.outputs + source.readers if free else 0):
        free = free and gates_at(g.gates, o).head < 0
    if free:
        source.limit = 0.0
    if source.limit == 0.0:
        put_out(g, Readers(source.outputs, source.readers), source.host, False, Content(identity, now, work), now)
        return
    for o in range(source.outputs, source.outputs + source.readers):
        gate, at = gates_at(g.gates, o), outputs_at(g.outputs, o).input
        n = new_node(g, at, identity, now, work)
        inputs_at(g.inputs, at).arrived += 1
        if gate.head < 0:
            gate.head = n
        else:
            nodes_at(g.nodes, gate.tail).next = n
        gate.tail = n
        gate.held += 1
        let_in(g, o, now)
