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
    memory
        Bytes of state that its operators may keep.
    machine
        The machine whose cores it shares with other hosts; None: it has cores of its own.
    """

    name: str
    capacity: float = 1.0
    quota: float = 1.0
    cores: int = 1
    spark: str | None = None
    token_env: str | None = None
    price: float = 1.0
    memory: float = math.inf
    machine: str | None = None

    @property
    def usable(self) -> float:
        """Benchmark cores that we may use."""
        return self.capacity * self.quota


@attrs.frozen
class Link:
    """The connection from one host to another: ``delay`` in s, ``bandwidth`` in tuples/s."""

    delay: float = 0.0
    bandwidth: float = math.inf

    @property
    def in_flight(self) -> float:
        """Tuples that may be on the way at a time: whole ones that pass during the delay; without a delay, all."""
        volume = self.delay * self.bandwidth if self.delay > 0 else math.inf
        return max(1.0, math.floor(volume * (1 + 1e-9))) if volume < math.inf else math.inf

    @property
    def throughput(self) -> float:
        """Tuples/s that can be counted on: the bandwidth, or less where rounding leaves fewer on the way."""
        return min(self.bandwidth, self.in_flight / self.delay) if self.delay > 0 else self.bandwidth


@attrs.frozen(kw_only=True)
class SparkSettings:
    """The ``[spark]`` table: how fragments run on Spark.

    ``trigger`` and ``checkpoint`` in s; ``given``: whether a file has the table; ``file``: what messages call the
    cluster's.
    """

    mode: str = "micro-batch"
    trigger: float = 0.5
    checkpoint: float = 60.0
    hop: str = "directory"
    directory: str | None = None
    conf: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    kafka: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    given: bool = attrs.field(default=False, eq=False)
    file: str | None = attrs.field(default=None, eq=False)


MOST_CORES = 100_000
"""No host or machine has more; the simulator has a row for each."""


def _check_numbers(host: Host) -> None:
    for name, fits in (
        ("capacity", 0 < host.capacity < math.inf),
        ("quota", 0 < host.quota <= 1),
        ("cores", 1 <= host.cores <= MOST_CORES),
        ("price", 0 <= host.price < math.inf),
        ("memory", host.memory > 0),
    ):
        if not fits:
            raise InputError(f"a host cannot have {getattr(host, name)}", at=f"hosts.{host.name}.{name}")


@attrs.frozen(eq=False)
class Cluster:
    """Hosts ordered by name, the links between them, and the Spark settings.

    ``links`` holds the pairs that differ from ``default_link``, ``machines`` the cores of machines that hosts share.
    """

    hosts: Mapping[str, Host]
    default_link: Link = Link()
    links: Mapping[tuple[str, str], Link] = attrs.field(factory=dict)
    spark: SparkSettings = SparkSettings()
    machines: Mapping[str, int] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        hosts: Iterable[Host],
        default_link: Link = Link(),
        links: Mapping[tuple[str, str], Link] | None = None,
        spark: SparkSettings | None = None,
        machines: Mapping[str, int] | None = None,
    ) -> Cluster:
        """Check the parts and order the hosts by name.

        Raises
        ------
        InputError
            If there is no host, a name is given twice, a number of a host means nothing, or a link or a host's machine
            names a stranger.
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
        cores = machines or {}
        for host in members:
            _check_numbers(host)
            if host.machine is not None and host.machine not in cores:
                raise InputError(
                    f"{host.machine!r} is no machine",
                    at=f"hosts.{host.name}.machine",
                    hint=suggest(host.machine, cores, "machines") if cores else "write [machines.NAME] with its cores",
                )
        return cls(
            MappingProxyType(table),
            default_link,
            MappingProxyType(dict(sorted((links or {}).items()))),
            spark or SparkSettings(),
            MappingProxyType(dict(sorted(cores.items()))),
        )

    def crowded(self, names: Iterable[str], cores: int, machine: str = "this machine") -> Cluster:
        """Return the cluster in which hosts that penstock starts share the cores here, if they have too few.

        Parameters
        ----------
        names
            Hosts that run something.
        cores
            How many cores penstock may use here.
        """
        mine = [name for name in names if self.hosts[name].spark is None and self.hosts[name].machine is None]
        if sum(self.hosts[name].cores for name in mine) <= cores:
            return self
        hosts = {
            name: attrs.evolve(host, machine=machine) if name in mine else host for name, host in self.hosts.items()
        }
        return Cluster.of(
            hosts.values(), self.default_link, self.links, self.spark, {**self.machines, machine: max(cores, 1)}
        )

    def having(self, hosts: Iterable[Host]) -> Cluster:
        """Return the cluster with other hosts: links between those that stay, settings and machines are the same."""
        members = [*hosts]
        names = {host.name for host in members}
        links = {pair: link for pair, link in self.links.items() if names.issuperset(pair)}
        return Cluster.of(members, self.default_link, links, self.spark, self.machines)

    def spares(self, count: int) -> tuple[Host, ...]:
        """Return hosts like the first one that penstock could start, with names that are free."""
        first, number = next(iter(self.hosts.values())), len(self.hosts)
        hosts: list[Host] = []
        while len(hosts) < count:
            number += 1
            if f"h{number}" not in self.hosts:
                hosts.append(attrs.evolve(first, name=f"h{number}", spark=None))
        return tuple(hosts)

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

    @property
    def limited_links(self) -> bool:
        """Whether some link has a limited bandwidth."""
        return any(math.isfinite(link.bandwidth) for link in (self.default_link, *self.links.values()))

    def __reduce__(self) -> tuple[object, ...]:
        parts = ([*self.hosts.values()], self.default_link, dict(self.links), self.spark, dict(self.machines))
        return (Cluster.of, parts)
