"""Settings of Java's Kafka client, which Spark's is, as librdkafka has them, which penstock's own client is."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import InputError

NAMES = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
"""What it has under another name."""

JAVA_ONLY = ("buffer.memory", "default.api.timeout.ms", "max.block.ms")
"""What it has nothing like, and does without: how long Java's client waits, and how much it keeps."""

PEM = "PEM"

STORES = {
    # Java takes a store of this kind for one of its own, too.
    "ssl.keystore": ("PKCS12", 'give "ssl.keystore.type" as "PKCS12", or as "PEM" with a file of key and certificates'),
    "ssl.truststore": ("JKS", 'name a file of certificates in PEM instead: ca = "/etc/ssl/kafka-ca.pem"'),
}
"""What kind a store of keys or certificates is unless settings say so, and what to do about one it cannot read."""


def translated(client: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Java's client by librdkafka's names; it tells itself which of them it does not know.

    Raises
    ------
    InputError
        If there is a store of keys or certificates that it cannot read.
    """
    kinds = {store: client.get(f"{store}.type", usual).upper() for store, (usual, _) in STORES.items()}
    found = {}
    for key, value in client.items():
        store, _, part = key.rpartition(".")
        if key in JAVA_ONLY or (part == "type" and store in STORES):
            continue
        if store not in STORES or key in NAMES:
            found[NAMES.get(key, key)] = value
        elif kinds[store] == PEM:
            # Each of Java's PEM stores is one file without a password.
            if part == "location":
                names = ("ssl.ca",) if store == "ssl.truststore" else ("ssl.certificate", "ssl.key")
                found |= {f"{name}.location": value for name in names}
        elif store == "ssl.keystore" and kinds[store] == "PKCS12":
            found[key] = value
        else:
            raise InputError(
                f"penstock's own client cannot read a store of the type {kinds[store]}",
                at=f"spark.kafka.{key}",
                hint=STORES[store][1],
            )
    return found
