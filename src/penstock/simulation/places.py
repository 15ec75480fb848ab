"""The rows of where it runs: hosts with their cores and turns, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from penstock.arrays import Records
from penstock.cluster import Cluster, Link
from penstock.simulation import state as layout
from penstock.simulation.options import MicroBatch

Moves = Sequence[tuple[int, int]]
"""Numbers of units, and of hosts that they will move to."""


class Hosts(NamedTuple):
    """Hosts, their cores, the units that may run there in the order of turns, and a bit for each of these."""

    table: Records
    cores: Records
    members: Records
    words: Records


def hosts_of(cluster: Cluster, units: Records, moves: Moves, microbatch: MicroBatch | None) -> Hosts:
    """Return the rows of the hosts; units are told their place in the turns."""
    table = layout.table(len(cluster.hosts), layout.HOST)
    cores = layout.table(sum(host.cores for host in cluster.hosts.values()), layout.CORE)
    visitors: list[list[int]] = [[] for _ in table]
    for unit, home in enumerate(units["host"].tolist()):
        visitors[home].append(unit)
    for unit, end in moves:
        if unit not in visitors[end]:
            visitors[end].append(unit)
    members: list[int] = []
    core, word = 0, 0
    given = (microbatch.overhead if microbatch is not None else None) or 0.0
    overheads = given if isinstance(given, Mapping) else {}
    usual = float(np.median([*overheads.values()])) if isinstance(given, Mapping) else given
    for index, (row, host) in enumerate(zip(table, cluster.hosts.values(), strict=True)):
        row["speed"], row["cores"], row["core"], row["idle"] = host.capacity / host.cores, host.cores, core, host.cores
        row["head"] = row["tail"] = row["root"] = row["held"] = row["heldtail"] = row["gate"] = -1
        row["members"], row["size"] = len(members), len(visitors[index])
        row["words"], row["wide"] = word, max(1, -(-len(visitors[index]) // 64))
        row["began"] = row["until"] = -1.0
        if microbatch is not None:
            row["batch"], row["trigger"] = 2 if microbatch.progressive else 1, microbatch.trigger
            row["overhead"] = overheads.get(host.name, usual)
        members += sorted(visitors[index])
        word += int(row["wide"])
        cores["host"][core : core + host.cores] = index
        core += host.cores
    cores["node"] = -1
    placed = layout.table(len(members), layout.MEMBER)
    placed["unit"], placed["began"] = members, -1.0
    for unit, home in enumerate(units["host"].tolist()):
        units[unit]["position"] = position(table[home], placed, unit)
    return Hosts(table, cores, placed, layout.table(word, layout.WORD))


def position(host: Records, members: Records, unit: int) -> int:
    """Return the place of a unit in the turns of a host."""
    first = int(host["members"])
    return int(np.searchsorted(members["unit"][first : first + int(host["size"])], unit))


def empty_link(link: Link, start: int, end: int) -> tuple[float, ...]:
    """Return the row of a link from one host to another that nothing has crossed yet."""
    return start, link.delay, int(min(link.in_flight, 2**62)), 0, 0, -1, -1, -1, end, -1


def links_of(
    cluster: Cluster, units: Records, sources: Records, written: tuple[Records, Records], moves: Moves
) -> tuple[Records, dict[tuple[int, int], int]]:
    """Return a row for each pair of hosts between which tuples may pass, and its number.

    Parameters
    ----------
    written
        The outputs of sources and units, and the inputs that they lead to.
    """
    outputs, inputs = written
    places: list[set[int]] = [{home} for home in units["host"].tolist()]
    for unit, host in moves:
        places[unit].add(host)
    pairs: set[tuple[int, int]] = set()
    readers = inputs["unit"][outputs["input"]].tolist()
    starts = [(places[u], row) for u, row in enumerate(units)]
    starts += [({int(row["host"])}, row) for row in sources if row["host"] >= 0]
    for origins, row in starts:
        for reader in readers[row["outputs"] : row["outputs"] + row["readers"]]:
            if reader >= 0:
                pairs.update((a, b) for a in origins for b in places[reader] if a != b)
    names = [*cluster.hosts]
    table = layout.table(len(pairs), layout.LINKS)
    found = {}
    for index, (a, b) in enumerate(sorted(pairs)):
        table[index] = empty_link(cluster.link(names[a], names[b]), a, b)
        found[a, b] = index
    return table, found
