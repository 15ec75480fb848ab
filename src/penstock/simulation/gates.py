"""Limits of sources: what is read of one waits at the gates of its readers, as rows wait at a topic.

A limit is so many tuples/s. A reader on a host that serves tuple by tuple, and a sink, gets them at even distances; a
batch reads as many as fit its interval. Limits change seldom, so this is plain numpy; the kernel lets tuples in.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Ints, Records
from penstock.simulation import state as layout
from penstock.simulation.lists import chain, coming, expect, walk
from penstock.simulation.state import LET, State
from penstock.steering import rows_a_batch

_ANY = 2**62


def gates_of(sources: Records) -> Records:
    """Return a gate for each output of a source."""
    table = layout.table(int(sources["readers"].sum()), layout.GATE)
    table["source"] = np.repeat(np.arange(len(sources)), sources["readers"])
    table["head"] = table["tail"] = table["next"] = -1
    table["last"] = -math.inf
    return table


def set_limit(s: State, source: int, limit: float) -> None:
    """Limit what is read of a source from now on (tuples/s); infinity sets it free.

    What waits for the next batch of a host has not been read: it counts too.
    """
    mine = s.gates["source"] == source
    if s.sources["limit"][source] in (0.0, math.inf):
        s.gates["last"][mine] = -math.inf  # what was read without a limit does not count
    s.sources["limit"][source] = limit
    settle(s)
    if math.isfinite(limit):
        for o in np.flatnonzero(mine & (s.gates["most"] > 0)).tolist():
            _take_back(s, o)
    ask(s, mine)


def settle(s: State) -> None:
    """Let each gate know how much it may let in, and each host the gates from which its batches read.

    Needed after a change of limits, intervals, readers' hosts, or of what starts nothing.
    """
    s.hosts["gate"] = -1
    limits, readers = s.sources["limit"][s.gates["source"]], _readers(s)
    for o in np.flatnonzero(limits > 0)[::-1].tolist():  # so that the first gate is the first on its host
        gate, unit, limit = s.gates[o], int(readers[o]), float(limits[o])
        host = None if unit < 0 else s.hosts[int(s.units["host"][unit])]
        if host is None or not host["batch"]:
            gate["step"] = 1.0 / limit
            continue
        gate["most"] = rows_a_batch(limit, float(host["trigger"])) if limit < _ANY else _ANY
        if not s.units["paused"][unit]:
            gate["next"], host["gate"] = host["gate"], o


def _take_back(s: State, o: int) -> None:
    """Put what waits for the next batch behind a gate back to it, unless it has come over a link."""
    gate, unit = s.gates[o], s.units[int(_readers(s)[o])]
    host, start = s.hosts[int(unit["host"])], int(s.sources["host"][gate["source"]])
    if start not in (-1, int(unit["host"])):
        return
    waiting = np.array([*walk(s, int(host["head"]))], np.int64)
    mine = s.nodes["input"][waiting] == s.outputs["input"][o]
    back = waiting[mine]
    chain(s, host, waiting[~mine])
    chain(s, gate, np.concatenate([back, np.array([*walk(s, int(gate["head"]))], np.int64)]))
    host["waiting"] -= back.size
    s.inputs["waiting"][s.outputs["input"][o]] -= back.size
    gate["held"] += back.size
    gate["passed"] = 0


def ask(s: State, gates: NDArray[np.bool_]) -> None:
    """Let some gates see at once what they let in now."""
    g = s.g
    wanted = np.flatnonzero(gates & (s.gates["held"] > 0))
    events = coming(s)
    events = events[(events["key"] >> 56 != LET) | ~np.isin(events["index"], wanted)]
    made = np.zeros(wanted.size, layout.EVENT)
    made["time"], made["index"] = g["now"], wanted
    made["key"] = (LET << 56) | (g["sequence"] + 1 + np.arange(wanted.size))
    g["sequence"] += wanted.size
    s.gates["pending"][wanted] = 1
    expect(s, np.concatenate([events, made]))


def open_again(s: State, host: int, unit: int = -1) -> None:
    """Let tuples in again that waited for the readers on a host, or for one of them, to come back."""
    settle(s)
    readers = _readers(s)
    # Sinks are no units, of which there may be none.
    there = (readers == unit) if unit >= 0 else np.isin(readers, np.flatnonzero(s.units["host"] == host))
    if unit < 0:
        s.gates["passed"][there] = 0  # the host has lost what it was given
    ask(s, there)


def entered(s: State) -> Ints:
    """Return how many tuples of each source have entered."""
    # What is scheduled is one ahead of what has entered, once anything is; a trace counts what has entered.
    found: Ints = np.maximum(s.sources["number"] + (s.trace.size > 0), 0)
    return found


def held(s: State) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many tuples wait at gates for each unit, and how many of each source nobody has read yet."""
    readers = _readers(s)
    mine = readers >= 0
    units = np.bincount(readers[mine], s.gates["held"][mine], len(s.units)).astype(np.int64)
    unread = np.full(len(s.sources), _ANY)
    np.minimum.at(unread, s.gates["source"], s.gates["held"])
    return units, np.where(unread == _ANY, 0, unread)


def _readers(s: State) -> Ints:
    """Return the unit behind each gate, -1 for a sink: sources have the first outputs."""
    found: Ints = s.inputs["unit"][s.outputs["input"][: len(s.gates)]]
    return found
