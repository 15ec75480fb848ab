"""What the service of a tuple, or the end of a window, puts out."""

from __future__ import annotations

import math

import numpy as np

from penstock.simulation.kernel.draws import OTHER, mix, uniform
from penstock.simulation.kernel.heap import push
from penstock.simulation.kernel.routine import Content, Readers, Scalars, routine
from penstock.simulation.kernel.tables import hosts_at, inputs_at, nodes_at, panes_at, rings_at, units_at
from penstock.simulation.kernel.travel import put_out
from penstock.simulation.kernel.waiting import free_node
from penstock.simulation.state import AGGREGATE, EPSILON, JOIN, WINDOW


@routine
def _emit(g: Scalars, u: int, start: int, content: Content, now: float) -> None:
    """Put out one tuple of an operator; a host of micro-batches holds back what leaves it."""
    unit = units_at(g.units, u)
    put_out(g, Readers(unit.outputs, unit.readers), start, hosts_at(g.hosts, start).batch > 0, content, now)


@routine
def _end(g: Scalars, u: int, k: int) -> float:
    """Return when a window ends: at the very moment when another begins, where it is a whole number of slides."""
    unit = units_at(g.units, u)
    end: float = (k + unit.whole) * unit.slide if unit.whole > 0 else k * unit.slide + unit.window
    return end


@routine
def serve(g: Scalars, n: int, start: int, now: float) -> None:
    """Finish the service of a tuple on a host: count it and put out what it yields."""
    node = nodes_at(g.nodes, n)
    at, identity, stimulus, work = node.input, node.identity, node.stimulus, node.work
    i = inputs_at(g.inputs, at)
    u = i.unit
    unit = units_at(g.units, u)
    unit.served += 1
    i.consumed += 1
    free_node(g, n)
    selectivity = i.selectivity
    if unit.kind == AGGREGATE:
        k = math.floor((now - unit.window) / unit.slide)
        while _end(g, u, k) <= now:
            k += 1
        while k * unit.slide <= now:
            pane = panes_at(g.panes, unit.pane + k % unit.panes)
            if pane.count == 0 or stimulus >= pane.youngest:
                pane.youngest, pane.work = stimulus, work
                # What a result's latency counts is how long its youngest contributor waited, and not the window.
                pane.stimulus = stimulus + (_end(g, u, k) - now)
            pane.count += 1
            if unit.pending == 0:
                unit.lowest = k
                unit.pending = 1
                push(g, _end(g, u, k), WINDOW, u)
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
            _emit(g, u, start, Content(mix((identity ^ unit.key) + np.uint64(k)), stimulus, work), now)
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
            made = mix((pair ^ unit.key) + np.uint64(j))
            youngest = stimulus if older else kept.stimulus
            _emit(g, u, start, Content(made, youngest, work if older else kept.work), now)


@routine
def close_window(g: Scalars, u: int, now: float) -> None:
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
            unit.pending = 1
            push(g, _end(g, u, ahead), WINDOW, u)
            break
    for j in range(outputs):
        identity = mix((mix(np.uint64(k)) ^ unit.key) + np.uint64(j))
        put_out(g, Readers(unit.outputs, unit.readers), unit.host, False, Content(identity, stimulus, work), now)
