"""Tuples that wait at hosts, and the cores that take them, in the order of the policy."""

from __future__ import annotations

import math

import numpy as np

from penstock.simulation.kernel.draws import duration
from penstock.simulation.kernel.heap import push
from penstock.simulation.kernel.routine import Hash, Scalars, routine
from penstock.simulation.kernel.tables import (
    cores_at,
    hosts_at,
    inputs_at,
    members_at,
    nodes_at,
    outputs_at,
    units_at,
    words_at,
)
from penstock.simulation.state import COMPLETE, CONSTANT, EPSILON, FCFS, LONGEST, ROUND_ROBIN, STIMULUS

_ONE = np.uint64(1)


@routine
def new_node(g: Scalars, at: int, identity: Hash, stimulus: float, work: float) -> int:
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
def free_node(g: Scalars, n: int) -> None:
    """Give a node back, to be used again."""
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
def begin(g: Scalars, n: int, core: int, now: float) -> None:
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
    push(g, now + mean, COMPLETE, core)


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
def take_next(g: Scalars, h: int, core: int, now: float) -> None:
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
    begin(g, n, core, now)


@routine
def leave(g: Scalars, now: float) -> None:
    """Free the core whose service ends, and let it take what waits."""
    core = cores_at(g.cores, g.leaving)
    core.node = -1
    hosts_at(g.hosts, core.host).idle += 1
    if hosts_at(g.hosts, core.host).waiting > 0:
        take_next(g, core.host, g.leaving, now)
    g.leaving = -1


@routine
def enqueue(g: Scalars, n: int, u: int, now: float) -> None:
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
