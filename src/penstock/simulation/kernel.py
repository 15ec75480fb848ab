"""The event loop, compiled. It allocates nothing: where room runs out it returns a reason and is called again.

Every draw is a hash of a key (of the operator, stream or source, and the seed) and the tuple's identity, so that
neither the policy nor the order of events changes what a tuple costs, where it goes and whether it is kept.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import int64, njit

from penstock.native.memory import prefetch, rows_of
from penstock.simulation.draws import OTHER, duration, mix, uniform
from penstock.simulation.heap import heap_at, push, rise, sink
from penstock.simulation.routine import Hash, Scalars, routine
from penstock.simulation.state import (
    AGGREGATE,
    ARRIVAL,
    BATCH,
    BUDGET,
    COMPLETE,
    CONSTANT,
    CONTROL,
    DONE,
    EPSILON,
    FCFS,
    GLOBALS,
    JOIN,
    LET,
    LINK,
    LOG,
    LONGEST,
    POOL,
    RELEASE,
    RING,
    ROUND_ROBIN,
    ROWS,
    STIMULUS,
    TABLE,
    TABLES,
    TAKE,
    TRACE,
    WINDOW,
)

cores_at = rows_of(TABLES["cores"])
curve_at = rows_of(TABLES["curve"])
gates_at = rows_of(TABLES["gates"])
hosts_at = rows_of(TABLES["hosts"])
inputs_at = rows_of(TABLES["inputs"])
keeps_at = rows_of(TABLES["keeps"])
kicks_at = rows_of(TABLES["kicks"])
links_at = rows_of(TABLES["links"])
log_at = rows_of(TABLES["log"])
members_at = rows_of(TABLES["members"])
scalars_at = rows_of(GLOBALS)
nodes_at = rows_of(TABLES["nodes"])
outputs_at = rows_of(TABLES["outputs"])
panes_at = rows_of(TABLES["panes"])
rings_at = rows_of(TABLES["rings"])
rows_at = rows_of(TABLES["rows"])
seen_at = rows_of(TABLES["seen"])
sources_at = rows_of(TABLES["sources"])
streams_at = rows_of(TABLES["streams"])
trace_at = rows_of(TABLES["trace"])
units_at = rows_of(TABLES["units"])
words_at = rows_of(TABLES["words"])

# Nothing here owns memory, so no references need counting; it is called by address, so it needs no wrappers.
_compiler: Any = njit
_entry: Any = _compiler(int64(int64), no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
_ONE, _11 = np.uint64(1), np.uint64(11)
NODE_SIZE, INPUT_SIZE, UNIT_SIZE, OUTPUT_SIZE, HOST_SIZE, LINK_SIZE, CORE_SIZE = (
    TABLES[name].itemsize for name in ("nodes", "inputs", "units", "outputs", "hosts", "links", "cores")
)


@routine
def _node(g: Scalars, at: int, identity: Hash, stimulus: float, work: float) -> int:
    """Return a node that holds a tuple for an input."""
    n: int = g.free
    if n >= 0:
        g.free = nodes_at(g.nodes, n).next
    else:
        n = g.fresh
        g.fresh += 1
    g.used += 1
    node = nodes_at(g.nodes, n)
    node.stimulus, node.identity, node.work, node.input = stimulus, identity, work, at
    node.next = -1
    node.child = -1
    return n


@routine
def _free(g: Scalars, n: int) -> None:
    node = nodes_at(g.nodes, n)
    node.input = -1
    node.next = g.free
    g.free = n
    g.used -= 1


@routine
def _meld(g: Scalars, a: int, b: int) -> int:
    if a < 0:
        return b
    if b < 0:
        return a
    first, second = nodes_at(g.nodes, a).stimulus, nodes_at(g.nodes, b).stimulus
    if g.subinterval > 0:
        first = math.floor(first / g.subinterval + EPSILON)
        second = math.floor(second / g.subinterval + EPSILON)
    if second < first or (second == first and nodes_at(g.nodes, b).order < nodes_at(g.nodes, a).order):
        a, b = b, a
    nodes_at(g.nodes, b).next = nodes_at(g.nodes, a).child
    nodes_at(g.nodes, a).child = b
    return a


@routine
def _begin(g: Scalars, n: int, core: int, now: float) -> None:
    """Serve a tuple on an idle core."""
    node, c = nodes_at(g.nodes, n), cores_at(g.cores, core)
    i = inputs_at(g.inputs, node.input)
    unit, host = units_at(g.units, i.unit), hosts_at(g.hosts, c.host)
    mean = i.cost * node.work / host.speed
    if unit.service != CONSTANT:
        mean = duration(unit.service, unit.shape, unit.share, mean, unit.draw, node.identity)
    if now >= g.warmup:
        unit.begun += 1
        unit.wait += now - node.enqueued
    host.idle -= 1
    c.node = n
    c.input = node.input
    c.unit = i.unit
    c.outputs = unit.outputs
    c.next = outputs_at(g.outputs, unit.outputs).input if unit.readers > 0 else node.input
    c.start = now
    c.key = push(g, now + mean, COMPLETE, core)


@routine
def _lowest(bits: Hash) -> int:
    """Return the place of the lowest bit that is set."""
    low = bits & (~bits + _ONE)
    at = 0
    for step in (32, 16, 8, 4, 2, 1):
        if low >> np.uint64(at + step):
            at += step
    return at


@routine
def _turn(g: Scalars, h: int) -> int:
    """Return the place of the host's next operator, from its cursor on, at which something waits."""
    host = hosts_at(g.hosts, h)
    word = host.cursor >> 6
    bits = words_at(g.words, host.words + word).bits & ~((_ONE << np.uint64(host.cursor & 63)) - _ONE)
    while bits == 0:
        word = word + 1 if word + 1 < host.wide else 0
        bits = words_at(g.words, host.words + word).bits
    place: int = (word << 6) + _lowest(bits)
    return place


