"""Kafka as the user's source and sink: payloads with event time, keys, and each message once whatever is cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_kit import forget, make_topic, put, take, values

from penstock.cluster import SparkSettings
from penstock.errors import EngineError, InputError
from penstock.network.file import parse_network
from penstock.spark.calibrate import samples
from penstock.spark.compile import room
from penstock.spark.connection import Connection
from penstock.spark.run import Engine, Outcome, SparkEngine
from penstock.spark.shipped.checkpoint import begun_and_ended, forget_commit
from penstock.spark.shipped.messages import HEADER, message
from penstock.spark.shipped.told import manifest_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600)]


def run(engine: Engine, document: dict[str, Any], folder: Path) -> Outcome:
    """Run a network over what its topics hold."""
    network = parse_network(document)
    deployment = engine.prepare(network, dict.fromkeys(network.operators, "h1"), folder)
    outcome = engine.run_once(deployment)
    assert outcome.balanced(network)
    return outcome


def clicks(first: int, count: int) -> list[dict[str, Any]]:
    """Return clicks, one a second of event time."""
    return [{"user": f"u{n % 3}", "n": n, "at": f"2026-03-01T12:00:{n:02d}Z"} for n in range(first, first + count)]


def network(topic: str, **sinks: Any) -> dict[str, Any]:
    """Return a network that counts clicks per user in windows of 10 s, and passes odd ones on."""
    source = {
        "format": "kafka", "schema": "user string, n int, at timestamp", "time": "at", "lateness": "2 seconds",
        "options": {"subscribe": topic, "include": "KEY, partition"},
    }  # fmt: skip
    operators = {
        "odd": {"kind": "filter", "input": "clicks", "where": "n % 2 = 1"},
        "counts": {"kind": "aggregate", "input": "clicks", "by": "user", "window": 10, "select": "sum(n) AS total"},
    }
    return {"name": "clicks", "sources": {"clicks": source}, "operators": operators, "sinks": sinks}


def test_messages_become_rows_and_rows_messages(kafka_engine: Engine, broker: Any, tmp_path: Path) -> None:
    """Payloads are taken apart, windows close by their event times, and every result is a message with its key."""
    topic, odd, counts = make_topic(broker, "clicks", 2), make_topic(broker, "odd"), make_topic(broker, "counts", 2)
    put(broker, topic, clicks(0, 25), keys=[f"k{n}" for n in range(25)])
    document = network(
        topic,
        raw={"input": "odd", "format": "kafka", "options": {"topic": odd}},
        totals={
            "input": "counts",
            "format": "kafka",
            "options": {"topic": counts, "key": "user", "value": "concat(date_format(window_start, 's'), ':', total)"},
        },
    )
    run(kafka_engine, document, tmp_path / "run")
    found = values(broker, odd)
    assert sorted(row["n"] for row in found) == list(range(1, 25, 2))
    assert all(row["key"] == f"k{row['n']}" and row["user"] == f"u{row['n'] % 3}" for row in found)
    want = {
        (f"u{u}", f"{w * 10}:{sum(n for n in range(w * 10, w * 10 + 10) if n % 3 == u)}")
        for u in range(3)
        for w in (0, 1)
    }
    assert {(m.key().decode(), m.value().decode()) for m in take(broker, counts)} == want
    identities = [dict(m.headers())[HEADER] for m in [*take(broker, odd), *take(broker, counts)]]
    assert len(set(identities)) == len(identities) == 12 + 6
    # More comes, among it a row that is late and one that is no JSON.
    put(broker, topic, ["{broken", {"user": "u0", "n": 99, "at": "2026-03-01T12:00:01Z"}, *clicks(25, 10)])
    outcome = run(kafka_engine, document, tmp_path / "run")
    assert sorted(row["n"] for row in values(broker, odd)) == [*range(1, 35, 2), 99]
    assert len(take(broker, counts)) == 9
    assert outcome.streams(parse_network(document))["clicks->counts"]["late"] == 1


def test_a_topic_is_its_own_sample(kafka_engine: Engine, broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is calibrated without a sample sees the first rows of its topic, and no more of them than it needs."""
    topic, kafka = make_topic(broker, "clicks", 2), Connection.of(kafka_engine.cluster.spark)
    put(broker, topic, clicks(0, 25))
    assert kafka is not None
    monkeypatch.setattr(samples, "LONGEST", 20)
    document = network(topic)
    document["sources"]["clicks"]["options"]["startingOffsets"] = "latest"
    (rows,) = samples.read_samples(
        kafka_engine.sessions["h1"], parse_network(document), None, kafka=kafka.spark
    ).values()
    found = [row.asDict() for row in rows.collect()]
    assert len({row["__id"] for row in found}) == len(found) == 20
    assert {row["n"] for row in found} < set(range(25))


