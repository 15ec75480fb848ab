"""Nothing lost, nothing twice, from topic to topic through topics: runs whose hosts or broker are killed.

``PENSTOCK_KILLS=20`` kills twenty times of each kind instead of three.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from confluent_kafka import Producer
from kafka_kit import client, make_topic, take
from test_kills import javas, related

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("PENSTOCK_KILLS", "3"))
RATE, WINDOW, USERS = 100, 4, 5
BEGIN = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)

NETWORK = """
name = "killed"
[sources.clicks]
format = "kafka"
schema = "n int, user string, at timestamp"
options = {{ subscribe = "{clicks}" }}
time = "at"
lateness = "1 second"
[operators.odd]
kind = "filter"
input = "clicks"
where = "n % 2 = 1"
[operators.totals]
kind = "aggregate"
input = "odd"
by = "user"
window = "4 seconds"
select = "count(*) AS count, sum(n) AS total"
[sinks.raw]
input = "odd"
format = "kafka"
options = {{ topic = "{raw}" }}
[sinks.out]
input = "totals"
format = "kafka"
options = {{ topic = "{totals}", key = "user" }}
"""

CLUSTER = """
[hosts.h1]
cores = 2
[hosts.h2]
[spark]
trigger = "300 ms"
hop = "kafka"
jars = ["{jars}"]
[spark.kafka]
bootstrap = "{bootstrap}"
username_env = "KAFKA_USER"
password_env = "KAFKA_PASSWORD"
"security.protocol" = "SASL_PLAINTEXT"
partitions = 2
"""


class Feeder(threading.Thread):
    """Puts numbered clicks into a topic, some of them a little late, until it is told to end."""

    def __init__(self, broker: Any, topic: str) -> None:
        super().__init__(daemon=True)
        self.topic, self.count, self.ended = topic, 0, threading.Event()
        self._producer = Producer(client(broker, **{"enable.idempotence": True, "message.timeout.ms": 300_000}))

    def run(self) -> None:
        """Feed."""
        begin = time.monotonic()
        while not self.ended.wait(0.02):
            while self.count < (time.monotonic() - begin) * RATE:
                click = {"n": self.count, "user": f"u{self.count % USERS}", "at": at(self.count).isoformat()}
                self._producer.produce(self.topic, json.dumps(click).encode())
                self.count += 1
            self._producer.poll(0)

    def end(self) -> None:
        """Stop, when the broker has everything."""
        self.ended.set()
        self.join()
        assert self._producer.flush(120) == 0


def at(number: int) -> datetime.datetime:
    """Return a click's event time: up to half a second earlier than its turn."""
    return BEGIN + datetime.timedelta(seconds=number / RATE - (number * 7919 % 50) / 100)


def expected(count: int) -> tuple[Counter[int], dict[tuple[str, int], tuple[int, int]]]:
    """Return the odd numbers, and count and total of each user and window that has closed."""
    odd = [n for n in range(count) if n % 2 == 1]
    frontier = max(at(n) for n in range(count)) - datetime.timedelta(seconds=1)
    totals: dict[tuple[str, int], tuple[int, int]] = {}
    for n in odd:
        window = int((at(n) - BEGIN).total_seconds() // WINDOW) * WINDOW
        if BEGIN + datetime.timedelta(seconds=window + WINDOW) <= frontier:
            key = f"u{n % USERS}", window
            rows, total = totals.get(key, (0, 0))
            totals[key] = rows + 1, total + n
    return Counter(odd), totals


def start(here: Path, *words: str) -> subprocess.Popen[str]:
    """Start ``penstock run`` in a folder, with a folder of its own for what is temporary."""
    (here / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [
            sys.executable, "-m", "penstock.cli.app", "run", "network.toml", "--cluster", "cluster.toml", "--placement",
            "odd=h1,totals=h2", *words, "--directory", "run", "--json",
        ],
        cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(here / "tmp")},
    )  # fmt: skip


def batches(here: Path) -> int:
    """Return how many batches the run has committed."""
    return sum(len(list(folder.iterdir())) for folder in here.glob("run/batches/*"))


def interrupt(here: Path, broker: Any, what: str, rng: np.random.Generator) -> None:
    """Start a run, let it do some batches, kill something; let go on what goes on, and end."""
    before = batches(here)
    penstock = start(here, "--for", "3600")
    deadline = time.monotonic() + 240
    while penstock.poll() is None and batches(here) < before + 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(float(rng.uniform(0.0, 3.0)))
    assert penstock.poll() is None, penstock.communicate()[1]
    if what == "broker":
        broker.kill()
        time.sleep(float(rng.uniform(0.0, 4.0)))
        broker.start(120)
        time.sleep(float(rng.uniform(0.0, 4.0)))
        penstock.send_signal(signal.SIGINT)
    elif what == "penstock":
        penstock.kill()
    else:
        os.kill(javas(here)[int(rng.integers(2))].pid, signal.SIGKILL)
    penstock.communicate(timeout=180)
    deadline = time.monotonic() + 60
    while related(here) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert [process.cmdline() for process in related(here)] == []


@pytest.fixture
def own_broker(scripts: Any, broker: Any, tmp_path: Path) -> Any:
    """A broker that may be killed."""
    with pytest.MonkeyPatch.context() as patch, scripts.Broker(tmp_path / "kafka") as mine:
        for name in ("KAFKA_USER", "KAFKA_PASSWORD"):
            patch.setenv(name, mine.known[name])
        yield mine


@pytest.mark.parametrize("kind", ["hosts", "broker"])
def test_each_message_once_whatever_is_killed(kind: str, own_broker: Any, scripts: Any, tmp_path: Path) -> None:
    """After kills at random moments every message is in the output topics, once, and every window is right."""
    here = tmp_path / "here"
    here.mkdir()
    topics = {name: make_topic(own_broker, name, 2) for name in ("clicks", "raw", "totals")}
    (here / "network.toml").write_text(NETWORK.format(**topics))
    jars, bootstrap = scripts.connector(), own_broker.known["KAFKA_BOOTSTRAP"]
    (here / "cluster.toml").write_text(CLUSTER.format(jars=jars, bootstrap=bootstrap))
    rng = np.random.default_rng(1 if kind == "hosts" else 2)
    feeder = Feeder(own_broker, topics["clicks"])
    feeder.start()
    try:
        for _ in range(KILLS):
            what = kind if kind == "broker" else str(rng.choice(["penstock", "host"]))
            interrupt(here, own_broker, what, rng)
        feeder.end()
        last = start(here, "--once")
        out, err = last.communicate(timeout=600)
    finally:
        feeder.ended.set()
        for process in related(here):
            with_pid = psutil.Process(process.pid)
            with_pid.kill()
    assert last.returncode == 0, err
    report = json.loads(out)
    assert report["balanced"]
    odd, totals = expected(feeder.count)
    assert Counter(json.loads(m.value())["n"] for m in take(own_broker, topics["raw"])) == odd
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for message in take(own_broker, topics["totals"]):
        row = json.loads(message.value())
        window = datetime.datetime.fromisoformat(row["window_start"]) - BEGIN
        key = row["user"], round(window.total_seconds())
        assert key not in found
        found[key] = row["count"], row["total"]
    assert found == totals
    assert report["streams"]["odd->totals"]["late"] == 0