@routine
def _longest(g: Scalars, h: int) -> int:
    """Return the place of the host's operator at which most tuples wait; of equal ones the first."""
    host = hosts_at(g.hosts, h)
    best, most = 0, 0
    for word in range(host.wide):
        bits = words_at(g.words, host.words + word).bits
        while bits != 0:
            place = (word << 6) + _lowest(bits)
            bits &= bits - _ONE
            u = members_at(g.members, host.members + place).unit
            at, waiting = units_at(g.units, u).first, 0
            while at < g.size_inputs and inputs_at(g.inputs, at).unit == u:
                waiting += inputs_at(g.inputs, at).waiting
                at += 1
            if waiting > most:
                best, most = place, waiting
    return best


@routine
def _next(g: Scalars, h: int, core: int, now: float) -> None:
    """Let an idle core take the tuple that the policy chooses among those that wait."""
    host = hosts_at(g.hosts, h)
    if g.policy == FCFS:
        n = host.head
        host.head = nodes_at(g.nodes, n).next
    elif g.policy == STIMULUS:
        n = host.root
        # Two-pass pairing: meld the children in pairs, then from the last pair to the first.
        pairs, child = -1, nodes_at(g.nodes, n).child
        while child >= 0:
            other = nodes_at(g.nodes, child).next
            after = nodes_at(g.nodes, other).next if other >= 0 else -1
            merged = _meld(g, child, other)
            nodes_at(g.nodes, merged).next = pairs
            pairs, child = merged, after
        root = -1
        while pairs >= 0:
            after = nodes_at(g.nodes, pairs).next
            root = _meld(g, root, pairs)
            pairs = after
        host.root = root
    else:
        place = _longest(g, h) if g.policy == LONGEST else _turn(g, h)
        unit = units_at(g.units, members_at(g.members, host.members + place).unit)
        n = unit.head
        unit.head = nodes_at(g.nodes, n).next
        if unit.head < 0:
            flags = words_at(g.words, host.words + (place >> 6))
            flags.bits &= ~(_ONE << np.uint64(place & 63))
        host.cursor = place + 1 if place + 1 < host.size else 0
    host.waiting -= 1
    inputs_at(g.inputs, nodes_at(g.nodes, n).input).waiting -= 1
    _begin(g, n, core, now)


