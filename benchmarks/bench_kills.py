"""Seeded kills of a network that runs on Spark: of a host, of the controller, of the controller with its hosts.

``python benchmarks/bench_kills.py --seeds 0:30`` kills at a moment that the seed chooses, lets the system recover, and
checks the answers against a batch oracle: no row lost, none twice. Pieces of the range add up in
benchmarks/results/kills.{json,md}. A seed takes about a minute and a half on a quiet machine.

``--pairs`` kills the controller and one of the hosts, which were started by themselves, at the same moment; the others
run on. Of a controller that started its hosts itself all die with it.

``--copies`` kills one host, lets it come back, and kills another one, in a run where every operator has a second copy.
Silence is then told in batches too: in the longest distance of two batches of that sink before anything was killed.

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

KINDS, PAIR, COPIES = ("host", "controller", "both"), "controller and host", "hosts with copies"
BACK, AGAIN = 4.0, 15.0
"""Seconds from a host's death until it comes back, and until another one dies, where operators have copies."""

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
    events = [(at, "kill", host)]
    if kind == COPIES:
        (folder / "placement.json").write_text(json.dumps({"placement": copied()}))
        events += [(at + BACK, "recover", host), (at + AGAIN, "kill", "h2" if host == "h1" else "h1")]
    lines = [f'[[events]]\nat = {moment:g}\n{what} = "{which}"\n' for moment, what, which in events]
    (folder / "scenario.toml").write_text("\n".join(lines))
    files = {name: str(folder / f"{name}.toml") for name in ("network", "cluster", "scenario")}
    scenario = ("--scenario", files["scenario"]) if kind in ("host", COPIES) else ()
    return penstock(
        "control", files["network"], "--cluster", files["cluster"], *scenario,
        "--rates", str(folder / "rates.csv"), "--placement", str(folder / "placement.json"),
        "--engine", "spark", "--policy", "replicate", "--act", "--directory", str(folder / "run"), "--json",
    )  # fmt: skip


def copied() -> dict[str, str]:
    """Return the placement with a second copy of each operator on another host."""
    placement: dict[str, str] = json.loads((FILES / "placement.json").read_text())["placement"]
    other = {"east": "h2", "north": "h3", "west": "h1"}
    return placement | {f"{name}#2": other[name.partition("-")[0]] for name in placement}


def killed(seed: int, kind: str | None = None) -> dict[str, Any]:
    """Run one seed, of a kind or of the seed's own; return what came of it."""
    rng = np.random.default_rng(seed)
    kind = kind or KINDS[seed % len(KINDS)]
    at = float(rng.uniform(8, LENGTH - AGAIN - 5 if kind == COPIES else 0.6 * LENGTH))
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
                moment = None if kind in ("host", COPIES) else at
                rest = float(rng.uniform(0.5, 3)) if moment is not None else 0.0
                report = _to_the_end(command, folder, moment, rest, victim)
        finally:
            if left:
                subprocess.run(penstock("hosts", "stop"), cwd=folder, check=True)
        epoch = int((folder / "run" / "epoch").read_text()) / 1e6
        found = answers(folder / "run", report)
        more = in_batches(visible, [epoch + at, epoch + at + AGAIN]) if kind == COPIES else {}
        return {
            "seed": seed, "kind": kind, "at": round(at, 2), "host": "" if kind in ("controller", "both") else host,
            "balanced": report["balanced"],
            "lost": sum(each["missing"] for each in found.values()),
            "twice": sum(each["twice"] + each["strange"] for each in found.values()),
            "silent": silence(visible, epoch + at), "rest": round(rest, 2), **more,
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


def in_batches(visible: dict[str, dict[str, float]], kills: list[float]) -> dict[str, Any]:
    """Return for each kill the longest silence of a sink around it, in seconds and in batches."""
    found: dict[str, Any] = {"silences": [silence(visible, at) for at in kills], "batches": []}
    rows = [sorted(times.values()) for times in visible.values()]
    before = [[b - a for a, b in itertools.pairwise(row) if b < kills[0]] for row in rows]
    # The first batches are young code's, where others are known.
    usual = [max(distances[2:] or distances or [TRIGGER]) for distances in before]
    for at in kills:
        found["batches"].append(
            max(silence({"": dict(enumerate(row))}, at) / longest for row, longest in zip(rows, usual, strict=True))
        )
    return found


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
    copies = document.get("copies", [])
    if copies:
        lines += [
            "",
            "Every operator has a second copy. One host is killed, comes back, and then another one is killed.",
        ]
        lines[-1] += " Silences are told in batches too: in the sink's longest distance of two before the first kill."
        lines += ["", "| seed | killed | at, s | lost | twice | accounted for | silent, s | in batches |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
    for row in copies:
        silent, batches = (" and ".join(f"{each:.1f}" for each in row[key]) for key in ("silences", "batches"))
        hosts = f"{row['host']}, {'h2' if row['host'] == 'h1' else 'h1'}"
        lines.append(
            f"| {row['seed']} | {hosts} | {row['at']}, {row['at'] + AGAIN:.2f} | {row['lost']} | {row['twice']} | "
            f"{'yes' if row['balanced'] else 'no'} | {silent} | {batches} |"
        )
    simulated = document.get("replicas", [])
    if simulated:
        worst = max(row["batches"] for row in simulated)
        lines += ["", f"With second copies on the simulator, {len(simulated)} seeds: no sink is silent for more than "]
        lines[-1] += f"{worst:.2f} triggers of {TRIGGER} s."
    return "\n".join(lines) + "\n"


def main() -> None:
    """Kill, check, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:30", help="first:behind the last")
    parser.add_argument("--replicas", action="store_true", help="on the simulator, with second copies")
    parser.add_argument("--pairs", action="store_true", help="the controller and a host that was left running")
    parser.add_argument("--copies", action="store_true", help="hosts, where every operator has a second copy")
    given = parser.parse_args()
    first, last = (int(part) for part in given.seeds.split(":"))
    known = RESULTS / "kills.json"
    document: dict[str, Any] = json.loads(known.read_text()) if known.exists() else {}
    kind = PAIR if given.pairs else COPIES if given.copies else None
    name = "replicas" if given.replicas else {None: "spark", PAIR: "pairs", COPIES: "copies"}[kind]
    rows = {row["seed"]: row for row in document.get(name, [])}
    wrong = []
    for seed in range(first, last):
        row = rows[seed] = silent_with_replicas(seed) if given.replicas else killed(seed, kind)
        sys.stdout.write(json.dumps(plain(row)) + "\n")
        sys.stdout.flush()
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
