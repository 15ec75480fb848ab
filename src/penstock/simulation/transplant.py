"""A running simulation goes on inside a larger one: everything that is under way is carried over.

The larger network, cluster or rates are compiled as for a run of their own; then counts, queues, services in hand and
events are put where they now belong. This happens seldom, so it is plain numpy.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import attrs
import numpy as np

from penstock.arrays import Ints, Records
from penstock.simulation import state as layout
from penstock.simulation.compile import Compiled, written
from penstock.simulation.gates import settle
from penstock.simulation.lists import coming, expect
from penstock.simulation.maps import Maps
from penstock.simulation.numbers import mixed
from penstock.simulation.state import (
    ARRIVAL,
    BATCH,
    COMPLETE,
    EPSILON,
    LET,
    LINK,
    RELEASE,
    ROUND_ROBIN,
    WINDOW,
    State,
)

_UNIT = ("paused", "served", "begun", "wait", "busy", "head", "tail", "lowest", "pending", "cut")
_INPUT = (
    "waiting", "arrived", "count", "consumed", "delivered", "dropped", "lost", "last", "head", "length", "capacity",
)  # fmt: skip
_HOST = (
    "speed", "down", "idle", "waiting", "head", "tail", "root", "busy", "stamp", "last", "trigger", "overhead", "began",
    "until", "step", "held", "heldtail", "outputs", "released", "planned",
)  # fmt: skip
_CORE = ("node", "start")
_LINK = ("flying", "sent", "head", "tail", "waithead", "waittail")
_SOURCE = ("number", "target", "limit")
_GATE = ("head", "tail", "held", "passed", "last", "pending")
_CLOCK = (
    "now", "end", "control", "sequence", "order", "stamp", "events", "budget", "duplicates", "free", "fresh", "used",
    "rowed", "logs", "kicked", "traced", "known",
)  # fmt: skip


def transplanted(old: Compiled, new: Compiled, maps: Maps, same: Collection[int], now: float) -> Compiled:
    """Return the new run, which has all links of the old one, with everything that the old one holds.

    Parameters
    ----------
    maps
        From the old numbers to the new ones.
    same
        New numbers of the sources whose next tuple comes when it would have come anyway.
    now
        The time (s).
    """
    a, b = old.state, new.state
    for names, kind, mine, theirs in (
        (_UNIT, maps.units, a.units, b.units),
        (_INPUT, maps.inputs, a.inputs, b.inputs),
        (_HOST, maps.hosts, a.hosts, b.hosts),
        (_CORE, maps.cores, a.cores, b.cores),
        (_LINK, _links(old, new, maps), a.links, b.links),
        (_SOURCE, maps.sources, a.sources, b.sources),
    ):
        for name in names:
            theirs[name][kind] = mine[name]
    outputs = _outputs(a, b, maps)
    for name in _GATE:
        b.gates[name][outputs[: len(a.gates)]] = a.gates[name]
    _services(a, b, maps)
    state = b._replace(nodes=_nodes(a, maps, outputs), keeps=a.keeps, seen=a.seen, log=a.log, rows=_rows(a, maps))
    state = state._replace(rings=_rings(a, state, maps), kicks=_kicks(a, state, maps))
    _panes(a, state, maps)
    if new.options.microbatch is not None:
        _members(a, state, maps)
    for name in _CLOCK:
        state.g[name] = a.g[name]
    state.g["hole"] = 0
    places = {
        COMPLETE: maps.cores, WINDOW: maps.units, BATCH: maps.hosts, RELEASE: maps.hosts,
        LINK: _links(old, new, maps), LET: outputs, ARRIVAL: maps.sources,
    }  # fmt: skip
    _events(a, state, places, same, now)
    settle(state)
    if state.g["policy"][0] >= ROUND_ROBIN:
        _turns(state)
    return attrs.evolve(new, state=state.addressed())


def _links(old: Compiled, new: Compiled, maps: Maps) -> Ints:
    return np.array([new.links[int(maps.hosts[a]), int(maps.hosts[b])] for a, b in old.links], np.int64)


def _outputs(a: State, b: State, maps: Maps) -> Ints:
    """Return the new number of each output, and carry keep fractions over."""
    sources, units, _ = written(b)
    number = {key: o for o, key in enumerate(zip(sources, units, b.outputs["input"], strict=True))}
    sources, units, _ = written(a)
    sources, units = np.where(sources < 0, -1, maps.sources[sources]), np.where(units < 0, -1, maps.units[units])
    places = zip(sources, units, maps.inputs[a.outputs["input"]], strict=True)
    found = np.array([number[place] for place in places], np.int64)
    for name in ("keep", "history"):
        b.outputs[name][found] = a.outputs[name]
    return found


def _services(a: State, b: State, maps: Maps) -> None:
    """Point cores at what they serve and fetch next."""
    for core, row in zip(maps.cores.tolist(), a.cores, strict=True):
        if row["node"] < 0:
            continue
        at = int(maps.inputs[row["input"]])
        unit = b.units[b.inputs["unit"][at]]
        mine = b.cores[core]
        mine["input"], mine["unit"], mine["outputs"] = at, b.inputs["unit"][at], unit["outputs"]
        mine["next"] = b.outputs["input"][unit["outputs"]] if unit["readers"] > 0 else at


def _nodes(a: State, maps: Maps, outputs: Ints) -> Records:
    nodes = a.nodes
    known = nodes[: int(a.g["fresh"][0])]["input"]
    held, queued = known <= -2, known >= 0
    fresh = known.copy()
    fresh[queued] = maps.inputs[known[queued]]
    fresh[held] = -2 - outputs[-2 - known[held]]
    nodes["input"][: known.size] = fresh
    return nodes


def _rows(a: State, maps: Maps) -> Records:
    count = int(a.g["rowed"][0])
    a.rows["sink"][:count] = maps.sinks[a.rows["sink"][:count]]
    return a.rows


def _rings(a: State, b: State, maps: Maps) -> Records:
    """Keep the windows of joins where they are, with those of new joins behind them."""
    start = a.rings.size
    fresh = np.setdiff1d(np.arange(len(b.inputs)), maps.inputs)
    b.inputs["ring"][maps.inputs] = a.inputs["ring"]
    b.inputs["ring"][fresh] += start
    rings = layout.table(start + b.rings.size, layout.KEPT)
    rings[:start] = a.rings
    return rings


def _panes(a: State, b: State, maps: Maps) -> None:
    for old, new in enumerate(maps.units.tolist()):
        first, mine, count = int(a.units[old]["pane"]), int(b.units[new]["pane"]), int(a.units[old]["panes"])
        b.panes[mine : mine + count] = a.panes[first : first + count]


def _kicks(a: State, b: State, maps: Maps) -> Records:
    count = int(a.g["kicked"][0])
    b.kicks["host"][:count] = maps.hosts[a.kicks["host"][:count]]
    return b.kicks


def _members(a: State, b: State, maps: Maps) -> None:
    """Carry over the work of batches in hand."""
    for old, new in enumerate(maps.hosts.tolist()):
        first, count = int(a.hosts["members"][old]), int(a.hosts["size"][old])
        mine = a.members[first : first + count]
        rows = int(b.hosts["members"][new]) + maps.units[mine["unit"]]  # every host has a place for each
        b.members["began"][rows], b.members["work"][rows] = mine["began"], mine["work"]


def _events(a: State, b: State, places: Mapping[int, Ints], same: Collection[int], now: float) -> None:
    """Carry over the events to come, and schedule the next arrivals of sources that are new or have other rates.

    Parameters
    ----------
    places
        By kind of event, the new number of each thing that it is about.
    """
    events = coming(a).copy()
    kinds = events["key"] >> 56
    for kind, numbers in places.items():
        mine = kinds == kind
        events["index"][mine] = numbers[events["index"][mine]] if mine.any() else 0
    events = events[(kinds != ARRIVAL) | np.isin(events["index"], list(same))]
    carried = set(places[ARRIVAL].tolist())
    made = []
    for index in range(len(b.sources) if b.g["sequence"][0] else 0):
        if index in same and index in carried:
            _catch_up(b, index)
        elif (time := _next_arrival(b, index, now, fresh=index not in carried)) is not None:
            b.g["sequence"] += 1
            made.append((time, (ARRIVAL << 56) | int(b.g["sequence"][0]), index))
    expect(b, np.concatenate([events, np.array(made, layout.EVENT)]))


def _catch_up(b: State, index: int) -> int:
    """Let a source be in the period in which its next tuple enters, and return that period."""
    source, periods = b.sources[index], int(b.g["periods"][0])
    curve = b.curve[index * (periods + 1) : (index + 1) * (periods + 1)]["integral"]
    target = float(source["target"])
    source["row"] = min(periods, int(np.searchsorted(curve[1:], target + EPSILON + 1e-12 * target, side="right")))
    return int(source["row"])


def _next_arrival(b: State, index: int, now: float, *, fresh: bool) -> float | None:
    """Return when a source's next tuple enters, as the kernel schedules it; None where none does."""
    source = b.sources[index]
    if fresh:
        source["number"] = 0
        # The draw of the kernel for the first tuple.
        draw = mixed(mixed(0) ^ int(source["draw"])) >> 11
        source["target"] = -math.log(1.0 - draw * 2.0**-53) if source["poisson"] else 0.0
    row, periods, period = _catch_up(b, index), int(b.g["periods"][0]), float(b.g["period"][0])
    if row == periods:
        return None
    here = b.curve[index * (periods + 1) + row]
    time = row * period + max(0.0, float(source["target"]) - float(here["integral"])) / float(here["rate"])
    return max(time, now) if time < float(b.g["input_end"][0]) else None


def _turns(b: State) -> None:
    """Let every host of a policy of turns begin with its first operator that has something waiting."""
    b.words["bits"] = 0
    b.hosts["cursor"] = 0
    for unit in b.units[(b.units["head"] >= 0) & (b.units["paused"] == 0)]:
        host = b.hosts[int(unit["host"])]
        word = int(host["words"]) + (int(unit["position"]) >> 6)
        b.words["bits"][word] |= np.uint64(1 << (int(unit["position"]) & 63))
