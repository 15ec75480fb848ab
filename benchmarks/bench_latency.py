"""How well the latency models agree with the simulator, and how fast they and the decisions made with them are.

Run: ``python benchmarks/bench_latency.py agreement [N]`` (minutes) and ``python benchmarks/bench_latency.py speed``
(half a minute, alone on the machine); each writes its part of ``results/latency.json`` and ``.md``.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from about import RESULTS, ROOT, revision

sys.path.insert(0, str(ROOT / "tests/latency"))

from latency_cases import random_case, random_network, renamed, runs, slack

from penstock.cluster import Cluster, Placement
from penstock.errors import Infeasible
from penstock.latency.mace import mace
from penstock.latency.pipelined import pipelined
from penstock.latency.waits import placed_waits
from penstock.load import load_model
from penstock.network import Network, chains
from penstock.simulation import Options, simulate
from penstock.sizing.admit import Candidates, admit, merged
from penstock.sizing.fleet import Fleet
from penstock.sizing.provision import provision
from penstock.workload import Rates

SEED = 1000


def simulated(network: Any, cluster: Any, placement: Any, rates: Any) -> float:
    result = simulate(network, cluster, placement, rates, Options(policy="stimulus", drain=True))
    return float(result.latency["max"])


def against_simulator(count: int, joins: bool) -> dict[str, Any]:
    """Return errors of the worst latency on random DAGs of up to 5 hosts and 30 operators, overloaded for a while."""
    rows = []
    for seed in range(SEED, SEED + count):
        model, placement, cluster = random_case(seed, joins=joins)
        true = simulated(model.network, cluster, placement, model.rates)
        found, low = pipelined(model, placement, cluster), mace(model, placement, cluster)
        upper = low.bounds["upper"]
        rows.append(
            (true, found.total.worst, low.total.worst, slack(model, cluster), np.nan if upper is None else upper)
        )
    true, pipe, low, span, upper = np.array(rows).T

    def errors(found: Any) -> dict[str, float]:
        error = np.abs(found - true) / true
        return {
            "mean": float(error.mean()),
            "p99": float(np.quantile(error, 0.99)),
            "within_8_percent": float((error <= 0.08).mean()),
            "below_by_more_than_slack": int((true - found > 0.1 + span).sum()),
        }

    known = np.isfinite(upper)
    return {
        "cases": count,
        "pipelined": errors(pipe),
        "mace": errors(low),
        "mace_above_simulator": int((low > true + 0.1 + span).sum()),
        "upper_bound_known": int(known.sum()),
        "upper_bound_broken": int((true[known] > upper[known]).sum()),
    }


def verdicts(count: int, name: str) -> dict[str, Any]:
    """Return how often decisions near their bound agree with what the simulator measures."""
    agree = {"admit": 0, "provision": 0, "select": 0}
    wrongly = {"admit": 0, "provision": 0}
    done = {"admit": 0, "provision": 0, "select": 0}
    for seed in range(count):
        rng = np.random.default_rng([SEED, seed])
        rates = Rates.of(1.0, {f"s{k}": rng.choice([50.0, 150.0, 400.0], 12) for k in range(2)})
        running = random_network(rng, int(rng.integers(3, 15)), 2, joins=False)
        new = renamed(random_network(rng, int(rng.integers(1, 3)), 2, joins=False), "new-")
        cluster = Cluster.uniform(int(rng.integers(2, 5)))
        placement = Placement({n: str(rng.choice(list(cluster.hosts))) for n in running.operators})
        found = admit(runs(running, rates, placement, cluster), new, 1.0, model=name)
        if found.after.total.worst > 0.2:
            bound = found.after.total.worst * float(rng.uniform(0.9, 1.1))
            found = admit(runs(running, rates, placement, cluster), new, bound, model=name)
            whole = merged(running, new)
            both = Placement({**placement, **found.placement})
            true = simulated(whole, cluster, both, rates)
            span = 0.1 + slack(load_model(whole, rates), cluster)
            done["admit"] += 1
            agree["admit"] += found.admitted == (true <= bound)
            wrongly["admit"] += found.admitted and true > bound + span
        model = load_model(running, rates)
        first = provision(model, Fleet.of(model, Cluster.uniform(1), ["h1"]), 1e6, name=name)
        bound = float(rng.uniform(0.2, 0.8)) * max(first.estimate.total.worst, 0.5)
        try:
            fewest = provision(model, Fleet.of(model, Cluster.uniform(1), ["h1"]), bound, name=name)
        except Infeasible:
            fewest = None
        if fewest is not None:
            true = simulated(running, fewest.cluster, fewest.placement, rates)
            span = 0.1 + slack(model, fewest.cluster)
            done["provision"] += 1
            agree["provision"] += true <= bound
            wrongly["provision"] += true > bound + span
        trials = [Placement({n: str(rng.choice(list(cluster.hosts))) for n in running.operators}) for _ in range(3)]
        predicted = [(pipelined if name == "pipelined" else mace)(model, t, cluster).total.worst for t in trials]
        true_of = [simulated(running, cluster, t, rates) for t in trials]
        done["select"] += 1
        # The plan that is predicted to be the best is the best, or within the slack of it.
        agree["select"] += true_of[int(np.argmin(predicted))] <= min(true_of) + 0.1 + slack(model, cluster)
    return {"cases": done, "agree": agree, "wrongly_yes_beyond_the_bar": wrongly}


def agreement(count: int) -> dict[str, Any]:
    return {
        "random_dags": against_simulator(count, joins=False),
        "random_dags_with_joins": against_simulator(count, joins=True),
        "verdicts_pipelined": verdicts(100, "pipelined"),
        "verdicts_mace": verdicts(100, "mace"),
    }


def median_ms(work: Callable[[], Any], times: int = 15) -> float:
    work()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return 1000 * statistics.median(found)


def evaluation(hosts: int, operators: int, sources: int, rng: np.random.Generator, times: int) -> dict[str, float]:
    """Return the time to weigh one placement over 1,000 periods, from coefficients and from whole load series."""
    few = rng.random((operators, sources), np.float32)
    rates = rng.random((sources, 1000), np.float32)
    where = rng.integers(0, hosts, operators)
    capacity = np.full(hosts, np.float32(operators / hosts * sources / 4))
    one = np.float32(1)
    row = {"coefficients_ms": median_ms(lambda: placed_waits(few, where, capacity, one, rates), times)}
    load = few @ rates
    row["dense_ms"] = median_ms(lambda: placed_waits(load, where, capacity, one), times)
    return row


def on_few_sources(network: Network, count: int) -> Network:
    """Return the chains with their first operators on the first few sources."""
    few = list(network.sources)[:count]
    rows = [
        attrs.evolve(o, inputs=(few[k % count],)) if o.inputs[0] in network.sources else o
        for k, o in enumerate(network.operators.values())
    ]
    return Network.of(network.name, [network.sources[name] for name in few], rows, network.sinks.values())


def speed() -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    found: dict[str, Any] = {}
    found["400 x 4,000 x 1,000"] = evaluation(400, 4000, 10, rng, 15)
    found["10,000 x 1,000,000 x 1,000"] = evaluation(10_000, 1_000_000, 50, rng, 3)
    costs = rng.uniform(0.2e-3, 2e-3, (400, 10))
    network = on_few_sources(chains(costs.tolist()), 10)
    rates = Rates.of(1.0, {name: rng.choice([5.0, 20.0, 100.0], 1000) for name in network.sources})
    new = renamed(chains([[1e-3, 1e-3]]), "new-")
    placement = Placement({n: f"h{1 + k % 400}" for k, n in enumerate(network.operators)})
    cluster = Cluster.uniform(400)
    whole = merged(network, new)
    loads = load_model(whole, rates)
    found["admit 2 operators, 400 hosts x 4,000 operators x 1,000 periods"] = {
        "decision_ms": median_ms(
            lambda: Candidates(loads, whole, tuple(new.operators), placement, cluster).by_waits(), 5
        ),
        "with_load_models_and_estimates_ms": median_ms(
            lambda: admit(runs(network, rates, placement, cluster), new, 1.0), 3
        ),
    }
    # The same decision by simulation, on a size at which it can be done at all: one simulation for every host.
    network, hosts = chains(costs[:20].tolist()), 20
    rates = Rates.of(1.0, {name: rng.choice([5.0, 20.0, 100.0], 60) for name in network.sources})
    new = renamed(chains([[2e-3]]), "new-")
    placement = Placement({n: f"h{1 + k % hosts}" for k, n in enumerate(network.operators)})
    cluster, whole = Cluster.uniform(hosts), merged(network, new)

    def by_simulation() -> float:
        return min(
            simulated(whole, cluster, Placement({**placement, **dict.fromkeys(new.operators, host)}), rates)
            for host in cluster.hosts
        )

    ours = median_ms(lambda: admit(runs(network, rates, placement, cluster), new, 1.0), 5)
    peer = median_ms(by_simulation, 1)
    found["admit 1 operator, 20 hosts x 200 operators x 60 periods"] = {
        "ours_ms": ours,
        "by_simulation_ms": peer,
        "ratio": peer / ours,
    }
    return found


def write(part: str, found: dict[str, Any]) -> None:
    path = RESULTS / "latency.json"
    document = json.loads(path.read_text()) if path.exists() else {}

    document[part] = {
        "revision": revision(),
        "seed": SEED,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "results": found,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    lines = ["# Latency models", "", "Made by `python benchmarks/bench_latency.py`.", ""]
    for name, section in sorted(document.items()):
        made = f"{section['machine']}; revision {section['revision']}; seed {section['seed']}."
        lines += [f"## {name}", "", made, ""]
        lines += ["| what | value |", "|---|---|"]
        lines += [f"| {key} | {value} |" for key, value in flat(section["results"])]
        lines.append("")
    (RESULTS / "latency.md").write_text("\n".join(lines))


def flat(table: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in table.items():
        name = f"{before}{key}".replace("_", " ")
        rows += flat(value, f"{name}: ") if isinstance(value, dict) else [(name, f"{value:.4g}")]
    return rows


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "speed"
    write(what, agreement(int(sys.argv[2]) if len(sys.argv) > 2 else 1000) if what == "agreement" else speed())
    print((RESULTS / "latency.md").read_text())
