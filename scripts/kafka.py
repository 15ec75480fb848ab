"""Fetch and run a Kafka broker of your own on the loopback interface: `make kafka`, `make kafka-stop`.

Broker and connector jars come through Maven, into `.tools/kafka`. The broker speaks KRaft, listens on 127.0.0.1 only,
and asks for a password (SASL/PLAIN) that is made when it is first started. Who connects finds all that it needs in
`.tools/kafka/run/client.env`. Users that are added to it (SCRAM-SHA-256) have the rights that they are given.
"""

from __future__ import annotations

import argparse
import base64
import os
import secrets
import signal
import subprocess
import uuid
from pathlib import Path

import maven
from processes import Server, Service, free_ports, private

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".tools" / "kafka"
USER = "penstock"

BROKER = ("org.apache.kafka:kafka_2.13:4.1.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
    "org.apache.spark:spark-avro_2.13:4.2.0",
)
"""Jars that work with pyspark 4.3; Spark itself brings all that they need besides."""

SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=PLAIN
listener.name.client.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.client.plain.sasl.jaas.config={login}
listener.name.controller.plain.sasl.jaas.config={login}
listener.name.client.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{user}
log.dirs={folder}/data
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.network.threads=1
num.io.threads=2
background.threads=2
"""

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""


def fetch(home: Path = HOME) -> None:
    """Fetch the jars of broker and connector, unless they are there."""
    maven.fetch(home / "broker", BROKER, "the Kafka broker")
    maven.fetch(home / "connector", CONNECTOR, "the Kafka connector", [maven.ALL])


def connector(home: Path = HOME) -> str:
    """Return the connector's jars, as a cluster names them."""
    return str(home / "connector" / "*.jar")


def fetched(home: Path = HOME) -> bool:
    """Whether the connector's jars are there."""
    return any((home / "connector").glob("*.jar"))


class Broker(Service):
    """A broker on loopback, with its files in a folder; a context manager starts and ends it.

    Parameters
    ----------
    folder
        Its data, settings, log and pid file; what is there from an earlier start is used again.
    home
        Where the jars are.
    """

    def __init__(self, folder: Path, home: Path = HOME) -> None:
        super().__init__(folder)
        self.home = home
        self._server = Server(folder, "broker")

    @property
    def table(self) -> dict[str, str]:
        """The table ``kafka`` of a cluster that connects to it; the variables that it names must be set."""
        return {
            "bootstrap": self.known["KAFKA_BOOTSTRAP"],
            "security.protocol": "SASL_PLAINTEXT",
            "username_env": "KAFKA_USER",
            "password_env": "KAFKA_PASSWORD",
        }

    @property
    def pid(self) -> int | None:
        """The process of a broker that runs, also one that another program has started."""
        return self._server.pid

    def start(self, patience: float = 60.0) -> Broker:
        """Start the broker, unless it runs, and wait until it answers."""
        if self.pid is None:
            if not (self.folder / "client.env").exists():
                self._prepare()
            port = int(self.known["KAFKA_BOOTSTRAP"].rpartition(":")[2])
            command = [*self._java("kafka.Kafka"), self.folder / "server.properties"]
            self._server.start(command, os.environ).wait(port, patience)
        return self

    def stop(self) -> None:
        """End the broker that runs, by its pid."""
        self._server.end()

    def kill(self) -> None:
        """End it the hard way: what it had not written to its disk yet is still the operating system's."""
        self._server.end(signal.SIGKILL)

    def _prepare(self) -> None:
        """Make settings, password and storage."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        password = secrets.token_urlsafe(24)
        port, controller = free_ports(2)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'{module} required username="{USER}" password="{password}" user_{USER}="{password}";'
        text = SERVER.format(port=port, controller=controller, login=login, user=USER, folder=self.folder)
        private(self.folder / "server.properties", text)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        tool = [*self._java("kafka.tools.StorageTool"), "format", "-t", _cluster_id(), "-c"]
        with (self.folder / "broker.log").open("ab") as log:
            subprocess.run([*tool, self.folder / "server.properties"], check=True, stdout=log, stderr=log)
        values = {"KAFKA_BOOTSTRAP": f"127.0.0.1:{port}", "KAFKA_USER": USER, "KAFKA_PASSWORD": password}
        private(self.folder / "client.env", "".join(f"export {key}={value}\n" for key, value in values.items()))

    def _java(self, main: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        return [
            str(Path(home) / "bin" / "java") if home else "java",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}",
            "-cp",
            str(self.home / "broker" / "*"),
            main,
        ]


def _cluster_id() -> str:
    # A dash in front would be taken for an option.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fetch", "start", "stop"))
    broker = Broker(HOME / "run")
    match parser.parse_args().what:
        case "fetch":
            fetch()
        case "start":
            fetch()
            broker.start()
            print(f"Kafka runs at {broker.known['KAFKA_BOOTSTRAP']}; to connect: . {broker.folder}/client.env")  # noqa: T201
        case "stop":
            broker.stop()


if __name__ == "__main__":
    os.umask(0o077)
    main()