@routine
def _enqueue(g: Scalars, n: int, u: int, now: float) -> None:
    """Put a tuple where it waits: the unit's list, or under the host's policy."""
    unit = units_at(g.units, u)
    host = hosts_at(g.hosts, unit.host)
    node = nodes_at(g.nodes, n)
    node.next = -1
    node.child = -1
    g.order += 1
    node.order = g.order
    if unit.paused > 0 or (g.policy >= ROUND_ROBIN and host.batch == 0):
        if unit.head < 0:
            unit.head = n
        else:
            nodes_at(g.nodes, unit.tail).next = n
        unit.tail = n
        if unit.paused > 0:
            return
        flags = words_at(g.words, host.words + (unit.position >> 6))
        flags.bits |= _ONE << np.uint64(unit.position & 63)
    elif g.policy == FCFS or host.batch > 0:
        if host.head < 0:
            host.head = n
        else:
            nodes_at(g.nodes, host.tail).next = n
        host.tail = n
    else:
        host.root = _meld(g, host.root, n)
    host.waiting += 1


@routine
def _seen(g: Scalars, key: Hash, copies: int) -> bool:
    """Whether a copy of this tuple was here before; forget it after the last copy."""
    mask = g.size_seen - 1
    at = np.int64(key >> _11) & mask
    while seen_at(g.seen, at).count != 0 and seen_at(g.seen, at).key != key:
        at = (at + 1) & mask
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
def _plan(g: Scalars, h: int, now: float) -> None:
    """Plan the next micro-batch: the later of the last end and the next multiple of the trigger after its start."""
    host = hosts_at(g.hosts, h)
    start = max(now, host.until)
    if host.trigger > 0.0:
        start = max(host.until, (math.floor(host.began / host.trigger + EPSILON) + 1.0) * host.trigger)
        if start < now:
            # It came when a batch could have started: the next multiple is the next look.
            start = max(now, math.ceil(now / host.trigger - EPSILON) * host.trigger)
    host.planned = 1
    host.key = push(g, start, BATCH, h)


@routine
def _deliver(g: Scalars, n: int, now: float) -> None:
    """Let a tuple arrive at its reader."""
    node = nodes_at(g.nodes, n)
    i = inputs_at(g.inputs, node.input)
    if i.copies > 1 and _seen(g, mix(node.identity ^ i.key), i.copies):
        i.arrived -= 1
        g.duplicates += 1
        _free(g, n)
        return
    if i.sink >= 0:
        i.delivered += 1
        row = rows_at(g.rows, g.rowed)
        row.sink, row.stimulus, row.egress = i.sink, node.stimulus, now
        g.rowed += 1
        _free(g, n)
        return
    unit = units_at(g.units, i.unit)
    host = hosts_at(g.hosts, unit.host)
    if host.down > 0:
        i.lost += 1
        _free(g, n)
        return
    node.enqueued = now
    if host.idle > 0 and unit.paused == 0 and host.batch == 0:
        core = host.core
        while cores_at(g.cores, core).node >= 0:
            core += 1
        if g.policy >= ROUND_ROBIN:
            host.cursor = unit.position + 1 if unit.position + 1 < host.size else 0
        _begin(g, n, core, now)
        return
    if i.waiting >= g.queue:
        i.dropped += 1
        _free(g, n)
        return
    i.waiting += 1
    _enqueue(g, n, i.unit, now)
    if host.batch > 0 and host.planned == 0:
        _plan(g, unit.host, now)


@routine
def _between(g: Scalars, start: int, end: int) -> int:
    """Find the link of two hosts: only for what finishes on a host that its operator has left."""
    low, high = 0, g.size_links
    while low < high:
        middle = (low + high) >> 1
        link = links_at(g.links, middle)
        if link.start < start or (link.start == start and link.end < end):
            low = middle + 1
        else:
            high = middle
    return low


@routine
def _fly(g: Scalars, l: int, n: int, now: float) -> None:  # noqa: E741
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
    if i.unit < 0 or start < 0 or units_at(g.units, i.unit).host == start:
        _deliver(g, n, now)
        return
    home = units_at(g.units, i.unit).host
    end = hosts_at(g.hosts, home)
    if end.down > 0:
        i.lost += 1
        _free(g, n)
        return
    at = outputs_at(g.outputs, o).link
    if at < 0 or links_at(g.links, at).start != start:
        at = _between(g, start, home)
    link = links_at(g.links, at)
    first_there = end.stamp != g.stamp
    end.stamp = g.stamp
    if link.delay == 0.0:
        link.sent += first_there
        _deliver(g, n, now)
    elif not first_there:
        nodes_at(g.nodes, end.last).child = n
        end.last = n
    else:
        end.last = n
        if link.flying < link.capacity:
            _fly(g, at, n, now)
        else:
            if link.waithead < 0:
                link.waithead = n
            else:
                nodes_at(g.nodes, link.waittail).next = n
            link.waittail = n


