"""Latency in real-time mode: one hop, and two hops over two hosts, at a given load.

Run: uv run python benchmarks/bench_real_time.py [--rate 500] [--load 0.5] [--seconds 60] [--out benchmarks/results]

A broker on loopback (`make kafka` fetches it), embedded hosts, and a feeder that puts numbered rows into a topic at
even times. Each host does a delay that takes ``load / rate`` seconds of its core a row. Latency is Kafka's timestamp of
the message that leaves less that of the message that came. Rows of the first third of the time do not count, in which
code is young, nor those of the last three seconds: an ordinary batch brings what comes while a query ends. With fewer
cores than hosts, broker and feeder need, say so: the figures are those of a shared machine.

``--overload 2`` measures shedding besides: one host, the rate first at its load, then at twice what its quota (`QUOTA`)
has room for, from a third of the time to two thirds; with a plan, by a controller that knows of no quota and measures
what the host can do, and without either.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.cluster import Cluster, Host, Placement, SparkSettings
from penstock.control.controller import Controller
from penstock.control.folder import Folder
from penstock.control.goals import Goals
from penstock.control.loop import Control
from penstock.control.policies import policies
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.running.job import Job, execute, finish
from penstock.shedding import Exact, Question, build_program, build_table
from penstock.shedding.live import Shed, Shedder
from penstock.spark.connection import Connection
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine, SparkEngine
from penstock.spark.run.moments import MOMENTS
from penstock.spark.run.outcome import Outcome, collect

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import kafka

LAST = 3.0
"""Seconds before the end whose rows do not count."""

QUOTA = 0.6
"""The part of a core that a plan may fill: Spark needs some for each row."""

BOUND, EVERY = 1.0, 0.25
"""The latency bound of a controller, and the time between its decisions (s)."""

KNOWN = 2.0
"""Seconds after which an overload is known: a control period, and until the fraction holds."""


def network(hops: int, topics: tuple[str, str], cost: float) -> Network:
    """Return a chain of delays, one for each hop."""
    names = [f"work{number}" for number in range(1, hops + 1)]
    before = ["rows", *names]
    return parse_network(
        {
            "name": f"hops{hops}",
            "sources": {"rows": {"format": "kafka", "schema": "n bigint", "options": {"subscribe": topics[0]}}},
            "operators": {
                name: {"kind": "delay", "input": given, "cost": cost}
                for name, given in zip(names, before, strict=False)
            },
            "sinks": {"out": {"input": names[-1], "format": "kafka", "options": {"topic": topics[1]}}},
        }
    )


class Feeder(threading.Thread):
    """Puts numbered rows into a topic at rates (rows/s) that hold from some time on (s).

    At even times, or as many as are due at a time after a ``pause`` (s), which takes less of a core.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        topic: str,
        rates: Mapping[float, float],
        key: str = "n",
        pause: float | None = None,
    ) -> None:
        super().__init__(daemon=True)
        self.topic, self.rates, self.key, self.ended, self.begun = topic, rates, key, threading.Event(), 0.0
        self._pause = 0.5 / max(rates.values()) if pause is None else pause
        self._producer = Producer({**client, "linger.ms": 0 if pause is None else 5})

    def due(self, now: float) -> float:
        """Return how many rows there are by a time (s)."""
        ends = [*list(self.rates)[1:], float("inf")]
        return sum(
            rate * max(0.0, min(now, end) - since) for (since, rate), end in zip(self.rates.items(), ends, strict=True)
        )

    def run(self) -> None:
        """Feed until it is told to end."""
        self.begun, begin, sent = time.time(), time.monotonic(), 0
        while not self.ended.is_set():
            while sent < self.due(time.monotonic() - begin):
                self._producer.produce(self.topic, json.dumps({self.key: sent}).encode())
                sent += 1
            self._producer.poll(0)
            time.sleep(self._pause)
        self._producer.flush(30)


def connected(broker: kafka.Broker, **more: Any) -> SparkSettings:
    """Return settings by which hosts reach a broker, with user and password in the environment."""
    os.environ |= {name: broker.known[name] for name in ("KAFKA_USER", "KAFKA_PASSWORD")}
    return SparkSettings(**{"kafka": broker.table, "jars": (kafka.connector(),), **more})


def topics_of(spark: SparkSettings) -> tuple[Mapping[str, str], tuple[str, str]]:
    """Make a topic to read and one to write; return them, and the settings of a client."""
    connection = Connection.of(spark)
    assert connection is not None
    stamp = f"{time.time_ns():x}"
    topics = f"in-{stamp}", f"out-{stamp}"
    admin = AdminClient({"log_level": "0", **connection.native})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
        future.result(60)
    return connection.native, topics


def fed(engine: Engine, job: Job, feeder: Feeder) -> Any:
    """Run a job, and feed it once it runs."""

    def tell(what: str, _share: float) -> None:
        if what == "running" and not feeder.is_alive() and not feeder.ended.is_set():
            feeder.start()

    try:
        return execute(engine, job, tell)
    finally:
        feeder.ended.set()


