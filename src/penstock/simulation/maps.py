"""Runs that get more links, hosts, operators on the way: which number each has from then on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeVar

import attrs
import numpy as np

from penstock.arrays import Array, Ints
from penstock.cluster import Cluster
from penstock.simulation import state as layout
from penstock.simulation.compile import Compiled, Control
from penstock.simulation.places import empty_link
from penstock.simulation.state import LINK

Numbers = TypeVar("Numbers", Array, Ints)


class Counts(NamedTuple):
    """How many there are from now on."""

    units: int
    hosts: int
    streams: int
    sources: int


@attrs.frozen(eq=False)
class Maps:
    """The new number of everything that an old run numbers, as arrays by old number.

    ``homes`` holds the host of each unit from now on.
    """

    units: Ints
    hosts: Ints
    streams: Ints
    sinks: Ints
    sources: Ints
    inputs: Ints
    cores: Ints
    counts: Counts
    homes: tuple[int, ...]

    @classmethod
    def of(cls, old: Compiled, new: Compiled) -> Maps:
        """Compare two runs, of which the new one has everything that the old one has."""

        def places(mine: Iterable[Hashable], theirs: Iterable[Hashable]) -> Ints:
            number = {name: index for index, name in enumerate(theirs)}
            return np.array([number[name] for name in mine], np.int64)

        hosts = places(old.hosts, new.hosts)
        cores = np.zeros(len(old.state.cores), np.int64)
        for h, row in enumerate(old.state.hosts):
            first, count = int(row["core"]), int(row["cores"])
            cores[first : first + count] = int(new.state.hosts["core"][hosts[h]]) + np.arange(count)
        return cls(
            units=places(old.units, new.units),
            hosts=hosts,
            streams=places(old.streams, new.streams),
            sinks=places(old.sinks, new.sinks),
            # Sources are told by their keys, which are made of their names.
            sources=places(old.state.sources["key"].tolist(), new.state.sources["key"].tolist()),
            inputs=places(_ends(old), _ends(new)),
            cores=cores,
            counts=Counts(len(new.units), len(new.hosts), len(new.streams), len(new.state.sources)),
            homes=tuple(new.state.units["host"].tolist()),
        )  # fmt: skip

    def links(self, old: Compiled) -> set[tuple[int, int]]:
        """Return the pairs of hosts that had links, in new numbers."""
        return {(int(self.hosts[a]), int(self.hosts[b])) for a, b in old.links}

    def control(self, control: Control) -> Control:
        """Return a control in new numbers."""
        host = int(self.hosts[control.host]) if control.host >= 0 else -1
        return attrs.evolve(control, host=host, unit=int(self.units[control.unit]) if control.unit >= 0 else -1)


def spread(row: Numbers, places: Ints, count: int) -> Numbers:
    """Return an array by old number as one by new number, of which there are ``count``; 0 for what is new."""
    grown = np.zeros(count, row.dtype)
    grown[places] = row
    return grown


def _ends(run: Compiled) -> list[tuple[str, int, str]]:
    """Return what each input is: its reader, port and stream."""
    rows = run.state.inputs
    return [
        (run.units[unit] if unit >= 0 else "", int(port), run.streams[stream])
        for unit, port, stream in zip(rows["unit"].tolist(), rows["port"], rows["stream"].tolist(), strict=True)
    ]


def linked(run: Compiled, cluster: Cluster, pairs: set[tuple[int, int]]) -> Compiled:
    """Return the run with these links besides those it has; they stay in order, so that the kernel finds them."""
    pairs = pairs - set(run.links)
    if not pairs:
        return run
    s = run.state
    order = sorted({**run.links, **dict.fromkeys(pairs, -1)})
    found = {pair: index for index, pair in enumerate(order)}
    table = layout.table(len(order), layout.LINKS)
    moved = np.array([found[pair] for pair in run.links], np.int64)  # in the order of the old numbers
    table[moved] = s.links
    for pair in pairs:
        link = cluster.link(run.hosts[pair[0]], run.hosts[pair[1]])
        table[found[pair]] = empty_link(link, *pair)
    known = s.outputs["link"] >= 0
    s.outputs["link"][known] = moved[s.outputs["link"][known]]
    heap = layout.table(s.heap.size + len(pairs), layout.EVENT)
    heap[: s.heap.size] = s.heap
    waiting = heap[: int(s.g["heaped"][0])]
    flights = waiting["key"] >> 56 == LINK
    waiting["index"][flights] = moved[waiting["index"][flights]]
    return attrs.evolve(run, links=found, state=s._replace(links=table, heap=heap).addressed())
