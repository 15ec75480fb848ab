"""The broker that `make kafka` starts: on loopback, with a password, ended by its own pid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka_kit import client

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def admin(broker: Any, **more: str) -> AdminClient:
    """Return a client with the broker's password, or with another one."""
    return AdminClient(client(broker, **more))


def test_the_broker_asks_for_its_password(broker: Any) -> None:
    """Who knows the password that was made gets in, who does not gets nothing, and only the owner can read it."""
    assert admin(broker).list_topics(timeout=20).brokers
    with pytest.raises(KafkaException):
        admin(broker, **{"sasl.password": "guess"}).list_topics(timeout=2)
    for name in ("client.env", "server.properties"):
        assert (broker.folder / name).stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_stopped_broker_is_gone_and_starts_again(broker: Any, scripts: Any, tmp_path: Path) -> None:
    """A second object over the folder finds the broker and ends it; what is started next has the same address."""
    first = scripts.Broker(tmp_path / "run").start()
    known, pid = first.known, first.pid
    other = scripts.Broker(tmp_path / "run")
    try:
        assert other.pid == pid
        assert other.start().pid == pid
    finally:
        first.kill()
    assert other.pid is None
    assert not (tmp_path / "run/broker.pid").exists()
    with other:
        assert other.known == known
        assert admin(other).list_topics(timeout=20).brokers
    assert other.pid is None