def controlled(
    engine: Engine, made: Network, placement: Placement, place: Path, feeder: Feeder, seconds: float
) -> Outcome:
    """Run a network under a controller that sheds, and feed it."""
    running = SparkEngine(engine, engine.prepare(made, placement, place, live=True))
    try:
        control = Control(policies=policies("shed"), goals=Goals(bound=BOUND), every=EVERY, act=True)
        feeder.start()
        until = running.now + seconds
        folder = Folder(str(place))
        with folder.held():
            Controller(engine=running, control=control, folder=folder, until=until).run()
        return collect(running.system.deployment, running.system.queries, seconds)
    finally:
        feeder.ended.set()
        running.close()


def shed(spark: SparkSettings, rate: float, load: float, overload: float, seconds: float) -> dict[str, Any]:
    """Return what a host delivers of an overload, and how late, with a plan and without."""
    cluster = Cluster.of([Host(name="h1", quota=QUOTA)], spark=spark)
    free = Cluster.of([Host(name="h1")], spark=spark)
    placement = Placement({"work1": "h1"})
    peak = overload * QUOTA * rate / load
    found: dict[str, Any] = {"rate": rate, "peak": peak, "quota": QUOTA}
    with tempfile.TemporaryDirectory() as folder, start_hosts(cluster) as hosts:
        engine = Engine(cluster, hosts)
        for word in ("with the plan", "controlled", "without"):
            client, topics = topics_of(spark)
            made = network(1, topics, load / rate)
            program = build_program(made, cluster, placement)
            table = build_table("exact", Question(Exact(program), np.array([1.2 * peak])))
            plan = Shedder.of(Shed(table=table), made, cluster, placement, None) if word == "with the plan" else None
            feeder = Feeder(client, topics[0], {0.0: rate, seconds / 3: peak, 2 * seconds / 3: rate})
            place = Path(folder) / word.replace(" ", "-")
            if word == "controlled":
                outcome = controlled(Engine(free, hosts), made, placement, place, feeder, seconds)
            else:
                outcome = fed(engine, Job(made, cluster, placement, place, seconds=seconds, shedder=plan), feeder)
            begin = feeder.begun + seconds / 3
            since = outcome.stimulus["out"] - begin
            during = (since >= KNOWN) & (since < seconds / 3)
            best = program.score(Exact(program).plan(np.array([peak]))) * (seconds / 3 - KNOWN)
            found[word] = {
                "of_the_optimum": round(float(during.sum()) / best, 4),
                "worst": round(float((outcome.visible["out"] - outcome.stimulus["out"])[during].max(initial=0.0)), 3),
                "balanced": outcome.balanced(made),
            }
            if word != "without":
                moments = json.loads((place / MOMENTS).read_text())["rows->work1"]
                found["holds_after"] = round(next(at / 1e6 - begin for at, _ in moments if at / 1e6 > begin), 2)
            print(word, found[word], flush=True)
    return found


def measure(spark: SparkSettings, hops: int, rate: float, load: float, seconds: float) -> dict[str, Any]:
    """Return what a chain of so many hops does under a rate (rows/s) and a load of each host."""
    client, topics = topics_of(spark)
    cluster = Cluster.of([Host(name=f"h{number}") for number in range(1, hops + 1)], spark=spark)
    made = network(hops, topics, load / rate)
    placement = Placement({f"work{number}": f"h{number}" for number in range(1, hops + 1)})
    with tempfile.TemporaryDirectory() as folder, start_hosts(cluster) as hosts:
        job = Job(made, cluster, placement, Path(folder) / "run", seconds=seconds)
        outcome = fed(Engine(cluster, hosts), job, Feeder(client, topics[0], {0.0: rate}))
        report = finish(job, outcome).report
    entered = outcome.stimulus["out"]
    since = entered - entered.min()
    warm = (since > seconds / 3) & (since < seconds - LAST)
    latency = (outcome.visible["out"] - entered)[warm] * 1000
    found = dict(zip(("p50", "p95", "p99", "max"), np.percentile(latency, [50, 95, 99, 100]).round(1), strict=True))
    return {
        "hops": hops,
        "rate": rate,
        "load": load,
        "rows": int(warm.sum()),
        "milliseconds": {key: float(value) for key, value in found.items()},
        "worst_by_second": [
            float(latency[(since[warm] >= second) & (since[warm] < second + 1)].max(initial=0.0))
            for second in range(int(seconds / 3), int(seconds - LAST))
        ],
        "busy": {name: round(row["busy"], 2) for name, row in report["hosts"].items()},
        "balanced": report["balanced"],
        "average_load_of_the_machine": os.getloadavg()[0],
    }


def main() -> None:
    """Measure one hop and two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--load", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--overload", type=float)
    parser.add_argument("--hops", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    kafka.fetch()
    found = []
    with tempfile.TemporaryDirectory() as folder, kafka.Broker(Path(folder) / "broker") as broker:
        spark = connected(broker, mode="real-time")
        for hops in asked.hops:
            found.append(measure(spark, hops, asked.rate, asked.load, asked.seconds))
            print(json.dumps(found[-1]), flush=True)
        if asked.overload is not None:
            found.append(shed(spark, asked.rate, asked.load, asked.overload, asked.seconds))
            print(json.dumps(found[-1]), flush=True)
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "real_time.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