def test_a_batch_of_large_messages_has_fewer(
    kafka_engine: Engine, broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the user sets a limit, a batch has as many messages as have room, by the size of those that are there."""
    monkeypatch.setattr(room, "ROOM", 100_000)
    topic, odd, empty = make_topic(broker, "clicks"), make_topic(broker, "odd"), make_topic(broker, "empty")
    put(broker, topic, [{"user": "x" * 9980, "n": n} for n in range(35)])
    document = network(topic, raw={"input": "odd", "format": "kafka", "options": {"topic": odd}})
    del document["operators"]["counts"]
    run(kafka_engine, document, tmp_path / "run")
    assert len(take(broker, odd)) == 17
    made = kafka_engine.prepare(parse_network(document), {"odd": "h1"}, tmp_path / "run")
    assert made.fitting == {"clicks": 9}
    assert begun_and_ended(made.place / "checkpoints" / made.fragments[0].name)[1] == 3
    for change in ({"maxoffsetspertrigger": "7"}, {"subscribe": empty}, {"subscribe": f"{odd},{empty}"}):
        document["sources"]["clicks"]["options"] = {"subscribe": topic, "startingOffsets": "latest", **change}
        monkeypatch.setattr(room, "ROOM", 10**12)
        found = kafka_engine.prepare(parse_network(document), {"odd": "h1"}, tmp_path / "other").fitting
        assert found == ({"clicks": 1_000_000} if "," in change.get("subscribe", "") else {})


def test_only_what_is_missing_is_sent_again(kafka_engine: Engine, broker: Any, tmp_path: Path) -> None:
    """Of a batch that was cut off, a topic gets the messages that it has not, and a replay of all adds none."""
    topic, odd = make_topic(broker, "clicks"), make_topic(broker, "odd")
    put(broker, topic, [*clicks(0, 30), *clicks(0, 30)])
    document = network(topic, raw={"input": "odd", "format": "kafka", "options": {"topic": odd}})
    del document["operators"]["counts"]
    folder = tmp_path / "run"
    run(kafka_engine, document, folder)
    before = take(broker, odd)
    assert len(before) == 30
    for gone, there in ((10, 10 + 30 - 10), (0, 30)):
        if gone:
            forget(broker, odd, gone)
        place = kafka_engine.prepare(parse_network(document), {"odd": "h1"}, folder)
        query = place.fragments[0].name
        ended = begun_and_ended(place.place / "checkpoints" / query)[1]
        manifest_of(place.place, query, ended).remove()
        forget_commit(place.place / "checkpoints" / query, ended)
        run(kafka_engine, document, folder)
        after = take(broker, odd)
        assert len(after) == there
        assert sorted(json.loads(m.value())["n"] for m in after) == sorted(n for n in range(30) if n % 2 for _ in "ab")
        assert {dict(m.headers())[HEADER] for m in after} == {dict(m.headers())[HEADER] for m in before}


def test_event_time_is_any_sql(kafka_engine: Engine, broker: Any, tmp_path: Path) -> None:
    """Without a schema rows are Kafka's own columns, and the event time is computed from the value."""
    topic = make_topic(broker, "plain")
    put(broker, topic, clicks(0, 12))
    document = {
        "name": "plain",
        "sources": {
            "lines": {
                "format": "kafka",
                "time": "from_json(CAST(value AS STRING), 'at timestamp').at",
                "options": {"subscribe": topic},
            }
        },
        "operators": {"counts": {"kind": "aggregate", "input": "lines", "by": "topic", "window": 10}},
        "sinks": {"out": {"input": "counts"}},
    }
    outcome = run(kafka_engine, document, tmp_path / "run")
    assert outcome.streams(parse_network(document))["lines->counts"]["arrived"] == 12
    assert outcome.streams(parse_network(document))["counts->out"]["delivered"] == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sinks": {"out": {"input": "odd", "format": "kafka", "options": {}}}}, "needs a topic"),
        ({"sinks": {"out": {"input": "odd", "format": "kafka", "options": {"topic": "x", "value": "n"}}}}, "as value"),
        ({"sinks": {"out": {"input": "odd", "format": "kafka", "options": {"topic": "x", "key": "nope"}}}}, "nope"),
        (
            {"sinks": {"out": {"input": "odd", "format": "kafka", "options": {"topic": "x", "value": "explode(n)"}}}},
            "map",
        ),
        (
            {"sinks": {"out": {"input": "odd", "format": "kafka", "options": {"topic": "x", "key": "1) AS b, (2"}}}},
            "mend the SQL",
        ),
        ({"time": "when"}, "or SQL"),
        ({"schema": None, "options": {"subscribe": "x", "include": "key"}}, "options.include: .* without a schema"),
        ({"schema": None, "options": {"subscribe": "x", "json.mode": "FAILFAST"}}, "options.json.mode"),
        ({"options": {"subscribe": "x", "include": "colour"}}, "include"),
        ({"options": {"subscribe": "x", "payload": "xml"}}, "payload"),
        ({"options": {"subscribe": "x", "skip": "five"}}, "number of bytes"),
        ({"options": {"subscribe": "x", "csv.sep": ";"}}, "payload is json"),
        ({"options": {"subscribe": "x", "payload": "avro"}, "schema": "no.avsc"}, "no.avsc: no such file"),
        ({"options": {"subscribe": "x", "payload": "avro"}, "schema": "{user string}"}, "Avro schema as JSON"),
        ({"options": {"subscribe": "x", "payload": "avro"}, "schema": '{"type": "odd"}'}, "parse Avro"),
    ],
)
def test_what_makes_no_message_is_refused(
    kafka_engine: Engine, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    """A topic, key, value, time or payload that cannot be is refused before anything starts, with its place."""
    document = network("x", out={"input": "odd"})
    document["sinks"] = change.pop("sinks", document["sinks"])
    document["sources"]["clicks"] |= change
    document["sources"]["clicks"] = {key: value for key, value in document["sources"]["clicks"].items() if value}
    with pytest.raises(InputError, match=said):
        kafka_engine.prepare(parse_network(document), {"odd": "h1", "counts": "h1"}, tmp_path)


def test_parts_of_a_message() -> None:
    """Columns called as Kafka's parts are these where the value is told; else the whole row is the value."""
    assert message({"topic": "t"}, ("a", "b c")) == ["to_json(struct(`a`, `b c`)) AS value", "'t' AS topic"]
    assert message({}, ("value", "key", "topic", "headers", "a")) == ["value", "key", "topic", "headers"]
    whole = "to_json(struct(`key`, `headers`)) AS value"
    assert message({"topic": "t"}, ("key", "headers")) == [whole, "'t' AS topic"]
    names = ("n", "key", "partition", "headers")
    assert message({"topic": "t", "value": "n"}, names) == ["n AS value", "key", "'t' AS topic", "partition", "headers"]
    assert message({"topic": "t'", "key": "a", "value": "b"}, ("a", "b")) == [
        "b AS value",
        "a AS key",
        "'t\\'' AS topic",
    ]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"bootstap": "x"}, "bootstap"),
        ({"security.protocol": "SSL"}, "bootstrap"),
        ({"bootstrap": "x", "username_env": "A"}, "both"),
        ({"bootstrap": "x", "username_env": "A", "password_env": "NOT_SET"}, "NOT_SET"),
        ({"bootstrap": "x", "partitions": "0"}, "partitions"),
        ({"bootstrap": "x", "username_env": "A", "password_env": "A", "sasl.mechanism": "GSSAPI"}, "GSSAPI"),
    ],
)
def test_connections_are_checked(table: dict[str, str], said: str) -> None:
    """What is wrong with a connection is told with its key."""
    with pytest.raises(InputError, match=said):
        Connection.of(SparkSettings(kafka=table), {"A": "a"})


