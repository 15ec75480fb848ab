"""How fast placement is, and how good: ``uv run python benchmarks/bench_placement.py [--large]``, on one core.

Writes ``benchmarks/results/placement.json`` and ``placement.md``. Peers, run side by side: the correlation paper's
straightforward algorithm in numpy (its greedy step only, so the comparison favours the peer), and for the exact
answer the mixed integer program of Mace's objective in HiGHS (scipy) and, where installed, CP-SAT (OR-tools).
``--oracle`` compares every heuristic with the exact answer on 1,000 random networks. ``--bound`` measures nothing but
how near mace-climb comes to its lower bound on ten instances of several generators (or of those that are named), within
two budgets of exchanges; ``--growth`` measures how long each algorithm takes as hosts and operators grow, and draws
``docs/background/placement-growth.svg``.
All seconds are those of the processor. Rows that were not measured again stay as they were.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from about import RESULTS, revision

from penstock.errors import Infeasible
from penstock.experiments.mace import bursts as figure_12
from penstock.native.jit import compiling
from penstock.pictures.save import save
from penstock.placement import algorithm, objective
from penstock.placement.base import Arrays, Ints
from penstock.placement.bound import whole_bound
from penstock.placement.correlation import average_correlation
from penstock.placement.distribute import Given, improve
from penstock.placement.domains import Domains
from penstock.workload.shapes import fluctuating

SEED = 0
PLOT = Path(__file__).parent.parent / "docs" / "background" / "placement-growth.svg"
BUDGETS, GAP = (60_000_000, 1_500_000_000), 0.05
"""Exchanges tried in about 2 s and 20 s of processor time on 400 hosts, and the distance from the bound to reach."""
PATIENCE = 2.0
"""Seconds for one answer, after which an algorithm is given nothing larger."""


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


def bursts(hosts: int, operators: int, periods: int = 1000, level: float = 0.75, seed: int = SEED) -> Arrays:
    """Five independent on-off sources, a tenth of the operators against the phase, evenly drawn selectivities."""
    rng = np.random.default_rng(seed)
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
    return Arrays.of(load * (level * hosts / load.mean(axis=1).sum()), np.ones(hosts))


def uneven(hosts: int, operators: int, seed: int) -> Arrays:
    """Gamma-distributed loads on sources with bursts of their own, on hosts of 1, 2 and 4 benchmark cores."""
    rng = np.random.default_rng(seed)
    high = np.repeat(rng.random((20, 100)) < 0.25, 5, axis=1)
    sources = np.where(high, rng.uniform(3, 8, (20, 500)), 1.0)
    load = sources[rng.integers(0, 20, operators)] * rng.gamma(3.0, 1.0, (operators, 1))
    capacity = rng.choice([1.0, 2.0, 4.0], hosts)
    return Arrays.of(load * (0.8 * capacity.sum() / load.mean(axis=1).sum()), capacity)


def near_bound() -> list[dict[str, object]]:
    """Return how near mace-climb comes to its bound: seconds, worst and median over ten instances of each kind."""
    kinds = {
        "Figure 12": lambda hosts, seed: figure_12(hosts // 20, np.random.default_rng([seed, hosts // 20])),
        "even selectivities": lambda hosts, seed: bursts(hosts, 10 * hosts, seed=seed),
        "uneven hosts": lambda hosts, seed: uneven(hosts, 10 * hosts, seed),
    }
    rows: list[dict[str, object]] = []
    asked = [kind for kind in kinds if kind in sys.argv]
    for kind, make in {kind: kinds[kind] for kind in asked or kinds}.items():
        for hosts in (20, 100, 400):
            given = [make(hosts, seed) for seed in range(10)]
            bounds = [objective.latency_bound(arrays) for arrays in given]
            # What is proved besides, of operators that are whole: `place --tighten`.
            proved = [whole_bound(arrays) for arrays in given] if kind == "Figure 12" else bounds
            found, spent = [math.inf] * len(given), [0.0] * len(given)
            for budget in BUDGETS if kind != "uneven hosts" else BUDGETS[:1]:
                for k, (arrays, bound) in enumerate(zip(given, bounds, strict=True)):
                    # What has reached the goal within a smaller budget is the same within a larger one.
                    if found[k] <= 1 + GAP + 1e-6:
                        continue
                    start = time.process_time()
                    where = algorithm("mace-climb", budget=budget, gap=GAP)(arrays, np.random.default_rng(SEED))
                    spent[k] = time.process_time() - start
                    assert (arrays.host_mean(where) <= arrays.usable * (1 + 1e-9)).all()
                    found[k] = objective.latency(arrays, where) / bound
                near = [value * bound / least for value, bound, least in zip(found, bounds, proved, strict=True)]
                rows.append(
                    {
                        "name": f"mace-climb, {kind}, budget {budget:.0e}", "hosts": hosts, "operators": 10 * hosts,
                        "seconds": max(spent), "seconds_median": float(np.median(spent)), "instances": len(given),
                        "times_bound_worst": max(found), "times_bound_median": float(np.median(found)),
                        "above_1.1": sum(value > 1.1 for value in found),
                        "above_1.05": sum(value > 1.05 * (1 + 1e-6) for value in found),
                        "times_proved_worst": max(near), "times_proved_median": float(np.median(near)),
                        "proved_above_1.1": sum(value > 1.1 for value in near),
                        "proved_above_1.05": sum(value > 1.05 * (1 + 1e-6) for value in near),
                    }
                )  # fmt: skip
                print(rows[-1], flush=True)
    return rows


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


def milp(arrays: Arrays) -> tuple[float, float]:
    """Return seconds and value of the least worst latency, as a mixed integer program in HiGHS."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_array

    m, d = arrays.load.shape
    n = len(arrays.hosts)
    size = m * n + n * d + 1  # x[o, h], excess[h, t], the worst
    rows = lil_array((m + n + 2 * n * d, size))
    low, high = np.full(rows.shape[0], -np.inf), np.zeros(rows.shape[0])
    for o in range(m):
        rows[o, o * n : o * n + n] = 1.0
        low[o] = high[o] = 1.0
    for h in range(n):
        rows[m + h, h : m * n : n] = arrays.mean
        high[m + h] = arrays.usable[h]
        for t in range(d):
            step, last = m + n + h * d + t, m + n + n * d + h * d + t
            rows[step, h : m * n : n] = arrays.load[:, t]
            rows[step, m * n + h * d + t] = -1.0
            if t:
                rows[step, m * n + h * d + t - 1] = 1.0
            high[step] = arrays.capacity[h]
            rows[last, m * n + h * d + t] = 1.0 / arrays.capacity[h]
            rows[last, size - 1] = -1.0
    goal = np.zeros(size)
    goal[-1] = 1.0
    whole = np.r_[np.ones(m * n), np.zeros(size - m * n)]
    upper = np.r_[np.ones(m * n), np.full(size - m * n, np.inf)]
    start = time.process_time()
    found = milp(
        goal, constraints=LinearConstraint(rows.tocsr(), low, high), integrality=whole, bounds=Bounds(0, upper),
        options={"time_limit": 30.0, "mip_rel_gap": 0.0},
    )  # fmt: skip
    return time.process_time() - start, float(found.fun) * arrays.period


