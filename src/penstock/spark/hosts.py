"""Spark hosts: Spark Connect endpoints that penstock starts or that somebody else runs.

A host is one Spark application with its own driver and cores. `EmbeddedHost` starts one from the pip package, on the
loopback interface, behind a random token, in a folder of its own, and ends it with penstock. `RemoteHost` names a
running one. Both hand out sessions.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import importlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Protocol, Self

import psutil

from penstock.cluster import Cluster, Host
from penstock.errors import HostError, InputError, PenstockError
from penstock.spark import java as java_runtime

# gRPC reads these when it is imported: no notes about forks on standard error.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

SUPERVISOR = Path(__file__).with_name("supervisor.py")
PREFIX = "penstock-host-"
READY = re.compile(r"Spark Connect server started at: .*:(\d+)$", re.MULTILINE)
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
LONGEST_SOCKET = 100
"""Longest path of a Unix domain socket in bytes (108 on Linux, 104 on macOS, with its terminator)."""

DEFAULTS: Mapping[str, str] = {
    # Spark's own ports on the loopback interface ask for a secret too; it makes one itself.
    "spark.authenticate": "true",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "1",
    # The default manager forks 21 processes per micro-batch on a local disk, this one 4.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "2000",
    # Takes a delayed-acknowledgement stall of 40 ms off every task with a Python worker.
    "spark.python.unix.domain.socket.enabled": "true",
    # A session that times out stops its streaming queries.
    "spark.connect.session.manager.defaultSessionTimeout": "3650d",
}
"""Settings of an embedded host that ``[spark] conf`` may change."""

RESERVED = frozenset(
    {
        "spark.master",
        "spark.connect.authenticate.token",
        "spark.connect.grpc.binding.address",
        "spark.connect.grpc.binding.port",
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.local.dir",
    }
)
"""Settings that penstock makes itself."""

REAL_TIME_SLOTS = 8
"""A real-time query holds a slot for each input partition as long as it runs, whatever the cores do."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
"""


class SparkHost(Protocol):
    """What the engine needs of a host."""

    @property
    def name(self) -> str:
        """The host's name in the cluster."""

    @property
    def endpoint(self) -> str:
        """The address, without a token."""

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, None where it runs elsewhere."""

    def session(self, session_id: str | None = None) -> Any:
        """Return a new ``pyspark.sql.SparkSession``, or the one of that id again."""

    def alive(self) -> bool:
        """Return whether the host can be expected to answer."""

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the JVM and its Python workers so far in s, None where it cannot be read."""

    def rss(self) -> int | None:
        """Return the resident memory of the JVM and its Python workers in bytes, None where it cannot be read."""

    def stop(self) -> None:
        """Let the host go, and end it if penstock started it."""


