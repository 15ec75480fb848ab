"""Hosts that can be exchanged for each other, so that a search need not try both."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from penstock.cluster.model import Host


def alike(hosts: Iterable[Host], apart: Collection[str]) -> list[int]:
    """Return for each host the number of the first that it can be exchanged for, which may be its own.

    Parameters
    ----------
    apart
        Names of hosts that are told from all others: something is placed or pinned there, or links differ.
    """
    kinds: dict[Hashable, int] = {}
    return [
        kinds.setdefault(
            host.name if host.name in apart else (host.capacity, host.quota, host.cores, host.memory), number
        )
        for number, host in enumerate(hosts)
    ]
