"""Embedded hosts that outlive penstock: found again by a file that names their processes, and ended by these.

The file and the tokens are readable by their owner only. A process is known by its id and the time when it began, so
that another one with the same id is never taken for it, nor ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

import attrs
import psutil

from penstock.errors import HostError, InputError
from penstock.spark.hosts.processes import Meter, resident, running
from penstock.spark.hosts.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT = Path(".penstock") / "hosts.json"
PATIENCE = 15.0
"""Seconds that a host has to end when asked."""


@attrs.frozen(kw_only=True)
class Kept:
    """How a host is found again.

    Attributes
    ----------
    port, token
        Where it listens on the loopback interface, and the file with its token.
    pid, began
        The JVM: its process id, and when it began (s since 1970).
    supervisor, supervised
        The process that ends it, likewise.
    """

    name: str
    port: int
    cores: int
    token: str
    pid: int
    began: float
    supervisor: int
    supervised: float

    @property
    def jvm(self) -> psutil.Process | None:
        """The JVM, if it is still that one."""
        return _process(self.pid, self.began)

    @property
    def root(self) -> psutil.Process | None:
        """The supervisor, if it is still that one."""
        return _process(self.supervisor, self.supervised)

    def end(self) -> bool:
        """End the host; return whether it ran."""
        root = self.root
        if root is None:
            return False
        with contextlib.suppress(psutil.Error):
            root.terminate()
            try:
                root.wait(PATIENCE)
            except psutil.TimeoutExpired:
                root.kill()
        return True


class KeptHost:
    """A host that was started before and goes on when penstock ends.

    Parameters
    ----------
    kept
        How it is found.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept, self.name, self.cores = kept, kept.name, kept.cores
        self._sessions = Sessions(kept.name, local=True)
        self._meter = Meter()

    def __repr__(self) -> str:
        return f"KeptHost({self.name!r}, {self.endpoint})"

    @property
    def endpoint(self) -> str:
        """The address, without a token."""
        return f"sc://127.0.0.1:{self.kept.port}"

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        return self.kept.pid

    def start(self) -> Self:
        """Check that it runs.

        Raises
        ------
        HostError
            If it does not.
        """
        if not self.alive():
            raise HostError(f"host {self.name} does not run any more: penstock hosts stop, then start it again")
        return self

    def session(self, session_id: str | None = None) -> SparkSession:
        """Return a new session, or the one of that id again."""
        self.start()
        try:
            token = Path(self.kept.token).read_text()
        except OSError as error:
            raise HostError(f"host {self.name}: its token cannot be read: {error.strerror}") from None
        # With a token and without TLS, gRPC asks for the literal name.
        url = f"sc://localhost:{self.kept.port}/;token={urllib.parse.quote(token)}"
        return self._sessions.connect(self.endpoint, url, session_id)

    def alive(self) -> bool:
        """Return whether the JVM runs."""
        return running(self.kept.jvm)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the JVM and what it started have used so far, in s."""
        return self._meter.cpu(self.kept.root)

    def rss(self) -> int:
        """Return the resident memory of the JVM and what it started, in bytes."""
        return resident(self.kept.root)

    def leave(self) -> None:
        """Leave its queries running; they do so in any case."""

    def stop(self) -> None:
        """Let the host go; it runs on."""
        self._sessions.close(release=False)


def read_kept(file: str | os.PathLike[str]) -> dict[str, Kept]:
    """Return the hosts that a file names; none if there is no file.

    Raises
    ------
    InputError
        If the file is not one of hosts, or others may write it.
    """
    path = Path(file)
    try:
        status = path.stat()
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", file=str(path)) from None
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise InputError("belongs to, or can be read by, another user", file=str(path), hint=f"chmod 600 {path}")
    try:
        return {name: Kept(name=name, **row) for name, row in document["hosts"].items()}
    except (TypeError, KeyError, AttributeError):
        raise InputError("expected the hosts that penstock hosts start wrote", file=str(path)) from None


def write_kept(file: str | os.PathLike[str], hosts: Mapping[str, Kept]) -> None:
    """Write the file, whole; without hosts it goes."""
    path = Path(file)
    if not hosts:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {name: {k: v for k, v in attrs.asdict(host).items() if k != "name"} for name, host in sorted(hosts.items())}
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump({"hosts": rows}, out, indent=1)
    part.replace(path)


def end(file: str | os.PathLike[str], names: Iterable[str] | None = None) -> list[str]:
    """End hosts of a file (default: all), and forget them; return those that ran.

    Raises
    ------
    InputError
        If the file names no such host.
    """
    known = read_kept(file)
    wanted = list(known) if names is None else list(names)
    for name in wanted:
        if name not in known:
            raise InputError(f"names no host {name!r}", file=str(file), hint="penstock hosts list shows them")
    ended = [name for name in wanted if known[name].end()]
    write_kept(file, {name: host for name, host in known.items() if name not in wanted})
    return ended


def _process(pid: int, began: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - began) < 0.05
        return process if same and running(process) else None
    except psutil.Error:
        return None
