"""Hosts of micro-batches, and whether there is room for what an event puts out."""

from __future__ import annotations

import math

from penstock.simulation.kernel.draws import duration
from penstock.simulation.kernel.heap import push
from penstock.simulation.kernel.routine import Scalars, routine
from penstock.simulation.kernel.serving import serve
from penstock.simulation.kernel.tables import (
    cores_at,
    gates_at,
    hosts_at,
    inputs_at,
    members_at,
    nodes_at,
    outputs_at,
    panes_at,
    units_at,
)
from penstock.simulation.kernel.travel import let_in, plan_batch, write
from penstock.simulation.state import (
    COMPLETE,
    CONSTANT,
    DONE,
    JOIN,
    LINK,
    LOG,
    MANY,
    POOL,
    RELEASE,
    RING,
    ROWS,
    TABLE,
    TAKE,
    WINDOW,
)


@routine
def room_for(g: Scalars, kind: int, index: int) -> int:
    """Return a status if the next event might not fit into the arrays, with what it needs in ``g.need``.

    ``TAKE``: not an event but the tuple at an input that a micro-batch takes next.
    """
    outputs, at = 1.0, -1
    if kind == COMPLETE:
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
        held = panes_at(g.panes, unit.pane + unit.lowest % unit.panes).count
        outputs = held * inputs_at(g.inputs, unit.first).selectivity * unit.slide / unit.window + 2.0
    elif kind == LINK:
        outputs = 2.0
    elif kind == RELEASE:
        outputs = hosts_at(g.hosts, index).outputs + 1.0
    g.need = int(min(outputs * g.fan, MANY)) + 8
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
def has_work(g: Scalars, h: int) -> bool:
    """Whether a batch of a host has something to read."""
    some: bool = hosts_at(g.hosts, h).head >= 0
    o = hosts_at(g.hosts, h).gate
    while o >= 0 and not some:
        some = gates_at(g.gates, o).head >= 0
        o = gates_at(g.gates, o).next
    return some


@routine
def run_batch(g: Scalars, h: int, now: float) -> int:
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
        status: int = room_for(g, TAKE, nodes_at(g.nodes, n).input)
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
        member = members_at(g.members, host.members + unit.position)
        if member.began != host.began:
            member.began, member.work = host.began, 0.0
        member.work += mean
        host.step += mean
        serve(g, n, h, now)
    o = host.gate
    while o >= 0:
        gates_at(g.gates, o).passed = 0
        let_in(g, o, now)
        o = gates_at(g.gates, o).next
    total = host.step
    host.busy += total
    host.until = now + total
    # Progressively: the outputs one by one, evenly over the batch; else all at its end.
    progressive = host.batch == 2 and host.outputs > 0
    host.step = total / host.outputs if progressive else 0.0
    due = now + host.step if progressive and host.outputs > 1 else host.until
    push(g, due, RELEASE, h)
    return DONE


@routine
def release(g: Scalars, h: int, now: float) -> None:
    """Let the outputs of a micro-batch become visible, and plan the next batch after its end."""
    host = hosts_at(g.hosts, h)
    progressive = host.step > 0.0
    while host.held >= 0:
        n = host.held
        host.held = nodes_at(g.nodes, n).next
        host.released += 1
        g.stamp += 1
        while n >= 0:
            node = nodes_at(g.nodes, n)
            o, after = -2 - node.input, node.child
            node.input = outputs_at(g.outputs, o).input
            node.next = node.child = -1
            write(g, o, n, h, now)
            n = after
        if progressive and host.held >= 0:
            due = host.began + host.step * (host.released + 1)
            push(g, due if host.released + 1 < host.outputs else host.until, RELEASE, h)
            return
    host.planned = 0
    if has_work(g, h):
        plan_batch(g, h, now)
