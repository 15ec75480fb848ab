"""A controller that knows of no quota under twice what its hosts can do: on files, on Kafka, and on a cluster.

Run: uv run python benchmarks/bench_overload.py [--on files kafka cluster] [--runs 3] [--lasting 40 160]
[--out benchmarks/results]

Micro-batches. Bids are checked (4 ms each), every other one is graded (2 ms) besides and then, on a second host where
there is one, examined (9 ms); what is examined is worth three times as much. `shed` sees the costs of these steps, and
else what the batches of the run tell it: how much longer they take here, and what a batch costs besides. The steps wait
and do not compute, so that other work on the machine does not make them longer.

The optimum is the linear program's, for the rates of the overload, with what each host's batches say afterwards of a
batch, of its rows' work, and of rows that are read and dropped (least squares over the whole run): what those of the
overload had left for work is the quota. It counts from two batches after the overload begins: once the tuples that
entered from then on, and once those that left. The first bears what had piled up until then, which is worked off at
their cost; the second does not, but has to fill the queues without which a host behind another one would stand still.
Both are a matter of a second or two: a longer overload tells what is lost while it lasts. A fluid program knows of no
queue: that nothing piles up says the worst latency, beside its bound.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from about import revision
from bench_real_time import Feeder, connected, topics_of
from scipy.optimize import nnls

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.control.controller import Controller
from penstock.control.folder import Folder
from penstock.control.goals import Goals
from penstock.control.loop import Control
from penstock.control.policies import policies
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.shedding import Exact, build_program
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine, SparkEngine
from penstock.spark.run.lengths import work_in
from penstock.spark.run.outcome import Outcome, collect
from penstock.workload import Rates

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import cluster as scripts
import kafka

TRIGGER, BOUND = 0.5, 5.0
CALM, FITS, OVERLOAD = 0.4, 200.0, 2.0
"""Rates before and after, and in the overload, as multiples of the bids/s that one core would be full with."""

BEGIN, LASTING, AFTER = 40.0, (40.0, 160.0), 20.0
"""When the overload begins, how long it lasts, and for how long the run goes on (s)."""

BIDS = 0.92
WARM = 15.0
"""Seconds after which batches tell what a host costs."""

PLACES = ("files", "kafka", "cluster")


def network(source: dict[str, Any], sinks: dict[str, dict[str, Any]]) -> Network:
    """Return the network, over some source with events of which 46 in 50 are bids."""

    def step(name: str, cost: float) -> dict[str, Any]:
        return {"kind": "delay", "input": name, "cost": cost, "selectivity": 1.0, "burn": "sleep"}

    def keep(name: str, where: str, share: float) -> dict[str, Any]:
        return {"kind": "filter", "input": name, "where": where, "cost": 1e-5, "selectivity": share}

    return parse_network(
        {
            "name": "overload",
            "sources": {"events": source},
            "operators": {
                "bids": keep("events", "event % 50 >= 4", BIDS),
                "checked": step("bids", 0.004),
                "half": keep("bids", "event % 2 = 0", 0.5),
                "graded": step("half", 0.002),
                "examined": step("graded", 0.009),
            },
            "sinks": {
                "near": {"input": "checked", "weight": 1.0, **sinks.get("near", {})},
                "far": {"input": "examined", "weight": 3.0, **sinks.get("far", {})},
            },
        }
    )


def rates_of(end: float) -> dict[float, float]:
    """Return events/s by the time from which they hold; ``end``: of the overload (s)."""
    calm, peak = (share * FITS / BIDS for share in (CALM, OVERLOAD))
    return {0.0: calm, BEGIN: peak, end: calm}


def run(on: str, lasting: float, place: Path, broker: Any, standalone: Any) -> dict[str, Any]:
    """Run the network in one setting under the controller, and judge what came of it."""
    end = BEGIN + lasting
    spark = connected(broker, trigger=TRIGGER, hop="kafka") if on == "kafka" else SparkSettings(trigger=TRIGGER)
    hosts = [Host(name="h1"), Host(name="h2")]
    if on == "cluster":
        # Checked and graded on it, examined too: 2 cores for 9.5 ms a bid.
        os.environ["SPARK_TOKEN"] = standalone.known["SPARK_TOKEN"]
        address, token = standalone.known["SPARK_ADDRESS"], "SPARK_TOKEN"
        hosts = [Host(name="c", spark=address, token_env=token, cores=2, capacity=2.0)]
    cluster = Cluster.of(hosts, spark=spark)
    rates = rates_of(end)
    source: dict[str, Any] = {"format": "nexmark"}
    sinks: dict[str, dict[str, Any]] = {}
    feeder = None
    if on == "kafka":
        client, topics = topics_of(spark)
        source = {"format": "kafka", "schema": "event bigint", "options": {"subscribe": topics[0]}}
        sinks = {name: {"format": "kafka", "options": {"topic": topics[1]}} for name in ("far",)}
        feeder = Feeder(client, topics[0], rates, key="event")
    made = network(source, sinks)
    there = dict.fromkeys(made.operators, hosts[0].name) | {"examined": hosts[-1].name}
    seconds = np.arange(end + AFTER)
    values = np.select([seconds < BEGIN, seconds < end], [rates[0.0], rates[BEGIN]], rates[end])
    known = Rates.of(1.0, {"events": values})
    with start_hosts(cluster) as running:
        engine = Engine(cluster, running)
        deployment = engine.prepare(made, there, place, live=True, **({} if feeder else {"rates": known}))
        controlled = SparkEngine(engine, deployment)
        try:
            control = Control(policies=policies("shed"), goals=Goals(bound=BOUND), every=1.0, act=True)
            if feeder:
                feeder.start()
            until = controlled.now + end + AFTER
            folder = Folder(str(place))
            with folder.held():
                Controller(engine=controlled, control=control, folder=folder, until=until).run()
            outcome = collect(controlled.system.deployment, controlled.system.queries, end + AFTER)
        finally:
            if feeder:
                feeder.ended.set()
            controlled.close()
    since = feeder.begun if feeder else outcome.epoch
    found = judged(made, cluster, there, outcome, known, (since + BEGIN, since + end), since + WARM)
    return {"on": on, "lasting": lasting, "seen": history(place), **found}


def history(place: Path) -> list[dict[str, Any]]:
    """Return the controller's decisions, in short."""
    lines = [json.loads(line) for line in (place / "control" / "history.jsonl").read_text().splitlines()]
    return [{"time": line["time"], "keep": line["decided"].get("keep"), "why": line["why"]} for line in lines]


