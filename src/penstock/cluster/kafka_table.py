"""The table [spark.kafka] of a cluster file, as far as it needs no environment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import InputError
from penstock.files import suggest

OWN = ("bootstrap", "bootstrap_env", "username_env", "password_env", "ca", "partitions", "replication")
"""Keys that are penstock's; the others are Kafka's own client settings."""

PLAIN = ("acks", "retries")
"""Those of Kafka's that have no dot: another word without one is a key written wrong."""


def check_kafka(table: Mapping[str, str]) -> None:
    """Refuse a table that names no brokers, or has keys or values that mean nothing.

    Raises
    ------
    InputError
        Naming the key.
    """
    at = "spark.kafka"
    for key in sorted(table):
        if "." not in key and key not in (*OWN, *PLAIN):
            raise InputError(f"unknown key {key!r}", at=f"{at}.{key}", hint=suggest(key, (*OWN, *PLAIN)))
    if not (table.get("bootstrap") or table.get("bootstrap_env")):
        raise InputError("expected the address of a broker", at=at, hint='bootstrap = "host:9092"')
    if table.get("bootstrap") and "bootstrap_env" in table:
        raise InputError("bootstrap says it already", at=f"{at}.bootstrap_env", hint="leave one of the two out")
    if ("username_env" in table) != ("password_env" in table):
        raise InputError("expected both username_env and password_env, or neither", at=at)
    for key in ("partitions", "replication"):
        if not re.fullmatch("0*[1-9][0-9]*", table.get(key, "1")):
            raise InputError(f"expected a whole number from 1 on, got {table[key]!r}", at=f"{at}.{key}")
