"""Runs of the recursion over micro-batches: a placed network laid out for the kernel, and the batches that come out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.arrays import Array, Bools, Ints, Records
from penstock.latency.shape import Batches, Pace, Shape
from penstock.latency.tables import FULL, GLOBALS, TABLES
from penstock.native import Kernel

KERNEL = Kernel("penstock.latency.recursion", "follow", ("inlets.py", "tables.py"))
"""``python -m penstock.latency.batching`` writes its bitcode anew."""

Column = Array | Ints | Bools | float
"""A field of all rows of a table."""

ROOM = 256
"""Batches that there is room for at first."""

CHANGING = ("inlets", "queries", "feeds", "waters", "announcers", "groups")


class Recursion:
    """A placed network that can be run at one pace after another."""

    def __init__(self, shape: Shape) -> None:
        self.fixed = _laid_out(shape)
        self.tables = {name: table.copy() for name, table in self.fixed.items()}
        self.g = np.zeros(1, GLOBALS)
        self.g["progressive"] = shape.progressive
        self.g["wide"] = np.diff(shape.inlet_first).max(initial=1)
        self.g["voices"] = np.diff(shape.announcer_first).max(initial=1)
        for name in self.tables:
            self._address(name)
        self._make_room(ROOM)

    def run(self, pace: Pace) -> Batches:
        """Follow the batches at a pace."""
        for name in CHANGING:
            self.tables[name][:] = self.fixed[name]
        self._set(pace)
        follow = KERNEL.load()
        while follow(self.g) == FULL:
            self._make_room(2 * self.tables["batches"].size)
        count = int(self.g["count"][0])
        found = self.tables["batches"][:count]
        columns = {name: found[name].copy() for name in ("query", "start", "end", "visible", "work")}
        wide = int(self.g["wide"][0])
        return Batches(**columns, upto=self.tables["upto"]["value"][: count * wide].reshape(count, wide).copy())

    def _set(self, pace: Pace) -> None:
        g, hosts = self.g, self.tables["hosts"]
        g["trigger"], g["phase"] = pace.trigger, pace.phase
        g["reading"], g["commit"], g["count"] = pace.reading, pace.commit, 0
        hosts["overhead"], hosts["idle"] = pace.overhead, pace.idle
        hosts["jitter"], hosts["residual"] = pace.jitter, pace.residual
        self.tables["queries"]["extra"] = pace.extra
        chance = [np.zeros(1)] * len(pace.noise) if pace.chance is None else pace.chance
        figures = {"work": pace.work}
        for name, rows in (("noise", pace.noise), ("chance", chance)):
            sizes = [len(row) for row in rows]
            hosts[f"{name}s"], hosts[name] = sizes, np.cumsum([0, *sizes])[:-1]
            figures[name] = np.concatenate([np.zeros(0), *rows])
        for name, row in figures.items():
            self.tables[name] = np.ascontiguousarray(row).view(TABLES[name])
            self._address(name)

    def _make_room(self, batches: int) -> None:
        room = {"batches": 1, "upto": int(self.g["wide"][0]), "said": int(self.g["voices"][0])}
        for name, each in room.items():
            larger = np.zeros(batches * each, TABLES[name])
            known = self.tables.get(name)
            if known is not None:
                larger[: known.size] = known
            self.tables[name] = larger
            self._address(name)

    def _address(self, name: str) -> None:
        table = self.tables[name]
        self.g[name], self.g[f"size_{name}"] = table.ctypes.data, table.size


def _laid_out(shape: Shape) -> dict[str, Records]:
    """Return the tables of a placed network before its first batch."""
    affected = _affected(shape)
    other = np.concatenate([[0], np.cumsum([len(row) for row in affected])])
    hosts = int(shape.host.max(initial=-1)) + 1
    columns: dict[str, dict[str, Column]] = {
        "points": {"time": shape.times, "end": shape.ends, "segment": shape.segment},
        "roots": {**_spans("point", shape.point_first), **_spans("edge", shape.segment_first)},
        "edges": {"point": shape.edge},
        "sums": {"value": shape.sums},
        "inlets": {
            "root": shape.inlet_root, "parent": shape.inlet_parent, "weight": shape.inlet_weight,
            "work": shape.inlet_work[:-1], "late": shape.inlet_late,
        },
        "queries": {
            "host": shape.host, "group": shape.group, "own": shape.own_first, "first": -1, "last": -1,
            **_spans("inlet", shape.inlet_first), **_spans("feed", shape.feed_first),
            **_spans("water", shape.water_first), **_spans("announcer", shape.announcer_first),
            **_spans("other", other),
        },
        "feeds": {
            "inlet": shape.feed_inlet, "inlets": shape.feed_end, "source": shape.feed_source,
            "writer": shape.feed_writer, "water": shape.feed_water, "taken": -1,
        },
        "waters": {
            "announcer": shape.water_announcer, "writer": shape.water_query, "minded": shape.water_minded,
            "late": shape.water_late, "taken": -1, "now": -np.inf, "before": -np.inf,
        },
        "announcers": {
            "behind": shape.announcer_behind, "late": shape.announcer_late, "told": -np.inf,
            **_spans("heard", shape.heard_first),
        },
        "heard": {"value": shape.heard},
        "affected": {"value": np.array([q for row in affected for q in row], np.int64)},
        "hosts": {"overhead": np.zeros(hosts)},
        "groups": {"members": np.diff(shape.member_first), "cores": shape.cores, "first": -1},
    }  # fmt: skip
    return {name: _table(name, given) for name, given in columns.items()}


def _spans(name: str, first: Ints) -> dict[str, Ints]:
    return {name: first[:-1], f"{name}s": first[1:]}


def _table(name: str, columns: Mapping[str, Column]) -> Records:
    size = max(np.size(column) for column in columns.values() if np.ndim(column))
    table = np.zeros(size, TABLES[name])
    for key, column in columns.items():
        table[key] = column
    return table


def _affected(shape: Shape) -> list[list[int]]:
    """Return by query whose next start a batch of it may change: its group, and those that read what that writes."""
    queries = len(shape.host)
    readers: list[set[int]] = [set() for _ in range(queries)]
    for query in range(queries):
        for writer in shape.feed_writer[shape.feed_first[query] : shape.feed_first[query + 1]].tolist():
            if writer >= 0:
                readers[writer].add(query)
    found = []
    for group in shape.group.tolist():
        members = shape.member[shape.member_first[group] : shape.member_first[group + 1]].tolist()
        found.append(sorted(set(members).union(*(readers[q] for q in members))))
    return found


if __name__ == "__main__":
    KERNEL.write()
