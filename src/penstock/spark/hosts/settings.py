"""What an embedded host's JVM is started with: Spark's settings, the command line and the environment."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from penstock.errors import InputError
from penstock.spark.hosts import classes
from penstock.spark.hosts.folders import LONGEST_SOCKET
from penstock.spark.hosts.java import MODULE_OPTIONS

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
BEGINNING = Path(__file__).with_name("beginning")
"""Folder of the ``sitecustomize`` that Python processes of a host begin with."""

DEFAULTS: Mapping[str, str] = {
    # Spark's own ports on the loopback interface ask for a secret too; it makes one itself.
    "spark.authenticate": "true",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    # Spark keeps these also where no page shows them: the plans of a thousand batches fill a quarter of the memory.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.connect.ui.retainedStatements": "10",
    "spark.sql.connect.ui.retainedSessions": "10",
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

LOOPBACK = "localhost,127.0.0.1,::1"
"""What no proxy leads to."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

JVM_OPTIONS = (
    *MODULE_OPTIONS,
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
    # A host without memory would neither answer nor end.
    "-XX:+ExitOnOutOfMemoryError",
    # Files that the JVM would leave behind elsewhere.
    "-XX:-UsePerfData",
)

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


def with_lists(conf: Mapping[str, str], jars: Sequence[str], packages: Sequence[str]) -> dict[str, str]:
    """Return settings with jar files and Maven coordinates added to those that they name already."""
    more = {"spark.jars": [file for jar in jars for file in _found(jar)], "spark.jars.packages": packages}
    lists = {key: ",".join([*filter(None, [conf.get(key)]), *values]) for key, values in more.items()}
    return {**conf, **{key: value for key, value in lists.items() if value}}


def _found(jar: str) -> list[str]:
    """Return the files that a path or pattern names, as the host finds them from its own folder; a URI as it is.

    Raises
    ------
    InputError
        If there is none.
    """
    if "://" in jar:
        return [jar]
    files = sorted(glob.glob(os.path.abspath(jar)))
    if not files:
        raise InputError(f"no file is called {jar}", at="spark.jars", hint="paths begin in the current folder")
    return files


def spark_settings(
    name: str, cores: int, port: int | None, conf: Mapping[str, str], folders: Sequence[Path]
) -> dict[str, str]:
    """Return all settings of a host: the defaults, ``conf`` in their place, and what penstock makes itself.

    ``port`` None: the kernel chooses one. The first of the ``folders`` is for files, the last for sockets.
    """
    return {
        **DEFAULTS,
        "spark.app.name": f"penstock {name}",
        "spark.sql.warehouse.dir": str(folders[0] / "warehouse"),
        "spark.python.unix.domain.socket.dir": str(folders[-1]),
        **conf,
        "spark.master": f"local[{cores}]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port or 0),
        "spark.port.maxRetries": "0" if port else "16",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folders[0]),
    }


def archive(java: Path) -> Path:
    """Return the file in which Spark's classes are kept for hosts of this Java, there or not."""
    return classes.archive(java, _spark_home() / "jars", JVM_OPTIONS)


def command(java: Path, settings: Mapping[str, str], folder: Path, record: Path | None = None) -> list[str]:
    """Write the settings into the folder and return the command line, which holds no secret.

    With ``record``, the JVM writes the archive of its classes into that file when it ends.
    """
    conf = dict(settings)
    heap = _heap(conf.pop("spark.driver.memory"))
    options = shlex.split(conf.pop("spark.driver.extraJavaOptions", ""))
    places = [str(_spark_home() / "jars" / "*"), *filter(None, [conf.pop("spark.driver.extraClassPath", "")])]
    (folder / "log4j2.properties").write_text(LOGGING)
    lines = "".join(f"{_escape(k)}={_escape(conf[k])}\n" for k in sorted(conf))
    (folder / "spark.conf").write_text(lines, encoding="utf-8")
    return [
        str(java),
        *JVM_OPTIONS,
        *(classes.writing(record) if record is not None else classes.reading(archive(java))),
        f"-Xmx{heap}",
        f"-XX:ErrorFile={folder}/crash.log",
        f"-Djava.io.tmpdir={folder}",
        f"-Dderby.system.home={folder}",
        f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
        *options,
        "-cp",
        os.pathsep.join(places),
        "org.apache.spark.deploy.SparkSubmit",
        "--class",
        SERVER,
        "--properties-file",
        str(folder / "spark.conf"),
        "spark-internal",
    ]


def _heap(size: str) -> str:
    """Return a size as the JVM wants it: to Spark, 1gb is 1g and 512 is 512m."""
    found = re.fullmatch(r"(\d+)([kmgt]?)(b?)", size.strip().lower())
    return size if found is None else found[1] + (found[2] or ("" if found[3] else "m"))


def inherited(secrets: Collection[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return penstock's environment without the variables that hold secrets, and without another Spark's settings."""
    foreign = ("SPARK_", "PYSPARK_")
    return {key: value for key, value in environ.items() if key not in secrets and not key.startswith(foreign)}


def environment(
    kept: Mapping[str, str], java: Path, folder: Path, token: str, lifeline: Path, nursery: Path
) -> dict[str, str]:
    """Return the JVM's environment, which its Python workers inherit: what is kept of penstock's, and the host's own.

    The token is that of this host: its workers need it where they call their host, in ``foreachBatch``.
    """
    return {
        # What threads that come and go have used would stay with the C library, in up to eight places a core.
        "MALLOC_ARENA_MAX": "2",
        **kept,
        # Each core has a Python worker of its own.
        **dict.fromkeys(THREADS, "1"),
        "no_grpc_proxy": _past_proxies(kept),
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_HOME": str(_spark_home()),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        "PENSTOCK_LIFELINE": str(lifeline),
        **short_cut(kept, nursery),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
    }


def _past_proxies(kept: Mapping[str, str]) -> str:
    """Return what gRPC reaches without a proxy: what it did before, and the host, which its own workers call."""
    # It looks for them in this order. Set only for it, since elsewhere "*" counts where it stands alone.
    names = ("no_grpc_proxy", "no_proxy", "NO_PROXY")
    return ",".join([*filter(None, [next(filter(None, map(kept.get, names)), None)]), LOOPBACK])


def short_cut(kept: Mapping[str, str], nursery: Path) -> dict[str, str]:
    """Return what lets Python workers go on as forks of the nursery behind a socket."""
    path = [str(BEGINNING), *filter(None, [kept.get("PYTHONPATH")])]
    return {"PENSTOCK_NURSERY": str(nursery), "PYTHONPATH": os.pathsep.join(path)}


def nursery(socket: Path) -> list[str]:
    """Return the command line of the process that streaming workers are forked from.

    Empty where there is none: on other systems than Linux, and where a socket cannot have so long a path.
    """
    if sys.platform != "linux" or len(os.fsencode(socket)) > LONGEST_SOCKET:
        return []
    return [sys.executable, str(Path(__file__).with_name("nursery.py")), str(socket)]


def _spark_home() -> Path:
    # Where the package is; to import it would take a tenth of a second.
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return Path(found.origin).parent


def _escape(text: str) -> str:
    """Write a key or value the way Java's property files want it."""
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(named.get(letter, f"\\{letter}" if letter in "=:#! " else letter) for letter in text)
