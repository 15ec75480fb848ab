"""How fast placement is, and how good: ``uv run python benchmarks/bench_placement.py [--large]``, on one core.

Writes ``benchmarks/results/placement.json`` and ``placement.md``. The peer is the correlation paper's straightforward
algorithm in numpy (its greedy step only, so the comparison favours the peer).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from penstock.placement import algorithm, objective
from penstock.placement.base import Arrays, Ints
from penstock.placement.correlation import average_correlation
from penstock.placement.domains import Domains
from penstock.placement.jit import compiling
from penstock.workload.shapes import fluctuating

SEED = 0
OUT = Path(__file__).parent / "results"


def chains(hosts: int, operators: int, periods: int = 10) -> Arrays:
    """Chains of ten operators whose phases are evenly spread, as in the correlation paper; level 0.8."""
    rng = np.random.default_rng(SEED)
    count = operators // 10
    phases = [
        fluctuating(1.0, periods, cycle=10, ratio=4, offset=10 * c / min(count, 1000)) for c in range(min(count, 1000))
    ]
    rows = np.empty((operators, periods))
    for c in range(count):
        weights = rng.uniform(0.8, 1.2) * np.cumprod(np.r_[1.0, rng.uniform(0.8, 1.2, 9)])
        rows[10 * c : 10 * c + 10] = weights[:, None] * phases[c % len(phases)]
    part = np.repeat(np.arange(count), 10)
    return Arrays.of(rows * (0.8 * hosts / rows.mean(axis=1).sum()), np.ones(hosts), part=part)


def bursts(hosts: int, operators: int, periods: int = 1000) -> Arrays:
    """Five independent on-off sources, a tenth of the operators against the phase, as in Mace's Figure 12."""
    rng = np.random.default_rng(SEED)
    sources = np.empty((5, periods))
    for row in sources:
        at, high = 0, bool(rng.random() < 0.2)
        while at < periods:
            span = max(1, int(rng.exponential(5 if high else 20)))
            row[at : at + span] = 10.0 if high else 1.0
            at, high = at + span, not high
    share = 1 / np.arange(1, 6)
    reader = rng.choice(5, operators, p=share / share.sum())
    load = sources[reader] * rng.uniform(0.2, 2, operators)[:, None]
    against = rng.random(operators) < 0.1
    load[against] = (11 - sources[reader[against]]) * rng.uniform(0.2, 2, against.sum())[:, None]
    return Arrays.of(load * (0.75 * hosts / load.mean(axis=1).sum()), np.ones(hosts))


def plain_greedy(arrays: Arrays) -> Ints:
    """Return the paper's greedy step in numpy: all correlations anew for each operator placed."""
    where = np.full(len(arrays.names), -1)
    hosts = np.zeros((len(arrays.hosts), arrays.load.shape[1]))
    left = np.arange(len(where))
    series = arrays.load - arrays.mean[:, None]
    unit = series / np.linalg.norm(series, axis=1, keepdims=True)
    while len(left):
        host = int(np.argmin(hosts.mean(axis=1)))
        centred = hosts - hosts.mean(axis=1, keepdims=True)
        size = np.linalg.norm(centred, axis=1)
        rho = unit[left] @ (centred / np.where(size > 0, size, 1)[:, None]).T
        chosen = int(np.argmax(rho.mean(axis=1) - rho[:, host]))
        where[left[chosen]] = host
        hosts[host] += arrays.load[left[chosen]]
        left = np.delete(left, chosen)
    return where


def timed(solve: object, arrays: Arrays, repeat: int = 3) -> tuple[float, Ints]:
    """Return the least of some wall times (s), and the placement."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        where = solve(arrays, np.random.default_rng(SEED))  # type: ignore[operator]
        best = min(best, time.perf_counter() - start)
    return best, where


def main() -> None:
    """Measure, print, write."""
    rows: list[dict[str, object]] = []

    def note(name: str, arrays: Arrays, seconds: float, **more: float) -> None:
        rows.append(
            {"name": name, "hosts": len(arrays.hosts), "operators": len(arrays.names), "seconds": seconds, **more}
        )
        print(rows[-1], flush=True)

    with compiling():
        for name in ("correlation", "largest-first", "mace-climb"):
            algorithm(name)(chains(2, 20), np.random.default_rng(0))
        for hosts, operators in ((50, 500), (400, 4000)):
            arrays = chains(hosts, operators)
            peer, _ = timed(lambda given, _: plain_greedy(given), arrays, 1)
            seconds, where = timed(algorithm("correlation"), arrays)
            note(
                "correlation", arrays, seconds, target=0.005 if hosts == 50 else 0.5, plain_greedy=peer,
                average_correlation=average_correlation(arrays.host_load(where)),
            )  # fmt: skip
        for hosts, operators in ((100, 1000), (400, 4000)):
            arrays = bursts(hosts, operators)
            bound = objective.latency_bound(arrays)
            seconds, where = timed(algorithm("mace-climb", restarts=1, gap=0.1), arrays)
            note("mace-climb", arrays, seconds, target=0.4, times_bound=objective.latency(arrays, where) / bound)
        if "--large" in sys.argv:
            arrays = chains(10_000, 1_000_000)
            seconds, where = timed(algorithm("largest-first"), arrays, 2)
            note(
                "largest-first", arrays, seconds, target=0.5, worst_over_mean=float(arrays.host_mean(where).max() / 0.8)
            )
            seconds, where = timed(Domains(inner=algorithm("correlation"), count=200), arrays, 1)
            spread = float(arrays.host_load(where).std(axis=1).mean())
            note("correlation in 200 domains", arrays, seconds, target=30.0, mean_std=spread)
    import resource

    revision = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    head = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "revision": revision.stdout.strip(),
        "seed": SEED,
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    OUT.mkdir(exist_ok=True)
    (OUT / "placement.json").write_text(json.dumps({**head, "rows": rows}, indent=2) + "\n")
    lines = ["# Placement", "", *(f"- {key}: {value}" for key, value in head.items()), ""]
    lines += ["| algorithm | hosts | operators | seconds | target | further |", "|---|---|---|---|---|---|"]
    for row in rows:
        more = {
            key: value for key, value in row.items() if key not in ("name", "hosts", "operators", "seconds", "target")
        }
        further = ", ".join(f"{key} {value:.4g}" for key, value in more.items())
        lines.append(
            f"| {row['name']} | {row['hosts']} | {row['operators']} | {row['seconds']:.4g} | {row['target']} "
            f"| {further} |"
        )
    (OUT / "placement.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
