"""The tests of answers on Spark in large numbers, and what came of them: random networks, and kills.

Run: uv run python benchmarks/bench_answers.py WHAT [--from 0] [--count 200] [--out benchmarks/results]

WHAT is one of `SUITES`. Each call appends one line to `answers.jsonl` and writes `answers.md` anew, so that they can be
made in pieces: the same seeds are the same networks and kills. A network takes some seconds, a kill about a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
from about import RESULTS, ROOT, revision

DIFFERENTIAL = "tests/spark/differential/test_differential.py::test_"


@attrs.frozen
class Suite:
    """Tests that take their number from the environment.

    Attributes
    ----------
    says
        What they do.
    test
        Its node.
    count
        The variable that says how many.
    at_once
        Whether one test makes all of them.
    """

    says: str
    test: str
    count: str
    at_once: bool = False


SUITES: Mapping[str, Suite] = {
    "files": Suite("networks, files between hosts", f"{DIFFERENTIAL}large_networks_agree", "PENSTOCK_NETWORKS"),
    "kafka": Suite(
        "networks, topics between hosts", f"{DIFFERENTIAL}large_networks_agree_over_kafka", "PENSTOCK_NETWORKS"
    ),
    "cluster": Suite(
        "networks, a host is a cluster", f"{DIFFERENTIAL}large_networks_agree_on_a_cluster", "PENSTOCK_NETWORKS"
    ),
    "kills": Suite(
        "networks, penstock or a host killed twice in each", f"{DIFFERENTIAL}networks_agree_after_kills",
        "PENSTOCK_DIFFERENTIAL_KILLS",
    ),
    "executors": Suite(
        "networks, an executor killed in each step", f"{DIFFERENTIAL}networks_agree_after_executors_died",
        "PENSTOCK_DIFFERENTIAL_KILLS",
    ),
    "moves": Suite(
        "networks, units moved and hosts killed", f"{DIFFERENTIAL}networks_agree_after_moves",
        "PENSTOCK_DIFFERENTIAL_KILLS",
    ),
    "kafka-hosts": Suite(
        "kills of penstock or a host, Kafka to Kafka",
        "tests/spark/test_kafka_kills.py::test_each_message_once_whatever_is_killed[hosts]", "PENSTOCK_KILLS", True,
    ),
    "broker": Suite(
        "kills of the broker, Kafka to Kafka",
        "tests/spark/test_kafka_kills.py::test_each_message_once_whatever_is_killed[broker]", "PENSTOCK_KILLS", True,
    ),
}  # fmt: skip


def made(what: str, first: int, count: int) -> dict[str, Any]:
    """Run a suite; return its line."""
    suite, made_at = SUITES[what], revision()
    with tempfile.TemporaryDirectory() as folder:
        told, begin = Path(folder) / "told.xml", time.monotonic()
        tests = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-m", "", suite.test, f"--junit-xml={told}"],
            cwd=ROOT, env={**os.environ, suite.count: str(count), "PENSTOCK_SEED": str(first), "PENSTOCK_SHRINK": "0"},
        )  # fmt: skip
        try:
            tests.wait()
        finally:  # they end the hosts that they have started
            if tests.poll() is None:
                tests.terminate()
            tests.wait()
        cases = [*ElementTree.parse(told).getroot().iter("testcase")]  # noqa: S314 - of our own pytest
    failed = [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return {
        "what": what, "first": first, "count": count if suite.at_once else len(cases), "failed": failed,
        "seconds": round(time.monotonic() - begin), "revision": made_at,
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }  # fmt: skip


def page(rows: list[dict[str, Any]]) -> str:
    """Return a page with a table."""
    lines = [
        "# Answers on Spark",
        "",
        f"Written by `benchmarks/bench_answers.py`, {platform.machine()}, {os.cpu_count()} CPUs. Every sink's rows are",
        "compared with those of plain Spark batch queries over the same input, or of a network that is known. In all:",
        "",
        "| what | how many | that differ |",
        "|---|---|---|",
    ]
    for what, suite in SUITES.items():
        mine = [row for row in rows if row["what"] == what]
        seeds = {seed for row in mine for seed in range(row["first"], row["first"] + row["count"])}
        wrong = sum(len(row["failed"]) for row in mine)
        if mine:
            lines.append(f"| {suite.says} | {len(seeds) - sum(row['skipped'] for row in mine)} | {wrong or 'none'} |")
    lines += [
        "",
        "Run by run:",
        "",
        "| what | how many | seeds from | that differ | seconds | revision |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        wrong, made = ", ".join(row["failed"]) or "none", row["count"] - row["skipped"]
        told = [SUITES[row["what"]].says, made, row["first"], wrong, row["seconds"], row["revision"]]
        lines.append(f"| {' | '.join(map(str, told))} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Run a suite, and write what came."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=[*SUITES])
    options.add_argument("--from", dest="first", type=int, default=0, help="first seed")
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    line = made(given.what, given.first, given.count)
    file = given.out / "answers.jsonl"
    with file.open("a") as lines:
        lines.write(json.dumps(line) + "\n")
    (given.out / "answers.md").write_text(page([json.loads(each) for each in file.read_text().splitlines()]))
    sys.exit(bool(line["failed"]))


if __name__ == "__main__":
    main()
