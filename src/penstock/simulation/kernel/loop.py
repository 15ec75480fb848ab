"""The event loop, compiled. It allocates nothing: where room runs out it returns a reason and is called again.

Every draw is a hash of a key (of the operator, stream or source, and the seed) and the tuple's identity, so that
neither the policy nor the order of events changes what a tuple costs, where it goes and whether it is kept.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import int64, njit

from penstock.native.memory import prefetch
from penstock.simulation.kernel.batches import has_work, release, room_for, run_batch
from penstock.simulation.kernel.draws import mix, uniform
from penstock.simulation.kernel.heap import push, rise, sink
from penstock.simulation.kernel.routine import Scalars, routine
from penstock.simulation.kernel.serving import close_window, serve
from penstock.simulation.kernel.tables import (
    CORE_SIZE,
    HOST_SIZE,
    INPUT_SIZE,
    LINK_SIZE,
    NODE_SIZE,
    OUTPUT_SIZE,
    UNIT_SIZE,
    cores_at,
    curve_at,
    gates_at,
    heap_at,
    hosts_at,
    inputs_at,
    kicks_at,
    links_at,
    log_at,
    nodes_at,
    outputs_at,
    scalars_at,
    sources_at,
    trace_at,
    units_at,
)
from penstock.simulation.kernel.travel import deliver, enter, fly, let_in, plan_batch
from penstock.simulation.kernel.waiting import leave, take_next
from penstock.simulation.state import (
    ARRIVAL,
    BATCH,
    BUDGET,
    COMPLETE,
    CONTROL,
    DONE,
    EPSILON,
    LET,
    LINK,
    TRACE,
    WINDOW,
)

# Nothing here owns memory, so no references need counting; it is called by address, so it needs no wrappers.
_compiler: Any = njit
_entry: Any = _compiler(int64(int64), no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


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
def _fetch(g: Scalars, at: int) -> None:
    """Ask for what the event at a place of the heap will touch: with many operators memory is what takes the time."""
    event = heap_at(g.heap, at)
    if event.key >> 56 != COMPLETE:
        return
    core = cores_at(g.cores, event.index)
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
            if host.planned == 0 and host.down == 0 and has_work(g, h):
                plan_batch(g, h, g.now)
            continue
        while host.waiting > 0 and host.idle > 0 and host.down == 0:
            core = host.core
            while cores_at(g.cores, core).node >= 0:
                core += 1
            take_next(g, h, core, g.now)
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
        if g.events >= stop:
            return BUDGET
        # Where no event can put out more than a fixed number of tuples, most need no closer look.
        if g.size_nodes - g.used < g.plenty or g.size_rows - g.rowed < g.plenty:
            status = room_for(g, kind, index)
            if status != DONE:
                return status
        g.events += 1
        g.now = now
        g.hole = 1
        identity = np.uint64(0)
        if kind == COMPLETE:
            core = cores_at(g.cores, index)
            host, h = hosts_at(g.hosts, core.host), core.host
            n = core.node
            identity = nodes_at(g.nodes, n).identity
            unit = units_at(g.units, inputs_at(g.inputs, nodes_at(g.nodes, n).input).unit)
            unit.busy += (now - core.start) / host.cores
            host.busy += (now - core.start) / host.cores
            g.leaving = index
            serve(g, n, h, now)
            if g.leaving >= 0:
                leave(g, now)
        elif kind == ARRIVAL:
            source = sources_at(g.sources, index)
            identity = mix(source.key + np.uint64(source.number))
            _schedule(g, index)
            enter(g, index, identity, 1.0, now)
        elif kind == LET:
            gates_at(g.gates, index).pending = 0
            let_in(g, index, now)
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
                deliver(g, n, now)
                n = after
            n = link.waithead
            if n >= 0:
                link.waithead = nodes_at(g.nodes, n).next
                nodes_at(g.nodes, n).next = -1
                fly(g, index, n, now)
        elif kind == TRACE:
            row = trace_at(g.trace, g.traced)
            source = sources_at(g.sources, row.source)
            source.number += 1
            identity = mix(source.key + np.uint64(source.number))
            g.traced += 1
            if g.traced < g.size_trace:
                push(g, trace_at(g.trace, g.traced).time, TRACE, 0)
            enter(g, row.source, identity, row.work, now)
        elif kind == WINDOW:
            close_window(g, index, now)
        elif kind == BATCH:
            status = run_batch(g, index, now)
            if status != DONE:
                # Not done: put the event back where it was.
                if g.hole == 1:
                    g.hole = 0
                else:
                    rise(g, now, key, index)
                g.events -= 1
                return status
        else:
            release(g, index, now)
        if g.size_log > 0:
            entry = log_at(g.log, g.logs)
            entry.time, entry.kind, entry.index, entry.identity = now, kind, index, identity
            g.logs += 1
        if g.hole == 1:
            g.hole = 0
            g.heaped -= 1
            if g.heaped > 0:
                last = heap_at(g.heap, g.heaped)
                sink(g, last.time, last.key, last.index)