def cp_sat(arrays: Arrays) -> tuple[float, float] | None:
    """Return the same by CP-SAT with one worker, in units of 1e-4 (its numbers are whole); None where it is missing."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    scale = 10_000
    m, d = arrays.load.shape
    n = len(arrays.hosts)
    load = np.rint(arrays.load * scale).astype(int)
    model = cp_model.CpModel()
    x = [[model.new_bool_var("") for _ in range(n)] for _ in range(m)]
    worst = model.new_int_var(0, int(load.sum()), "")
    for row in x:
        model.add_exactly_one(row)
    for h in range(n):
        capacity = round(arrays.capacity[h] * scale)
        mean = np.rint(arrays.mean * scale).astype(int)
        model.add(sum(int(mean[o]) * x[o][h] for o in range(m)) <= round(arrays.usable[h] * scale))
        before = 0
        for t in range(d):
            excess = model.new_int_var(0, int(load.sum()), "")
            model.add(excess >= before + sum(int(load[o, t]) * x[o][h] for o in range(m)) - capacity)
            model.add(round(arrays.capacity[h]) * worst >= excess)
            before = excess
    model.minimize(worst)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 30.0
    start = time.process_time()
    solver.solve(model)
    return time.process_time() - start, solver.objective_value / scale * arrays.period


def oracle(count: int) -> dict[str, float]:
    """Compare heuristics with the exact answer on random networks of up to 4 hosts and 12 operators."""
    heuristics = [
        "correlation", "correlation-one-way", "correlation-two-way", "correlation-exchange", "largest-first", "random",
        "connected", "potential-greedy", "potential-dynamic", "economical", "resilient", "mace-climb",
    ]  # fmt: skip
    near = known = beaten = 0
    worst = 1.0
    for seed in range(count):
        rng = np.random.default_rng([SEED, seed])
        hosts, operators = int(rng.integers(2, 5)), int(rng.integers(4, 13))
        base = rng.uniform(0.2, 1.0, (operators, 1))
        phases = np.array([fluctuating(1.0, 20.0, offset=offset) for offset in rng.uniform(0, 10, operators)])
        capacity = rng.choice([1.0, 1.0, 2.0], hosts)
        load = base * phases
        arrays = Arrays.of(load * (0.75 * capacity.sum() / load.mean(axis=1).sum()), capacity)
        for goal in ("latency", "balance"):
            try:
                best = objective.value(arrays, algorithm("exact", objective=goal)(arrays, rng), goal)
            except Infeasible:
                continue
            for name in heuristics:
                options = {"restarts": 20} if name == "mace-climb" else {}
                try:
                    where = algorithm(name, **options)(arrays, np.random.default_rng(seed))
                except Infeasible:
                    continue
                if (arrays.host_mean(where) > arrays.usable * (1 + 1e-9)).any():
                    continue
                value = objective.value(arrays, where, goal)
                beaten += value < best - 1e-9
                if name == "mace-climb" and goal == "latency":
                    known += 1
                    near += value <= best * 1.05 + 1e-9
                    worst = max(worst, value / best if best > 1e-9 else 1.0)
    return {"networks": count, "exact_beaten": beaten, "climb_within_5_percent": near / known, "climb_worst": worst}


def timed(solve: object, arrays: Arrays, repeat: int = 3) -> tuple[float, Ints]:
    """Return the least of some processor times (s), and the placement: others may use the machine too."""
    best = np.inf
    for _ in range(repeat):
        start = time.process_time()
        where = solve(arrays, np.random.default_rng(SEED))  # type: ignore[operator]
        best = min(best, time.process_time() - start)
    return best, where


def growth() -> None:
    """Measure how long answers take as hosts and operators grow, and draw it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "penstock"
    solvers = {
        "largest-first": algorithm("largest-first"),
        "correlation": algorithm("correlation"),
        "correlation-two-way": algorithm("correlation-two-way"),
        "mace-climb": algorithm("mace-climb", restarts=1, gap=0.1),
        "resilient": algorithm("resilient"),
        "potential-greedy": algorithm("potential-greedy"),
    }
    hosts = [10, 30, 100, 300, 1000, 3000, 10_000]
    operators = [300, 1000, 3000, 10_000, 30_000, 100_000]
    panels = {
        "hosts, 10 operators each": [(n, (n, 10 * n)) for n in hosts],
        "operators on 100 hosts": [(m, (100, m)) for m in operators],
    }
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    figure, all_axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    with compiling():
        for solve in solvers.values():
            solve(chains(2, 20), np.random.default_rng(0))
        for axes, (title, sizes) in zip(all_axes, panels.items(), strict=True):
            for name, solve in {**solvers, "correlation in domains of 50 hosts": None}.items():
                series = found.setdefault(title, {}).setdefault(name, [])
                for at, (n, m) in sizes:
                    if solve is None and n < 100:
                        continue
                    given = solve or Domains(inner=algorithm("correlation"), count=max(1, n // 50))
                    seconds, _ = timed(given, chains(n, m), 1)
                    series.append((at, seconds))
                    print(title, name, n, m, f"{seconds:.4g}", flush=True)
                    if seconds > PATIENCE:
                        break
                axes.plot(*zip(*series, strict=True), marker="o", markersize=3, label=name)
            axes.set(xscale="log", yscale="log", xlabel=title)
            axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("seconds, one core")
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, PLOT)
    (RESULTS / "placement_growth.json").write_text(json.dumps(found, indent=1) + "\n")


def measured(note: Callable[..., None]) -> None:
    """Measure speed beside the peers, and what the options ask for."""
    for hosts, operators in ((50, 500), (400, 4000)):
        arrays = chains(hosts, operators)
        peer, _ = timed(lambda given, _: plain_greedy(given), arrays, 1)
        seconds, where = timed(algorithm("correlation"), arrays)
        note(
            "correlation", arrays, seconds, target=0.005 if hosts == 50 else 0.5, plain_greedy=peer,
            average_correlation=average_correlation(arrays.host_load(where)),
        )  # fmt: skip
    even = np.arange(len(arrays.names)) % len(arrays.hosts)
    start = time.process_time()
    pairs = improve(Given(arrays.load, arrays.mean, arrays.usable, np.ones(len(even), bool), even), 1.0)
    note("two-way step of one pair", arrays, (time.process_time() - start) / pairs, target=1e-5, pairs=pairs)
    for hosts, operators in ((100, 1000), (400, 4000)):
        arrays = bursts(hosts, operators)
        bound = objective.latency_bound(arrays)
        seconds, where = timed(algorithm("mace-climb", restarts=1, gap=0.1), arrays)
        note("mace-climb", arrays, seconds, target=0.4, times_bound=objective.latency(arrays, where) / bound)
    small = bursts(3, 12, 40, 0.95)
    seconds, where = timed(algorithm("exact", objective="latency"), small, 1)
    seconds, where = timed(algorithm("exact", objective="latency"), small)
    peers = {"highs": milp(small), "cp_sat": cp_sat(small)}
    note(
        "exact (latency)", small, seconds, value=objective.latency(small, where),
        **{f"{peer}_{key}": value for peer, got in peers.items() if got
           for key, value in zip(("seconds", "value"), got, strict=True)},
    )  # fmt: skip
    if "--oracle" in sys.argv:
        start = time.process_time()
        found = oracle(1000)
        note("oracle", small, time.process_time() - start, **found)
    if "--large" in sys.argv:
        arrays = bursts(10_000, 1_000_000, 200)
        bound = objective.latency_bound(arrays)
        solve = Domains(inner=algorithm("mace-climb", restarts=1, gap=0.05), count=100)
        seconds, where = timed(solve, arrays, 1)
        note(
            "mace-climb in 100 domains, 200 periods", arrays, seconds, target=60.0,
            times_bound=objective.latency(arrays, where) / bound,
        )  # fmt: skip
        del arrays
        arrays = chains(10_000, 1_000_000)
        seconds, where = timed(algorithm("largest-first"), arrays, 2)
        note("largest-first", arrays, seconds, target=0.5, worst_over_mean=float(arrays.host_mean(where).max() / 0.8))
        seconds, where = timed(Domains(inner=algorithm("correlation"), count=200), arrays, 1)
        spread = float(arrays.host_load(where).std(axis=1).mean())
        note("correlation in 200 domains", arrays, seconds, target=30.0, mean_std=spread)


def main() -> None:
    """Measure, print, write."""
    if "--growth" in sys.argv:
        growth()
        return
    rows: list[dict[str, object]] = []

    def note(name: str, arrays: Arrays, seconds: float, **more: float) -> None:
        rows.append(
            {"name": name, "hosts": len(arrays.hosts), "operators": len(arrays.names), "seconds": seconds, **more}
        )
        print(rows[-1], flush=True)

    with compiling():
        for name in ("correlation", "largest-first", "mace-climb"):
            algorithm(name)(chains(2, 20), np.random.default_rng(0))
        if "--bound" in sys.argv:
            rows += near_bound()
        else:
            measured(note)
    import resource

    kept = RESULTS / "placement.json"
    held = json.loads(kept.read_text()) if kept.exists() else {"rows": []}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    head = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "revision": revision(),
        "seed": SEED,
        "peak_memory_gb": max(peak, held.get("peak_memory_gb", 0.0)),
    }
    RESULTS.mkdir(exist_ok=True)
    fresh = {(row["name"], row["hosts"], row["operators"]) for row in rows}
    rows += [row for row in held["rows"] if (row["name"], row["hosts"], row["operators"]) not in fresh]
    (RESULTS / "placement.json").write_text(json.dumps({**head, "rows": rows}, indent=2) + "\n")
    lines = ["# Placement", "", *(f"- {key}: {value}" for key, value in head.items()), ""]
    lines += ["| algorithm | hosts | operators | seconds | target | further |", "|---|---|---|---|---|---|"]
    for row in rows:
        more = {
            key: value for key, value in row.items() if key not in ("name", "hosts", "operators", "seconds", "target")
        }
        further = ", ".join(f"{key} {value:.4g}" for key, value in more.items())
        lines.append(
            f"| {row['name']} | {row['hosts']} | {row['operators']} | {row['seconds']:.4g} | {row.get('target', '')} "
            f"| {further} |"
        )
    (RESULTS / "placement.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
