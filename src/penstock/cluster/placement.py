"""Placements: which operator (or replica) runs on which host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from penstock.errors import InputError
from penstock.files import shortened, suggest

COPY = re.compile("[2-9]|[1-9][0-9]{1,8}")
"""The number of a replica, as its name has it."""


def base_name(operator: str) -> str:
    """Return the operator of a replica: ``views`` of ``views#2``."""
    return operator.partition("#")[0]


def with_copies(placed: Iterable[str]) -> frozenset[str]:
    """Return the operators that have replicas, as the names of these tell: ``views`` where there is ``views#2``."""
    return frozenset(base_name(name) for name in placed if "#" in name)


def copies_of(placed: Iterable[str]) -> dict[str, list[str]]:
    """Return by operator its copies in the order of their numbers."""
    found: dict[str, list[str]] = {}
    for copy in sorted(placed, key=lambda copy: (base_name(copy), int(copy.partition("#")[2] or 1))):
        found.setdefault(base_name(copy), []).append(copy)
    return found


def hosts_by_operator(placement: Mapping[str, str]) -> dict[str, list[str]]:
    """Return by operator the hosts of its copies."""
    return {name: [placement[copy] for copy in copies] for name, copies in copies_of(placement).items()}


class Placement(Mapping[str, str]):
    """A frozen map from operators and replicas (``operator#2``) to hosts, ordered by operator."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        self._hosts = MappingProxyType(dict(sorted(hosts.items())))

    def __getitem__(self, operator: str) -> str:
        return self._hosts[operator]

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)

    def __repr__(self) -> str:
        return f"Placement({dict(self._hosts)})"

    def __hash__(self) -> int:
        return hash(tuple(self._hosts.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self._hosts) == dict(other)

    def __reduce__(self) -> tuple[object, ...]:
        return (Placement, (dict(self._hosts),))

    def on(self, host: str) -> tuple[str, ...]:
        """Return the operators and replicas on a host, by name."""
        return tuple(operator for operator, place in self._hosts.items() if place == host)

    def replicas(self, operator: str) -> tuple[str, ...]:
        """Return the copies of an operator: itself and ``operator#2``, ``operator#3``, …"""
        return tuple(name for name in self._hosts if base_name(name) == operator)

    def moved(self, previous: Mapping[str, str]) -> tuple[str, ...]:
        """Return the operators that ``previous`` has on another host."""
        return tuple(name for name, host in self._hosts.items() if previous.get(name, host) != host)

    def check(self, operators: Iterable[str], hosts: Iterable[str], pins: Mapping[str, str] | None = None) -> Placement:
        """Return self if it names every operator, and only known operators and hosts.

        Raises
        ------
        InputError
            Naming the operator or host that is missing or unknown, or the pin that is broken.
        """
        known, places = dict.fromkeys(operators), set(hosts)
        for name, host in self._hosts.items():
            base, mark, copy = name.partition("#")
            if base not in known or (mark and not COPY.fullmatch(copy)):
                raise InputError(
                    f"{shortened(name)} is no operator of the network",
                    at="placement",
                    hint=suggest(base, known, "operators"),
                )
            if host not in places:
                raise InputError(
                    f"{host!r} is no host of the cluster",
                    at=f"placement.{name}",
                    hint=suggest(host, sorted(places), "hosts"),
                )
        for name in known:
            if name not in self._hosts:
                raise InputError(f"operator {name!r} has no host", at="placement", hint=f"add {name}=HOST")
        for name, host in (pins or {}).items():
            for copy in self.replicas(name)[:1]:
                if self._hosts[copy] != host:
                    raise InputError(
                        f"{name!r} is pinned to {host!r}, got {self._hosts[copy]!r}", at=f"placement.{name}"
                    )
        return self
