"""Topics between hosts, on brokers that refuse something or do not answer."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic
from kafka_kit import client, user_with

from penstock.network.file import parse_network
from penstock.running.report import unread
from penstock.spark.compile import Deployment, Query
from penstock.spark.hop import START
from penstock.spark.hop.kafka import MOMENT, KafkaLog
from penstock.spark.hop.topics import Topics
from penstock.spark.run import upkeep
from penstock.spark.shipped.spec import WriterSpec

SHAPE = pa.schema(
    [("n", pa.int64()), ("__id", pa.int64()), ("__stimulus", pa.int64()), ("__time", pa.timestamp("us", "UTC"))]
)
MAY = (AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE)

NETWORK = parse_network(
    {
        "name": "three",
        "sources": {"rows": {"format": "json", "schema": "n int"}},
        "operators": {
            "first": {"kind": "filter", "input": "rows", "where": "true"},
            "second": {"kind": "filter", "input": "first", "where": "true"},
            "third": {"kind": "filter", "input": "second", "where": "true"},
        },
        "sinks": {"out": {"input": "third"}},
    }
)


def written(topics: Topics, *writers: str) -> list[KafkaLog]:
    """Return logs with three batches of a row each."""
    admin = AdminClient({**topics.client})
    made = [NewTopic(topics.name(writer), topics.partitions, 1) for writer in writers]
    for future in admin.create_topics(made).values():
        future.result(30)
    logs = [KafkaLog(topics, writer, SHAPE) for writer in writers]
    for batch in range(3):
        rows = pa.Table.from_pydict({name: [batch] for name in SHAPE.names}, schema=SHAPE)
        assert all(log.write(batch, rows, (batch, None)) for log in logs)
    return logs


def reading(folder: Path, topics: Topics | None, host: int, *reads: str) -> Query:
    """Return a query that reads logs, or none, without its frame."""
    deployment = Deployment(NETWORK, {"first": "h1", "second": "h2", "third": "h3"}, str(folder))
    fragment, frame = deployment.fragments[host], None
    spec = WriterSpec(deployment.place, fragment.name, (), (), (), (), {}, (), timed=False, knobs=None, topics=topics)
    return Query(fragment, frame, spec, reads)  # type: ignore[arg-type]


def cleaned(folder: Path, queries: list[Query], positions: dict[str, Any], patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Remove what queries have passed that have come to some positions."""
    patch.setattr(upkeep, "reached", lambda _query, **_: positions)
    return upkeep.clean_logs(Deployment(NETWORK, {}, str(folder)), queries)


@pytest.mark.kafka
def test_rights_on_topics_and_transactions_are_enough(broker: Any) -> None:
    """Who may make, read, write and clean a run's topics, and write in its transactions, needs no right to a group."""
    prefix = f"penstock-{uuid.uuid4().hex[:8]}"
    topics = Topics(user_with(broker, prefix, *MAY, AclOperation.DELETE), prefix, 2)
    (log,) = written(topics, "first")
    batches, end = log.read(START, log.length())
    assert sum(batch.num_rows for batch in batches) == 4
    time.sleep(1.5)  # the client looks for its group now and then
    rows = pa.Table.from_pydict({name: [3] for name in SHAPE.names}, schema=SHAPE)
    assert log.write(3, rows, (3, None))
    assert sum(batch.num_rows for batch in log.read(end, log.length())[0]) == 2
    assert log.clean([log.at(2)]) == ""
    log.close()


@pytest.mark.kafka
def test_a_missing_right_to_clean_is_told(broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on where a broker lets nobody remove rows, and says so in one sentence, whatever runs besides."""
    prefix = f"penstock-{uuid.uuid4().hex[:8]}"
    topics = Topics(user_with(broker, prefix, *MAY), prefix, 1)
    logs = written(topics, "first", "second")
    positions = {log.writer: log.at(3) for log in logs}
    # One in real-time mode, of which no log is, comes first.
    prompt, reads = reading(tmp_path, None, 0), ("first", "second")
    refused = cleaned(tmp_path, [prompt, reading(tmp_path, topics, 1, *reads)], positions, monkeypatch)
    assert refused.keys() == {"first", "second"}
    (said,) = unread({}, {}, {}, refused, {})
    assert said.endswith("stay in the topics of 'first', 'second': Broker: Topic authorization failed")
    admitted = reading(tmp_path, Topics(client(broker), prefix, 1), 1, *reads)
    assert cleaned(tmp_path, [prompt, admitted], positions, monkeypatch) == {}
    for log in logs:
        assert log._reader(0).low > 0
        log.close()


def test_nobody_waits_long_for_a_broker_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be removed at the moment goes another time: neither an error nor a wait for each of many topics."""
    topics = Topics({"bootstrap.servers": "127.0.0.1:9", "log_level": "0"}, "penstock-away", 1)
    position = {"batch": 3, "piece": 0, "mark": 4, "from0": 6}
    queries = [reading(tmp_path, topics, 1, "first", "second")]
    begin = time.monotonic()
    assert cleaned(tmp_path, queries, {"first": position, "second": position}, monkeypatch) == {}
    assert time.monotonic() - begin < MOMENT + 1.0
