"""The hosts of a system that runs: they come, die, are started again, and go."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs

from penstock.cluster import Host
from penstock.errors import InputError
from penstock.spark.hosts.start import make_host
from penstock.spark.run.engine import Engine
from penstock.spark.run.folder import note_sessions
from penstock.spark.run.system import System
from penstock.spark.run.warm import warm

if TYPE_CHECKING:
    from penstock.spark.hosts.base import SparkHost


class Membership:
    """Lets hosts come and go, and knows which are there.

    Parameters
    ----------
    engine, system
        Hosts with their sessions, and what runs on them.
    pool
        Does what takes time.
    begin
        Begins to start what lies on a host.

    Attributes
    ----------
    down
        Hosts that have died.
    """

    def __init__(self, engine: Engine, system: System, pool: ThreadPoolExecutor, begin: Callable[[str], None]) -> None:
        self.engine, self.system, self._pool, self._begin = engine, system, pool, begin
        self.down = system.down
        self._joining: dict[str, Future[None]] = {}
        self._retiring: set[str] = set()
        self._mine: dict[str, SparkHost] = {}

    def known(self, name: str) -> None:
        """Refuse a host that is none."""
        if name not in self.engine.cluster.hosts:
            raise InputError(f"no host {name!r}", at="placement", hint=f"one of {', '.join(self.engine.cluster.hosts)}")

    def usable(self, name: str, operator: str) -> None:
        """Refuse a host on which an operator cannot be started: it is none, is down, or is about to leave."""
        self.known(name)
        if name in self.down:
            raise InputError(f"host {name!r} is down", at=f"placement.{operator}")
        if name in self._retiring:
            raise InputError(f"host {name!r} is about to leave", at=f"placement.{operator}")

    def wait(self, name: str) -> None:
        """Wait for a host that is being started, if it is."""
        if name in self._joining:
            self._joining[name].result()

    @property
    def calm(self) -> bool:
        """Whether none is being started."""
        return all(job.done() for job in self._joining.values())

    def add(self, host: Host) -> None:
        """Begin to start a host more; one that is there is there already."""
        cluster = self.engine.cluster
        if host.name in cluster.hosts:
            if host.name in self.down or host == cluster.hosts[host.name]:
                self._retiring.discard(host.name)
                return
            raise InputError(f"there is a host {host.name!r} already", at="add")
        hosts = dict(sorted({**cluster.hosts, host.name: host}.items()))
        self.engine.cluster = attrs.evolve(cluster, hosts=hosts)
        self._mine[host.name] = make_host(host, self.engine.cluster)
        self.join(self._mine[host.name])

    def join(self, host: SparkHost) -> None:
        """Begin to start a host of the cluster, and what lies on it, while the others go on."""

        def start() -> None:
            # One that is down can be recovered.
            self.engine.hosts[host.name] = host
            self._start(host)

        self._joining[host.name] = self._pool.submit(start)

    def recover(self, name: str) -> None:
        """Begin to start a host again that is down, and what lies on it."""

        def start() -> None:
            host = self.engine.hosts[name]
            host.stop()
            self._start(host)

        self._joining[name] = self._pool.submit(start)

    def _start(self, host: SparkHost) -> None:
        host.start()
        # Others may have come and gone meanwhile.
        self.engine.add(self.engine.cluster, host)
        note_sessions(self.system.deployment.place, dict(self.engine.sessions))
        self.down.discard(host.name)
        if not self._units(host.name):
            self.warm(host.name)
        self._begin(host.name)

    def _units(self, host: str) -> list[str]:
        """Return the units and copies that lie on a host."""
        units = [*self.system.units.values()]
        there = ((name, at) for unit in units for name, at in (unit.copies or {unit.name: unit.host}).items())
        return [name for name, at in there if at == host]

    def failed(self) -> dict[str, BaseException]:
        """Return, once, the hosts that could not be started, and why."""
        done = {name: job for name, job in self._joining.items() if job.done()}
        found = {name: error for name, job in done.items() if (error := job.exception()) is not None}
        for name in found:
            del self._joining[name]
        return found

    def warm(self, name: str) -> None:
        """Let a host get ready for what may move there."""
        self._pool.submit(warm, self.engine.sessions[name], self.system.deployment.place / f"warm-{name}")

    def retire(self, name: str, coming: Collection[str] = ()) -> None:
        """Let a host go that is empty, once nothing moves away from it any more.

        Parameters
        ----------
        coming
            Units that are on their way there.
        """
        self.known(name)
        mine = self._units(name)
        if mine:
            raise InputError(f"{', '.join(mine)} run there", at=f"hosts.{name}", hint="move them first")
        if coming:
            raise InputError(f"{', '.join(coming)} will run there", at=f"hosts.{name}")
        self._retiring.add(name)

    def let_go(self) -> None:
        """Let hosts go that retire; one on which something runs again stays."""
        for name in sorted(self._retiring):
            if name in self._joining and not self._joining[name].done():
                # Its start would bring it back.
                continue
            self._retiring.discard(name)
            if self._units(name):
                continue
            hosts = {other: host for other, host in self.engine.cluster.hosts.items() if other != name}
            self.engine.cluster = attrs.evolve(self.engine.cluster, hosts=hosts)
            gone = self.engine.hosts.pop(name, None)
            self.engine.sessions.pop(name, None)
            self.down.discard(name)
            if gone is not None:
                self._pool.submit(gone.stop)

    def stop(self) -> None:
        """End the hosts that were added."""
        for host in self._mine.values():
            host.stop()
