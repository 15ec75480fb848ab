"""What Spark's batches leave of hosts for rows, so that no quota has to make room for them.

A host spends some seconds of each batch on the batch itself, and rows cost more in place than alone. So plans of drops
fill ``capacity / factor * quota * (1 - fixed / batch)``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, Host, hosts_by_operator
from penstock.files import Document
from penstock.latency.batches import BatchHosts
from penstock.latency.fragments import fragments
from penstock.latency.real_time import batched
from penstock.load import Statistics
from penstock.load.fitting import unmeasured
from penstock.network import Network
from penstock.shedding.program import Matrix
from penstock.shedding.tables import PlanTable
from penstock.units import digits

LONGER = 2.0
"""Batches that plans count on are at least that many times as long as their fixed part. A host with much to do begins a
batch where the last one ends, so a trigger that is shorter limits nothing, and half of such a batch is left."""

STALE = 1.01
"""Factor on what batches leave of a host up to which a plan table may fill it; calibrations differ by as much."""


@attrs.frozen
class Room:
    """What plans may fill of a host.

    Attributes
    ----------
    left
        Share of its usable capacity that is left to rows; above 1 where they cost less in place than alone.
    filled
        The same as a share of its capacity: with its quota.
    why
        What takes the rest, for people.
    """

    left: float
    filled: float
    why: str

    def says(self, host: str) -> str:
        """Return a line for people."""
        return f"{host}: {digits(self.filled, 3)} of its capacity can be filled: {self.why}"


def rooms(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    statistics: Statistics,
    slow: Collection[str] | None = None,
) -> dict[str, Room]:
    """Return the hosts of which batches leave another share than all, by what is known of them.

    Parameters
    ----------
    slow
        Operators that run in micro-batches; None: those that the cluster file says, none where it has no ``[spark]``.
    """
    if not statistics.hosts:
        return {}
    if slow is None:
        slow = batched(network, cluster.spark) if cluster.spark.given else ()
    hosts, found = BatchHosts.of(statistics, cluster), {}
    for name, fixed in _fixed(network, placement, hosts, slow).items():
        host, factor = cluster.hosts[name], hosts.of_host(name).factor
        batch = max(hosts.trigger, LONGER * fixed)
        reasons = [f"a quota of {host.quota:g}"] if host.quota < 1 else []
        taken = " (not measured: as on the other hosts)" if unmeasured(statistics, [name]) else ""
        reasons += [f"{digits(fixed, 2)} s of overhead{taken} in batches of {digits(batch, 2)} s"] if fixed > 0 else []
        reasons += [f"a factor of {digits(factor, 3)}"] if factor != 1 else []
        if fixed > 0 or factor != 1:
            left = (1 - fixed / batch) / factor
            found[name] = Room(left, host.quota * left, ", ".join(reasons))
    return found


def _fixed(
    network: Network, placement: Mapping[str, str], hosts: BatchHosts, slow: Collection[str]
) -> dict[str, float]:
    """Return by host with micro-batches what one batch of each of its queries takes together beside its rows (s)."""
    copies, found = hosts_by_operator(placement), defaultdict[str, float](float)
    # What shares a query has its copies on the same hosts.
    together = {name: ",".join(mine) for name, mine in copies.items()}
    for query in fragments(network, together, real_time=frozenset(network.operators).difference(slow)):
        for host in copies[query.operators[0]] if query.operators[0] in slow else ():
            found[host] += hosts.overhead[host] + hosts.for_state(query.operators)
    return dict(sorted(found.items()))


def shares(cluster: Cluster, found: Mapping[str, Room]) -> Matrix:
    """Return what is left of all hosts, array (hosts,), as of `Program.leaving`."""
    return np.array([found[name].left if name in found else 1.0 for name in cluster.hosts])


def in_table(table: PlanTable, cluster: Cluster) -> dict[str, Room]:
    """Return the hosts of which a plan table leaves another share than all."""
    why = "so the plan table was made"
    return {host.name: Room(left, host.quota * left, why) for host, left in _kept(table, cluster) if left != 1}


def stale(table: PlanTable, cluster: Cluster, found: Mapping[str, Room]) -> list[str]:
    """Return a line for each host of which a plan table fills more than batches leave."""
    return [
        f"{found[host.name].says(host.name)}; the plan table, which fills {digits(host.quota * left, 3)}, "
        "is to be made again with --statistics"
        for host, left in _kept(table, cluster)
        if host.name in found and left > STALE * found[host.name].left
    ]


def _kept(table: PlanTable, cluster: Cluster) -> list[tuple[Host, float]]:
    """Return each host with the share of it that a plan table leaves."""
    left = [1.0] * len(cluster.hosts) if table.left is None else table.left.tolist()
    return [*zip(cluster.hosts.values(), left, strict=True)]


def told(document: Document, found: Mapping[str, Room]) -> Document:
    """Return the document of an answer with what plans may fill of the hosts, and why."""
    hosts = {
        name: row | ({"room": found[name].filled} if name in found else {}) for name, row in document["hosts"].items()
    }
    notes = [*document.get("notes", ()), *(room.says(name) for name, room in found.items())]
    return {**document, "hosts": hosts, **({"notes": notes} if notes else {})}
