"""Whether predictions of real-time mode hold: a run teaches what rows cost, and the next one is predicted.

Run: uv run python benchmarks/bench_real_time_prediction.py [--runs 10] [--out benchmarks/results]

Each run is drawn from its number: what a row costs, how far a burst saturates the host, and for how long. The host is
started anew for the run that teaches and for the one that is predicted. It has its core to itself: the broker and the
feeder are kept on the other one, on which they leave no room for a second host. About three minutes a run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from about import RESULTS, revision
from bench_real_time import Feeder, connected, fed, topics_of

from penstock.cluster import Cluster, Host, Placement, SparkSettings
from penstock.files import plain
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.running.drift import YOUNG
from penstock.running.job import Job, finish
from penstock.running.learned import learned
from penstock.spark.hosts import start_hosts
from penstock.spark.hosts.cores import available_cpus, share_cpus
from penstock.spark.run import Engine
from penstock.spark.run.outcome import Outcome
from penstock.workload import Rates

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import kafka

LENGTH, BURST = 60, 25
"""Seconds of a run, and when its burst begins."""

HOST = "h1"

PAUSE = 0.02
"""Seconds between two looks of the feeder: what it and the broker do on the other core is to change little."""

QUIET = 0.4
"""Load of the host before and after, by what the network file says of costs."""

TEACHING = ((22, 5, 1.3), (40, 5, 1.3))
"""Bursts of the run that teaches: when each begins, how long it is (s), and its load."""


@attrs.frozen
class Case:
    """A run, drawn from its number; ``cost`` is what the network file says of a row (s)."""

    cost: float
    load: float
    burst: int

    @classmethod
    def of(cls, number: int) -> Case:
        """Return the case of a number."""
        rng = np.random.default_rng([16, number])
        cost, load = float(rng.choice([0.0007, 0.001, 0.0015, 0.002])), round(float(rng.uniform(1.1, 1.4)), 2)
        return cls(cost, load, int(rng.integers(6, 11)))

    def network(self, topics: tuple[str, str]) -> Network:
        """Return two delays, one after the other, which are one query."""
        return parse_network(
            {
                "name": "predicted",
                "sources": {"rows": {"format": "kafka", "schema": "n bigint", "options": {"subscribe": topics[0]}}},
                "operators": {
                    "first": {"kind": "delay", "input": "rows", "cost": 0.7 * self.cost},
                    "second": {"kind": "delay", "input": "first", "cost": 0.3 * self.cost},
                },
                "sinks": {"out": {"input": "second", "format": "kafka", "options": {"topic": topics[1]}}},
            }
        )

    def rates(self, bursts: Sequence[tuple[int, int, float]]) -> Rates:
        """Return the rates of a run with bursts: when each begins, how long it is (s), and its load."""
        values = np.full(LENGTH, QUIET / self.cost)
        for begin, length, load in bursts:
            values[begin : begin + length] = load / self.cost
        return Rates.of(1.0, {"rows": values})


@contextlib.contextmanager
def apart(broker: kafka.Broker) -> Iterator[None]:
    """Keep this process and the broker off the core of the host."""
    cpus = available_cpus()
    pinned = share_cpus([1], cpus)
    if pinned is None or len(cpus) < 2:
        sys.exit("needs two cores")
    others = {*cpus} - {*pinned[0]}
    try:
        for pid in (os.getpid(), broker.pid):
            keep(pid, others)
        yield
    finally:
        keep(os.getpid(), cpus)


def keep(pid: int, cpus: Iterable[int]) -> None:
    """Keep all threads of a process on some cores."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cpus)


def made(
    spark: SparkSettings, case: Case, rates: Rates, broker: kafka.Broker, job: Job | None = None
) -> tuple[Job, Outcome]:
    """Run a case under some rates, on hosts of its own, with what an earlier job is told."""
    client, topics = topics_of(spark)
    cluster, network = Cluster.of([Host(name=HOST)], spark=spark), case.network(topics)
    placement = Placement(dict.fromkeys(network.operators, HOST))
    with tempfile.TemporaryDirectory() as folder, start_hosts(cluster) as hosts:
        known = {} if job is None else {"statistics": job.statistics}
        job = Job(
            network, cluster, placement, Path(folder) / "run", rates=rates, scheduled=False, seconds=LENGTH + 12.0,
            young=YOUNG, teach=True, **known,
        )  # fmt: skip
        steps = dict(enumerate(rates.of_source("rows").tolist())) | {LENGTH: 0.0}
        feeder = Feeder(client, topics[0], steps, pause=PAUSE)
        with apart(broker):
            return job, fed(Engine(cluster, hosts), job, feeder)