def test_a_connection_speaks_to_both_clients() -> None:
    """Both clients get the same address and log-in, quoted as each wants it, and none shows the password."""
    table = {"bootstrap": "b:9092", "username_env": "U", "password_env": "P", "ca": "/ca.pem", "client.id": "me"}
    table |= {"kafka.max.request.size": "9"}
    found = Connection.of(SparkSettings(kafka=table), {"U": "u", "P": 'p"\\'})
    assert found is not None
    assert found.spark["kafka.bootstrap.servers"] == found.native["bootstrap.servers"] == "b:9092"
    assert found.spark["kafka.sasl.jaas.config"].endswith('username="u" password="p\\"\\\\";')
    assert found.spark["kafka.security.protocol"] == found.native["security.protocol"] == "SASL_SSL"
    assert found.spark["kafka.ssl.truststore.location"] == found.native["ssl.ca.location"] == "/ca.pem"
    assert found.native["client.id"] == "me"
    assert found.spark["kafka.max.request.size"] == found.native["message.max.bytes"] == "9"
    assert 'p"' not in repr(found)
    assert Connection.of(SparkSettings()) is None


def test_payloads_are_parsed_as_the_options_say(kafka_engine: Engine, broker: Any, tmp_path: Path) -> None:
    """Options for the parser reach it: text with separators is taken apart, and what must be right stops the run.

    That also holds where nobody uses it. Fields may be called as Kafka's own columns are.
    """
    lines, out = make_topic(broker, "lines"), make_topic(broker, "out")
    put(broker, lines, ["1;a", "2;b"])
    options = {"subscribe": lines, "payload": "csv", "csv.sep": ";"}
    document = {
        "name": "lines",
        "sources": {"lines": {"format": "kafka", "schema": "Offset int, VALUE string", "options": options}},
        "operators": {"all": {"kind": "map", "input": "lines", "select": "Offset AS n, VALUE AS s"}},
        "sinks": {"out": {"input": "all", "format": "kafka", "options": {"topic": out}}},
    }
    run(kafka_engine, document, tmp_path / "csv")
    assert values(broker, out) == [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]
    document["sources"]["lines"]["options"] = {"subscribe": lines, "json.mode": "FAILFAST"}
    document["operators"]["all"]["select"] = "'x' AS s"
    with pytest.raises(EngineError, match="FAILFAST"):
        run(kafka_engine, document, tmp_path / "json")


