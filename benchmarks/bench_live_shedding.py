"""A plan table in use on real Spark: the auction network under twice the load that fits, with and without the plan.

Two embedded hosts. Costs are calibrated before, alone and in place; each host's quota leaves room for what a batch
costs by itself. Delivered: weighted tuples at the sinks, against the optimum of the linear program for the rates of the
run, the calibrated costs, and the selectivities that were measured in the run.

Run on a quiet machine: ``python benchmarks/bench_live_shedding.py``; writes benchmarks/results/live_shedding.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from about import RESULTS, ROOT, revision
from bench_prediction import CHECKING

from penstock.cluster import Cluster, SparkSettings
from penstock.files import plain
from penstock.load import Statistics, load_model
from penstock.network import Network, read_network
from penstock.running.calibrating import calibrate_in_place
from penstock.running.job import Job
from penstock.shedding import Exact, LookUp, Question, build_program, build_table
from penstock.shedding.live import Shed, Shedder
from penstock.spark import calibrate, hosts, run
from penstock.workload import Rates

AUCTION = ROOT / "examples" / "auction" / "network.toml"
TRIGGER = 2.0
WEIGHTS = {"q1": 1.0, "q2": 100.0, "q5": 4000.0, "q8": 1.0}
BEGIN, END = 4.0, 64.0
# A batch that keeps up lasts a trigger at most, and a tuple waits for it as long: by host that the tuple crosses, and
# once more where a window closes in the batch after the one that moved the watermark.
BATCHES = {"q1": 2, "q2": 1, "q5": 3, "q8": 2}
BOUND = {name: 2 * TRIGGER * batches for name, batches in BATCHES.items()}
# What the calibration leaves out: garbage collection, and how much slower both hosts are when both are busy for long.
MARGIN = 0.7


def weighted() -> Network:
    """Return the auction network, its sinks weighted so that no query is worth nothing."""
    network = read_network(AUCTION)
    sinks = [attrs.evolve(sink, weight=WEIGHTS[name]) for name, sink in network.sinks.items()]
    return Network.of(network.name, network.sources.values(), network.operators.values(), sinks)


def burst() -> Rates:
    """Return the rates to calibrate with: a burst of 7 s between quiet stretches."""
    rate = np.full(40, 700.0)
    rate[20:27] = 4_000.0
    return Rates.of(1.0, {"events": rate})


def trace(base: float, peak: float) -> Rates:
    rate = np.full(64, base)
    rate[int(BEGIN) : int(END)] = peak
    return Rates.of(1.0, {"events": rate})


def measure(folder: Path) -> dict[str, Any]:
    """Calibrate, plan, run with the plan and without."""
    network = weighted()
    cluster = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=TRIGGER))
    with hosts.start_hosts(cluster) as running:
        engine = run.Engine(cluster, running)
        samples = calibrate.read_samples(engine.sessions["h1"], network, None, events=6_000)
        alone = calibrate.calibrate_alone(engine, "h1", network, samples, calibrate.Precision(budget=1.5))
        placed = {name: "h1" if name in CHECKING else "h2" for name in network.operators}
        job = Job(network, cluster, placed, folder / "calibration", rates=burst())
        statistics = calibrate_in_place(engine, job, alone, lambda _what, _share: None)
        known = statistics.complete(network, override=True)
        quotas = {name: MARGIN * (1 - row.overhead / TRIGGER) / row.factor for name, row in statistics.hosts.items()}
        limited = attrs.evolve(cluster, hosts={n: attrs.evolve(h, quota=quotas[n]) for n, h in cluster.hosts.items()})
        one = load_model(known, Rates.constant({"events": 1000.0}, 10.0)).host_load(placed, cluster).mean(axis=1)
        fits = 1000.0 * min(quotas[n] / load for n, load in zip(cluster.hosts, one, strict=True) if load > 0)
        rates = trace(0.5 * fits, 2 * fits)
        calm = np.array([0.5 * fits])
        program = build_program(known, limited, placed)
        table = build_table("solver", Question(Exact(program), np.array([2.5 * fits]), 0.002))
        peak = np.array([2 * fits])
        found = {
            "placement": dict(placed),
            "quotas": quotas,
            "hosts": {name: attrs.asdict(row) for name, row in statistics.hosts.items()},
            "fits": fits,
            "rate": 2 * fits,
            "entries": table.entries,
            "keep": program.keep(peak, LookUp(program, table).plan(peak)),
            "full": program.score(program.flow(peak)) * (END - BEGIN),
        }
        outcomes = {}
        for word in ("without", "with the plan"):
            shedder = Shedder.of(Shed(table=table, period=TRIGGER), known, limited, placed, None)
            live = word == "with the plan"
            deployment = engine.prepare(network, placed, folder / word.replace(" ", "-"), rates=rates, live=live)
            outcomes[word] = engine.run(deployment, shedder=shedder if live else None)
            found["looks"] = [attrs.asdict(look) for look in shedder.taken]
        # What the optimum is for the selectivities that this very input has: of joins as without drops.
        true = calibrate.measured_selectivities(statistics, network, outcomes["without"], rates)
        judge = build_program(as_measured(true, network, outcomes["with the plan"]), limited, placed)
        found["optimum"] = sum(
            judge.score(Exact(judge).plan(at)) * span for at, span in ((calm, BEGIN), (peak, END - BEGIN))
        )
        for word, outcome in outcomes.items():
            found[word] = judged(network, outcome, found["optimum"])
            print(word, found[word], flush=True)
    return found


def as_measured(statistics: Statistics, network: Network, outcome: run.Outcome) -> Network:
    """Return the network with the share of rows that each operator with one input passed on in a run."""
    streams = outcome.streams(network)
    rows = []
    for operator in statistics.complete(network, override=True).operators.values():
        came = sum(streams[stream.name]["delivered"] for stream in network.inputs(operator.name))
        went = max(streams[stream.name]["arrived"] for stream in network.outputs(operator.name))
        one = len(operator.inputs) == 1 and came > 0
        rows.append(attrs.evolve(operator, selectivity=(went / came,)) if one else operator)
    return Network.of(network.name, network.sources.values(), rows, network.sinks.values())


def judged(network: Network, outcome: run.Outcome, optimum: float) -> dict[str, Any]:
    """Return what was delivered of what entered in the overload, and how late."""
    score, worst = 0.0, {}
    for name, sink in network.sinks.items():
        entered = outcome.stimulus[name] - outcome.epoch
        score += sink.weight * entered.size
        late = (entered >= BEGIN + 2 * TRIGGER) & (entered < END)
        worst[name] = float((outcome.visible[name] - outcome.stimulus[name])[late].max(initial=0.0))
    return {
        "score": score, "share_of_optimum": score / optimum, "worst": worst,
        "balanced": outcome.balanced(network), "streams": outcome.streams(network),
    }  # fmt: skip


def page(found: dict[str, Any]) -> str:
    """Return the results for people."""
    shown = " | ".join(f"{name} worst, of {BOUND[name]:g} s" for name in WEIGHTS)
    lines = [
        "# Shedding by a plan on Spark",
        "",
        f"{found['machine']}, revision {found['revision']}. Auction network, two hosts, trigger {TRIGGER:g} s,",
        f"{found['rate']:.0f} events/s for {END - BEGIN:g} s, of which {found['fits']:.0f} fit.",
        f"Quotas: {MARGIN:g} of what batches leave free, so that the overload is {2 * MARGIN:g} times what is free.",
        "Latency: worst of what enters from the second batch of the overload on; its bound is two triggers for each",
        "batch that a tuple waits for.",
        "",
        f"| | delivered score | of the optimum | {shown} | counts exact |",
        "|---|---|---|" + "---|" * (len(WEIGHTS) + 1),
    ]
    for word in ("with the plan", "without"):
        row = found[word]
        late = " | ".join(f"{row['worst'][name]:.2f}" for name in WEIGHTS)
        exact = "yes" if row["balanced"] else "no"
        lines.append(f"| {word} | {row['score']:.1f} | {row['share_of_optimum']:.4f} | {late} | {exact} |")
    keep = ", ".join(f"`{name}` {share:.3f}" for name, share in found["keep"].items())
    lines += [
        "",
        f"Optimum {found['optimum']:.1f}, all that was offered {found['full']:.1f}. Kept at that rate: {keep}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", default=str(RESULTS))
    out = Path(options.parse_args().out)
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        found = measure(Path(folder))
    found |= {
        "machine": f"{platform.machine()}, {platform.system()}, 2 cores",
        "revision": revision(),
        "when": time.strftime("%Y-%m-%d"),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "live_shedding.json").write_text(json.dumps(plain(found), indent=1) + "\n")
    (out / "live_shedding.md").write_text(page(found))
    print(page(found))


if __name__ == "__main__":
    main()
