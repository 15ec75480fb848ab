"""Hosts and links as frozen values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import attrs

from penstock.errors import InputError
from penstock.files import suggest


@attrs.frozen(kw_only=True)
class Host:
    """A machine that runs operators.

    Attributes
    ----------
    capacity
        Benchmark cores.
    quota
        Share of the capacity that we may use, in (0, 1].
    cores
        How many tuples it serves at a time, each at ``capacity / cores`` benchmark cores.
    spark
        Spark Connect endpoint ``sc://…`` of a running host; None: penstock starts an embedded one.
    token_env
        Environment variable that holds the endpoint's token.
    price
        Cost of the host per hour, in any currency.
    """

    name: str
    capacity: float = 1.0
    quota: float = 1.0
    cores: int = 1
    spark: str | None = None
    token_env: str | None = None
    price: float = 1.0

    @property
    def usable(self) -> float:
        """Benchmark cores that we may use."""
        return self.capacity * self.quota


@attrs.frozen
class Link:
    """The connection from one host to another: ``delay`` in s, ``bandwidth`` in tuples/s."""

    delay: float = 0.0
    bandwidth: float = math.inf


@attrs.frozen(kw_only=True)
class SparkSettings:
    """The ``[spark]`` table: how fragments run on Spark. ``trigger`` in s; ``given``: whether a file has the table."""

    mode: str = "micro-batch"
    trigger: float = 0.5
    hop: str = "directory"
    directory: str | None = None
    conf: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    kafka: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    given: bool = attrs.field(default=False, eq=False)


@attrs.frozen(eq=False)
class Cluster:
    """Hosts ordered by name, the links between them, and the Spark settings.

    ``links`` holds the pairs that differ from ``default_link``.
    """

    hosts: Mapping[str, Host]
    default_link: Link = Link()
    links: Mapping[tuple[str, str], Link] = attrs.field(factory=dict)
    spark: SparkSettings = SparkSettings()

    @classmethod
    def of(
        cls,
        hosts: Iterable[Host],
        default_link: Link = Link(),
        links: Mapping[tuple[str, str], Link] | None = None,
        spark: SparkSettings | None = None,
    ) -> Cluster:
        """Check the parts and order the hosts by name.

        Raises
        ------
        InputError
            If there is no host, a name is given twice, or a link names a stranger.
        """
        members = sorted(hosts, key=lambda host: host.name)
        table = {host.name: host for host in members}
        if not table:
            raise InputError("expected at least one host", at="hosts")
        if len(table) < len(members):
            raise InputError("a host is given twice", at="hosts")
        for pair in links or {}:
            for end in pair:
                if end not in table:
                    raise InputError(
                        f"{end!r} is no host", at=f"links.{pair[0]}->{pair[1]}", hint=suggest(end, table, "known hosts")
                    )
        return cls(
            MappingProxyType(table),
            default_link,
            MappingProxyType(dict(sorted((links or {}).items()))),
            spark or SparkSettings(),
        )

    @classmethod
    def uniform(cls, count: int, capacity: float = 1.0) -> Cluster:
        """Return hosts ``h1`` … of equal capacity and free links."""
        return cls.of(Host(name=f"h{k + 1}", capacity=capacity) for k in range(count))

    def link(self, start: str, end: str) -> Link:
        """Return the link between two hosts; a host is linked to itself without delay or limit."""
        return Link() if start == end else self.links.get((start, end), self.default_link)

    @property
    def free_links(self) -> bool:
        """Whether every link is without delay and limit."""
        return all(link == Link() for link in (self.default_link, *self.links.values()))

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, ([*self.hosts.values()], self.default_link, dict(self.links), self.spark))


def _rebuild(
    hosts: list[Host], default_link: Link, links: dict[tuple[str, str], Link], spark: SparkSettings
) -> Cluster:
    return Cluster.of(hosts, default_link, links, spark)
