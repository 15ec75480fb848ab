"""Which of Spark's settings a cluster file may name for embedded hosts."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import InputError

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

TIME_ZONE = "spark.sql.session.timeZone"
"""The setting that says in which time zone SQL reads and shows times: what a network answers may not depend on it."""

UTC = ("UTC", "ETC/UTC", "GMT", "Z", "+00:00")
"""What else it is called."""


def check_conf(conf: Mapping[str, str]) -> None:
    """Refuse settings that no host of penstock's takes.

    Raises
    ------
    InputError
        If one is none of Spark's, one that penstock makes itself, or another time zone than UTC.
    """
    for key, value in sorted(conf.items()):
        if not key.startswith("spark."):
            raise InputError(f"expected a setting that begins with 'spark.', got {key!r}", at="spark.conf")
        if key in RESERVED:
            raise InputError(f"{key} is set by penstock itself", at="spark.conf", hint="leave it out")
        if key == TIME_ZONE and value.upper() not in UTC:
            hint = "convert times in SQL: from_utc_timestamp(at, 'Europe/Berlin')"
            raise InputError(f"all SQL runs in UTC, got {key} = {value!r}", at="spark.conf", hint=hint)
