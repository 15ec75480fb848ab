"""Puts clicks into the topic `clicks`, and shows what the network has put into `page-views`."""

from __future__ import annotations

import datetime
import json
import os
import random
import sys
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CLIENT = {
    "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"],
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": os.environ["KAFKA_USER"],
    "sasl.password": os.environ["KAFKA_PASSWORD"],
    "log_level": 2,  # no word of connections that end
}
PAGES = ("home", "search", "basket", "help")


def feed(count: int = 3000) -> None:
    """Put a minute of clicks into the topic, the minute behind those that are there."""
    admin = AdminClient(CLIENT)
    there = admin.list_topics(timeout=30).topics
    missing = [NewTopic(name, 2, 1) for name in ("clicks", "page-views") if name not in there]
    for future in admin.create_topics(missing).values() if missing else ():
        future.result(30)
    consumer = Consumer({**CLIENT, "group.id": "feed"})
    places = [TopicPartition("clicks", number) for number in (0, 1) if "clicks" in there]
    before = sum(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
    consumer.close()
    begin = datetime.datetime(2026, 3, 1, 12, before // count, tzinfo=datetime.UTC)
    chance = random.Random(before)
    producer = Producer(CLIENT)
    for number in range(count):
        at = begin + datetime.timedelta(seconds=60 * number / count - chance.random())
        click = {
            "user": f"u{chance.randrange(50)}",
            "page": chance.choice(PAGES),
            "kind": chance.choice(("view", "view", "buy")),
            "at": at.isoformat(),
        }
        producer.produce("clicks", json.dumps(click), key=click["user"])
        producer.poll(0)
    producer.flush()


def show() -> None:
    """Print all counts, by window and page."""
    rows: list[dict[str, Any]] = []
    consumer = Consumer({**CLIENT, "group.id": "show", "enable.auto.commit": False})
    for number in consumer.list_topics("page-views", timeout=30).topics["page-views"].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition("page-views", number), timeout=30)
        consumer.assign([TopicPartition("page-views", number, low)])
        rows += [json.loads(consumer.poll(30).value()) for _ in range(high - low)]
    consumer.close()
    for row in sorted(rows, key=lambda row: (row["window_start"], row["page"])):
        print(row["window_start"][11:19], f"{row['page']:8}{row['views']:5} views by {row['users']:3} users")


if __name__ == "__main__":
    {"feed": feed, "show": show}[sys.argv[1]]()
