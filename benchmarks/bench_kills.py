"""Seeded kills of a network that runs on Spark: of a host, of the controller, of the controller with its hosts.

``python benchmarks/bench_kills.py --seeds 0:30`` kills at a moment that the seed chooses, lets the system recover, and
checks the answers against a batch oracle: no row lost, none twice. Pieces of the range add up in
benchmarks/results/kills.{json,md}. A seed takes about a minute and a half on a quiet machine.

``--pairs`` kills the controller and one of the hosts, which were started by themselves, at the same moment; the others
run on. Of a controller that started its hosts itself all die with it.

``--replicas`` measures instead, on the simulator, for how long sinks are silent when a host dies whose operators have
second copies elsewhere.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_living import FILES, RESULTS, answers

from penstock.cluster import Cluster
from penstock.control.controller import Controller
from penstock.control.folder import Folder
from penstock.control.loop import Control
from penstock.control.policies import policies
from penstock.control.scenario import Happening
from penstock.files import plain
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import MicroBatch, Options, Recording, SimulationEngine
from penstock.spark.hosts.kept_file import read_kept
from penstock.steering import Kill
from penstock.workload import Rates

KINDS, PAIR = ("host", "controller", "both"), "controller and host"
LENGTH, RATE = 45, 60.0
"""Seconds of input, and events/s of each source."""

ALLOWED = 10.0
"""Seconds after which a single copy is to deliver again, from the kill or from the command that starts it again."""

TRIGGER = 0.5


def penstock(*words: str) -> list[str]:
    """Return a command line."""
    return [str(Path(sys.executable).with_name("penstock")), *words]


def prepared(folder: Path, kind: str, at: float, host: str) -> list[str]:
    """Write the files of a run, and return its command."""
    for name in ("network.toml", "cluster.toml", "placement.json"):
        (folder / name).write_text((FILES / name).read_text())
    rows = [f"{second},{RATE:g},{RATE:g},{RATE:g}" for second in range(LENGTH)]
    (folder / "rates.csv").write_text("\n".join(["time,east,north,west", *rows]) + "\n")
    (folder / "scenario.toml").write_text(f'[[events]]\nat = {at:g}\nkill = "{host}"\n')
    files = {name: str(folder / f"{name}.toml") for name in ("network", "cluster", "scenario")}
    scenario = ("--scenario", files["scenario"]) if kind == "host" else ()
    return penstock(
        "control", files["network"], "--cluster", files["cluster"], *scenario,
        "--rates", str(folder / "rates.csv"), "--placement", str(folder / "placement.json"),
        "--engine", "spark", "--policy", "replicate", "--act", "--directory", str(folder / "run"), "--json",
    )  # fmt: skip


def killed(seed: int, kind: str | None = None) -> dict[str, Any]:
    """Run one seed, of a kind or of the seed's own; return what came of it."""
    rng = np.random.default_rng(seed)
    kind, at = kind or KINDS[seed % len(KINDS)], float(rng.uniform(8, 0.6 * LENGTH))
    host = str(rng.choice(["h1", "h2"]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        command = prepared(folder, kind, at, host)
        left = kind in ("controller", PAIR)
        if left:
            subprocess.run(
                penstock("hosts", "start", "--cluster", str(folder / "cluster.toml")), cwd=folder, check=True
            )
        visible: dict[str, dict[str, float]] = {}
        try:
            with watching(folder / "run" / "latency", visible):
                victim = host if kind == PAIR else None
                moment = None if kind == "host" else at
                rest = float(rng.uniform(0.5, 3)) if moment is not None else 0.0
                report = _to_the_end(command, folder, moment, rest, victim)
        finally:
            if left:
                subprocess.run(penstock("hosts", "stop"), cwd=folder, check=True)
        epoch = int((folder / "run" / "epoch").read_text()) / 1e6
        found = answers(folder / "run", report)
        return {
            "seed": seed, "kind": kind, "at": round(at, 2), "host": host if kind in ("host", PAIR) else "",
            "balanced": report["balanced"],
            "lost": sum(each["missing"] for each in found.values()),
            "twice": sum(each["twice"] + each["strange"] for each in found.values()),
            "silent": silence(visible, epoch + at), "rest": round(rest, 2),
        }  # fmt: skip


def _to_the_end(
    command: list[str], folder: Path, at: float | None, rest: float, host: str | None = None
) -> dict[str, Any]:
    """Run a command to its end; killed ``at`` seconds of the engine's time, and started again after a ``rest``.

    With it a ``host`` is killed that was left running.
    """
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    if at is not None:
        epoch = folder / "run" / "epoch"
        while not epoch.exists() or time.time() < int(epoch.read_text()) / 1e6 + at:
            if running.poll() is not None:
                raise SystemExit(f"penstock control ended with {running.returncode} before it was killed")
            time.sleep(0.05)
        os.kill(running.pid, signal.SIGKILL)
        if host is not None:
            os.kill(read_kept(folder / ".penstock" / "hosts.json")[host].pid, signal.SIGKILL)
        running.communicate()
        time.sleep(rest)
        running = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    text, _ = running.communicate()
    if running.returncode:
        raise SystemExit(f"penstock control ended with {running.returncode}")
    document: dict[str, Any] = json.loads(text)
    return document


@contextlib.contextmanager
def watching(folder: Path, visible: dict[str, dict[str, float]]) -> Iterator[None]:
    """Note when each batch became visible (s since 1970), by sink and file: a restart folds older files."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.25):
            for file in folder.glob("*/*.npy"):
                known = visible.setdefault(file.parent.name, {})
                if file.name not in known:
                    with contextlib.suppress(OSError, ValueError, EOFError):
                        known[file.name] = float(np.load(file)[0]) / 1e6

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def silence(visible: dict[str, dict[str, float]], at: float) -> float:
    """Return the longest time (s) without output of a sink that had begun by two triggers after a kill."""
    if not visible:
        raise SystemExit("no sink has got anything")
    rows = [sorted(times.values()) for times in visible.values()]
    return max(b - a for row in rows for a, b in itertools.pairwise(row) if a <= at + 2 * TRIGGER and b >= at)


def silent_with_replicas(seed: int) -> dict[str, Any]:
    """Kill a host of the simulator whose operators have second copies; return how long sinks were silent."""
    rng, count = np.random.default_rng(seed), 4
    at, host = float(rng.uniform(8, 30)), str(rng.choice(["h1", "h2"]))
    operators = [
        Operator(name=f"o{q}", kind="map", inputs=(f"s{q}",), cost=(0.002,), selectivity=(1.0,)) for q in range(count)
    ]
    network = Network.of(
        "copies", [Source(name=f"s{q}") for q in range(count)], operators,
        [Sink(name=f"t{q}", input=f"o{q}") for q in range(count)],
    )  # fmt: skip
    places = {f"o{q}": f"h{1 + q % 2}" for q in range(count)} | {f"o{q}#2": f"h{2 - q % 2}" for q in range(count)}
    rates = Rates.constant({f"s{q}": RATE for q in range(count)}, float(LENGTH))
    times: dict[int, list[float]] = {q: [] for q in range(count)}

    def trace(rows: Any) -> None:
        for sink, egress in zip(rows["sink"].tolist(), rows["egress"].tolist(), strict=True):
            times[sink].append(egress)

    batches = MicroBatch(trigger=TRIGGER, overhead=0.05)
    engine = SimulationEngine(
        network,
        Cluster.uniform(2),
        places,
        rates,
        Options(microbatch=batches, seed=seed),
        record=Recording(trace=trace),
    )
    control = Control(policies=policies("replicate"), act=True)
    with tempfile.TemporaryDirectory() as scratch:
        place = Folder(scratch)
        controller = Controller(
            engine=engine, control=control, folder=place, scenario=(Happening(at, Kill(host)),), until=float(LENGTH)
        )
        with place.held():
            report = controller.run()
        line = next(line for line in place.history() if line["policy"] == "replicate" and "down" in line["why"])
    gaps = [b - a for row in times.values() for a, b in itertools.pairwise(sorted(row)) if b >= at]
    return {"seed": seed, "kind": "replicas", "at": round(at, 2), "host": host, "balanced": report["balanced"],
            "batches": max(gaps) / TRIGGER, "single": line["expected"]["single"]}  # fmt: skip


def table(document: dict[str, Any]) -> str:
    """Return the results for people."""
    lines = ["# Kills", "", "Written by `benchmarks/bench_kills.py`.", "", "| seed | killed | at, s | lost | twice | "]
    lines[-1] += "accounted for | longest silence of a sink, s | of it before the next command, s |"
    lines += ["|---|---|---|---|---|---|---|---|"]
    for row in [*document.get("spark", []), *document.get("pairs", [])]:
        lines.append(
            f"| {row['seed']} | {row['kind']} {row['host']} | {row['at']} | {row['lost']} | {row['twice']} | "
            f"{'yes' if row['balanced'] else 'no'} | {row['silent']:.1f} | {row['rest']:.1f} |"
        )
    copies = document.get("replicas", [])
    if copies:
        worst = max(row["batches"] for row in copies)
        lines += ["", f"With second copies (simulator, {len(copies)} seeds): no sink silent for more than {worst:.2f} "]
        lines[-1] += f"triggers of {TRIGGER} s."
    return "\n".join(lines) + "\n"


def main() -> None:
    """Kill, check, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:30", help="first:behind the last")
    parser.add_argument("--replicas", action="store_true", help="on the simulator, with second copies")
    parser.add_argument("--pairs", action="store_true", help="the controller and a host that was left running")
    given = parser.parse_args()
    first, last = (int(part) for part in given.seeds.split(":"))
    known = RESULTS / "kills.json"
    document: dict[str, Any] = json.loads(known.read_text()) if known.exists() else {}
    name = "replicas" if given.replicas else "pairs" if given.pairs else "spark"
    rows = {row["seed"]: row for row in document.get(name, [])}
    wrong = []
    for seed in range(first, last):
        row = rows[seed] = silent_with_replicas(seed) if given.replicas else killed(seed, PAIR if given.pairs else None)
        sys.stdout.write(json.dumps(plain(row)) + "\n")
        good = (
            row["batches"] <= 2
            if given.replicas
            else not row["lost"] and not row["twice"] and row["silent"] - row["rest"] <= ALLOWED
        )
        wrong += [] if good and row["balanced"] else [seed]
        document[name] = [rows[key] for key in sorted(rows)]
        known.write_text(json.dumps(plain(document), indent=1) + "\n")
        (RESULTS / "kills.md").write_text(table(document))
    if wrong:
        raise SystemExit(f"not as it must be: seeds {', '.join(map(str, wrong))}")


if __name__ == "__main__":
    main()
