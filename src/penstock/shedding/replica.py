"""Shedding on replicas (Xiao et al. section 4): drop work on copies, and keep one intact copy of every operator.

Readers use whichever copy's output comes first, so as long as each operator has a copy that drops nothing, an intact
chain remains and nothing of the result is lost. The summary list of the paper, ``C_s(j)``, is the set of operators
with a copy that sheds; its peers may then not shed.

Where a host is still overloaded and a peer of each copy on it sheds already, the heaviest one there sheds as well, and
a peer on a host that is not overloaded stands in for it: it drops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, base_name, copies_of
from penstock.errors import Infeasible
from penstock.shedding.program import TOLERANCE, Matrix, Program


@attrs.frozen
class ReplicaPlan:
    """What copies drop.

    Attributes
    ----------
    keep
        Keep fraction in front of each copy that sheds, by copy: ``views`` or ``views#2``.
    load
        Of each host as a share of its capacity, under the plan.
    intact
        For each operator a copy that drops nothing.
    activated
        Copies that stand in for one that had to shed though a peer did.
    """

    keep: Mapping[str, float]
    load: Mapping[str, float]
    intact: Mapping[str, str]
    activated: tuple[str, ...] = ()


def replica_plan(
    program: Program, cluster: Cluster, placement: Mapping[str, str], rates: Matrix, *, backups: bool = False
) -> ReplicaPlan:
    """Let each overloaded host, one after the other by name, shed on copies whose peers are intact (pseudocode 2).

    On a host the heaviest copy that may shed goes first, and only as much as needed.

    Parameters
    ----------
    backups
        Whether a host that may shed nothing more sheds on its heaviest copies all the same, if a peer on a host that is
        not overloaded drops nothing, or need not (section 4: such a backup is activated).

    Raises
    ------
    Infeasible
        If a host is overloaded and no copy on it may shed.
    """
    y = program.flow(rates)
    arc = dict(zip(program.streams, program.arc, strict=True))
    work = {
        name: float(sum(c * y[arc[f"{given}->{name}"]] for given, c in zip(o.inputs, np.asarray(o.cost), strict=True)))
        for name, o in program.network.operators.items()
    }
    copies = _Copies(cluster, placement, work)
    for host in cluster.hosts:
        copies.relieve(host)
    for host in cluster.hosts if backups else ():
        copies.exchange(host)
    for host, machine in cluster.hosts.items():
        if copies.over(host) > machine.usable * TOLERANCE:
            raise Infeasible(
                f"host {host} needs {copies.used[host]:.6g} of {machine.usable:.6g} cores, and no copy on it may shed "
                "more: a peer of each sheds already, or there is none",
                host=host,
            )
    load = {host: copies.used[host] / machine.capacity for host, machine in cluster.hosts.items()}
    intact = {name: next(copy for copy in each if copy not in copies.keep) for name, each in copies.of.items()}
    return ReplicaPlan(dict(copies.keep), load, intact, tuple(copies.activated))


class _Copies:
    """What copies keep while hosts are relieved one after the other; ``keep`` has the copies that shed."""

    def __init__(self, cluster: Cluster, placement: Mapping[str, str], work: Mapping[str, float]) -> None:
        self.cluster, self.work = cluster, work
        self.place = dict(placement)
        self.of = copies_of(placement)
        self.here = {
            host: sorted(
                (copy for copy, at in placement.items() if at == host), key=lambda copy: (-work[base_name(copy)], copy)
            )
            for host in cluster.hosts
        }
        self.used = {host: sum(work[base_name(copy)] for copy in here) for host, here in self.here.items()}
        self.keep: dict[str, float] = {}
        self.activated: list[str] = []

    def over(self, host: str) -> float:
        """Return by how much a host is asked for more than it may do (cores)."""
        return self.used[host] - self.cluster.hosts[host].usable

    def relieve(self, host: str) -> None:
        """Shed on copies whose peers are all intact, the heaviest first."""
        for copy in self.here[host]:
            name = base_name(copy)
            if len(self.of[name]) > 1 and not any(peer in self.keep for peer in self.of[name]):
                self._drop(host, copy)

    def exchange(self, host: str) -> None:
        """Shed on the heaviest copies that a peer elsewhere can stand in for, which then drops nothing."""
        for copy in self.here[host]:
            peers = [peer for peer in self.of[base_name(copy)] if peer != copy]
            able = [peer for peer in peers if self._spared(peer) <= -self.over(self.place[peer]) + TOLERANCE]
            if copy in self.keep or not able or self.over(host) <= TOLERANCE:
                continue
            best = min(able, key=lambda peer: (self._spared(peer), self.over(self.place[peer]), peer))
            self.used[self.place[best]] += self._spared(best)
            self.keep.pop(best, None)
            self.activated.append(best)
            self._drop(host, copy)

    def _spared(self, copy: str) -> float:
        """Return the work that a copy is spared by what it drops (cores)."""
        return (1 - self.keep.get(copy, 1.0)) * self.work[base_name(copy)]

    def _drop(self, host: str, copy: str) -> None:
        work = self.work[base_name(copy)]
        over = self.over(host)
        if work > 0 and over > self.cluster.hosts[host].usable * TOLERANCE:
            drop = min(over, work)
            self.keep[copy] = 1 - drop / work
            self.used[host] -= drop
