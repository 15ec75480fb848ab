"""Hosts that penstock starts and ends."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_urlsafe as new_token
from typing import TYPE_CHECKING, Self

import attrs
import psutil

from penstock.cluster.spark_conf import check_conf
from penstock.errors import HostError, InputError
from penstock.spark.hosts import classes, failures, settings
from penstock.spark.hosts import java as java_runtime
from penstock.spark.hosts.folders import host_folders
from penstock.spark.hosts.kept import Kept, moment
from penstock.spark.hosts.processes import Meter, resident, running
from penstock.spark.hosts.sessions import Sessions
from penstock.spark.hosts.supervised import Supervised
from penstock.spark.hosts.supervisor import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRACE = 5.0
"""Seconds that a JVM has to end when asked."""

READY = re.compile(r"Spark Connect server started at: .*:(\d+)$", re.MULTILINE)


@attrs.frozen(kw_only=True)
class Launch:
    """How an embedded host is started.

    Attributes
    ----------
    folder
        Where to make the work folder (default: the system's temporary folder).
    java
        The ``java`` to run (default: `penstock.spark.hosts.java.find`).
    port
        A fixed port instead of a free one.
    timeout
        Seconds until a server that is not ready counts as failed (default: 180, with packages to fetch 300).
    secrets
        Environment variables that the host's processes do not get: tokens of other hosts.
    outlive
        Whether it may be left to go on when penstock ends, until it is stopped (`penstock.spark.hosts.kept`).
    record
        A file into which it writes the archive of its classes when it is stopped (`penstock.spark.hosts.classes`).
    """

    folder: str | os.PathLike[str] | None = None
    java: str | os.PathLike[str] | None = None
    port: int | None = None
    timeout: float | None = None
    secrets: frozenset[str] = frozenset()
    outlive: bool = False
    record: Path | None = None


class EmbeddedHost:
    """A Spark Connect server of the pip package, started and ended by penstock.

    It listens on 127.0.0.1 only, on a port that the kernel chooses unless ``launch`` names one, and asks for a random
    token that travels in the environment. Its files are in a folder of its own. It ends with penstock, also by
    ``kill -9``, unless it was left to outlive it.

    Parameters
    ----------
    name
        The host's name.
    cores
        CPU cores that its work is meant for.
    slots
        Tasks at a time, each with one thread in native libraries (default: as many as cores).
    cpus
        CPU ids that the JVM and its Python workers may use, None for all.
    conf
        Spark settings on top of `settings.DEFAULTS`. ``spark.driver.memory`` is the heap.
    launch
        How it is started.

    Examples
    --------
    >>> with EmbeddedHost("h1") as host:  # doctest: +SKIP
    ...     host.session().range(3).count()
    3
    """

    def __init__(
        self,
        name: str = "h1",
        *,
        cores: int = 1,
        slots: int | None = None,
        cpus: Sequence[int] | None = None,
        conf: Mapping[str, str] | None = None,
        launch: Launch | None = None,
    ) -> None:
        self.name = name
        self.cores = cores
        self._how = launch or Launch()
        self._slots = slots or cores
        self.cpus = sorted(set(cpus)) if cpus is not None else None
        self.conf = dict(conf or {})
        check_conf(self.conf)
        self._base = Path(self._how.folder or tempfile.gettempdir()).absolute()
        if "," in str(self._base):
            # To Spark it begins the next folder, wherever that is.
            raise InputError(f"no host can work in {self._base}, for its comma", hint="set TMPDIR to another folder")
        self._port: int | None = None
        self._token = new_token(32)
        self._folders: list[Path] = []
        self._supervised: Supervised | None = None
        self._sessions = Sessions(name, local=True)
        self._meter = Meter()
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._stopping = threading.Event()

    def __repr__(self) -> str:
        return f"EmbeddedHost({self.name!r}, {self.endpoint})"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """The address, without a token."""
        return f"sc://127.0.0.1:{self._port or self._how.port or 0}"

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, None before the start and after the stop."""
        jvm = self._jvm
        return jvm.pid if jvm is not None else None

    @property
    def _jvm(self) -> psutil.Process | None:
        supervised = self._supervised
        return supervised.jvm if supervised is not None else None

    @property
    def _root(self) -> psutil.Process | None:
        supervised = self._supervised
        return supervised.root if supervised is not None else None

    @property
    def folder(self) -> Path:
        """The host's own folder; it is removed with the host."""
        if not self._folders:
            raise HostError(f"host {self.name} has no folder: it is not started")
        return self._folders[0]

    @property
    def log(self) -> Path:
        """What the JVM and its Python workers print."""
        return self.folder / "server.log"

    def start(self) -> Self:
        """Start the server and wait until it answers.

        Raises
        ------
        HostError
            If there is no Java, no space, the port is in use, or the server ends or is not ready in time.
        """
        with self._lock:
            if self._supervised is not None:
                return self
            self._stopping.clear()
            java = Path(self._how.java) if self._how.java is not None else java_runtime.find()
            atexit.register(self.stop)
            try:
                supervised = self._launch(java)
                self._await_ready()
                supervised.ready()
            except BaseException as error:
                self.stop()
                if isinstance(error, OSError):
                    raise failures.refused(error, self.name, self._base) from error
                raise
        return self

    def let_go(self) -> Kept:
        """Return by what others find the host, which is to outlive penstock: it does once it is told to (`outlive`)."""
        jvm, root = self._jvm, self._root
        if not self._how.outlive or jvm is None or root is None or self._port is None:
            raise HostError(f"host {self.name} does not outlive penstock, or does not run")
        self._sessions.close(release=False)
        token = self.folder / "token"
        with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self._token)
        return Kept(
            name=self.name, port=self._port, cores=self.cores, token=str(token), pid=jvm.pid, began=moment(jvm.pid),
            supervisor=root.pid, supervised=moment(root.pid),
        )  # fmt: skip

    def outlive(self) -> None:
        """Let the host go on when penstock ends, now that what `let_go` returned is written down."""
        if self._how.outlive and self._supervised is not None:
            atexit.unregister(self.stop)
            self._supervised.leave()

    def session(self, session_id: str | None = None) -> SparkSession:
        """Return a new session (``pyspark.sql.connect``), or the one of that id again.

        Raises
        ------
        HostError
            If the host does not run or does not answer.
        """
        if not self.alive():
            raise HostError(f"host {self.name} does not run: {self._why_ended()}")
        # With a token and without TLS, gRPC asks for the literal name.
        url = f"sc://localhost:{self._port}/;token={urllib.parse.quote(self._token)}"
        return self._sessions.connect(self.endpoint, url, session_id)

    def alive(self) -> bool:
        """Return whether the JVM runs."""
        return running(self._jvm)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the JVM and what it started have used so far, in s."""
        return self._meter.cpu(self._root)

    def rss(self) -> int:
        """Return the resident memory of the JVM and what it started, in bytes; shared pages count in each process."""
        return resident(self._root)

    def leave(self) -> None:
        """Do nothing: its queries end with it."""

    def stop(self) -> None:
        """End the JVM and its Python workers and remove the folder; more than once does no harm."""
        if os.getpid() != self._owner:
            # A fork of penstock that ends: the host is not its own.
            return
        self._stopping.set()
        with self._lock:
            atexit.unregister(self.stop)
            # The sessions go with the server: nothing to release there.
            self._sessions.close(release=False)
            supervised, self._supervised = self._supervised, None
            if supervised is not None:
                supervised.end()
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)
            self._folders.clear()

    def _launch(self, java: Path) -> Supervised:
        """Make the folder, start the supervisor, and let it start the JVM."""
        kept = settings.inherited(self._how.secrets)
        with host_folders(self._base) as (folders, locks):
            # First of all the one that cleans up.
            supervised = self._supervised = Supervised(folders, locks, kept)
        self._folders = folders
        # Names of sockets are short: they are in the last folder.
        main, lifeline, nursery = folders[0], folders[0] / "lifeline", folders[-1] / "nursery"
        conf = settings.spark_settings(self.name, self._slots, self._how.port, self.conf, folders)
        plan = Plan(
            argv=settings.command(java, conf, main, self._how.record),
            env=settings.environment(kept, java, main, self._token, lifeline, nursery),
            cpus=self.cpus,
            log=str(self.log),
            exit=str(self._exit_note),
            lifeline=str(lifeline),
            nursery=settings.nursery(nursery),
            grace=GRACE if self._how.record is None else classes.RECORDING,
        )
        supervised.launch(self.name, plan)
        return supervised

    def _await_ready(self) -> None:
        """Wait for the line with which the server says its port."""
        timeout = self._how.timeout or (180.0 if "spark.jars.packages" not in self.conf else 300.0)
        deadline = time.monotonic() + timeout
        while True:
            if self._stopping.is_set():
                raise HostError(f"host {self.name} was stopped while it started")
            # Look at the process first: what it said before its end is then in the log.
            alive = self.alive()
            if found := READY.search(failures.tail(self.log)):
                self._port = int(found[1])
                return
            if not alive:
                known = failures.known_reason(self.log, self._base, self._how.port)
                raise HostError(f"host {self.name} {known or f'ended while it started: {self._why_ended()}'}")
            if time.monotonic() > deadline:
                raise HostError(
                    f"host {self.name} was not ready after {timeout:g} s: "
                    f"free some CPU or memory, or give it more time; its log ends: {failures.last_lines(self.log)}"
                )
            time.sleep(0.02)

    @property
    def _exit_note(self) -> Path:
        return self.folder / "exit"

    def _why_ended(self) -> str:
        """Say in one line how the JVM ended and what it said last."""
        if self._supervised is None:
            return "it is not started, or stopped"
        return failures.why_ended(self.log, self._exit_note)
