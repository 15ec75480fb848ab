"""Start a Spark cluster of your own on the loopback interface: `make cluster`, `make cluster-stop`.

A standalone master, two workers with a core each, and a Connect server, all from Spark's Python package. They ask each
other for a secret, and callers for a token, both made when the cluster is first started. Who connects finds address and
token in `.tools/cluster/client.env`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from processes import Server, Service, exported, free_ports, private

from penstock.spark.hosts import classes, settings
from penstock.spark.hosts.java import find

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".tools" / "cluster"
SPARK = Path(pyspark.__file__).parent
WORKERS = 2

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""

DEFAULTS = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.master spark://127.0.0.1:{master}
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.connect.grpc.binding.address 127.0.0.1
spark.connect.grpc.binding.port {connect}
spark.connect.session.manager.defaultSessionTimeout 3650d
spark.executor.cores 1
spark.executor.memory 512m
spark.task.maxFailures 1
spark.ui.enabled false
spark.sql.adaptive.enabled false
spark.sql.catalogImplementation in-memory
spark.sql.streaming.numRecentProgressUpdates 2000
spark.python.unix.domain.socket.enabled true
spark.jars {jars}
{more}"""


class Cluster(Service):
    """A cluster on loopback, with its files in a folder; a context manager starts and ends it.

    Parameters
    ----------
    folder
        Its settings, logs and pid files.
    jars
        What its hosts have besides Spark's own.
    workers
        How many, with a core each.
    cores
        How many of their cores the Connect server takes when it starts; None: all.
    conf
        Further settings of Spark.
    """

    def __init__(
        self,
        folder: Path,
        jars: list[Path] | None = None,
        *,
        workers: int = WORKERS,
        cores: int | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder)
        self.jars, self.cores, self.conf = jars or [], cores, conf or {}
        self.master = Server(folder, "master")
        self.workers = [Server(folder, f"worker{number + 1}") for number in range(workers)]
        self.connect = Server(folder, "connect")
        self.nursery = Server(folder, "nursery")
        self._door = folder.absolute() / "nursery"

    def start(self, patience: float = 180.0) -> Cluster:
        """Start what does not run, and wait until the Connect server answers."""
        if not (self.folder / "client.env").exists():
            self._prepare()
        ports = {key: int(port) for key, port in exported(self.folder / "ports").items()}
        environ = self._environ()
        if (command := settings.nursery(self._door)) and self.nursery.pid is None:
            self._door.unlink(missing_ok=True)
            self.nursery.start(command, environ)
        if self.master.pid is None:
            deploy = "org.apache.spark.deploy"
            words = ["--host", "127.0.0.1", "--port", ports["master"], "--webui-port", ports["page"]]
            command = [*self._java(), f"{deploy}.master.Master", *words]
            self.master.start(command, environ).wait(ports["master"], patience)
            for number, worker in enumerate(self.workers):
                words = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", self.folder / "work"]
                words += ["--port", ports[f"worker{number + 1}"], "--webui-port", ports[f"page{number + 1}"]]
                command = [*self._java(), f"{deploy}.worker.Worker", *words, f"spark://127.0.0.1:{ports['master']}"]
                worker.start(command, environ)
        if self.connect.pid is None:
            server = "org.apache.spark.sql.connect.service.SparkConnectServer"
            most = [] if self.cores is None else ["--conf", f"spark.cores.max={self.cores}"]
            command = [*self._java(), "org.apache.spark.deploy.SparkSubmit", *most, "--class", server, "spark-internal"]
            self.connect.start(command, environ)
        for number, worker in enumerate(self.workers):
            worker.wait(ports[f"worker{number + 1}"], patience)
        self.connect.wait(ports["connect"], patience)
        return self

    def stop(self) -> None:
        """End all that runs, each by its pid, and with the workers their executors."""
        for server in (self.connect, *self.workers, self.master, self.nursery):
            server.end()

    def _prepare(self) -> None:
        """Make settings, secret and token."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        names = [
            "master",
            "connect",
            "page",
            *(f"{kind}{n + 1}" for kind in ("worker", "page") for n in range(len(self.workers))),
        ]
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        private(self.folder / "ports", "".join(f"{name}={port}\n" for name, port in ports.items()))
        jars = ",".join(str(jar) for jar in self.jars)
        more = "".join(f"{key} {value}\n" for key, value in self.conf.items())
        text = DEFAULTS.format(secret=secrets.token_urlsafe(24), jars=jars, more=more, **ports)
        private(self.folder / "spark-defaults.conf", text)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        values = {"SPARK_ADDRESS": f"sc://127.0.0.1:{ports['connect']}", "SPARK_TOKEN": secrets.token_urlsafe(24)}
        private(self.folder / "client.env", "".join(f"export {key}={value}\n" for key, value in values.items()))

    def _environ(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        return {
            **kept,
            "JAVA_HOME": str(find().parent.parent),
            "SPARK_HOME": str(SPARK),
            "SPARK_CONF_DIR": str(self.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Workers look for a build of Spark where its package has none, unless they are told.
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.known["SPARK_TOKEN"],
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONHASHSEED": "0",
            **settings.short_cut(kept, self._door),
        }

    def _java(self) -> list[str]:
        java = find()
        return [
            str(java),
            *settings.JVM_OPTIONS,
            *classes.reading(settings.archive(java)),
            "-Xmx512m",
            f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}",
            "-cp",
            # Kept classes are of use only where the class path begins as theirs did.
            os.pathsep.join([str(SPARK / "jars" / "*"), str(self.folder)]),
        ]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("start", "stop"))
    cluster = Cluster(HOME, sorted((ROOT / ".tools/kafka/connector").glob("*.jar")))
    if parser.parse_args().what == "stop":
        cluster.stop()
        return
    with contextlib.ExitStack() as undo:
        undo.callback(cluster.stop)
        cluster.start()
        undo.pop_all()
    print(f"Spark runs at {cluster.known['SPARK_ADDRESS']}; to connect: . {cluster.folder}/client.env")  # noqa: T201


if __name__ == "__main__":
    os.umask(0o077)
    main()
