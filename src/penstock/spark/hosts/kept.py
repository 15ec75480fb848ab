"""Embedded hosts that outlive penstock: found again by a file that names their processes, and ended by these.

The file and the tokens are readable by their owner only. A process is known by its id and the time when it began, so
that another one with the same id is never taken for it, nor ended.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

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
        The JVM: its process id, and when it began (s, see `moment`).
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
    def cpus(self) -> list[int]:
        """The CPUs that the JVM may use, if it is there and that can be known."""
        jvm = self.jvm
        if jvm is None or not hasattr(jvm, "cpu_affinity"):
            return []
        try:
            return jvm.cpu_affinity() or []
        except psutil.Error:
            return []

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


def moment(pid: int) -> float:
    """Return when a process began, by a clock that nobody sets: on Linux in s since the machine did, else since 1970.

    Raises
    ------
    psutil.NoSuchProcess
        If there is none.
    """
    if sys.platform != "linux":
        return psutil.Process(pid).create_time()
    try:
        # The command's name stands in brackets and may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        raise psutil.NoSuchProcess(pid) from None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _process(pid: int, began: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        # Versions before this one noted seconds since 1970 everywhere.
        same = any(abs(when - began) < 0.005 for when in (moment(pid), process.create_time()))
        return process if same and running(process) else None
    except psutil.Error:
        return None
