"""The user's topics: those that are not there are named before a run begins, and what is gone from them is counted."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka_kit import forget, make_topic, put, settings

from penstock.cluster import SparkSettings
from penstock.errors import InputError
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.connection import Connection
from penstock.spark.run import Engine, gaps, outside
from penstock.spark.run.gaps import gone_from
from penstock.spark.run.outside import blamed, check_topics
from penstock.spark.shipped.place import place_of

KAFKA = Connection({"bootstrap.servers": "broker:9092"})


def network(*, sink: str = "out", **options: str) -> Network:
    """Return a network from topics to a topic."""
    source = {"format": "kafka", "schema": "n int", "options": {"subscribe": "clicks, views", **options}}
    return parse_network(
        {
            "name": "topics",
            "sources": {"a": {**source, "options": {key: value for key, value in source["options"].items() if value}}},
            "operators": {"odd": {"kind": "filter", "input": "a", "where": "n % 2 = 1"}},
            "sinks": {"o": {"input": "odd", "format": "kafka", "options": {"topic": sink}}},
        }
    )


class Brokers:
    """Stand in for brokers: the topics that they have, what else they answer, and whether they make what is written."""

    def __init__(self, *there: str, makes: bool = False, away: bool = False, **answers: int) -> None:
        self.there, self.makes, self.away, self.answers = set(there), makes, away, answers
        self.asked: list[str] = []

    def client(self, *, writes: bool) -> Any:
        """Return a client's class."""
        return lambda _: SimpleNamespace(list_topics=lambda *a, **_: self.list(writes, *a), close=lambda: None)

    def list(self, writes: bool, *names: str) -> Any:
        """Return one topic, or all; one that is made is there when it is asked for again."""
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.asked += names
        codes = {name: self.answers.get(name, KafkaError.UNKNOWN_TOPIC_OR_PART) for name in names}
        found = {name: None if name in self.there else KafkaError(codes[name]) for name in names or sorted(self.there)}
        self.there |= {*names} if writes and self.makes else set()
        return SimpleNamespace(topics={name: SimpleNamespace(error=error) for name, error in found.items()})


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let brokers be asked."""

    def stand_in(*there: str, **how: Any) -> Brokers:
        found = Brokers(*there, **how)
        monkeypatch.setattr(confluent_kafka, "Consumer", found.client(writes=False))
        monkeypatch.setattr(confluent_kafka, "Producer", found.client(writes=True))
        monkeypatch.setattr(outside, "MADE", 0.3)
        return found

    return stand_in


@pytest.mark.parametrize(
    ("there", "at", "said"),
    [
        (("clicks", "view", "out"), "sources.a.options.subscribe", "no topic 'views' .* did you mean 'view'"),
        (("penstock-1", "__offsets"), "sources.a.options.subscribe", "no topic 'clicks' .* there are no topics"),
        (("clicks", "views", "x"), "sinks.o.options.topic", "no topic 'out' .make it first; topics: clicks, views, x"),
    ],
)
def test_a_topic_that_is_not_there_is_named(brokers: Any, there: tuple[str, ...], at: str, said: str) -> None:
    """Which topic it is, where it is named, and which ones there are."""
    brokers(*there)
    with pytest.raises(InputError, match=said) as caught:
        check_topics(network(), KAFKA)
    assert caught.value.at == at


def test_settings_that_the_client_refuses_are_told() -> None:
    """What librdkafka does not take ends a run before it begins, with its own words, and not in silence."""
    kafka = Connection.of(SparkSettings(kafka={"bootstrap": "127.0.0.1:1", "ssl.protocol": "TLS"}))
    with pytest.raises(InputError, match=r'spark.kafka: .* No such configuration property: "ssl.protocol"'):
        check_topics(network(), kafka)


def test_brokers_make_what_is_written_and_nothing_that_is_only_read(brokers: Any) -> None:
    """Where brokers make topics by themselves a sink needs none, nor a source of what the sink writes."""
    brokers("clicks", "views", makes=True)
    check_topics(network(), KAFKA)
    brokers("clicks", "views", makes=True)
    check_topics(network(subscribe="clicks, new", sink="new"), KAFKA)
    brokers("clicks", makes=True)
    with pytest.raises(InputError, match="no topic 'views'"):
        check_topics(network(), KAFKA)


def test_what_brokers_do_not_say_refuses_nothing(brokers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are away or do not let us ask, and no client here: then Spark tells."""
    brokers(away=True)
    check_topics(network(), KAFKA)
    brokers("clicks", "out", views=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    check_topics(network(), KAFKA)
    found = brokers()
    monkeypatch.setattr(outside, "can_ask", lambda: False)
    check_topics(network(), KAFKA)
    assert found.asked == []


@pytest.mark.parametrize(
    "options",
    [
        {"kafka.bootstrap.servers": "elsewhere:9092"},
        {"subscribe": "", "subscribePattern": "click.*"},
        {"subscribe": "", "assign": '{"clicks": [0]}'},
    ],
)
def test_only_topics_that_are_named_and_on_the_clusters_brokers_are_asked_for(brokers: Any, options: Any) -> None:
    """What a source reads of other brokers, by a pattern or by partitions, these brokers are not asked for."""
    found = brokers("out")
    check_topics(network(**options), KAFKA)
    assert found.asked == ["out"]


def test_spark_is_helped_to_name_a_topic() -> None:
    """Spark's own message of a topic that is not there gets the topics that the query reads; others do not."""
    query: Any = SimpleNamespace(topics={"a": "clicks, views", "b": "x.*"})
    said = "(STREAM_FAILED) org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host"
    assert blamed(query, said) == f"{said} (topics read: a: clicks, views; b: x.*)"
    assert blamed(query, "disk full") == "disk full"


def test_what_is_gone_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of queries that read a topic, the one that is furthest behind says what is gone, where the source allows for it.

    Partitions count together; those that were added meanwhile are read from their beginning.
    """

    class Topic:
        """Stands in for a topic whose first messages are gone."""

        def __init__(self, _client: Any, topic: str, _label: str) -> None:
            assert topic == "clicks"

        def __enter__(self) -> Topic:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def begins(self) -> dict[int, int]:
            """Return where each partition begins."""
            return {0: 30, 1: 7, 2: 5}

    monkeypatch.setattr(gaps, "RowTopic", Topic)
    queries: Any = []
    for name, offsets in (("x", {"0": 20, "1": 7}), ("y", {"0": 25, "1": 4}), ("fresh", None)):
        place = place_of(str(tmp_path / name))
        spec = SimpleNamespace(checkpoint=place, origins=[SimpleNamespace(name="a"), SimpleNamespace(name="gone")])
        if offsets is not None:
            (place / "offsets" / "0").replace(f"v1\n{{}}\n{json.dumps({'clicks': offsets})}".encode())
            (place / "commits" / "0").replace(b"v1\n{}")
        queries.append(SimpleNamespace(spec=spec))
    for told, want in (("false", {"clicks": 10 + 3}), ("true", {})):
        made = network(subscribe="clicks", failOnDataLoss=told)
        deployment: Any = SimpleNamespace(kafka=KAFKA, client={}, network=made)
        assert gone_from(deployment, queries) == want


@pytest.mark.kafka
def test_a_broker_tells_what_it_has(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that are there are taken, and each that is not is refused."""
    for name in ("KAFKA_USER", "KAFKA_PASSWORD"):
        monkeypatch.setenv(name, broker.known[name])
    kafka = Connection.of(SparkSettings(kafka=settings(broker)))
    clicks, out = make_topic(broker, "clicks"), make_topic(broker, "out")
    check_topics(network(subscribe=clicks, sink=out), kafka)
    with pytest.raises(InputError, match=f"no topic 'x{clicks}' .* did you mean '{clicks}'"):
        check_topics(network(subscribe=f"x{clicks}", sink=out), kafka)
    with pytest.raises(InputError, match=f"no topic '{out}x'"):
        check_topics(network(subscribe=clicks, sink=f"{out}x"), kafka)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_run_tells_of_what_is_gone(kafka_engine: Engine, broker: Any, tmp_path: Path) -> None:
    """Also in micro-batches: a topic that is not there leaves no folder, and a run that goes on counts what is gone."""
    clicks, out = make_topic(broker, "clicks"), make_topic(broker, "out")
    with pytest.raises(InputError, match="there is no topic 'no-such-topic'"):
        kafka_engine.prepare(network(subscribe="no-such-topic", sink=out), {"odd": "h1"}, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    made = network(subscribe=clicks, sink=out, failOnDataLoss="false")
    for first, gone in ((0, {}), (20, {clicks: 10})):
        put(broker, clicks, [{"n": n} for n in range(first, first + 20)])
        if gone:
            forget(broker, clicks, 30)
        outcome = kafka_engine.run_once(kafka_engine.prepare(made, {"odd": "h1"}, tmp_path / "run"))
        assert outcome.gone == gone
        assert outcome.balanced(made)