@pytest.mark.slow
def test_what_comes_while_a_batch_lasts_is_seen(kafka_engine: Engine, broker: Any, tmp_path: Path) -> None:
    """A look asks the topics: messages that come while a long batch runs have entered, and wait since they came."""
    topic = make_topic(broker, "long")
    made = parse_network(
        {
            "name": "long",
            "sources": {"rows": {"format": "kafka", "schema": "n int", "options": {"subscribe": topic}}},
            "operators": {"slow": {"kind": "delay", "input": "rows", "cost": 0.02, "burn": "sleep"}},
            "sinks": {"out": {"input": "slow"}},
        }
    )
    running = SparkEngine(kafka_engine, kafka_engine.prepare(made, {"slow": "h1"}, tmp_path / "run", live=True))
    try:
        seen, entered = running.observe(), 0
        while not entered or seen.waiting is None or seen.waiting[0]:
            put(broker, topic, [{"n": 0}])
            running.wait(running.now + 1.0)
            seen = running.observe()
            entered += int(seen.entered[0])
        entered = 0
        put(broker, topic, [{"n": n} for n in range(250)])
        running.wait(running.now + 3.0)
        put(broker, topic, [{"n": n} for n in range(40)])
        put_at = running.now
        running.wait(put_at + 1.0)
        seen = running.observe()
        # The last of the single messages may be served only now.
        assert int(seen.served[0]) <= 2, "the batch has ended already"
        assert seen.entered[0] == pytest.approx(290, abs=5)
        assert seen.waiting is not None
        assert seen.waiting[0] == 290
        assert seen.behind is not None
        assert 3.0 <= seen.behind[0] <= 6.0
        assert "slow" in seen.undecided
    finally:
        running.close()


def avro(*parts: str | int) -> bytes:
    """Return a record of texts and small numbers in Avro's binary encoding."""
    return b"".join(bytes([2 * p]) if isinstance(p, int) else bytes([2 * len(p)]) + p.encode() for p in parts)


def test_avro_is_read_and_written(kafka_engine: Engine, broker: Any, tmp_path: Path) -> None:
    """Avro behind a registry's header becomes rows with event times, nulls where it is none, and rows become Avro."""
    texts, out, windows = (make_topic(broker, name) for name in ("avro", "out", "windows"))
    header = b"\x00\x00\x00\x00\x07"
    put(broker, texts, [*(header + avro(f"u{n}", n) for n in range(3)), b"?"])
    fields = [{"name": "user", "type": "string"}, {"name": "n", "type": "int"}]
    (tmp_path / "click.avsc").write_text(json.dumps({"type": "record", "name": "click", "fields": fields}))
    document = network(
        texts,
        out={"input": "odd", "format": "kafka", "options": {"topic": out, "value": "to_avro(struct(user, n))"}},
        windows={"input": "counts", "format": "kafka", "options": {"topic": windows, "key": "user"}},
    )
    document["sources"]["clicks"] |= {
        "schema": str(tmp_path / "click.avsc"),
        "time": "timestamp_seconds(1772366400 + n * 12)",
        "options": {"subscribe": texts, "payload": "avro", "skip": "5"},
    }
    document["operators"]["odd"]["where"] = "n % 2 = 1 OR n IS NULL"
    run(kafka_engine, document, tmp_path / "run")
    # Columns of rows may be null: each value has a byte that says which.
    assert [message.value() for message in take(broker, out)] == [b"\x00\x04u1\x00\x02", b"\x02\x02"]
    assert {message.key() for message in take(broker, windows)} == {b"u0", b"u1"}
    document["sources"]["clicks"]["options"]["avro.mode"] = "FAILFAST"
    with pytest.raises(EngineError, match=r"FAILFAST|[Mm]alformed"):
        run(kafka_engine, document, tmp_path / "strict")
