"""What happens to hosts and operators during a run: failure, recovery, migration.

These are rare, so they are plain Python on the kernel's arrays.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping

import attrs
import numpy as np

from penstock.arrays import Ints
from penstock.cluster import base_name
from penstock.simulation.busy import unfinished
from penstock.simulation.compile import FAIL, MOVE, RECOVER, RESUME, Compiled, Control, wire
from penstock.simulation.gates import open_again, settle
from penstock.simulation.lists import Tuples, chain, coming, expect, groups, walk
from penstock.simulation.numbers import mixed
from penstock.simulation.places import position
from penstock.simulation.room import hashed
from penstock.simulation.state import BATCH, COMPLETE, EPSILON, FCFS, KEEP, RELEASE, ROUND_ROBIN, WINDOW, State
from penstock.simulation.watch import Watch


def apply(run: Compiled, pending: list[Control], watch: Watch) -> Compiled:
    """Apply the first of the pending controls, put what follows from it among them, and return the run."""
    s, g = run.state, run.state.g
    control = pending.pop(0)
    g["now"] = control.at
    if control.kind == FAIL:
        _fail(run, control.host)
    elif control.kind == RECOVER:
        s.hosts[control.host]["down"] = 0
        open_again(s, control.host)
    elif control.kind == MOVE:
        home = int(s.units[control.unit]["host"])
        run = watch.before_move(run, control.unit, control.host)
        queue = _suspend(run, control.unit, control.host)
        pause = run.options.move_time + run.options.move_time_per_tuple * queue
        pause += watch.crossing(home, control.host, queue)
        _later(pending, Control(control.at + pause, 3, RESUME, control.host, control.unit))
    else:
        _resume(run, control.unit)
    return run


def _later(pending: list[Control], control: Control) -> None:
    bisect.insort(pending, control, key=lambda c: (c.at, c.rank, c.unit, c.host))


def set_keep(run: Compiled, shares: Mapping[str, float], now: float) -> Compiled:
    """Set the keep fractions of all streams (1 where not named) from a time (s) on, and return the run.

    As in `Options.keep`, ``a->b`` holds for all copies of b, but for those with a fraction of their own, ``a->b#2``.
    """
    s = run.state
    stream = s.inputs["stream"][s.outputs["input"]]
    readers = s.inputs["unit"][s.outputs["input"]]
    wanted = np.ones(len(stream))
    number = {name: index for index, name in enumerate(run.streams)}
    for name, share in sorted(shares.items(), key=lambda item: "#" in item[0]):
        writer, _, reader = name.partition("->")
        here = stream == number[f"{writer}->{base_name(reader)}"]
        wanted[here & (readers == run.units.index(reader)) if "#" in reader else here] = share
    wanted[s.streams["window"][stream] < 0] = 1.0  # no window behind it would be dropped whole
    windowed = s.streams["window"][stream] > 0
    s.outputs["keep"] = np.where(windowed, s.outputs["keep"], wanted)
    history = s.outputs["history"]
    changed = np.flatnonzero(windowed & (wanted != np.where(history < 0, 1.0, s.keeps["keep"][history])))
    if changed.size:
        rows = np.zeros(changed.size, KEEP)
        rows["since"], rows["keep"], rows["before"] = now, wanted[changed], history[changed]
        s.outputs["history"][changed] = s.keeps.size + np.arange(changed.size)
        s.outputs["keep"][changed] = 0.0  # look at the history
        run = attrs.evolve(run, state=s._replace(keeps=np.concatenate([s.keeps, rows])).addressed())
    return run


def _heap(s: State, root: int) -> Iterator[int]:
    """Iterate over a pairing heap in any order."""
    stack = [root] if root >= 0 else []
    while stack:
        n = stack.pop()
        child, sibling = int(s.nodes[n]["child"]), int(s.nodes[n]["next"])
        if sibling >= 0 and n != root:
            stack.append(sibling)
        if child >= 0:
            stack.append(child)
        yield n


def _release(s: State, n: int) -> None:
    g = s.g
    s.nodes[n]["input"], s.nodes[n]["next"] = -1, g["free"][0]
    g["free"] = n
    g["used"] -= 1


def _lose(s: State, n: int) -> None:
    """Count a tuple as lost."""
    at = int(s.nodes[n]["input"])
    if at >= 0:
        s.inputs["lost"][at] += 1
    _release(s, n)


def _lose_had(s: State, tuples: list[int]) -> None:
    """Count tuples as lost that had reached their readers: the next copy of one is none of what was here before."""
    rows = s.nodes[tuples]
    ends = s.inputs[rows["input"]]
    some = ends["copies"] > 1
    pairs = zip(rows["identity"][some].tolist(), ends["key"][some].tolist(), strict=True)
    keys = np.array([mixed(identity ^ salt) for identity, salt in pairs], np.uint64)
    gone = (s.seen["count"] > 0) & np.isin(s.seen["key"], keys)
    if gone.any():
        s.seen[:] = hashed(s.seen[(s.seen["count"] > 0) & ~gone], s.seen.size)
        s.g["known"] -= gone.sum()
    for n in tuples:
        _lose(s, n)


def _waiting(run: Compiled, h: int) -> Tuples:
    """Take everything out of the queue of a host, operators that pause excepted, in the order of arrival."""
    s = run.state
    host = s.hosts[h]
    if s.g["policy"][0] >= ROUND_ROBIN and not host["batch"]:
        found: list[int] = []
        for u in np.flatnonzero((s.units["host"] == h) & (s.units["paused"] == 0)).tolist():
            found += walk(s, int(s.units[u]["head"]))
            s.units[u]["head"] = s.units[u]["tail"] = -1
        first = int(host["words"])
        s.words["bits"][first : first + int(host["wide"])] = 0
    elif s.g["policy"][0] == FCFS or host["batch"]:
        found = list(walk(s, int(host["head"])))
        host["head"] = host["tail"] = -1
    else:
        found = list(_heap(s, int(host["root"])))
        host["root"] = -1
    host["waiting"] = 0
    return _ordered(s, np.array(found, np.int64))


def _ordered(s: State, tuples: Tuples) -> Tuples:
    """Return tuples in the order of their arrival."""
    found: Tuples = tuples[np.argsort(s.nodes["order"][tuples], kind="stable")]
    return found


def _units(s: State, tuples: Tuples) -> Tuples:
    """Return the unit that each tuple waits for."""
    found: Tuples = s.inputs["unit"][s.nodes["input"][tuples]]
    return found


def _insert(run: Compiled, h: int, tuples: Tuples) -> None:
    """Put tuples, in the order of their arrival, into the empty queue of a host."""
    s = run.state
    host, g = s.hosts[h], s.g
    s.nodes["next"][tuples] = s.nodes["child"][tuples] = -1
    if g["policy"][0] >= ROUND_ROBIN and not host["batch"]:
        units = _units(s, tuples)
        for u in np.unique(units).tolist():
            unit = s.units[u]
            chain(s, unit, tuples[units == u])
            word = int(host["words"]) + (int(unit["position"]) >> 6)
            s.words["bits"][word] |= np.uint64(1 << (int(unit["position"]) & 63))
    elif g["policy"][0] == FCFS or host["batch"]:
        chain(s, host, tuples)
    else:
        for n in tuples.tolist():
            host["root"] = _melded(s, int(host["root"]), n)
    host["waiting"] += len(tuples)
    s.kicks["host"][int(g["kicked"][0])] = h
    g["kicked"] += 1


def _melded(s: State, root: int, n: int) -> int:
    """Add a tuple to a pairing heap; return its root."""
    if root < 0:
        return n
    width = float(s.g["subinterval"][0])

    def age(k: int) -> tuple[float, int]:
        stimulus = float(s.nodes[k]["stimulus"])
        return (math.floor(stimulus / width + EPSILON) if width > 0 else stimulus), int(s.nodes[k]["order"])

    a, b = sorted((root, n), key=age)
    s.nodes[b]["next"] = s.nodes[a]["child"]
    s.nodes[a]["child"] = b
    return a


def _fail(run: Compiled, h: int) -> None:
    """Lose what a host holds: what waits, is in service, or waits for a link, and the state of its operators."""
    s = run.state
    host, now = s.hosts[h], float(s.g["now"][0])
    cores = s.cores[int(host["core"]) : int(host["core"]) + int(host["cores"])]
    for core in cores[cores["node"] >= 0]:
        busy = (now - float(core["start"])) / int(host["cores"])
        host["busy"] += busy
        s.units["busy"][s.inputs["unit"][int(s.nodes[int(core["node"])]["input"])]] += busy
    _lose_had(s, [*_waiting(run, h).tolist(), *cores["node"][cores["node"] >= 0].tolist()])
    cores["node"] = -1
    _empty(s, np.flatnonzero(s.units["host"] == h))
    for index in np.flatnonzero(s.links["start"] == h).tolist():
        link = s.links[index]
        for n in list(groups(s, int(link["waithead"]))):
            _lose(s, n)
        link["waithead"] = link["waittail"] = -1
    for n in list(groups(s, int(host["held"]))):
        _release(s, n)
    if host["until"] > now:
        mine, left = unfinished(run, h, now)
        s.units["cut"][mine] += left
        host["busy"] -= float(host["until"]) - now
    host["held"] = host["heldtail"] = -1
    host["planned"], host["until"] = 0, min(float(host["until"]), now)
    host["idle"], host["down"] = host["cores"], 1
    _forget(s, h)


def _empty(s: State, units: Ints) -> None:
    """Lose what operators on a host that is down hold: their queues, windows, and what they keep for joins."""
    _lose_had(s, [n for head in s.units["head"][units].tolist() for n in walk(s, head)])
    s.units["head"][units] = s.units["tail"][units] = -1
    for first, count in s.units[["pane", "panes"]][units].tolist():
        s.panes["count"][first : first + count] = 0
    s.units["pending"][units] = 0
    here = np.isin(s.inputs["unit"], units)
    s.inputs["waiting"][here] = s.inputs["length"][here] = 0
    events = coming(s)
    expect(s, events[(events["key"] >> 56 != WINDOW) | ~np.isin(events["index"], units)])


def _forget(s: State, h: int) -> None:
    """Take out of the events to come what a failed host will not do."""
    host, events = s.hosts[h], coming(s)
    kind, index = events["key"] >> 56, events["index"]
    core = index - host["core"]
    gone = (kind == COMPLETE) & (core >= 0) & (core < host["cores"])
    gone |= ((kind == BATCH) | (kind == RELEASE)) & (index == h)
    expect(s, events[~gone])


def _suspend(run: Compiled, u: int, target: int) -> int:
    """Move an operator with its queue; it starts nothing until it is resumed. Return the length of its queue."""
    s = run.state
    unit, old = s.units[u], int(s.units[u]["host"])
    if not unit["paused"]:
        waiting = _waiting(run, old)
        mine = _units(s, waiting) == u
        _insert(run, old, waiting[~mine])
        chain(s, unit, waiting[mine])
    unit["paused"] += 1
    unit["host"] = target
    unit["position"] = position(s.hosts[target], run.state.members, u)
    wire(s, run.links, only=u)
    settle(s)
    if s.hosts[target]["down"]:
        _empty(s, np.array([u]))
    return sum(1 for _ in walk(s, int(unit["head"])))


def _resume(run: Compiled, u: int) -> None:
    s = run.state
    unit = s.units[u]
    unit["paused"] -= 1
    if unit["paused"]:
        return
    host = int(unit["host"])
    queue = np.array(list(walk(s, int(unit["head"]))), np.int64)
    unit["paused"] = 1
    others = _waiting(run, host)
    unit["paused"] = 0
    unit["head"] = unit["tail"] = -1
    _insert(run, host, _ordered(s, np.concatenate([others, queue])))
    open_again(s, host, u)
