"""How soon a host that is slowed on purpose is noticed, and how soon forecasts follow it.

Run: uv run python benchmarks/bench_drift.py [--runs 6] [--out benchmarks/results/drift.json]

Each run draws a network, the host that is slowed and a trigger, as `bench_coverage.py` does, starts two hosts with a
core each, calibrates in place, and runs at an even rate. For 30 s in the middle a busy loop is pinned to the core of
one host, which then has half of it. A forecast is of the worst latency of what enters in the next 10 s. Needs a quiet
machine; about four minutes a run.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from about import RESULTS, revision
from bench_coverage import NETWORKS, Case

from penstock.cluster import Cluster, Placement, SparkSettings
from penstock.files import plain
from penstock.load import load_model
from penstock.running.calibrating import calibrate_in_place
from penstock.running.job import Job, execute, finish
from penstock.spark import calibrate, hosts, run
from penstock.spark.hosts.cores import available_cpus, share_cpus
from penstock.workload import Rates

LENGTH, SLOW = 120, (50, 80)
"""Seconds of a run, and in which of them the loop runs."""

LOAD = 0.35
"""Of the slowed host, by costs as calibrated."""

AHEAD = 10.0
"""Seconds of a forecast."""

SPIN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True:\n    pass"


def slow_down(cpu: int, epoch: float, slowed: list[float]) -> None:
    """Keep a core busy in the middle of a run that begins at a time (s since 1970), about; note from when to when."""
    time.sleep(max(0.0, epoch + SLOW[0] - time.time()))
    loop = subprocess.Popen([sys.executable, "-c", SPIN, str(cpu)])
    slowed.append(time.time())
    try:
        time.sleep(max(0.0, epoch + SLOW[1] - time.time()))
    finally:
        loop.kill()
        loop.wait()
        slowed.append(time.time())


def measure(number: int) -> dict[str, Any]:
    """Make one run: calibrate, run, slow a host down meanwhile."""
    case = Case.of(number)
    network, placed = NETWORKS[case.network](case.host)
    cluster = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=case.trigger))
    cpus = share_cpus([1, 1], available_cpus())
    if cpus is None:
        sys.exit("needs two cores")
    cpu = cpus[list(cluster.hosts).index(case.host)][0]
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder, hosts.start_hosts(cluster) as running:
        engine = run.Engine(cluster, running)
        samples = calibrate.read_samples(engine.sessions["h1"], network, None, events=6_000)
        alone = calibrate.calibrate_alone(engine, "h1", network, samples, calibrate.Precision(budget=1.0))
        job = Job(network, cluster, Placement(placed), Path(folder) / "calibration", rates=case.rates(
            alone.complete(network, override=True), placed), seed=number)  # fmt: skip
        statistics = calibrate_in_place(engine, job, alone, lambda _what, _share: None)
        known = statistics.complete(network, override=True)
        rates = even(case, statistics.hosts[case.host].factor, known, placed)
        said: list[str] = []
        slowed: list[float] = []
        job = attrs.evolve(job, folder=Path(folder) / "run", statistics=statistics, rates=rates)
        slowing: list[threading.Thread] = []

        def tell(what: str, _share: float) -> None:
            if what == "running" and not slowing:
                slowing.append(threading.Thread(target=slow_down, args=(cpu, time.time(), slowed)))
                slowing[0].start()

        outcome = execute(engine, job, tell, said.append)
        slowing[0].join()
    report = finish(job, outcome).report
    begin, end = (at - outcome.epoch for at in slowed)
    # A change of before the loop is the machine's own.
    mine = [each["time"] for each in report["drifts"] if each["host"] == case.host and begin < each["since"]]
    forecasts = [each for each in report["forecast"] if each["horizon"] == AHEAD and each["measured"] is not None]
    return {
        "run": number,
        "case": {"network": case.network, "host": case.host, "trigger": case.trigger},
        "slow": [begin, end],
        "rate": float(rates.values.max()),
        "drift_after": min((at - begin for at in mine if at < end), default=None),
        "drifts": report["drifts"],
        "forecasts": [[each[key] for key in ("time", "low", "predicted", "high", "measured")] for each in forecasts],
        "said": said,
        "balanced": report["balanced"],
    }


def even(case: Case, factor: float, network: Any, placed: dict[str, str]) -> Rates:
    """Return even rates that give a host its load."""
    one = Rates.of(1.0, {name: np.ones(LENGTH) for name in network.sources})
    cluster = Cluster.uniform(2)
    work = load_model(network, one).host_load(Placement(placed), cluster)
    rate = LOAD / (factor * float(work[list(cluster.hosts).index(case.host), 0]))
    return attrs.evolve(one, values=one.values * min(rate, 4_000.0))


def page(found: list[dict[str, Any]], about: str) -> str:
    """Return a page of tables."""
    rows = [
        f"| {row['run']} | {row['case']['network']} | {row['case']['host']} | {row['case']['trigger']:g} s "
        f"| {row['rate']:.0f} | {', '.join(f'{at:.1f}' for at in row['slow'])} "
        f"| {told(row['drift_after'])} | {told(back(row))} | {marks(row)} |"
        for row in found
    ]
    return "\n".join(
        [
            "# A host that is slowed on purpose",
            "",
            f"{about}. A busy loop on the core of one of two hosts for {SLOW[1] - SLOW[0]} s; load {LOAD:g} before.",
            'Forecasts, made each 10 s for the next 10: `+` inside, `<` measured less, `>` more; "inside again" counts',
            "those that the loop goes on for.",
            "",
            "| run | network | host | trigger | tuples/s | loop, from and to, s | drift said after, s "
            f"| forecasts inside again after, s | forecasts from {SLOW[0] - 20} s on |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def told(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"


def mark(row: list[float]) -> str:
    _, low, _, high, measured = row
    return "<" if measured < low else ">" if measured > high else "+"


def marks(found: dict[str, Any]) -> str:
    """Return how the forecasts did, from a while before the loop on."""
    return " ".join(f"{row[0]:.0f}{mark(row)}" for row in found["forecasts"] if row[0] >= SLOW[0] - 20)


def back(found: dict[str, Any]) -> float | None:
    """Return how long after the loop has begun all forecasts are inside again, as long as it goes on for theirs (s)."""
    begin, end = found["slow"]
    during = [row for row in found["forecasts"] if begin <= row[0] and row[0] + AHEAD <= end]
    wrong = [row[0] for row in during if mark(row) != "+"]
    later = [row[0] for row in during if not wrong or row[0] > max(wrong)]
    return min(later) - begin if later else None


def main() -> None:
    """Make the runs, and write what came."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, nargs="*", default=[1, 2, 3, 4, 5, 6], help="numbers")
    options.add_argument("--out", type=Path, default=RESULTS / "drift.json")
    given = options.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for number in given.runs:
        found.append(plain(measure(number)))
        print(json.dumps({key: found[-1][key] for key in ("run", "case", "drift_after")}), marks(found[-1]), flush=True)
        given.out.write_text(json.dumps(found, indent=1))
        given.out.with_suffix(".md").write_text(page(found, f"{platform.machine()}, two cores, revision {revision()}"))


if __name__ == "__main__":
    main()
