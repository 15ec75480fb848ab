"""Runs a case, kills penstock, a host or an executor at a random moment, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from case import Case, placed, toml, write_files, write_module
from oracle import check, expected
from runner import oracle_session, run_step, sink_rows, steps_importable

from penstock.errors import EngineError
from penstock.network.file import parse_network
from penstock.spark.run import Engine


def differences_after_kills(session: Any, case: Case, folder: Path, rng: np.random.Generator, kills: int) -> list[str]:
    """Run a case in a new folder, kill it some times, let it end; return how its sinks differ from the batch answer."""
    folder.mkdir(parents=True)
    answers = expected(session, case, folder / "oracle")
    write_module(case, folder)
    (folder / "network.toml").write_text(toml(placed(case, folder)), encoding="utf-8")
    for number in range(kills):
        step = case.steps[min(number, len(case.steps) - 1)]
        write_files(case, folder, step.files)
        said = _interrupt(_start(case, folder, step.seconds), folder, rng)
        if said:
            return [said]
    for step in (*case.steps[kills:-1], case.steps[-1]):
        write_files(case, folder, step.files)
        penstock = _start(case, folder, step.seconds)
        out, err = penstock.communicate(timeout=300)
        if penstock.returncode != 0:
            return [f"resumed: exit code {penstock.returncode}: {err.strip()[:600]}"]
    said = [] if json.loads(out)["balanced"] else ["counts do not balance"]
    return said + check(answers, sink_rows(case, folder, answers))


def differences_after_executors_died(
    engine: Engine, case: Case, folder: Path, rng: np.random.Generator, executors: Callable[[], list[psutil.Process]]
) -> list[str]:
    """Run a case in a new folder, kill an executor in each step; return how its sinks differ from the batch answer.

    A query that ends with its executor goes on with the same command.
    """
    killed: list[int] = []

    def kill() -> None:
        # One that was killed before may not be there again yet.
        for victim in rng.permutation(executors())[:1]:
            victim.kill()
            killed.append(victim.pid)

    folder.mkdir(parents=True)
    answers, said = expected(oracle_session(engine), case, folder / "oracle"), []
    with steps_importable(case, folder):
        network = parse_network(placed(case, folder), str(folder / "network.toml"))
        for number, step in enumerate(case.steps):
            write_files(case, folder, step.files)
            killer = threading.Timer(float(rng.uniform(0.0, 6.0)), kill)
            killer.start()
            try:
                balanced = run_step(engine, network, case.placement, folder / "run", step)
            except EngineError:
                balanced = True
            killer.join()
            if number == len(case.steps) - 1:
                balanced = run_step(engine, network, case.placement, folder / "run", step)
            if not balanced:
                said.append(f"step {number}: counts do not balance")
    return [*said, *([] if killed else ["nothing was killed"]), *check(answers, sink_rows(case, folder, answers))]


def _start(case: Case, folder: Path, seconds: float | None) -> subprocess.Popen[str]:
    placement = ",".join(f"{operator}={host}" for operator, host in case.placement.items())
    until = ["--once"] if seconds is None else ["--for", str(seconds)]
    # On the second host tasks write, on the others the query's own process.
    (folder / "cluster.toml").write_text("[hosts.h1]\n[hosts.h2]\ncores = 2\n[hosts.h3]\n")
    named = ["--cluster", "cluster.toml", "--placement", placement]
    words = ["network.toml", *named, *until, "--directory", "run", "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.app", "run", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _interrupt(penstock: subprocess.Popen[str], folder: Path, rng: np.random.Generator) -> str | None:
    """Kill penstock, or one of its hosts, some time after the run has begun; return what went wrong, if anything."""
    began = time.time()
    claim = folder / "run" / "run.json"
    while penstock.poll() is None and not claim.exists() and time.time() - began < 120:
        time.sleep(0.05)
    moment = time.time() + float(rng.uniform(0.0, 6.0))
    while penstock.poll() is None and time.time() < moment:
        time.sleep(0.02)
    if penstock.poll() is None:
        hosts = [child for child in psutil.Process(penstock.pid).children(recursive=True) if "java" in child.name()]
        hosts.sort(key=lambda child: child.pid)
        place = int(rng.integers(len(hosts) + 1))
        os.kill(penstock.pid if place == len(hosts) else hosts[place].pid, signal.SIGKILL)
        killed = True
    else:
        killed = False
    _, err = penstock.communicate(timeout=120)
    if penstock.returncode not in ((0, 2, -signal.SIGKILL) if killed else (0,)):
        return f"exit code {penstock.returncode} {'after' if killed else 'before'} a kill: {err.strip()[:600]}"
    return None