def judged(
    made: Network,
    cluster: Cluster,
    placed: dict[str, str],
    outcome: Outcome,
    rates: Rates,
    overload: tuple[float, float],
    warm_from: float,
) -> dict[str, Any]:
    """Return the score of the overload beside the optimum of what its own batches tell, and the worst latency.

    ``overload``: when it began and ended; ``warm_from``: since when batches tell what a host costs (s since 1970).
    """
    begin, end = overload
    quotas, shown = {}, {}
    for name in cluster.hosts:
        warm = [b for b in outcome.batches if b.host == name and b.rows and b.start > warm_from]
        there = [operator for operator in made.operators if placed[operator] == name]
        work = np.array([work_in(made, there, batch.counts) for batch in warm])
        lost = np.array([sum(gone for _, gone in batch.counts.values()) for batch in warm], float)
        took, start = np.array([(batch.duration, batch.start) for batch in warm]).T
        fixed, factor, waste = nnls(np.stack([np.ones(len(warm)), work, lost], axis=1), took)[0]
        mine = (start >= begin + TRIGGER) & (start < end - TRIGGER)
        all_of_it = took[mine].sum()
        quotas[name] = (
            (1 - (fixed * mine.sum() + waste * lost[mine].sum()) / all_of_it) / factor / cluster.hosts[name].capacity
        )
        shown[name] = {
            "overhead": fixed, "factor": factor, "dropped": waste, "batch": took[mine].mean(),
            "busy": all_of_it / ((start + took)[mine].max() - start[mine].min()),
        }  # fmt: skip
    hosts = {name: attrs.evolve(host, quota=min(1.0, quotas[name])) for name, host in cluster.hosts.items()}
    limited = attrs.evolve(cluster, hosts=hosts)
    program = build_program(made, limited, placed)
    peak = np.array([rates.of_source("events").max()])
    known = begin + 2 * max(row["batch"] for row in shown.values())
    optimum = program.score(Exact(program).plan(peak)) * (end - known)
    score, left, worst, when = 0.0, 0.0, {}, {}
    for name, sink in made.sinks.items():
        entered = outcome.stimulus[name]
        score += sink.weight * float(((entered >= known) & (entered < end)).sum())
        visible = outcome.visible[name]
        left += sink.weight * float(((visible >= known) & (visible < end)).sum())
        late = (entered >= begin) & (entered < end)
        latency = np.where(late, visible - entered, 0.0)
        worst[name], when[name] = float(latency.max()), float(entered[latency.argmax()] - begin)
    return {
        "score": score, "optimum": optimum, "share": score / optimum, "left": left / optimum,
        "worst": worst, "when": when, "hosts": shown, "quotas": quotas,
        "balanced": outcome.balanced(made), "offered": program.score(program.flow(peak)) * (end - known),
    }  # fmt: skip


