"""Four minutes of everything on both engines: a burst, a slow drift, a host killed, a query admitted.

``python benchmarks/bench_living.py`` runs the scenario of benchmarks/living on the simulator and on Spark, checks the
answers against a batch oracle, sets the decisions side by side, and writes benchmarks/results/living.{json,md}.

``--engine simulation`` or ``--engine spark`` runs one of them, and takes the other from the results; ``--pace 4`` lets
everything happen four times as fast (a trial: a minute), and writes nothing but what it prints.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from penstock.files import plain

HERE = Path(__file__).resolve().parent
FILES, RESULTS = HERE / "living", HERE / "results"
ENGINES = ("simulation", "spark")
CLOSE, PAIRED = 10.0, 15.0
"""Seconds between decisions of one episode, and between the beginnings of the same one on two engines, at most."""

BURST = (30.0, 62.0)
"""Seconds of the burst, until what it left is worked off."""

PEOPLE = 4
"""Of 50 events of the Nexmark source so many are no bids, the first ones."""


def prepared(folder: Path, pace: float) -> Path:
    """Copy the scenario's files into a folder, with everything ``pace`` times as fast."""
    folder.mkdir(parents=True)
    for name in ("network.toml", "late.toml", "cluster.toml", "placement.json"):
        (folder / name).write_text((FILES / name).read_text())
    with open(FILES / "rates.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    step = max(1, round(pace))
    lines = [",".join(rows[0])]
    for number, row in enumerate(rows[::step]):
        lines.append(",".join([str(number), *(row[name] for name in list(row)[1:])]))
    (folder / "rates.csv").write_text("\n".join(lines) + "\n")
    events = tomllib.loads((FILES / "scenario.toml").read_text())["events"]
    text = ""
    for event in events:
        rest = "".join(f'{key} = "{value}"\n' for key, value in event.items() if key != "at")
        text += f"[[events]]\nat = {event['at'] / step:g}\n{rest}\n"
    (folder / "scenario.toml").write_text(text)
    return folder


def words(engine: str, folder: Path, policy: str) -> list[str]:
    """Return the words of the command line."""
    more = ["--trigger", "0.5", "--overhead", "0.05", "--move-time", "3"] if engine == "simulation" else []
    return [
        "control", str(folder / "network.toml"),
        "--cluster", str(folder / "cluster.toml"), "--rates", str(folder / "rates.csv"),
        "--placement", str(folder / "placement.json"), "--scenario", str(folder / "scenario.toml"),
        "--engine", engine, "--policy", policy, "--latency", "5", "--act", "--fresh",
        "--directory", str(folder / engine), "--json", *more,
    ]  # fmt: skip


def controlled(engine: str, folder: Path, policy: str) -> dict[str, Any]:
    """Run the scenario on an engine; return its report, with the history and the time that it took."""
    begun = time.monotonic()
    command = [str(Path(sys.executable).with_name("penstock")), *words(engine, folder, policy)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"penstock control --engine {engine} ended with {done.returncode}")
    lines = [json.loads(line) for line in (folder / engine / "control" / "history.jsonl").read_text().splitlines()]
    return {**json.loads(done.stdout), "history": lines, "took": time.monotonic() - begun}


def answers(place: Path, report: dict[str, Any]) -> dict[str, Any]:
    """Compare what lies in the sinks of a run on Spark with the oracle: each bid that entered, once.

    A bid is told by the event's number; event ``n`` is a bid where ``n`` modulo 50 is at least 4.
    """
    import pyarrow.parquet as parquet

    found = {}
    for market in ("east", "north", "west"):
        entered = report["streams"][f"{market}->{market}-bids"]["arrived"]
        oracle = {n for n in range(entered) if n % 50 >= PEOPLE}
        files = sorted((place / "sinks" / f"{market}-out").rglob("*.parquet"))
        rows = [n for file in files for n in parquet.read_table(file, columns=["event"]).column(0).to_pylist()]
        dropped = sum(
            row["dropped"] for name, row in report["streams"].items() if name.startswith(market) and "dear" not in name
        )
        found[market] = {
            "entered": entered, "expected": len(oracle), "rows": len(rows), "twice": len(rows) - len(set(rows)),
            "strange": len(set(rows) - oracle), "missing": len(oracle - set(rows)), "dropped": dropped,
        }  # fmt: skip
    return found


def wrong(engine: str, run: dict[str, Any]) -> list[str]:
    """Return what does not hold of a run, one sentence each."""
    found = [] if run["balanced"] else ["tuples are not accounted for"]
    found += [f"{name} is silent" for name, row in run["sinks"].items() if not row["latency"]["count"]]
    found += [] if "dear-out" in run["sinks"] else ["the query was not admitted"]
    for market, row in run.get("answers", {}).items():
        found += [f"{row['twice']} rows of {market} came twice"] if row["twice"] else []
        found += [f"{row['strange']} rows of {market} are in no answer"] if row["strange"] else []
        if row["missing"] > row["dropped"]:
            found.append(f"{row['missing']} rows of {market} are missing, and {row['dropped']} were dropped")
    return [f"{engine}: {what}" for what in found]


def told(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the decisions in short, with what they rested on."""
    return [
        {key: line[key] for key in ("time", "policy", "acted", "seen", "decided", "why", "refused")} for line in lines
    ]


def facts(line: dict[str, Any]) -> dict[str, float]:
    """Return what a decision rested on, in figures."""
    seen = line["seen"]
    busy = [share for share in seen["busy"].values() if share is not None]
    found = {
        "tuples/s entered": sum(seen["rates"].values()),
        "share of the busiest host": max(busy, default=0.0),
        "tuples waited": seen["waiting"] or 0.0,
        "s was the oldest of them": seen["behind"] or 0.0,
        "s was the worst latency": seen["worst"] or 0.0,
        "hosts were down": float(len(seen["down"])),
        "operators were moving": float(len(seen["moving"])),
    }
    return {name: round(value, 2) for name, value in found.items()}


def episodes(history: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the decisions of one policy that follow each other closely, as one."""
    found: list[list[dict[str, Any]]] = []
    for line in sorted(history, key=lambda line: (line["policy"], line["time"])):
        last = found[-1][-1] if found else None
        if last and last["policy"] == line["policy"] and line["time"] - last["time"] <= CLOSE:
            found[-1].append(line)
        else:
            found.append([line])
    return sorted(found, key=lambda each: each[0]["time"])


def differences(first: list[dict[str, Any]], second: list[dict[str, Any]], names: tuple[str, str]) -> list[str]:
    """Return, for each episode of two histories, how the engines differ in it and what they saw differently."""
    left, told = episodes(second), []
    for mine in episodes(first):
        policy, at = mine[0]["policy"], mine[0]["time"]
        same = [each for each in left if each[0]["policy"] == policy and abs(each[0]["time"] - at) <= PAIRED]
        if not same:
            told.append(f"`{policy}` at {at:.0f} s only on {names[0]}: {_saw(facts(mine[0]))}")
            continue
        other = min(same, key=lambda each: abs(each[0]["time"] - at))
        left = [each for each in left if each is not other]
        one, two = facts(mine[0]), facts(other[0])
        unlike = {n: (one[n], two[n]) for n in one if abs(one[n] - two[n]) > 0.2 * max(abs(one[n]), abs(two[n]))}
        what = "the same is decided" if mine[0]["decided"] == other[0]["decided"] else "they decide differently"
        saw = "; ".join(f"{a:g} and {b:g} {name}" for name, (a, b) in unlike.items()) or "they saw the same"
        told.append(
            f"`{policy}` at {at:.0f} s on {names[0]} ({len(mine)}), {other[0]['time']:.0f} s on {names[1]} "
            f"({len(other)}): {what}: {saw}"
        )
    told += [f"`{e[0]['policy']}` at {e[0]['time']:.0f} s only on {names[1]}: {_saw(facts(e[0]))}" for e in left]
    return told


def _saw(known: dict[str, float]) -> str:
    return "it saw that " + ", ".join(f"{value:g} {name}" for name, value in known.items() if value)


def table(document: dict[str, Any]) -> str:
    """Return the results for people."""
    lines = ["# Four minutes of everything, on both engines", "", "Written by `benchmarks/bench_living.py`.", ""]
    lines += [
        "| engine | decisions | moves | worst latency, s | p99, s | worst that decisions saw in the burst, s | "
        "accounted for | wrong | machine's load |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    for engine, run in document["runs"].items():
        late, pace = run["latency"], document["pace"]
        burst = [line["seen"]["worst"] or 0.0 for line in run["story"] if BURST[0] <= line["time"] * pace <= BURST[1]]
        lines.append(
            f"| {engine} | {run['decisions']} | {len(run['moves'])} | {late['max']:.2f} | {late['p99']:.2f} | "
            f"{max(burst, default=0.0):.2f} | "
            f"{'yes' if run['balanced'] else 'no'} | {'; '.join(run['wrong']) or 'nothing'} | "
            f"{run['load'][0]:.1f} before, {run['load'][1]:.1f} after |"
        )
    lines += [
        "",
        f"The load is that of all jobs on {os.cpu_count()} cores, this one included: above, others ran beside it.",
    ]
    for engine, run in document["runs"].items():
        for market, row in run.get("answers", {}).items():
            lines += ["", f"{engine}, {market}: of {row['expected']} rows of the oracle {row['rows']} came,"]
            lines.append(
                f"{row['twice']} twice, {row['strange']} that are in no answer; {row['dropped']} tuples were dropped."
            )
    kinds = sorted({line["policy"] for run in document["runs"].values() for line in run["story"]})
    lines += ["", "## Decisions", "", "| policy | " + " | ".join(document["runs"]) + " |"]
    lines += ["|---" * (1 + len(document["runs"])) + "|"]
    for kind in kinds:
        times = [
            ", ".join(f"{line['time']:.0f}" for line in run["story"] if line["policy"] == kind) or "never"
            for run in document["runs"].values()
        ]
        lines.append(f"| {kind}, at s | {' | '.join(times)} |")
    if document["differences"]:
        lines += ["", "## What is different, and what was seen", ""]
        lines += [f"* {text}" for text in document["differences"]]
    for engine, run in document["runs"].items():
        lines += ["", f"## The story on {engine}", "", "| time, s | policy | why |", "|---|---|---|"]
        lines += [f"| {line['time']:.1f} | {line['policy']} | {line['why']} |" for line in run["story"]]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, check, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=ENGINES, action="append", help="default: both")
    parser.add_argument("--policy", default="replicate,rebalance,shed")
    parser.add_argument("--pace", type=float, default=1.0, help="how many times as fast")
    given = parser.parse_args()
    known = RESULTS / "living.json"
    runs: dict[str, Any] = json.loads(known.read_text())["runs"] if given.pace == 1 and known.exists() else {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = prepared(Path(scratch) / "living", given.pace)
        for engine in given.engine or ENGINES:
            load = os.getloadavg()[0]
            run = {**controlled(engine, folder, given.policy), "load": [load, os.getloadavg()[0]]}
            if engine == "spark":
                run["answers"] = answers(folder / "spark", run)
            kept = ("decisions", "moves", "latency", "sinks", "streams", "balanced", "took", "load")
            runs[engine] = {key: run[key] for key in kept} | {key: run[key] for key in ("answers",) if key in run}
            runs[engine] |= {"story": told(run["history"]), "wrong": wrong(engine, run)}
    runs = {engine: runs[engine] for engine in ENGINES if engine in runs}
    stories = [run["story"] for run in runs.values()]
    told_apart = differences(*stories, names=ENGINES) if len(stories) == 2 else []
    document = {"policy": given.policy, "pace": given.pace, "runs": runs, "differences": told_apart}
    text = table(document)
    sys.stdout.write(text)
    if given.pace == 1:
        known.write_text(json.dumps(plain(document), indent=1) + "\n")
        (RESULTS / "living.md").write_text(text)
    if any(run["wrong"] for run in runs.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