@routine
def _put(g: Scalars, first: int, readers: int, start: int, part: int, identity: Hash, stimulus: float, work: float,
         now: float) -> None:  # fmt: skip
    """Write one tuple to its readers, from a host (-1: from outside).

    ``part``: 0 to all readers, 1 to those on the same host, 2 to the others.
    """
    g.stamp += 1
    for o in range(first, first + readers):
        out = outputs_at(g.outputs, o)
        i = inputs_at(g.inputs, out.input)
        if part > 0 and (part == 1) != (i.unit >= 0 and units_at(g.units, i.unit).host == start):
            continue
        if out.routed > 0:
            u = uniform(out.draw, identity)
            if u < out.low or u >= out.high:
                continue
        i.arrived += 1
        if out.keep < 1.0 and not _kept(g, o, identity, stimulus):
            i.dropped += 1
            continue
        _send(g, o, _node(g, out.input, identity, stimulus, work), start, now)


@routine
def _pass(g: Scalars, o: int, now: float) -> None:
    """Let the first tuple at a gate in."""
    gate = gates_at(g.gates, o)
    n = gate.head
    node = nodes_at(g.nodes, n)
    gate.head = node.next
    gate.held -= 1
    node.next = -1
    if outputs_at(g.outputs, o).keep < 1.0 and not _kept(g, o, node.identity, node.stimulus):
        inputs_at(g.inputs, node.input).dropped += 1
        _free(g, n)
        return
    g.stamp += 1
    _send(g, o, n, sources_at(g.sources, gate.source).host, now)


@routine
def _let(g: Scalars, o: int, now: float) -> None:
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
        _plan(g, units_at(g.units, u).host, now)


@routine
def _enter(g: Scalars, index: int, identity: Hash, work: float, now: float) -> None:
    """Write a tuple of a source to its readers; under a limit it waits at the gate of each."""
    source = sources_at(g.sources, index)
    free = source.limit == math.inf
    for o in range(source.outputs, source.outputs + source.readers if free else 0):
        free = free and gates_at(g.gates, o).head < 0
    if free:
        source.limit = 0.0
    if source.limit == 0.0:
        _put(g, source.outputs, source.readers, source.host, 0, identity, now, work, now)
        return
    for o in range(source.outputs, source.outputs + source.readers):
        gate, at = gates_at(g.gates, o), outputs_at(g.outputs, o).input
        n = _node(g, at, identity, now, work)
        inputs_at(g.inputs, at).arrived += 1
        if gate.head < 0:
            gate.head = n
        else:
            nodes_at(g.nodes, gate.tail).next = n
        gate.tail = n
        gate.held += 1
        _let(g, o, now)


@routine
def _found(g: Scalars, h: int) -> bool:
    """Whether a batch of a host has something to read."""
    some: bool = hosts_at(g.hosts, h).head >= 0
    o = hosts_at(g.hosts, h).gate
    while o >= 0 and not some:
        some = gates_at(g.gates, o).head >= 0
        o = gates_at(g.gates, o).next
    return some


@routine
def _emit(g: Scalars, u: int, start: int, identity: Hash, stimulus: float, work: float, now: float) -> None:
    """Put out one tuple of an operator; a host of micro-batches holds back what leaves it."""
    unit, host = units_at(g.units, u), hosts_at(g.hosts, start)
    if host.batch == 0:
        _put(g, unit.outputs, unit.readers, start, 0, identity, stimulus, work, now)
        return
    _put(g, unit.outputs, unit.readers, start, 1, identity, stimulus, work, now)
    leaves = False
    for o in range(unit.outputs, unit.outputs + unit.readers):
        u_there = inputs_at(g.inputs, outputs_at(g.outputs, o).input).unit
        leaves = leaves or u_there < 0 or units_at(g.units, u_there).host != start
    if not leaves:
        return
    n = _node(g, -2 - u, identity, stimulus, work)
    if host.held < 0:
        host.held = n
    else:
        nodes_at(g.nodes, host.heldtail).next = n
    host.heldtail = n
    host.outputs += 1