class EmbeddedHost:
    """A Spark Connect server of the pip package, started and ended by penstock.

    It listens on 127.0.0.1 only, on a port that the kernel chooses, and asks for a random token that travels in the
    environment. Its files are in a folder of its own. It ends with penstock, also by ``kill -9``.

    Parameters
    ----------
    name
        The host's name.
    cores
        Threads of each native library in a Python worker, and tasks at a time unless ``slots`` says otherwise.
    slots
        Tasks at a time: ``local[slots]``.
    cpus
        CPU ids that the JVM and its Python workers may use, None for all.
    conf
        Spark settings on top of `DEFAULTS`. ``spark.driver.memory`` is the heap.
    jars, packages
        Jar files, and Maven coordinates that Spark fetches.
    folder
        Where to make the work folder (default: the system's temporary folder).
    java
        The ``java`` to run (default: `penstock.spark.java.find`).
    port
        A fixed port instead of a free one.
    timeout
        Seconds until a server that is not ready counts as failed (default: 60, with packages 300).

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
        jars: Sequence[str] = (),
        packages: Sequence[str] = (),
        folder: str | os.PathLike[str] | None = None,
        java: str | os.PathLike[str] | None = None,
        port: int | None = None,
        timeout: float | None = None,
    ) -> None:
        self.name = name
        self.cores = cores
        self.slots = slots if slots is not None else cores
        self.cpus = sorted(set(cpus)) if cpus is not None else None
        self.conf = _checked(conf or {})
        self.jars = tuple(jars)
        self.packages = tuple(packages)
        self.java = Path(java) if java is not None else None
        self.timeout = timeout if timeout is not None else (300.0 if packages else 60.0)
        self._base = Path(folder if folder is not None else tempfile.gettempdir()).absolute()
        self._wanted_port = port
        self._port: int | None = None
        self._token = secrets.token_urlsafe(32)
        self._folders: list[Path] = []
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._process: psutil.Process | None = None
        self._clients = _Clients()
        self._meter = _Meter()
        self._owner = os.getpid()
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"EmbeddedHost({self.name!r}, {self.endpoint})"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """The address, without a token."""
        return f"sc://127.0.0.1:{self._port or self._wanted_port or 0}"

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, None before the start and after the stop."""
        return self._process.pid if self._process is not None else None

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
            if self._supervisor is not None:
                return self
            java = self.java or java_runtime.find()
            atexit.register(self.stop)
            try:
                self._launch(java)
                self._await_ready()
            except BaseException as error:
                self.stop()
                if isinstance(error, OSError):
                    raise _full_or_refused(error, self.name, self._base) from error
                raise
        return self

    def session(self, session_id: str | None = None) -> Any:
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
        return self._clients.connect(self.name, self.endpoint, url, session_id, local=True)

    def alive(self) -> bool:
        """Return whether the JVM runs."""
        return self._process is not None and _running(self._process)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the JVM and what it started have used so far, in s."""
        return self._meter.cpu(self._process)

    def rss(self) -> int:
        """Return the resident memory of the JVM and what it started, in bytes; shared pages count in each process."""
        return sum(_resident(process) for process in _family(self._process))

    def stop(self) -> None:
        """End the JVM and its Python workers and remove the folder; more than once does no harm."""
        if os.getpid() != self._owner:
            # A fork of penstock that ends: the host is not its own.
            return
        with self._lock:
            atexit.unregister(self.stop)
            # The sessions go with the server: nothing to release there.
            self._clients.close(release=False)
            supervisor, self._supervisor = self._supervisor, None
            if supervisor is not None:
                _end(supervisor, self._process)
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)
            self._folders.clear()
            self._process = None

    def _launch(self, java: Path) -> None:
        """Make the folder, start the supervisor, and let it start the JVM."""
        sweep(self._base)
        main, lock = _own_folder(self._base)
        self._folders.append(main)
        locks = [lock]
        sockets = main
        if len(os.fsencode(main)) + len(f"/.{uuid.uuid4()}.sock") > LONGEST_SOCKET:
            sweep(Path("/tmp"))  # noqa: S108 - a short path
            sockets, lock = _own_folder(Path("/tmp"))  # noqa: S108
            self._folders.append(sockets)
            locks.append(lock)
        try:
            # First of all the one that cleans up.
            self._supervisor = supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SUPERVISOR), *map(str, self._folders)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=locks,
            )
        finally:
            for lock in locks:
                os.close(lock)
        plan = {
            "argv": self._command(java, main, sockets),
            "env": self._environment(java, main),
            "cpus": self.cpus,
            "log": str(self.log),
            "exit": str(main / "exit"),
            "grace": 5.0,
        }
        stdin, stdout = _pipes(supervisor)
        stdin.write(json.dumps(plan).encode() + b"\n")
        stdin.flush()
        answer = json.loads(stdout.readline() or b'{"error": "its supervisor ended"}')
        if "error" in answer:
            raise HostError(f"host {self.name} cannot start {java}: {answer['error']}")
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process = psutil.Process(answer["pid"])

    def _command(self, java: Path, folder: Path, sockets: Path) -> list[str]:
        """Write the settings into the folder and return the command line, which holds no secret."""
        import pyspark

        home = Path(pyspark.__file__).parent
        conf = {
            **DEFAULTS,
            "spark.app.name": f"penstock {self.name}",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.python.unix.domain.socket.dir": str(sockets),
            **self.conf,
            "spark.master": f"local[{self.slots}]",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._wanted_port or 0),
            "spark.port.maxRetries": "0" if self._wanted_port else "16",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder),
        }
        for key, more in (("spark.jars", self.jars), ("spark.jars.packages", self.packages)):
            if listed := [*filter(None, [conf.get(key)]), *more]:
                conf[key] = ",".join(listed)
        heap = conf.pop("spark.driver.memory")
        options = shlex.split(conf.pop("spark.driver.extraJavaOptions", ""))
        classes = [str(home / "jars" / "*"), *filter(None, [conf.pop("spark.driver.extraClassPath", "")])]
        (folder / "log4j2.properties").write_text(LOGGING)
        (folder / "spark.conf").write_text("".join(f"{_escape(k)}={_escape(conf[k])}\n" for k in sorted(conf)))
        return [
            str(java),
            *java_runtime.MODULE_OPTIONS,
            # Ready in two thirds of the time, and the cost of a tuple does not drift as the JVM ages.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            # What runs once a batch would be compiled after 200 batches only, and batches get shorter until then.
            "-XX:Tier3InvocationThreshold=20",
            "-XX:Tier3MinInvocationThreshold=10",
            "-XX:Tier3CompileThreshold=200",
            "-XX:Tier3BackEdgeThreshold=6000",
            # That level alone gets 48 MB for its code: when Spark's has filled them, after some two minutes, all is
            # thrown out and batches take twice as long for half a minute.
            "-XX:ReservedCodeCacheSize=256m",
            # Classes that streams generate would cause a full collection whenever they reach another threshold.
            "-XX:MetaspaceSize=320m",
            # Arrow would test every single value that is handed to Python for its place in the buffer.
            "-Darrow.enable_unsafe_memory_access=true",
            "-Darrow.enable_null_check_for_get=false",
            "-Xss16m",
            f"-Xmx{heap}",
            # A host without memory would neither answer nor end.
            "-XX:+ExitOnOutOfMemoryError",
            # Files that the JVM would leave behind elsewhere.
            "-XX:-UsePerfData",
            f"-XX:ErrorFile={folder}/crash.log",
            f"-Djava.io.tmpdir={folder}",
            f"-Dderby.system.home={folder}",
            f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
            *options,
            "-cp",
            os.pathsep.join(classes),
            "org.apache.spark.deploy.SparkSubmit",
            "--class",
            SERVER,
            "--properties-file",
            str(folder / "spark.conf"),
            "spark-internal",
        ]

    def _environment(self, java: Path, folder: Path) -> dict[str, str]:
        """Return the JVM's environment: the user's, without the settings of another Spark."""
        import pyspark

        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        return {
            **kept,
            # Each core has a Python worker of its own.
            **dict.fromkeys(THREADS, "1"),
            "JAVA_HOME": str(java.parent.parent),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self._token,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONHASHSEED": "0",
            "TMPDIR": str(folder),
        }

    def _await_ready(self) -> None:
        """Wait for the line with which the server says its port."""
        deadline = time.monotonic() + self.timeout
        # The client takes a second or two to import: meanwhile.
        importlib.import_module("pyspark.sql.connect.session")
        while True:
            # Look at the process first: what it said before its end is then in the log.
            alive = self.alive()
            if found := READY.search(_tail(self.log)):
                self._port = int(found[1])
                return
            if not alive:
                raise HostError(self._why_not_started())
            if time.monotonic() > deadline:
                raise HostError(
                    f"host {self.name} was not ready after {self.timeout:g} s: "
                    f"free some CPU or memory, or give it more time; its log ends: {self._last_lines()}"
                )
            time.sleep(0.02)

    def _why_not_started(self) -> str:
        text = _tail(self.log)
        if "Address already in use" in text or "BindException" in text:
            return f"host {self.name} cannot listen on port {self._wanted_port}: it is in use; name another or none"
        if "No space left on device" in text:
            return f"host {self.name} cannot start: no space left on the device of {self._base}; free some"
        if "Could not reserve enough space" in text or "Invalid maximum heap size" in text:
            return f"host {self.name} cannot start: no heap of that size; set spark.driver.memory in [spark] conf"
        return f"host {self.name} ended while it started: {self._why_ended()}"

    def _why_ended(self) -> str:
        """Say in one line how the JVM ended and what it said last."""
        if self._supervisor is None:
            return "it is not started, or stopped"
        code = _exit_code(self.folder / "exit")
        if code is not None and code < 0:
            how = f"it was killed by {signal.Signals(-code).name}"
        else:
            how = "it ended" if code is None else f"it ended with exit code {code}"
        return f"{how}; its log ends: {self._last_lines()}"

    def _last_lines(self, count: int = 5) -> str:
        lines = [line.strip() for line in _tail(self.log).splitlines()]
        return " | ".join([line for line in lines if line and not line.startswith("at ")][-count:]) or "(empty)"


class RemoteHost:
    """A Spark Connect endpoint that somebody else runs.

    Its server's idle time-out (``spark.connect.session.manager.defaultSessionTimeout``, 60 minutes unless set) ends
    sessions and their queries; every call, such as reading a query's progress, starts it anew.

    Parameters
    ----------
    name
        The host's name.
    endpoint
        ``sc://node1:15002``, with the usual parameters (``/;use_ssl=true``), without a token.
    token_env
        The environment variable that holds the token, None for an endpoint without one.
    timeout
        Seconds until an endpoint that does not answer counts as unreachable.
    environ
        Where to look the variable up.
    """

    pid: int | None = None

    def __init__(
        self,
        name: str,
        endpoint: str,
        *,
        token_env: str | None = None,
        timeout: float = 8.0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.name = name
        self.timeout = timeout
        wrong = InputError(f"expected an endpoint such as 'sc://node1:15002', got {_masked(endpoint)!r}")
        try:
            parts = urllib.parse.urlsplit(endpoint)
            address, port = parts.hostname or "", parts.port or 15002
            address.encode("idna")  # what a look-up of the name would refuse
        except ValueError:
            raise wrong from None
        options = [option for option in parts.path.removeprefix("/").split(";") if option]
        if parts.scheme != "sc" or not address or "@" in parts.netloc or any("=" not in option for option in options):
            raise wrong
        if any(option.startswith("token=") for option in options):
            raise InputError(
                f"the endpoint of host {name} holds a token", hint="name an environment variable in token_env"
            )
        self._host, self._port, self._options = address, port, options
        self._token = environ.get(token_env) if token_env else None
        if token_env and not self._token:
            raise HostError(f"host {name} needs its token in the environment variable {token_env}: it is not set")
        self.endpoint = endpoint
        self._clients = _Clients()

    def __repr__(self) -> str:
        return f"RemoteHost({self.name!r}, {self.endpoint!r})"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Check that the endpoint answers and takes the token.

        Raises
        ------
        HostError
            If it does not.
        """
        self.session().stop()
        return self

    def session(self, session_id: str | None = None) -> Any:
        """Return a new session (``pyspark.sql.connect``), or the one of that id again.

        Raises
        ------
        HostError
            If the endpoint cannot be reached within the time-out, or refuses the token.
        """
        host = self._host
        tls = any(option.lower() == "use_ssl=true" for option in self._options)
        if self._token and not tls and host in ("127.0.0.1", "::1"):
            # With a token and without TLS, gRPC asks for the literal name.
            host = "localhost"
        if ":" in host:
            host = f"[{host}]"
        options = [*self._options, *([f"token={urllib.parse.quote(self._token, safe='')}"] if self._token else [])]
        url = f"sc://{host}:{self._port}" + (f"/;{';'.join(options)}" if options else "")
        try:
            socket.create_connection((self._host, self._port), timeout=self.timeout / 2).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise HostError(
                f"host {self.name} cannot be reached at {self.endpoint} ({reason}): "
                "check the address, and that the Spark Connect server runs"
            ) from None
        return self._clients.connect(self.name, self.endpoint, url, session_id, timeout=self.timeout / 2)

    def alive(self) -> bool:
        """Return whether the endpoint's port answers."""
        try:
            socket.create_connection((self._host, self._port), timeout=2).close()
        except OSError:
            return False
        return True

    def cpu_seconds(self) -> None:
        """Return None: it is another machine."""

    def rss(self) -> None:
        """Return None: it is another machine."""

    def stop(self) -> None:
        """Release the sessions, which ends their queries; the server goes on."""
        self._clients.close(release=self.alive())


