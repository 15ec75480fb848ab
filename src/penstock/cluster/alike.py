"""Hosts that can be exchanged for each other, so that a search need not try both."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping

from penstock.cluster.model import Host


def alike(hosts: Iterable[Host], apart: Collection[str], measured: Mapping[str, Hashable] | None = None) -> list[int]:
    """Return for each host the number of the first that it can be exchanged for, which may be its own.

    Parameters
    ----------
    apart
        Names of hosts that are told from all others: something is placed or pinned there, or links differ.
    measured
        What was measured of hosts, by name: those of which it is not the same are not alike.
    """
    measured = measured or {}
    kinds: dict[Hashable, int] = {}

    def kind(host: Host) -> Hashable:
        if host.name in apart:
            return host.name
        return host.capacity, host.quota, host.cores, host.memory, host.machine, measured.get(host.name)

    return [kinds.setdefault(kind(host), number) for number, host in enumerate(hosts)]
