"""Shedding on replicas (Xiao et al. section 4): drop work on copies, and keep one intact copy of every operator.

Readers use whichever copy's output comes first, so as long as each operator has a copy that drops nothing, an intact
chain remains and nothing of the result is lost. The summary list of the paper, ``C_s(j)``, is the set of operators
with a copy that sheds; its peers may then not shed.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, base_name
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
    """

    keep: Mapping[str, float]
    load: Mapping[str, float]
    intact: Mapping[str, str]


def replica_plan(program: Program, cluster: Cluster, placement: Mapping[str, str], rates: Matrix) -> ReplicaPlan:
    """Let each overloaded host, one after the other by name, shed on copies whose peers are intact.

    On a host the heaviest copy that may shed goes first, and only as much as needed.

    Raises
    ------
    Infeasible
        If a host is overloaded and no copy on it may shed.
    """
    y = program.flow(rates)
    network = program.network
    arc = dict(zip(program.streams, program.arc, strict=True))
    work = {
        name: float(sum(c * y[arc[f"{given}->{name}"]] for given, c in zip(o.inputs, np.asarray(o.cost), strict=True)))
        for name, o in network.operators.items()
    }
    copies = {name: [copy for copy in placement if base_name(copy) == name] for name in work}
    keep: dict[str, float] = {}
    load: dict[str, float] = {}
    for host, machine in cluster.hosts.items():
        here = [copy for copy, place in placement.items() if place == host]
        used = sum(work[base_name(copy)] for copy in here)
        for copy in sorted(here, key=lambda copy: (-work[base_name(copy)], copy)):
            over = used - machine.usable
            if over <= machine.usable * TOLERANCE:
                break
            name = base_name(copy)
            if len(copies[name]) < 2 or work[name] <= 0 or any(peer in keep for peer in copies[name]):
                continue
            drop = min(over, work[name])
            keep[copy] = 1 - drop / work[name]
            used -= drop
        if used > machine.usable * (1 + TOLERANCE):
            raise Infeasible(
                f"host {host} needs {used:.6g} of {machine.usable:.6g} cores, and no copy on it may shed more: "
                "a peer of each sheds already, or there is none",
                host=host,
            )
        load[host] = used / machine.capacity
    intact = {name: next(copy for copy in copies[name] if copy not in keep) for name in work}
    return ReplicaPlan(keep, load, intact)
