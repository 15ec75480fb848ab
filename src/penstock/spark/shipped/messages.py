"""Kafka messages: what a sink's rows become, and which of a batch a topic has already.

Spark delivers to Kafka at least once: a batch that was cut off may have left any of its messages. Each carries its
identity as a header, so that a batch that is done again writes only those that are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

HEADER = "penstock"
"""Name of the header with a message's identity."""

OURS = ("topic", "key", "value")
"""Options of a sink that say what its messages are; the others are Spark's."""

SLACK = 300_000
"""How far (ms) the clocks of hosts and brokers may be apart."""


def message(options: Mapping[str, str], names: tuple[str, ...]) -> list[str]:
    """Return SQL for the parts of a sink's messages.

    Parameters
    ----------
    options
        Of the sink: ``topic``, and SQL for ``key`` and ``value``, in brackets.
    names
        The sink's columns. Where one is called ``value``, or an option says what the value is, those called as other
        parts of Kafka's are these parts unless an option says it. Else the value is the whole row.
    """
    apart = "value" in options or "value" in names
    quoted = {name: "`" + name.replace("`", "``") + "`" for name in names}
    parts = []
    if "value" in options:
        parts.append(f"{options['value']} AS value")
    elif "value" in names:
        parts.append("value")
    else:
        parts.append(f"to_json(struct({', '.join(quoted.values())})) AS value")
    if "key" in options:
        parts.append(f"{options['key']} AS key")
    elif "key" in names and apart:
        parts.append("key")
    if "topic" in options:
        parts.append("'" + options["topic"].replace("\\", "\\\\").replace("'", "\\'") + "' AS topic")
    else:
        parts.append("topic")
    return parts + [name for name in ("partition", "headers") if name in names and apart]


def marked(parts: list[str], mark: str) -> list[str]:
    """Return SQL for messages whose identity ``mark`` (and the row's) is a header."""
    own = f"struct('{HEADER}' AS key, CAST(concat('{mark}', __id) AS BINARY) AS value)"
    if "headers" not in parts:
        return [*parts, f"array({own}) AS headers"]
    both = f"CASE WHEN headers IS NULL THEN array({own}) ELSE array_append(headers, {own}) END AS headers"
    return [*(part for part in parts if part != "headers"), both]


def deliver_messages(
    frame: DataFrame, options: Mapping[str, str], mark: str, session: SparkSession, begun: int | None
) -> None:
    """Send a batch's rows, those that are missing.

    Parameters
    ----------
    frame
        The rows, and in ``__id`` an identity for each that no other has.
    options
        Of the sink and of the connection.
    mark
        Says of a message which run, query, sink and batch it is of.
    begun
        When the batch may first have sent something (ms since 1970); None if it surely has not yet.
    """
    names = tuple(name for name in frame.columns if name != "__id")
    client = {key: value for key, value in options.items() if key not in OURS}
    if begun is not None:
        topics = (
            [options["topic"]] if "topic" in options else [row[0] for row in frame.select("topic").distinct().collect()]
        )
        there = sent(session, client, [topic for topic in topics if topic], mark, begun - SLACK)
        if there.num_rows:
            frame = frame.join(session.createDataFrame(there), "__id", "left_anti")
    frame.selectExpr(*marked(message(options, names), mark)).write.format("kafka").options(**client).save()


def sent(session: SparkSession, client: Mapping[str, str], topics: Sequence[str], mark: str, since: int) -> pa.Table:
    """Return the identities (Arrow table) of a batch's messages that are in topics since a moment (ms)."""
    import pyarrow as pa

    found: list[int] = []
    for topic in topics:
        reader = session.read.format("kafka").options(**{key: v for key, v in client.items() if key[:6] == "kafka."})
        reader = reader.option("subscribe", topic).option("includeHeaders", "true")
        reader = reader.option("startingTimestamp", str(since)).option("startingOffsetsByTimestampStrategy", "latest")
        try:
            headers = (
                reader.load()
                .selectExpr("explode(headers) AS header")
                .selectExpr("header.key AS name", "CAST(header.value AS STRING) AS said")
            )
            mine = headers.filter(f"name = '{HEADER}' AND startswith(said, '{mark}')").collect()
        except Exception as error:
            # Brokers may make a topic when it is written first.
            if "UnknownTopicOrPartition" in str(error):
                continue
            raise
        found += [int(row["said"][len(mark) :]) for row in mine]
    return pa.table({"__id": pa.array(found, pa.int64())})
