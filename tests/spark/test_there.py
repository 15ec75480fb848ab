"""What is known of rows that topics have already when a query in real-time mode begins or goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from confluent_kafka import Producer
from kafka_kit import client, make_topic

from penstock.network.file import parse_network
from penstock.spark.compile import Deployment
from penstock.spark.compile.real_time import Messages, PromptQuery
from penstock.spark.hop.rows import Row, RowTopic, held
from penstock.spark.left import claimed
from penstock.spark.run import Engine
from penstock.spark.run import between as between_module
from penstock.spark.run import prompt as prompt_module
from penstock.spark.run.between import KEPT, SLACK, clean_topics
from penstock.spark.run.folder import claim, note
from penstock.spark.run.prompt import PromptRunner
from penstock.spark.shipped import LANE, POSITION
from penstock.spark.shipped.place import place_of
from penstock.spark.shipped.told import manifest_of

LANES, FIRST, COUNT = (-(1 << 63), 7), (1 << 40) + 5, 150_000


@pytest.mark.spark
@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", [1.0, 0.01], ids=["dense", "sparse"])
def test_rows_that_are_there_are_left_out_however_many(engine: Engine, part: float) -> None:
    """A partition of the topic has no row yet, so that each row of the others is asked for by itself."""
    rng = np.random.default_rng(1)
    there = {lane: {FIRST + int(at) for at in np.flatnonzero(rng.random(COUNT) < 0.9 * part)} for lane in LANES}
    rows = (Row(lane % 2, 0, lane, at, 0, 0) for lane in LANES for at in sorted(there[lane]))
    found = held(rows, 3)
    places = engine.sessions["h1"].range(2 * (COUNT + 10)).selectExpr(
        f"CAST({FIRST} + id DIV 2 AS BIGINT) AS {POSITION}",
        f"IF(id % 2 = 0, CAST('{LANES[0]}' AS BIGINT), {LANES[1]}L) AS {LANE}",
    )  # fmt: skip
    mark = f"CAST(concat({LANE}, ' ', {POSITION}) AS STRING) AS key"
    frame = places.selectExpr("*", mark, "'t' AS topic", "'' AS value", "'' AS headers", "0 AS partition", "0 AS _way")
    messages = Messages((), frame, {}, {}).missing([found])
    want = {f"{lane} {at}" for lane in LANES for at in range(FIRST, FIRST + COUNT + 10) if at not in there[lane]}
    assert {*messages.select("key").toArrow()["key"].to_pylist()} == want


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_a_topic_may_end_in_what_is_no_message(broker: Any) -> None:
    """Marks of others' transactions, also of those under way, neither end a look at a topic nor hide rows from it."""
    topic = make_topic(broker, "shared")
    others = Producer(client(broker, **{"transactional.id": topic}))
    mine = Producer(client(broker))

    def put(position: int) -> None:
        mine.produce(topic, b"{}", headers=[("penstock", f"run-out:1:{position}:0".encode())])
        assert mine.flush(30) == 0

    others.init_transactions(30)
    others.begin_transaction()
    others.produce(topic, b"theirs")
    others.commit_transaction(30)
    with RowTopic(client(broker), topic, "run-out") as rows:
        assert [*rows.rows({0: 0})] == []
        others.begin_transaction()
        others.produce(topic, b"theirs")
        assert others.flush(30) == 0
        put(0)
        assert [row.position for row in rows.rows({0: 0})] == [0]
        others.abort_transaction(30)
        assert [row.position for row in rows.rows({0: 0})] == [0]