@routine
def _serve(g: Scalars, n: int, start: int, now: float) -> None:
    """Finish the service of a tuple on a host: count it and put out what it yields."""
    node = nodes_at(g.nodes, n)
    at, identity, stimulus, work = node.input, node.identity, node.stimulus, node.work
    i = inputs_at(g.inputs, at)
    u = i.unit
    unit = units_at(g.units, u)
    unit.served += 1
    i.consumed += 1
    _free(g, n)
    selectivity = i.selectivity
    if unit.kind == AGGREGATE:
        lowest = math.floor((now - unit.window) / unit.slide) + 1
        while lowest * unit.slide + unit.window <= now:
            lowest += 1
        k = max(lowest, 0)
        while k * unit.slide <= now:
            pane = panes_at(g.panes, unit.pane + k % unit.panes)
            if pane.count == 0 or stimulus >= pane.youngest:
                pane.youngest, pane.work = stimulus, work
                # What a result's latency counts is how long its youngest contributor waited, and not the window.
                pane.stimulus = stimulus + (k * unit.slide + unit.window - now)
            pane.count += 1
            if unit.pending == 0:
                unit.lowest = k
                unit.pending = push(g, k * unit.slide + unit.window, WINDOW, u)
            k += 1
        return
    if unit.kind != JOIN:
        i.count += 1
        if unit.chance > 0:
            whole = math.floor(selectivity)
            outputs = int(whole) + (uniform(unit.draw ^ OTHER, identity) < selectivity - whole)
        else:
            outputs = int(
                math.floor(i.count * selectivity + EPSILON) - math.floor((i.count - 1) * selectivity + EPSILON)
            )
        for k in range(outputs):
            _emit(g, u, start, mix((identity ^ unit.key) + np.uint64(k)), stimulus, work, now)
        return
    other = inputs_at(g.inputs, unit.first + 1 - i.port)
    timed = i.within >= 0.0
    if timed:
        i.last = max(i.last, stimulus)
        while i.length > 0 and rings_at(g.rings, i.ring + i.head).stimulus + i.within < other.last:
            i.head = i.head + 1 if i.head + 1 < i.capacity else 0
            i.length -= 1
        while other.length > 0 and rings_at(g.rings, other.ring + other.head).stimulus + i.within < i.last:
            other.head = other.head + 1 if other.head + 1 < other.capacity else 0
            other.length -= 1
    if i.length == i.capacity:
        i.head = i.head + 1 if i.head + 1 < i.capacity else 0
        i.length -= 1
    kept = rings_at(g.rings, i.ring + (i.head + i.length) % i.capacity)
    kept.stimulus, kept.identity, kept.work = stimulus, identity, work
    i.length += 1
    for k in range(other.length):
        at = other.head + k
        kept = rings_at(g.rings, other.ring + (at if at < other.capacity else at - other.capacity))
        if timed and abs(kept.stimulus - stimulus) > i.within:
            continue
        i.count += 1
        pair = mix(mix(identity if i.port == 0 else kept.identity) ^ (kept.identity if i.port == 0 else identity))
        if unit.chance > 0:
            whole = math.floor(selectivity)
            outputs = int(whole) + (uniform(unit.draw ^ OTHER, pair) < selectivity - whole)
        else:
            outputs = int(
                math.floor(i.count * selectivity + EPSILON) - math.floor((i.count - 1) * selectivity + EPSILON)
            )
        older = kept.stimulus <= stimulus
        for j in range(outputs):
            _emit(
                g, u, start, mix((pair ^ unit.key) + np.uint64(j)), stimulus if older else kept.stimulus,
                work if older else kept.work, now,
            )  # fmt: skip