def measure(spark: SparkSettings, broker: kafka.Broker, number: int) -> dict[str, Any]:
    """Let a run teach, predict the next one, and compare."""
    case = Case.of(number)
    job, outcome = made(spark, case, case.rates(TEACHING), broker)
    told = learned(job, outcome, job.rates)
    job, outcome = made(
        spark, case, case.rates([(BURST, case.burst, case.load)]), broker, attrs.evolve(job, statistics=told)
    )
    report = finish(job, outcome).report
    again = learned(job, outcome, job.rates)
    late = attrs.evolve(job, statistics=again)
    keys = {"worst": "max", "p99": "p99"}
    return {
        "run": number,
        "case": attrs.asdict(case),
        "factor": told.hosts[HOST].factor,
        "factor_in_hindsight": again.hosts[HOST].factor,
        "measured": {name: report["latency"][key] for name, key in keys.items()},
        "predicted": {name: report["predicted"][key] for name, key in keys.items()},
        "interval": {name: report["interval"][name] for name in keys},
        "in_hindsight": {name: finish(late, outcome).report["predicted"][key] for name, key in keys.items()},
        "busy": report["hosts"][HOST]["busy"],
        "balanced": report["balanced"],
    }


def page(found: list[dict[str, Any]]) -> str:
    """Return a page of tables."""
    lines = [
        "# Predictions of real-time mode",
        "",
        f"Written by `benchmarks/bench_real_time_prediction.py`, {platform.machine()}, {os.cpu_count()} CPUs, revision",
        f"{revision()}. A run teaches what rows cost, and the next one is predicted; the host has a core to itself.",
        "In hindsight: the model with what the run itself taught.",
        "",
        "| | inside p05 to p95 | half-width | error: median / p90 | in hindsight |",
        "|---|---|---|---|---|",
    ]
    for key in ("worst", "p99"):
        inside = sum(row["interval"][key][0] <= row["measured"][key] <= row["interval"][key][1] for row in found)
        half = np.median([np.ptp(row["interval"][key]) / 2 / row["predicted"][key] for row in found])
        errors = [
            np.quantile([abs(row[what][key] / row["measured"][key] - 1) for row in found], [0.5, 0.9])
            for what in ("predicted", "in_hindsight")
        ]
        both = [f"{100 * middle:.1f} / {100 * high:.1f} %" for middle, high in errors]
        lines.append(f"| {key} | {inside} of {len(found)} | {100 * half:.1f} % | {both[0]} | {both[1]} |")
    lines += [
        "",
        "| run | a row, ms | burst | worst (s) | predicted | p05 to p95 | p99 (s) | predicted | p05 to p95 "
        "| factor, and in hindsight | busy |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        case = row["case"]
        told = " | ".join(
            f"{row['measured'][key]:.2f} | {row['predicted'][key]:.2f} | "
            f"{row['interval'][key][0]:.2f} to {row['interval'][key][1]:.2f}"
            for key in ("worst", "p99")
        )
        lines.append(
            f"| {row['run']} | {1000 * case['cost']:g} | {case['burst']} s at load {case['load']:g} | {told} "
            f"| {row['factor']:.3f}, {row['factor_in_hindsight']:.3f} | {row['busy']:.2f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Make the runs, and write what came."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, nargs="*", default=[*range(1, 11)], help="numbers")
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    kafka.fetch()
    found = []
    with tempfile.TemporaryDirectory() as folder, kafka.Broker(Path(folder) / "broker") as broker:
        spark = connected(broker, mode="real-time")
        for number in given.runs:
            found.append(plain(measure(spark, broker, number)))
            print(json.dumps(found[-1]), flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "real_time_prediction.json").write_text(json.dumps(found, indent=1))
    (given.out / "real_time_prediction.md").write_text(page(found))


if __name__ == "__main__":
    main()
