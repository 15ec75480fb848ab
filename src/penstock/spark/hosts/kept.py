"""Embedded hosts that outlive penstock: found again by a file that names their processes, and ended by these.

The file and the tokens are readable by their owner only. A process is known by its id and the time when it began, so
that another one with the same id is never taken for it, nor ended.
"""

from __future__ import annotations

import contextlib

import attrs
import psutil

from penstock.spark.hosts.processes import running

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


def _process(pid: int, began: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - began) < 0.05
        return process if same and running(process) else None
    except psutil.Error:
        return None