@routine
def _close(g: Scalars, u: int, now: float) -> None:
    """End a window of an aggregate: put out its results and wait for the next window that holds something."""
    unit = units_at(g.units, u)
    i = inputs_at(g.inputs, unit.first)
    k = unit.lowest
    pane = panes_at(g.panes, unit.pane + k % unit.panes)
    # A tuple counts in window / slide windows, so that the output stays selectivity times the input.
    share = i.selectivity * unit.slide / unit.window
    before = i.count
    i.count += pane.count
    if unit.chance > 0:
        whole = math.floor(pane.count * share)
        rest = pane.count * share - whole
        outputs = int(whole) + (uniform(unit.draw ^ OTHER, mix(unit.key ^ np.uint64(k))) < rest)
    else:
        outputs = int(math.floor(i.count * share + EPSILON) - math.floor(before * share + EPSILON))
    stimulus, work = pane.stimulus, pane.work
    pane.count = 0
    unit.pending = 0
    for ahead in range(k + 1, k + unit.panes):
        if panes_at(g.panes, unit.pane + ahead % unit.panes).count > 0:
            unit.lowest = ahead
            unit.pending = push(g, ahead * unit.slide + unit.window, WINDOW, u)
            break
    for j in range(outputs):
        identity = mix((mix(np.uint64(k)) ^ unit.key) + np.uint64(j))
        _put(g, unit.outputs, unit.readers, unit.host, 0, identity, stimulus, work, now)


@routine
def _schedule(g: Scalars, index: int) -> None:
    """Schedule the next tuple of a source: when the integral of its rate reaches the next target."""
    source = sources_at(g.sources, index)
    source.number += 1
    if source.poisson > 0:
        source.target -= math.log(1.0 - uniform(source.draw, mix(np.uint64(source.number))))
    else:
        source.target = float(source.number)
    row, periods, first = source.row, g.periods, index * (g.periods + 1)
    while (
        row < periods and source.target >= curve_at(g.curve, first + row + 1).integral - EPSILON - 1e-12 * source.target
    ):
        row += 1
    source.row = row
    if row < periods:
        here = curve_at(g.curve, first + row)
        time = row * g.period + max(0.0, source.target - here.integral) / here.rate
        if time < g.input_end:
            push(g, time, ARRIVAL, index)


@routine
def _room(g: Scalars, kind: int, index: int) -> int:
    """Return a status if the next event might not fit into the arrays, with what it needs in ``g.need``.

    ``TAKE``: not an event but the tuple at an input that a micro-batch takes next.
    """
    outputs, at = 1.0, -1
    if kind == COMPLETE and cores_at(g.cores, index).node >= 0:
        at = nodes_at(g.nodes, cores_at(g.cores, index).node).input
    elif kind == TAKE:
        at = index
    if at >= 0:
        i = inputs_at(g.inputs, at)
        unit = units_at(g.units, i.unit)
        outputs = math.floor(i.selectivity) + 1.0
        if unit.kind == JOIN:
            outputs *= inputs_at(g.inputs, unit.first + 1 - i.port).length + 1
            if i.within >= 0.0 and i.length == i.capacity:
                g.need = at
                return RING
    elif kind == WINDOW:
        unit = units_at(g.units, index)
        outputs = (
            panes_at(g.panes, unit.pane + unit.lowest % unit.panes).count * inputs_at(g.inputs, unit.first).selectivity
            + 2.0
        )
    elif kind == LINK:
        outputs = 2.0
    elif kind == RELEASE:
        outputs = hosts_at(g.hosts, index).outputs + 1.0
    g.need = int(outputs * g.fan) + 8
    if g.size_nodes - g.used < g.need:
        return POOL
    if g.size_rows - g.rowed < g.need:
        return ROWS
    if g.size_log > 0 and g.size_log - g.logs < 1:
        return LOG
    if g.replicated > 0 and 2 * (g.known + g.need) > g.size_seen:
        return TABLE
    return DONE