def test_rows_stay_until_their_writer_has_noted_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows between queries those stay that the writer may ask for when it goes on, however old they are."""
    removed: list[int] = []

    class Topic:
        """Has a row a second since 1970, all in one partition."""

        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> Topic:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def since(self, moment: int) -> dict[int, int]:
            return {0: moment // 1000}

    class Admin:
        """Keeps up to where rows are removed."""

        def __init__(self, _: object) -> None:
            pass

        def delete_records(self, ends: list[Any]) -> dict[str, Any]:
            removed.extend(each.offset for each in ends)
            return {}

    monkeypatch.setattr(between_module, "RowTopic", Topic)
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", Admin)
    monkeypatch.setattr("time.time", lambda: 9000.0)
    place = place_of(str(tmp_path))

    def query(name: str, **parts: Any) -> Any:
        spec = SimpleNamespace(folder=place, checkpoint=place / "checkpoints" / name, query=name)
        fragment: Any = SimpleNamespace(name=name)
        return PromptQuery(fragment=fragment, frame=None, live=(), spec=spec, **parts)  # type: ignore[arg-type]

    way = SimpleNamespace(name="all", topic="rows", label="run-all", sink=False)
    queries = [
        query("all", reads=(), messages=SimpleNamespace(ways=[way])),
        query("next", reads=("all",), messages=SimpleNamespace(ways=[])),
    ]
    deployment: Any = SimpleNamespace(kafka=SimpleNamespace(native={}))

    def end(name: str, batch: int, at: int, *more: str) -> None:
        notes = "\n".join(["v1", json.dumps({"batchTimestampMs": 1000 * at}), *more])
        (place / "checkpoints" / name / "offsets" / str(batch)).publish(notes.encode())
        (place / "checkpoints" / name / "commits" / str(batch)).publish(b"v1\n{}")

    for batch in range(2):
        end("next", batch, 8990, '{"rows": {"0": 8950}}')
    clean_topics(deployment, queries)
    end("all", 0, 7000)
    manifest_of(place, "all", 0).publish(b"{}")
    end("all", 1, 8000)  # nobody has counted it yet
    clean_topics(deployment, queries)
    manifest_of(place, "all", 1).publish(b"{}")
    clean_topics(deployment, queries)
    end("all", 2, 8900)
    manifest_of(place, "all", 2).publish(b"{}")
    clean_topics(deployment, queries)
    assert removed == [7000 - SLACK // 1000, 8000 - SLACK // 1000, 9000 - int(KEPT)]


def test_topics_are_read_since_the_run_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user's topic had long before a run cannot be of the run; once a batch has ended, neither what was before.

    Of a folder that does not say when it was made, a topic may hold rows since ever.
    """
    asked: list[int] = []

    @attrs.frozen
    class Topic:
        """Keeps since when it is asked."""

        client: Any
        topic: str
        label: str
        partitions = 1

        def __enter__(self) -> Topic:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def since(self, moment: int) -> dict[int, int]:
            asked.append(moment)
            return {0: 0}

        def rows(self, _: Any) -> Iterator[Row]:
            return iter(())

    monkeypatch.setattr(prompt_module, "RowTopic", Topic)
    source = {"format": "kafka", "schema": "n int", "options": {"subscribe": "clicks"}}
    operators = {"all": {"kind": "map", "input": "clicks"}}
    made = parse_network({"name": "n", "sources": {"clicks": source}, "operators": operators, "sinks": {}})
    deployment = Deployment(made, {"all": "h1"}, str(tmp_path))
    monkeypatch.setattr("time.time", lambda: 5000.0)
    mine = claim(deployment)
    monkeypatch.setattr("time.time", lambda: 9000.0)
    note(deployment, mine)
    document = claimed(str(tmp_path))
    assert document is not None
    way = SimpleNamespace(topic="out", label="run-out", sink=True)
    spec = SimpleNamespace(folder=deployment.place, checkpoint=deployment.place / "checkpoints" / "all", query="all")
    query = SimpleNamespace(spec=spec, messages=SimpleNamespace(ways=[way]))
    runner: Any = SimpleNamespace(query=query, client={})
    assert PromptRunner.there(runner) == [{}]
    batch = json.dumps({"batchTimestampMs": 7_000_000})
    (spec.checkpoint / "offsets" / "0").publish(f"v1\n{batch}".encode())
    (spec.checkpoint / "commits" / "0").publish(b"v1\n{}")
    PromptRunner.there(runner)
    assert asked == [5_000_000 - SLACK, 7_000_000 - SLACK]
    (spec.checkpoint / "commits" / "0").remove()
    (tmp_path / "run.json").write_text(json.dumps({key: each for key, each in document.items() if key != "made"}))
    note(deployment, mine)
    PromptRunner.there(runner)
    assert asked[2:] == [0]
