"""How hosts and penstock reach Kafka: the table ``kafka`` under ``[spark]``, with secrets from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

import attrs

from penstock.cluster import SparkSettings
from penstock.errors import InputError
from penstock.files import suggest
from penstock.spark.librdkafka import translated

OWN = ("bootstrap", "bootstrap_env", "username_env", "password_env", "ca", "partitions", "replication")
"""Keys that are penstock's; the others are Kafka's own client settings."""

PLAIN = ("acks", "retries")
"""Those of Kafka's that have no dot: another word without one is a key written wrong."""

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
        for key in sorted(table):
            if "." not in key and key not in (*OWN, *PLAIN):
                raise InputError(f"unknown key {key!r}", at="spark.kafka", hint=suggest(key, (*OWN, *PLAIN)))
        address = table.get("bootstrap") or _secret(table.get("bootstrap_env"), "bootstrap_env", environ)
        if address is None:
            raise InputError("expected the address of a broker", at="spark.kafka", hint='bootstrap = "host:9092"')
        client = {"bootstrap.servers": address}
        client |= {key.removeprefix(PREFIX): value for key, value in table.items() if key not in OWN}
        username, password = (_secret(table.get(key), key, environ) for key in ("username_env", "password_env"))
        if (username is None) != (password is None):
            raise InputError("expected both username_env and password_env, or neither", at="spark.kafka")
        if username is not None:
            client.setdefault("sasl.mechanism", "PLAIN")
            client.setdefault("security.protocol", "SASL_SSL")
            if client["sasl.mechanism"] not in LOGIN:
                raise InputError(
                    f"expected one of {', '.join(LOGIN)}, got {client['sasl.mechanism']!r}",
                    at="spark.kafka.sasl.mechanism",
                )
        ca = os.path.abspath(table["ca"]) if "ca" in table else None
        copies = _count(table, "replication") if "replication" in table else None
        if ca is not None:
            client = {key: value for key, value in client.items() if not key.startswith(TRUST)}
        return cls(client, username, password, ca, _count(table, "partitions"), copies)

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


def _secret(name: str | None, key: str, environ: Mapping[str, str]) -> str | None:
    if name is None:
        return None
    if not environ.get(name):
        raise InputError(f"the environment variable {name} is not set", at=f"spark.kafka.{key}", hint=f"set {name}")
    return environ[name]


def _count(table: Mapping[str, str], key: str) -> int:
    text = table.get(key, "1")
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"expected a whole number from 1 on, got {text!r}", at=f"spark.kafka.{key}")
    return int(text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