@routine
def _batch(g: Scalars, h: int, now: float) -> int:
    """Run a micro-batch: take what has arrived, work through it, hold back what leaves the host.

    Where room runs out the status says so, and the batch goes on when it is called again.
    """
    host = hosts_at(g.hosts, h)
    if host.planned < 2:
        host.planned = 2
        host.began = now
        host.outputs = 0
        host.released = 0
        host.step = host.overhead
    while host.head >= 0:
        n = host.head
        status: int = _room(g, TAKE, nodes_at(g.nodes, n).input)
        if status != DONE:
            return status
        host.head = nodes_at(g.nodes, n).next
        host.waiting -= 1
        i = inputs_at(g.inputs, nodes_at(g.nodes, n).input)
        i.waiting -= 1
        unit = units_at(g.units, i.unit)
        mean = i.cost * nodes_at(g.nodes, n).work / (host.speed * host.cores)
        if unit.service != CONSTANT:
            mean = duration(unit.service, unit.shape, unit.share, mean, unit.draw, nodes_at(g.nodes, n).identity)
        if now >= g.warmup:
            unit.begun += 1
            unit.wait += now - nodes_at(g.nodes, n).enqueued
        unit.busy += mean
        host.step += mean
        _serve(g, n, h, now)
    o = host.gate
    while o >= 0:
        gates_at(g.gates, o).passed = 0
        _let(g, o, now)
        o = gates_at(g.gates, o).next
    total = host.step
    host.busy += total
    host.until = now + total
    # Progressively: the outputs one by one, evenly over the batch; else all at its end.
    progressive = host.batch == 2 and host.outputs > 0
    host.step = total / host.outputs if progressive else 0.0
    due = now + host.step if progressive and host.outputs > 1 else host.until
    host.key = push(g, due, RELEASE, h)
    return DONE


@routine
def _release(g: Scalars, h: int, now: float) -> None:
    """Let the outputs of a micro-batch become visible, and plan the next batch after its end."""
    host = hosts_at(g.hosts, h)
    progressive = host.step > 0.0
    while host.held >= 0:
        n = host.held
        node = nodes_at(g.nodes, n)
        host.held = node.next
        u, identity, stimulus, work = -2 - node.input, node.identity, node.stimulus, node.work
        _free(g, n)
        host.released += 1
        _put(g, units_at(g.units, u).outputs, units_at(g.units, u).readers, h, 2, identity, stimulus, work, now)
        if progressive and host.held >= 0:
            due = host.began + host.step * (host.released + 1)
            host.key = push(g, due if host.released + 1 < host.outputs else host.until, RELEASE, h)
            return
    host.planned = 0
    if _found(g, h):
        _plan(g, h, now)


@routine
def _fetch(g: Scalars, at: int) -> None:
    """Ask for what the event at a place of the heap will touch: with many operators memory is what takes the time."""
    event = heap_at(g.heap, at)
    if event.key >> 56 != COMPLETE:
        return
    core = cores_at(g.cores, event.index)
    if core.node < 0:
        return
    waiting = hosts_at(g.hosts, core.host).head
    if at < 3:
        # What was asked for before names what comes next.
        if waiting >= 0:
            prefetch(g.inputs + nodes_at(g.nodes, waiting).input * INPUT_SIZE)
        reader = inputs_at(g.inputs, core.next).unit
        if reader >= 0:
            prefetch(g.hosts + units_at(g.units, reader).host * HOST_SIZE)
        prefetch(g.links + outputs_at(g.outputs, core.outputs).link * LINK_SIZE)
        return
    if waiting >= 0:
        prefetch(g.nodes + waiting * NODE_SIZE)
    prefetch(g.nodes + core.node * NODE_SIZE)
    prefetch(g.units + core.unit * UNIT_SIZE)
    prefetch(g.units + core.unit * UNIT_SIZE + 64)
    for at_input in (core.input, core.next):
        prefetch(g.inputs + at_input * INPUT_SIZE)
        prefetch(g.inputs + at_input * INPUT_SIZE + 64)
    prefetch(g.outputs + core.outputs * OUTPUT_SIZE)