def page(found: list[dict[str, Any]], about: str) -> str:
    """Return the results for people."""
    lines = [
        "# A controller under twice what its hosts can do",
        "",
        f"{about}. Trigger {TRIGGER:g} s, bound {BOUND:g} s; {OVERLOAD:g} times what a core without overhead could do,",
        "for a while. No quota and no overhead is given.",
        "",
        "Of each host: the overhead and the length of its batches in the overload (s), and the share that it worked.",
        "",
        "| on, for | of the optimum, by what entered | and by what left | of what was offered "
        "| worst: near, far (s), of what entered after (s) "
        "| counts exact | hosts |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        hosts = "; ".join(
            f"{n} {h['overhead']:.2f}, {h['batch']:.2f}, {h['busy']:.2f}" for n, h in row["hosts"].items()
        )
        worst = ", ".join(f"{row['worst'][name]:.2f}" for name in ("near", "far"))
        worst += ", " + ", ".join(f"{row['when'][name]:.0f}" for name in ("near", "far"))
        exact = "yes" if row["balanced"] else "no"
        offered = row["score"] / row["offered"]
        shares = f"{row['share']:.4f} | {row['left']:.4f} | {offered:.2f}"
        lines.append(f"| {row['on']}, {row['lasting']:g} s | {shares} | {worst} | {exact} | {hosts} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write results where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", nargs="*", choices=PLACES, default=list(PLACES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--lasting", nargs="*", type=float, default=list(LASTING), help="seconds of the overload")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="penstock-overload-") as base:
        wanted = [(on, lasting) for on in given.on for lasting in given.lasting for _ in range(given.runs)]
        for number, (on, lasting) in enumerate(wanted):
            place = Path(base) / f"{on}{number}"
            if on == "kafka":
                kafka.fetch()
                with kafka.Broker(Path(base) / f"broker{number}") as broker:
                    found.append(run(on, lasting, place, broker, None))
            elif on == "cluster":
                with scripts.Cluster(Path(base) / f"standalone{number}") as made:
                    found.append(run(on, lasting, place, None, made))
            else:
                found.append(run(on, lasting, place, None, None))
            print(json.dumps({k: v for k, v in found[-1].items() if k != "seen"}), file=sys.stderr, flush=True)
    about = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, revision {revision()}"
    print(page(found, about))
    if given.out:
        (given.out / "overload.md").write_text(page(found, about))
        (given.out / "overload.json").write_text(json.dumps({"about": about, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
