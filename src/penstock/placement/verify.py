"""The verifier: every placement is checked before it is shown, used or applied."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.cluster import base_name
from penstock.placement import objective
from penstock.placement.base import TIE, Arrays, Ints, Problem, as_arrays
from penstock.units import size_text


def faults(
    problem: Problem,
    placement: Mapping[str, str],
    *,
    apart: bool = False,
    quotas: bool = True,
    links: bool = True,
    no_worse: str | None = None,
) -> tuple[str, ...]:
    """Return what is wrong with a placement, one sentence each; nothing if it is right.

    Parameters
    ----------
    apart
        Whether the copies of an operator must be on different hosts.
    quotas, links
        Whether mean loads must be within capacity times quota, and mean traffic within the links' bandwidth.
    no_worse
        Objective in which the placement must not be worse than ``problem.previous``.
    """
    found = []
    names, hosts = set(problem.names), problem.cluster.hosts
    found += [f"operator {name!r} has no host" for name in problem.names if name not in placement]
    found += [f"{name!r} is no operator that is to be placed" for name in sorted(placement) if name not in names]
    found += [
        f"operator {name!r} is on {host!r}, which is no host of the cluster"
        for name, host in sorted(placement.items())
        if host not in hosts
    ]
    if found:
        return tuple(found)
    found += [
        f"operator {name!r} is pinned to {host!r}, got {placement[name]!r}"
        for name, host in sorted(problem.pins.items())
        if name in placement and placement[name] != host
    ]
    if apart:
        place: dict[tuple[str, str], str] = {}
        for name, host in sorted(placement.items()):
            other = place.setdefault((base_name(name), host), name)
            if other != name:
                found.append(f"the copies {other!r} and {name!r} are both on {host!r}")
    arrays = as_arrays(problem)
    where = arrays.where(placement)
    if quotas:
        found += over_quota(arrays, where)
    if links:
        found += over_link(arrays, where)
    found += over_memory(arrays, where)
    if no_worse is not None and problem.previous is not None:
        before = objective.value(arrays, arrays.previous, no_worse)
        after = objective.value(arrays, where, no_worse)
        if after > before * (1 + TIE) + TIE:
            found.append(f"{no_worse} rises from {before:.6g} to {after:.6g}")
    return tuple(found)


def over_quota(arrays: Arrays, where: Ints) -> list[str]:
    """Return a sentence for each host that carries more than we may use of it."""
    mean = arrays.host_mean(where)
    return [
        f"host {arrays.hosts[host]!r} carries {mean[host]:.6g} of {arrays.usable[host]:.6g} benchmark cores "
        f"(capacity times quota): short by {mean[host] - arrays.usable[host]:.6g}"
        for host in np.flatnonzero(mean > arrays.usable * (1 + TIE))
    ]


def over_link(arrays: Arrays, where: Ints) -> list[str]:
    """Return a sentence for each link that carries more than its bandwidth."""
    if arrays.bandwidth is None:
        return []
    flow = objective.traffic(arrays, where)
    return [
        f"link {arrays.hosts[start]}->{arrays.hosts[end]} carries {flow[start, end]:.6g} of "
        f"{arrays.bandwidth[start, end]:.6g} tuples/s: short by {flow[start, end] - arrays.bandwidth[start, end]:.6g}"
        for start, end in np.argwhere(flow > arrays.bandwidth * (1 + TIE))
    ]


def over_memory(arrays: Arrays, where: Ints) -> list[str]:
    """Return a sentence for each host on which operators keep more state than it can hold."""
    if arrays.memory is None:
        return []
    over, memory = arrays.over_memory(where), arrays.memory
    return [
        f"host {arrays.hosts[host]!r} has memory for {size_text(memory[host])} of state: "
        f"short by {size_text(over[host])}"
        for host in np.flatnonzero(over)
    ]
