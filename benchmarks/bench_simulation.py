"""Speed of the simulator, beside SimPy and Ciw on the same networks, each written as its documentation does.

Run: ``uv run --with simpy --with ciw benchmarks/bench_simulation.py`` (about a minute); writes
``results/simulation.json`` and ``.md``.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from about import RESULTS, revision

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source, chains
from penstock.simulation import Options, simulate
from penstock.workload import Rates

SEED = 1


def side_by_side(engines: dict[str, Callable[[], tuple[float, float]]], times: int = 3) -> dict[str, dict[str, float]]:
    """Return events and tuples per second: medians of runs in turns, so that a noisy moment hits every engine."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    for _ in range(times):
        for name, function in engines.items():
            began = time.perf_counter()
            events, tuples = function()
            seconds = time.perf_counter() - began
            runs[name].append((events / seconds, tuples / seconds))
    return {
        name: {
            "events_per_s": statistics.median(events for events, _ in found),
            "tuples_per_s": statistics.median(tuples for _, tuples in found),
        }
        for name, found in runs.items()
    }


def stations(count: int) -> Network:
    """Return Poisson arrivals at exponential stations in a row."""
    operators = [
        Operator(
            name=f"o{k:02}", kind="map", inputs=(f"o{k - 1:02}" if k else "s",), cost=(1.0,), service="exponential"
        )
        for k in range(count)
    ]
    return Network.of(
        "row", [Source(name="s", arrivals="poisson")], operators, [Sink(name="t", input=operators[-1].name)]
    )


def penstock_row(count: int, tuples: int) -> tuple[float, float]:
    network = stations(count)
    placement = {name: f"h{k + 1}" for k, name in enumerate(network.operators)}
    result = simulate(
        network, Cluster.uniform(count), placement, Rates.constant({"s": 0.8}, tuples / 0.8, 1e3), Options(seed=SEED)
    )
    return result.events, result.streams["s->o00"]["arrived"]


def simpy_row(count: int, tuples: int) -> tuple[float, float]:
    """SimPy as in its bank example: a process per customer, a resource per counter."""
    import random

    import simpy

    random.seed(SEED)
    env = simpy.Environment()
    counters = [simpy.Resource(env, capacity=1) for _ in range(count)]
    waits: list[float] = []

    def customer(env: Any) -> Any:
        arrive = env.now
        for counter in counters:
            with counter.request() as request:
                yield request
                yield env.timeout(random.expovariate(1.0))
        waits.append(env.now - arrive)

    def source(env: Any) -> Any:
        for _ in range(tuples):
            env.process(customer(env))
            yield env.timeout(random.expovariate(0.8))

    env.process(source(env))
    env.run()
    return next(env._eid), tuples


def ciw_row(count: int, tuples: int) -> tuple[float, float]:
    """Ciw as in its tutorial: a network of nodes, a simulation until a time, its records."""
    import ciw

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=0.8)] + [None] * (count - 1),
        service_distributions=[ciw.dists.Exponential(rate=1.0)] * count,
        routing=[[float(j == i + 1) for j in range(count)] for i in range(count)],
        number_of_servers=[1] * count,
    )
    ciw.seed(SEED)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(tuples / 0.8)
    records = simulation.get_all_records()
    served = len(records)
    return served + served / count, served / count


def paper(
    hosts: int, rows: int, length: int, level: float, seconds: float, policy: str, times: int = 3
) -> dict[str, Any]:
    """Chains of filters spread over hosts, every feature compiled in."""
    network = chains([[1e-3] * length] * rows)
    cluster = Cluster.uniform(hosts)
    rng = np.random.default_rng(SEED)
    slots = np.resize(np.arange(hosts), rows * length)
    rng.shuffle(slots)
    placement = {name: f"h{slot + 1}" for name, slot in zip(network.operators, slots.tolist(), strict=True)}
    rate = level * hosts / (rows * length * 1e-3)
    rates = Rates.constant(dict.fromkeys(network.sources, rate), seconds)
    short = Rates.constant(dict.fromkeys(network.sources, rate), min(1e-3, seconds / 1000), 1e-4)
    # What a run of no length takes is the set-up: reading names into arrays.
    began = time.perf_counter()
    simulate(network, cluster, placement, short, Options(policy=policy, seed=SEED))
    setup = time.perf_counter() - began
    speeds = []
    for _ in range(times):
        began = time.perf_counter()
        result = simulate(network, cluster, placement, rates, Options(policy=policy, seed=SEED))
        speeds.append(result.events / (time.perf_counter() - began - setup))
    return {"hosts": hosts, "operators": rows * length, "policy": policy, "events": result.events, "setup_s": setup,
            "events_per_s": statistics.median(speeds)}  # fmt: skip


def memory() -> dict[str, float]:
    """Peak memory after 10^6 and after 10^8 events of the same stable run, and bytes per queued tuple."""
    network = stations(10)
    placement = {name: f"h{k + 1}" for k, name in enumerate(network.operators)}

    def peak(seconds: float) -> float:
        simulate(network, Cluster.uniform(10), placement, Rates.constant({"s": 0.8}, seconds, 1e3), Options(seed=SEED))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    first = peak(1e5)
    long = peak(1.1e7)
    overloaded = Network.of(
        "one",
        [Source(name="s")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(1e3,))],
        [Sink(name="t", input="a")],
    )
    result = simulate(overloaded, Cluster.uniform(1), {"a": "h1"}, Rates.constant({"s": 4e6}, 1.0))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    queued = result.totals["queued"]
    return {"mib_after_1e6_events": first, "mib_after_1e8_events": long, "queued": queued,
            "bytes_per_queued_tuple": (after - long) * 2**20 / queued}  # fmt: skip