@contextlib.contextmanager
def start_hosts(
    cluster: Cluster,
    folder: str | os.PathLike[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    pin: bool | Mapping[str, Sequence[int]] = True,
    java: str | os.PathLike[str] | None = None,
) -> Iterator[dict[str, EmbeddedHost | RemoteHost]]:
    """Start or reach the hosts of a cluster, all at once, and let them go at the end.

    Parameters
    ----------
    cluster
        The hosts; one without an endpoint is embedded.
    folder
        Where embedded hosts make their work folders (default: the system's temporary folder).
    names
        The hosts wanted (default: all).
    pin
        Give each embedded host CPUs of its own, if there are enough; or the CPUs by host.
    java
        The ``java`` of the embedded hosts (default: `penstock.spark.java.find`).

    Yields
    ------
    dict
        The hosts by name, ready.

    Raises
    ------
    HostError
        If one cannot be started or reached; the others are stopped.
    """
    wanted = [cluster.hosts[name] for name in sorted(names)] if names is not None else [*cluster.hosts.values()]
    embedded = [host for host in wanted if host.spark is None]
    if embedded and java is None:
        java = java_runtime.find()
    if isinstance(pin, Mapping):
        cpus = pin
    else:
        shares = share_cpus([host.cores for host in embedded], available_cpus()) if pin else None
        cpus = {host.name: share for host, share in zip(embedded, shares or (), strict=False)}
    hosts: dict[str, EmbeddedHost | RemoteHost] = {
        host.name: _host(host, cluster, folder, java, cpus.get(host.name)) for host in wanted
    }
    pool = ThreadPoolExecutor(max(1, len(hosts)))
    try:
        # Wait for all before the first error, so that none is still starting when they are stopped.
        started = [pool.submit(host.start) for host in hosts.values()]
        errors = [error for future in started if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        yield hosts
    finally:
        for stopped in [pool.submit(host.stop) for host in hosts.values()]:
            stopped.result()
        pool.shutdown()


def _host(
    host: Host,
    cluster: Cluster,
    folder: str | os.PathLike[str] | None,
    java: str | os.PathLike[str] | None,
    cpus: Sequence[int] | None,
) -> EmbeddedHost | RemoteHost:
    if host.spark is not None:
        return RemoteHost(host.name, host.spark, token_env=host.token_env)
    spark = cluster.spark
    return EmbeddedHost(
        host.name,
        cores=host.cores,
        slots=max(REAL_TIME_SLOTS, host.cores) if spark.mode == "real-time" else host.cores,
        cpus=cpus,
        conf=spark.conf,
        jars=spark.jars,
        packages=spark.packages,
        folder=folder,
        java=java,
    )


def available_cpus() -> list[int]:
    """Return the CPU ids that penstock may use, one of each physical core first; none where they cannot be set."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    seen: dict[str, int] = {}
    ranked = []
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            core = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            core = str(cpu)
        seen[core] = seen.get(core, -1) + 1
        ranked.append((seen[core], cpu))
    return [cpu for _, cpu in sorted(ranked)]


def share_cpus(cores: Sequence[int], cpus: Sequence[int]) -> list[list[int]] | None:
    """Give each host as many CPUs of its own as it has cores, the last ones first; None if there are not enough.

    penstock itself is not pinned: the first CPUs, where some are left, are its own.

    Examples
    --------
    >>> share_cpus([1, 2], [0, 1, 2, 3])
    [[3], [1, 2]]
    >>> share_cpus([1, 2], [0, 1]) is None
    True
    """
    if sum(cores) > len(cpus):
        return None
    end, shares = len(cpus), []
    for count in cores:
        shares.append(list(cpus[end - count : end]))
        end -= count
    return shares


def sweep(base: Path) -> None:
    """Remove host folders whose supervisor is gone, killed before it could do so.

    A folder belongs to whoever holds the lock on its file ``lock``.
    """
    for lock in base.glob(f"{PREFIX}*/lock"):
        try:
            handle = os.open(lock, os.O_RDWR)
        except OSError:
            continue
        try:
            # A folder younger than this may be one that is just being made.
            if time.time() - os.fstat(handle).st_mtime > 5 and os.fstat(handle).st_uid == os.getuid():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(handle)


def _own_folder(base: Path) -> tuple[Path, int]:
    """Make a folder that only this user can read, and take its lock, which the supervisor inherits."""
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


class _Clients:
    """The sessions that a host has handed out."""

    def __init__(self) -> None:
        self._channels: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def connect(
        self, name: str, endpoint: str, url: str, session_id: str | None, *, local: bool = False, timeout: float = 10.0
    ) -> Any:
        """Return a session that has been seen to answer."""
        import grpc  # type: ignore[import-untyped]
        from pyspark.errors.exceptions.connect import SparkConnectException
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        # What the client says about a server that has gone is said by penstock.
        warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
        # With it, pyspark.sql.functions builds columns without a JVM.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        if session_id is not None:
            url += ("" if "/;" in url else "/") + f";session_id={session_id}"
        builder = DefaultChannelBuilder(url)
        if local:
            builder.setChannelOption("grpc.enable_http_proxy", 0)
        channel = builder.toChannel()
        try:
            grpc.channel_ready_future(channel).result(timeout=timeout)
        except grpc.FutureTimeoutError:
            channel.close()
            hint = "a token is sent over TLS" if builder.token else "set use_ssl=true or not"
            raise HostError(
                f"host {name} at {endpoint} does not speak Spark Connect ({timeout:g} s without an answer): "
                f"check the port, and whether it speaks TLS ({hint})"
            ) from None
        builder.toChannel = lambda: channel  # type: ignore[method-assign]  # the one that answered
        session = SparkSession.builder.channelBuilder(builder).create()
        # A host that has gone is noticed within about 5 s, not after minutes.
        session.client.set_retry_policies([DefaultPolicy(max_retries=5, max_backoff=2000)])
        try:
            session.version  # noqa: B018 - the first call shows whether the token is right
        except (SparkConnectException, grpc.RpcError) as error:
            session.release_session_on_close = False
            session.stop()
            text = str(error)
            if "UNAUTHENTICATED" in text or "PERMISSION_DENIED" in text or "uthentication token" in text:
                raise HostError(f"host {name} at {endpoint} refuses the token: check token_env") from None
            # A gRPC error shown whole begins with a line that says nothing.
            details = re.search(r'^\s*details = "(.+)"$', text, re.MULTILINE)
            said = details[1] if details else (text.splitlines() or [type(error).__name__])[0]
            raise HostError(
                f"host {name} at {endpoint} does not answer as Spark Connect does: {said}; check the address"
            ) from None
        self._channels[session] = channel
        return session

    def close(self, *, release: bool) -> None:
        """Close the sessions that are still in use; ``release`` them at the server, which ends their queries."""
        for session, channel in [*self._channels.items()]:
            session.release_session_on_close = release
            if not release:
                # Calls that wait for a server that has gone end now.
                channel.close()
            session.stop()
        self._channels.clear()


class _Meter:
    """Adds up the CPU time of a process and of what it started, also of what has ended since."""

    def __init__(self) -> None:
        self._seen: dict[psutil.Process, tuple[float, bool]] = {}
        self._ended = 0.0
        self._last = 0.0
        self._lock = threading.Lock()

    def cpu(self, root: psutil.Process | None) -> float:
        """Return the CPU time in s; it never falls."""
        with self._lock:
            now: dict[psutil.Process, tuple[float, bool]] = {}
            for process in _family(root):
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    own = times.user + times.system
                    waited = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
                    # A parent that waits for its child counts it from then on; the Python daemon does not wait.
                    now[process] = own + waited, process == root or (root is not None and process.ppid() == root.pid)
            if now:
                for process, (used, counted) in self._seen.items():
                    if process not in now and not counted:
                        self._ended += used
                self._seen = now
                self._last = max(self._last, self._ended + sum(used for used, _ in now.values()))
            return self._last


def _family(root: psutil.Process | None) -> list[psutil.Process]:
    if root is None:
        return []
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _running(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _pipes(supervisor: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert supervisor.stdin is not None and supervisor.stdout is not None  # noqa: S101, PT018 - for the type checker
    return supervisor.stdin, supervisor.stdout


def _end(supervisor: subprocess.Popen[bytes], process: psutil.Process | None) -> None:
    """Ask the supervisor to end everything; do it here if it is gone."""
    stdin, stdout = _pipes(supervisor)
    with contextlib.suppress(OSError):
        stdin.write(b"stop\n")
        stdin.flush()
    with contextlib.suppress(OSError):
        stdin.close()
    try:
        supervisor.wait(timeout=15)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()
    stdout.close()
    for left in _family(process):
        with contextlib.suppress(psutil.Error):
            left.kill()


def _checked(conf: Mapping[str, str]) -> dict[str, str]:
    for key in sorted(conf):
        if not key.startswith("spark."):
            raise InputError(f"expected a setting that begins with 'spark.', got {key!r}", at="spark.conf")
        if key in RESERVED:
            raise InputError(f"{key} is set by penstock itself", at="spark.conf", hint="leave it out")
    return dict(conf)


def _escape(text: str) -> str:
    """Write a key or value the way Java's property files want it."""
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(named.get(letter, f"\\{letter}" if letter in "=:#! " else letter) for letter in text)


def _tail(path: Path, size: int = 65536) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _exit_code(path: Path, patience: float = 2.0) -> int | None:
    """Return the exit code that the supervisor notes a moment after the end."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text())
        time.sleep(0.05)
    return None


def _full_or_refused(error: OSError, name: str, base: Path) -> PenstockError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostError(f"host {name} cannot start: no space left on the device of {base}; free some")
    return HostError(f"host {name} cannot start in {base}: {error.strerror or error}")


def _masked(endpoint: str) -> str:
    return re.sub(r"token=[^;]*", "token=…", re.sub(r"//[^/]*@", "//…@", endpoint))
