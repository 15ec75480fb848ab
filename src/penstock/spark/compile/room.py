"""How many messages of Kafka a batch takes where the user does not say: as many as a small host has room for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.network import Network
from penstock.spark.compile.sources import BOUNDED, LIMITS, options_of, whole

ROOM = 64 << 20
"""Bytes of a batch's messages."""

LOOKED_AT = 1000
"""Messages of a source whose size is looked at, the oldest."""

SIZE = "ifnull(octet_length(key), 0) + ifnull(octet_length(value), 0)"


def fitting(session: SparkSession, network: Network, kafka: Mapping[str, str]) -> dict[str, int]:
    """Return how many messages a batch takes of each Kafka source that sets no limit and holds some already.

    Of a source that Spark cannot read, it tells when the query starts.
    """
    ((limit,), (_, most)) = LIMITS["kafka"], BOUNDED["kafka"]
    found = {}
    for name, source in network.sources.items():
        if source.format != "kafka" or limit.lower() in map(str.lower, source.options):
            continue
        reader = session.read.format("kafka").options(**options_of(whole(source), kafka, unbounded=True))
        with contextlib.suppress(PySparkException):
            sizes = [size for (size,) in reader.load().selectExpr(SIZE).limit(LOOKED_AT).collect()]
            if sizes:
                found[name] = max(1, min(int(most), ROOM * len(sizes) // max(1, sum(sizes))))
    return found