def start() -> dict[str, float]:
    """Wall time of the whole command on a small network: with nothing compiled before, and later."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "n.toml").write_text(
            'name = "n"\n[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.001\n[sinks.t]\ninput = "a"\n'
        )
        command = [sys.executable, "-m", "penstock.cli.app", "simulate", f"{folder}/n.toml", "--hosts", "1", "--rates",
                   "s=100", "--placement", "a=h1", "--json"]  # fmt: skip

        def seconds() -> float:
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            return time.perf_counter() - began

        from penstock.simulation import native

        kernels = list(native._folder().glob("loop-*.o"))
        for kernel in kernels:
            kernel.rename(kernel.with_suffix(".aside"))
        try:
            first = seconds()
        finally:
            for kernel in kernels:
                kernel.with_suffix(".aside").rename(kernel)
        return {"first_s": first, "later_s": statistics.median(seconds() for _ in range(5))}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.processor())


def main() -> None:
    only = sys.argv[1:] or ["peers", "scale", "memory", "start"]
    path = RESULTS / "simulation.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    cpu = _cpu()
    found["machine"] = {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    found["revision"], found["seed"] = revision(), SEED
    penstock_row(1, 1000)  # compiles, if need be
    if "memory" in only:
        found["memory"] = memory()  # first, since it reads this process's peak
    if "peers" in only:
        for name, count, few in (("M/M/1", 1, 40_000), ("tandem of 10", 10, 8_000)):
            engines = side_by_side(
                {
                    "penstock": lambda c=count: penstock_row(c, 1_000_000 // c),
                    "simpy": lambda c=count, n=few: simpy_row(c, n),
                    "ciw": lambda c=count, n=few: ciw_row(c, n // 4),
                }
            )
            ours, simpy, ciw = engines.values()
            found[name] = {"penstock": ours, "simpy": simpy, "ciw": ciw,
                           "events_over_simpy": ours["events_per_s"] / simpy["events_per_s"],
                           "tuples_over_simpy": ours["tuples_per_s"] / simpy["tuples_per_s"],
                           "tuples_over_ciw": ours["tuples_per_s"] / ciw["tuples_per_s"]}  # fmt: skip
    if "scale" in only:
        found["scale"] = [paper(20, 20, 10, 0.9, 400.0, policy) for policy in ("fcfs", "round-robin", "stimulus")]
        found["scale"].append(paper(10_000, 10_000, 10, 0.9, 2.0, "fcfs", times=1))
    if "start" in only:
        found["start"] = start()
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")
    write_markdown(found)
    print((RESULTS / "simulation.md").read_text())


def write_markdown(found: dict[str, Any]) -> None:
    machine = found["machine"]
    lines = [
        "# Speed of the simulator",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, revision {found['revision']}, "
        f"seed {found['seed']}; medians of 3 runs on one core, the engines in turns. Events: of penstock arrivals, "
        "services and crossings, of SimPy what its engine schedules, of Ciw arrivals and services.",
        "",
        "| network | engine | events/s | tuples/s |",
        "| --- | --- | ---: | ---: |",
    ]
    rows = {name: found[name] for name in ("M/M/1", "tandem of 10") if name in found}
    for name, row in rows.items():
        for engine in ("penstock", "simpy", "ciw"):
            speed = row[engine]
            lines.append(f"| {name} | {engine} | {speed['events_per_s']:,.0f} | {speed['tuples_per_s']:,.0f} |")
    for name, row in rows.items():
        lines += [
            "",
            f"{name}: {row['events_over_simpy']:.1f} x SimPy's events/s, {row['tuples_over_simpy']:.0f} x its "
            f"tuples/s, {row['tuples_over_ciw']:.0f} x Ciw's tuples/s.",
        ]
    lines += ["", "| hosts | operators | policy | events/s | set-up (s) |", "| ---: | ---: | --- | ---: | ---: |"]
    for row in found.get("scale", []):
        speed, setup = f"{row['events_per_s']:,.0f}", f"{row['setup_s']:.2f}"
        lines.append(f"| {row['hosts']:,} | {row['operators']:,} | {row['policy']} | {speed} | {setup} |")
    if "memory" in found:
        row = found["memory"]
        lines += [
            "",
            f"Peak memory {row['mib_after_1e6_events']:.0f} MiB after 10^6 events, "
            f"{row['mib_after_1e8_events']:.0f} MiB after 10^8; {row['bytes_per_queued_tuple']:.0f} bytes per queued "
            f"tuple ({row['queued']:,} queued).",
        ]
    if "start" in found:
        row = found["start"]
        lines += [
            "",
            f"The whole command on a small network: {row['first_s']:.1f} s when machine code must be made first, "
            f"{row['later_s']:.2f} s later.",
        ]
    (RESULTS / "simulation.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