@_entry
def advance(address: int) -> Any:
    """Run events in the order (time, priority, sequence) until the end or until the caller has to act."""
    g = scalars_at(address, 0)
    for k in range(g.kicked):
        h = kicks_at(g.kicks, k).host
        host = hosts_at(g.hosts, h)
        if host.batch > 0:
            if host.planned == 0 and host.down == 0 and _found(g, h):
                _plan(g, h, g.now)
            continue
        while host.waiting > 0 and host.idle > 0 and host.down == 0:
            core = host.core
            while cores_at(g.cores, core).node >= 0:
                core += 1
            _next(g, h, core, g.now)
    g.kicked = 0
    if g.sequence == 0:
        for index in range(g.size_sources):
            if g.size_trace == 0:
                _schedule(g, index)
        if g.size_trace > 0:
            push(g, trace_at(g.trace, 0).time, TRACE, 0)
    stop = g.events + g.budget
    while True:
        if g.heaped == 0:
            return CONTROL if g.control <= g.end and (g.used > 0 or g.drain == 0) else DONE
        now, key, index = heap_at(g.heap, 0).time, heap_at(g.heap, 0).key, heap_at(g.heap, 0).index
        if g.wide > 0 and g.heaped > 6:
            for place in range(1, 7):
                _fetch(g, place)
            if g.heaped > 14:
                # A level ahead of these, what names what they touch.
                for place in range(7, 15):
                    prefetch(g.cores + heap_at(g.heap, place).index * CORE_SIZE)
        if g.control <= now and g.control <= g.end:
            return CONTROL
        if now > g.end:
            return DONE
        kind = key >> 56
        stale = (
            (kind == COMPLETE and cores_at(g.cores, index).key != key)
            or (kind == WINDOW and units_at(g.units, index).pending != key)
            or (kind in (BATCH, RELEASE) and hosts_at(g.hosts, index).key != key)
        )
        if not stale:
            if g.events >= stop:
                return BUDGET
            # Where no event can put out more than a fixed number of tuples, most need no closer look.
            if g.size_nodes - g.used < g.plenty or g.size_rows - g.rowed < g.plenty:
                status = _room(g, kind, index)
                if status != DONE:
                    return status
            g.events += 1
            g.now = now
        g.hole = 1
        identity = np.uint64(0)
        if stale:
            pass
        elif kind == COMPLETE:
            core = cores_at(g.cores, index)
            host, h = hosts_at(g.hosts, core.host), core.host
            n = core.node
            identity = nodes_at(g.nodes, n).identity
            unit = units_at(g.units, inputs_at(g.inputs, nodes_at(g.nodes, n).input).unit)
            unit.busy += (now - core.start) / host.cores
            host.busy += (now - core.start) / host.cores
            _serve(g, n, h, now)
            core.node = -1
            core.key = -1
            host.idle += 1
            if host.waiting > 0:
                _next(g, h, index, now)
        elif kind == ARRIVAL:
            source = sources_at(g.sources, index)
            identity = mix(source.key + np.uint64(source.number))
            _schedule(g, index)
            _enter(g, index, identity, 1.0, now)
        elif kind == LET:
            gates_at(g.gates, index).pending = 0
            _let(g, index, now)
        elif kind == LINK:
            link = links_at(g.links, index)
            n = link.head
            identity = nodes_at(g.nodes, n).identity
            link.head = nodes_at(g.nodes, n).next
            link.flying -= 1
            if link.head >= 0:
                # It keeps the place in the order of events that it got when it took off.
                first = nodes_at(g.nodes, link.head)
                g.hole = 0
                sink(g, first.enqueued, first.order, index)
            while n >= 0:
                after = nodes_at(g.nodes, n).child
                _deliver(g, n, now)
                n = after
            n = link.waithead
            if n >= 0:
                link.waithead = nodes_at(g.nodes, n).next
                nodes_at(g.nodes, n).next = -1
                _fly(g, index, n, now)
        elif kind == TRACE:
            row = trace_at(g.trace, g.traced)
            source = sources_at(g.sources, row.source)
            source.number += 1
            identity = mix(source.key + np.uint64(source.number))
            g.traced += 1
            if g.traced < g.size_trace:
                push(g, trace_at(g.trace, g.traced).time, TRACE, 0)
            _enter(g, row.source, identity, row.work, now)
        elif kind == WINDOW:
            _close(g, index, now)
        elif kind == BATCH:
            status = _batch(g, index, now)
            if status != DONE:
                # Not done: put the event back where it was.
                if g.hole == 1:
                    g.hole = 0
                else:
                    rise(g, now, key, index)
                g.events -= 1
                return status
        else:
            _release(g, index, now)
        if g.size_log > 0 and not stale:
            entry = log_at(g.log, g.logs)
            entry.time, entry.kind, entry.index, entry.identity = now, kind, index, identity
            g.logs += 1
        if g.hole == 1:
            g.hole = 0
            g.heaped -= 1
            if g.heaped > 0:
                last = heap_at(g.heap, g.heaped)
                sink(g, last.time, last.key, last.index)
