"""How hosts and penstock reach Kafka: the table ``kafka`` under ``[spark]``, with secrets from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

import attrs

from penstock.cluster import SparkSettings
from penstock.cluster.kafka_table import OWN, check_kafka
from penstock.errors import InputError
from penstock.spark.librdkafka import translated

PREFIX = "kafka."
"""Before the client settings among the options of Spark's readers and writers."""

TRUST = "ssl.truststore."
"""Before the client settings that ``ca`` replaces."""

LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@attrs.frozen
class Connection:
    """A Kafka cluster, and who asks.

    Attributes
    ----------
    client
        Kafka's client settings, by the names that Java's and C's clients share, address included.
    username, password
        None where nobody need log in.
    ca
        File with the certificates (PEM) that a broker's is checked with; None: those that the clients know.
    partitions, replication
        Of the topics between hosts; None: as many copies as the broker makes by itself.
    mine
        The client settings by librdkafka's names.
    """

    client: Mapping[str, str] = attrs.field(hash=False)
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    ca: str | None = None
    partitions: int = 1
    replication: int | None = None
    mine: Mapping[str, str] = attrs.field(default=attrs.Factory(lambda it: translated(it.client), True), hash=False)

    @classmethod
    def of(cls, settings: SparkSettings, environ: Mapping[str, str] = os.environ) -> Connection | None:
        """Return the connection that a cluster names, if it names one.

        Raises
        ------
        InputError
            If a key or value makes no sense, or a variable is not set.
        """
        table = dict(settings.kafka)
        if not table:
            return None
        check_kafka(table)
        address = table.get("bootstrap") or _secret(table["bootstrap_env"], "bootstrap_env", environ)
        client = {"bootstrap.servers": address}
        client |= {key.removeprefix(PREFIX): value for key, value in table.items() if key not in OWN}
        username = password = None
        if "username_env" in table:
            username, password = (_secret(table[key], key, environ) for key in ("username_env", "password_env"))
            client.setdefault("sasl.mechanism", "PLAIN")
            client.setdefault("security.protocol", "SASL_SSL")
            if client["sasl.mechanism"] not in LOGIN:
                raise InputError(
                    f"expected one of {', '.join(LOGIN)}, got {client['sasl.mechanism']!r}",
                    at="spark.kafka.sasl.mechanism",
                )
        ca = os.path.abspath(table["ca"]) if "ca" in table else None
        copies = int(table["replication"]) if "replication" in table else None
        if ca is not None:
            client = {key: value for key, value in client.items() if not key.startswith(TRUST)}
        return cls(client, username, password, ca, int(table.get("partitions", "1")), copies)

    @property
    def spark(self) -> dict[str, str]:
        """The options of Spark's Kafka reader and writer."""
        found = dict(self.client)
        if self.username is not None and self.password is not None:
            module = LOGIN[self.client["sasl.mechanism"]]
            login = f"username={_quoted(self.username)} password={_quoted(self.password)}"
            found["sasl.jaas.config"] = f"{module} required {login};"
        if self.ca is not None:
            found |= {f"{TRUST}type": "PEM", f"{TRUST}location": self.ca}
        return {PREFIX + key: value for key, value in found.items()}

    @property
    def native(self) -> dict[str, str]:
        """The settings of librdkafka, which penstock's own client is."""
        found = dict(self.mine)
        if self.username is not None and self.password is not None:
            found |= {"sasl.username": self.username, "sasl.password": self.password}
        if self.ca is not None:
            found["ssl.ca.location"] = self.ca
        return found


def _secret(name: str, key: str, environ: Mapping[str, str]) -> str:
    if not environ.get(name):
        raise InputError(f"the environment variable {name} is not set", at=f"spark.kafka.{key}", hint=f"set {name}")
    return environ[name]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
