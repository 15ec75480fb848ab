"""One controller at a time on hosts that others reach too.

A lock in a folder keeps out whoever comes to the same folder on the same machine. On a server that somebody else runs,
or that was left running, there may be controllers from anywhere: each says there, in a view that all sessions of the
server share, who it is, and again and again that it is still there.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil
from pyspark.errors import PySparkException

from penstock.errors import HostError
from penstock.spark.hosts.kept import moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = "penstock_controller"
"""What holds the claim, among the server's global temporary views."""

EVERY, FORGOTTEN = 10.0, 45.0
"""Seconds between a controller's signs of life, and after how many without any it counts as gone."""

THERE = "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"


class Claim(msgspec.Struct, frozen=True):
    """Whose controller it is.

    Attributes
    ----------
    folder, machine
        Of its run, and where that is.
    space, pid, began
        The process: among which its id is one, and when it began (see `moment`).
    """

    folder: str
    machine: str
    space: str
    pid: int
    began: float

    @classmethod
    def of(cls, folder: str) -> Claim:
        """Return that of this process."""
        return cls(folder, platform.node(), _space(), os.getpid(), moment(os.getpid()))

    @property
    def gone(self) -> bool:
        """Whether its process is known to run no more."""
        try:
            return self.space == _space() and moment(self.pid) != self.began
        except psutil.Error:
            return True


def _space() -> str:
    """Return what tells processes of this system, since it was started, from those of others with the same ids."""
    found = [platform.node()]
    with contextlib.suppress(OSError):
        found += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(found)


@contextlib.contextmanager
def alone_on(sessions: Callable[[], Mapping[str, SparkSession]], folder: str) -> Iterator[None]:
    """Hold hosts against other controllers.

    Parameters
    ----------
    sessions
        Gives the present session of each host. One that came later, or that was started again, is held, too.
    folder
        Of the run.

    Raises
    ------
    HostError
        If another controller is at work on one of them.
    """
    mine, over = Claim.of(folder), threading.Event()

    def repeat() -> None:
        while not over.wait(EVERY):
            for session in sessions().values():
                with contextlib.suppress(PySparkException):
                    _say(session, mine, again=True)

    try:
        for name, session in sessions().items():
            _take(name, session, mine)
        thread = threading.Thread(target=repeat, name="claims", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
    finally:
        for session in sessions().values():
            with contextlib.suppress(PySparkException):
                if (there := _there(session)) is not None and there[0] == mine:
                    session.catalog.dropGlobalTempView(VIEW)


def _take(name: str, session: SparkSession, mine: Claim) -> None:
    """Claim a server; one that knows no such views has no claims."""
    try:
        _say(session, mine)
    except PySparkException as error:
        there = _there(session) if error.getCondition() == THERE else None
        if there is None:
            return
        other, silent = there
        # Two names of one server are one claim.
        if other != mine and not other.gone and silent < FORGOTTEN:
            raise HostError(
                f"host {name} has another controller, that of the run in {other.folder} on {other.machine}: stop that "
                f"one (penstock stop), or take other hosts; one that was killed is forgotten after {FORGOTTEN:.0f} s"
            ) from None
        with contextlib.suppress(PySparkException):
            _say(session, mine, again=True)


def _say(session: SparkSession, claim: Claim, *, again: bool = False) -> None:
    """Say on a server whose it is and what time it is there; fail if somebody has, unless ``again``."""
    values = {"claim": msgspec.json.encode(claim).decode(), "at": _now(session)}
    row = session.sql("SELECT :claim AS claim, :at AS at FROM VALUES (0)", values)
    (row.createOrReplaceGlobalTempView if again else row.createGlobalTempView)(VIEW)


def _there(session: SparkSession) -> tuple[Claim, float] | None:
    """Return a server's claim, and for how long it has not been said again (s)."""
    with contextlib.suppress(PySparkException, msgspec.MsgspecError):
        text, at = session.table(f"global_temp.{VIEW}").collect()[0]
        return msgspec.json.decode(text, type=Claim), (_now(session) - at) / 1e6
    return None


def _now(session: SparkSession) -> int:
    """Return a server's time (µs since 1970)."""
    # Of a row that is there Spark makes no task, which would wait for those of a long batch.
    return int(session.sql("SELECT unix_micros(now()) FROM VALUES (0)").collect()[0][0])
