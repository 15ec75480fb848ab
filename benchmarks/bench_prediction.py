"""Latency on real Spark, predicted before the run and measured.

Two embedded hosts with a core each, or three. Of each case (a network, a placement, a trace) the costs are calibrated
in place, then the latency is predicted, then the trace is run several times. Beside the prediction stands the one that
costs in hindsight would have given (fitted on the run itself): what is left of its error is the model's. Between the
two stands what the run before taught, as ``penstock run --learn`` writes it.

Run on a quiet machine: ``python benchmarks/bench_prediction.py``; writes benchmarks/results/prediction.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from about import RESULTS, ROOT, revision

from penstock.cluster import Cluster, SparkSettings
from penstock.files import plain
from penstock.latency.estimate import Quantiles
from penstock.load import Statistics
from penstock.load.setting import Setting
from penstock.network import Network, read_network
from penstock.network.file import parse_network
from penstock.running.calibrating import calibrate_in_place
from penstock.running.job import Job
from penstock.running.prediction import Prediction, predict
from penstock.spark import calibrate, hosts, run
from penstock.workload import Rates

AUCTION = ROOT / "examples" / "auction" / "network.toml"
KEYS = ("max", "p99", "p50", "mean")
E = 0.02
"""By how much batches are made longer and shorter, to see what hangs on it."""


def two_steps(first: float, second: float) -> tuple[Network, dict[str, str]]:
    """Return a chain of two costly operators, one on each host."""
    network = parse_network(
        {
            "name": "chain",
            "sources": {"events": {"format": "nexmark"}},
            "operators": {
                "bids": {"kind": "filter", "input": "events", "where": "kind = 'bid'"},
                "a": {"kind": "delay", "input": "bids", "cost": first},
                "b": {"kind": "delay", "input": "a", "cost": second},
            },
            "sinks": {"out": {"input": "b"}},
        }
    )
    return network, {"bids": "h1", "a": "h1", "b": "h2"}


CHECKING = ("bids", "checked", "watched", "people", "auctions", "newcomers")


def auction(costly: str) -> tuple[Network, dict[str, str]]:
    """Return the auction network, with the costliest operator and the join on one host, the rest on the other."""
    other = "h2" if costly == "h1" else "h1"
    network = read_network(AUCTION)
    return network, {name: costly if name in CHECKING else other for name in network.operators}


def spread(network: Network) -> tuple[Network, dict[str, str]]:
    """Return the auction network on three hosts: checks and join, conversion, windows."""
    where = dict.fromkeys(CHECKING, "h1") | {"euros": "h2", "appraised": "h2", "activity": "h3", "hottest": "h3"}
    return network, where


def waiting() -> Network:
    """Return the auction network with a check that asks a remote service: it waits for 1 ms per bid."""
    network = read_network(AUCTION)
    checked = attrs.evolve(network.operators["checked"], kind="python", function="lookup:look_up", cost=None)
    return attrs.evolve(network, operators={**network.operators, "checked": checked})


def last_waits() -> tuple[Network, dict[str, str]]:
    """Return that network with the waiting check behind the others, on the third host: no hop follows it."""
    network = waiting()
    operators = dict(network.operators)
    last = [operators.pop("checked"), operators.pop("watched")]
    last[0] = attrs.evolve(last[0], inputs=("appraised",))
    q1 = attrs.evolve(network.sinks["q1"], input="checked")
    network = attrs.evolve(network, operators=operators | {o.name: o for o in last}, sinks={**network.sinks, "q1": q1})
    where = dict.fromkeys(network.operators, "h1") | dict.fromkeys(("activity", "hottest", "newcomers"), "h2")
    return network, where | {"checked": "h3", "watched": "h3"}


def trace(base: float, peak: float, burst: int) -> Rates:
    """Return a quiet stretch, a burst, a quiet stretch: 50 s."""
    rate = np.full(50, base)
    rate[10 : 10 + burst] = peak
    return Rates.of(1.0, {"events": rate})


@attrs.frozen
class Case:
    """A placed network, rates, a trigger (s), and which host has a core of its own where they do not suffice."""

    placed: tuple[Network, dict[str, str]]
    rates: Rates
    trigger: float
    own: str = "h1"


CASES = {
    "chain, h1 saturated": Case(two_steps(0.0004, 0.0002), trace(400, 3600, 8), 0.5),
    "chain, h2 saturated": Case(two_steps(0.0002, 0.0004), trace(400, 3600, 8), 0.5),
    "chain, none": Case(two_steps(0.0004, 0.0002), trace(400, 1200, 8), 0.5),
    "chain, h1 saturated, trigger 2 s": Case(two_steps(0.0004, 0.0002), trace(400, 3600, 8), 2.0),
    "auction, h1 saturated": Case(auction("h1"), trace(400, 4000, 7), 2.0),
    "auction, h2 saturated": Case(auction("h2"), trace(400, 4000, 7), 2.0),
    "auction, none": Case(auction("h1"), trace(300, 600, 7), 2.0),
    "auction on 3 hosts, h1 saturated": Case(spread(read_network(AUCTION)), trace(400, 4000, 7), 2.0),
    "auction on 3 hosts, h1 saturated, longer trigger": Case(spread(read_network(AUCTION)), trace(400, 4000, 7), 4.0),
    "waiting on 3 hosts, h1 saturated": Case(spread(waiting()), trace(300, 1600, 8), 2.0, own="h2"),
    "waiting on 3 hosts, h1 saturated, longer trigger": Case(spread(waiting()), trace(300, 1600, 8), 4.0, own="h2"),
    "waiting on 3 hosts, h3 saturated": Case(last_waits(), trace(200, 1400, 8), 2.0),
    # Here no batch ends near a trigger that would decide about the worst latency.
    "waiting on 3 hosts, h1 saturated, higher burst": Case(spread(waiting()), trace(300, 2000, 6), 2.0, own="h2"),
    "waiting on 3 hosts, h1 saturated, higher burst, trigger 3 s": Case(
        spread(waiting()), trace(300, 2000, 6), 3.0, own="h2"
    ),
}


def quantiles(prediction: Prediction) -> dict[str, float]:
    return prediction.result.quantiles().figures()


def gaps(guess: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    return {key: guess[key] / measured[key] - 1 for key in KEYS}


def measure(name: str, repeats: int, folder: Path, raw: Path | None) -> dict[str, Any]:
    """Calibrate, predict and run one case."""
    case = CASES[name]
    (network, placed), rates, trigger = case.placed, case.rates, case.trigger
    cluster = attrs.evolve(Cluster.uniform(len(set(placed.values()))), spark=SparkSettings(trigger=trigger))
    mine, *others = hosts.available_cpus()
    shared = {host: [mine] if host == case.own else others for host in cluster.hosts}
    with hosts.start_hosts(cluster, pin=shared if len(cluster.hosts) > len(others) + 1 else True) as running:
        engine = run.Engine(cluster, running)
        samples = calibrate.read_samples(engine.sessions["h1"], network, None, events=6_000)
        alone = calibrate.calibrate_alone(engine, "h1", network, samples, calibrate.Precision(budget=1.5))
        priced = alone.complete(network, override=True)
        job = Job(network, cluster, placed, folder / "calibration", rates=rates)
        statistics = calibrate_in_place(engine, job, alone, lambda _what, _share: None)
        first = {host: speed(engine, host) for host in cluster.hosts}
        known = statistics.complete(network, override=True)
        setting = Setting(network=known, cluster=cluster, placement=placed, statistics=statistics)
        prediction = predict(setting, rates)
        guess, bar = quantiles(prediction), prediction.error.document()
        beside = [quantiles(predict(attrs.evolve(setting, statistics=dearer(statistics, e)), rates)) for e in (-E, E)]
        rows, before = [], None
        for number in range(repeats):
            outcome = engine.run(engine.prepare(network, placed, folder / f"run{number}", rates=rates))
            measured = Quantiles.of(outcome.latency()).figures()
            after = calibrate.calibrate_in_place(alone, priced, cluster, placed, outcome, rates)
            speeds = {host: speed(engine, host) for host in cluster.hosts}
            seen = after.complete(network, override=True)
            hindsight = quantiles(predict(attrs.evolve(setting, network=seen, statistics=after), rates))
            rows.append(
                {
                    "measured": measured,
                    "error": gaps(guess, measured),
                    "error_with_costs_of_the_run_before": None if before is None else gaps(before, measured),
                    "error_with_costs_in_hindsight": gaps(hindsight, measured),
                    "hosts": {host: attrs.asdict(row) for host, row in after.hosts.items()},
                    "speed": speeds,
                    "balanced": outcome.balanced(network),
                }
            )
            before = hindsight
            if raw is not None:
                write_raw(raw / f"{name.replace(', ', '-').replace(' ', '-')}-{number}.json", outcome, prediction)
            show(name, number, rows[-1], guess)
    return {
        "case": name, "trigger": trigger, "predicted": guess, "error_bar": bar, "beside": beside, "speed": first,
        "hosts": {host: attrs.asdict(row) for host, row in statistics.hosts.items()}, "runs": rows,
    }  # fmt: skip


def dearer(statistics: Statistics, share: float) -> Statistics:
    """Return the statistics with every batch longer by a share."""
    hosts = {}
    for name, row in statistics.hosts.items():
        figures = {"overhead": row.overhead, "idle": row.idle, "factor": row.factor}
        longer = {key: value * (1 + share) for key, value in figures.items() if value is not None}
        hosts[name] = attrs.evolve(row, **longer)
    return attrs.evolve(statistics, hosts=hosts)


def speed(engine: run.Engine, host: str) -> float:
    """Return how fast the host does the same loop now (steps/s): what the machine leaves of a core, nothing of ours."""
    session, loop = engine.sessions[host], "aggregate(sequence(1, 20000), id, (a, x) -> xxhash64(a, x)) <> 42"
    begin = time.perf_counter()
    session.range(3_000).filter(loop).write.format("noop").mode("overwrite").save()
    return 6e7 / (time.perf_counter() - begin)


def write_raw(path: Path, outcome: Any, prediction: Prediction) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {
        "measured": [(b.query, b.start - outcome.epoch, b.duration, b.rows) for b in outcome.batches],
        "predicted": [attrs.astuple(b) for b in prediction.result.batches],
    }
    path.write_text(json.dumps(plain(rows)))


def show(name: str, number: int, row: Mapping[str, Any], guess: Mapping[str, float]) -> None:
    def line(errors: Mapping[str, float]) -> str:
        return " ".join(f"{key} {100 * errors[key]:+.1f} %" for key in KEYS)

    print(f"{name} run {number}: measured " + " ".join(f"{k} {row['measured'][k]:.3f}" for k in KEYS))
    learned = row["error_with_costs_of_the_run_before"]
    print(f"    predicted {line(row['error'])}; with costs in hindsight {line(row['error_with_costs_in_hindsight'])}")
    print(f"    with costs of the run before {learned and line(learned)}")
    print(f"    hosts {row['hosts']}", flush=True)


def table(document: Mapping[str, Any]) -> str:
    """Return the results as a page for people."""
    lines = [
        "# Predicted and measured latency on Spark",
        "",
        f"{document['machine']}, seed 0. Embedded hosts, directory hop. Two hosts have a core each; of three,",
        "the saturated one has one of its own, or the second where the first mostly waits (for a service that takes",
        "1 ms a row whatever the processor does). Costs were calibrated in place before the runs; every run is shown.",
        "“From the run before”: the same prediction with overhead and factor as the previous run showed them, a minute",
        "old. “In hindsight”: with those of the run itself, so that what is left is the model's error, and the rest is",
        "drift of the costs. “±2 %”: how far apart the predictions for batches shorter and longer by that are (worst /",
        "p99): whether a batch ends just before a trigger of the next host or just after it makes a whole one.",
        *document["notes"],
        "",
        "| case | revision | | measured worst / p99 / p50 / mean (s) | error of the prediction | from the run before "
        "| in hindsight | ρ | e·ρ/(ρ−1) | ±2 % |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in document["cases"]:
        for number, row in enumerate(case["runs"]):
            measured = " / ".join(f"{row['measured'][key]:.3f}" for key in KEYS)
            errors = " | ".join(
                " / ".join(f"{100 * row[key][k]:+.1f}" for k in KEYS) + " %" if row.get(key) else ""
                for key in ("error", "error_with_costs_of_the_run_before", "error_with_costs_in_hindsight")
            )
            bar = case["error_bar"]
            shown = "| |" if bar is None else f"| {bar['load']:.2f} | {100 * bar['latency_error']:.1f} %"
            shown += f" | {moved(case)} |"
            lines.append(f"| {case['case']} | {case['revision']} | {number + 1} | {measured} | {errors} {shown}")
    lines += [
        "",
        "How far apart the runs of a case are, which no prediction knows: largest less smallest over their mean.",
        "",
        "| case | revision | worst | p99 | p50 | mean |",
        "|---|---|---|---|---|---|",
    ]
    for case in document["cases"]:
        spreads = [np.array([row["measured"][key] for row in case["runs"]]) for key in KEYS]
        shown = " | ".join(f"{100 * np.ptp(values) / values.mean():.1f} %" for values in spreads)
        lines.append(f"| {case['case']} | {case['revision']} | {shown} |")
    lines += [
        "",
        "Calibrated and in hindsight: overhead (s a batch), factor, and how fast the host did one and the same loop",
        "right afterwards, in million steps per second: what the machine itself gave.",
        "",
        "| case | revision | host | calibrated | runs |",
        "|---|---|---|---|---|",
    ]
    for case in document["cases"]:
        for host, known in case["hosts"].items():
            first = _cost(known, case.get("speed", {}).get(host))
            runs = ", ".join(_cost(row["hosts"][host], row.get("speed", {}).get(host)) for row in case["runs"])
            lines.append(f"| {case['case']} | {case['revision']} | {host} | {first} | {runs} |")
    return "\n".join(lines) + "\n"


def moved(case: Mapping[str, Any]) -> str:
    """Return how far apart the predictions are of batches a little shorter and longer: worst and p99."""
    found = [*case.get("beside", ()), case["predicted"]]
    spans = [max(row[key] for row in found) - min(row[key] for row in found) for key in ("max", "p99")]
    both = (f"{100 * span / case['predicted'][key]:.0f}" for span, key in zip(spans, ("max", "p99"), strict=True))
    return " / ".join(both) + " %" if len(found) > 1 else ""


def _cost(known: Mapping[str, float], speed: float | None) -> str:
    return f"{known['overhead']:.3f} {known['factor']:.3f}" + ("" if speed is None else f" {speed / 1e6:.1f}")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--only", default="")
    options.add_argument("--out", default=str(RESULTS))
    options.add_argument("--raw", help="folder for every batch, predicted and measured")
    given = options.parse_args()
    raw = None if given.raw is None else Path(given.raw)
    here, machine = revision(), f"{platform.machine()}, {platform.system()}, 2 cores"
    document: dict[str, Any] = {"notes": [], "cases": []}
    out = Path(given.out)
    before = out / "prediction.json"
    if before.exists():
        # What other revisions showed stays on the page.
        document |= json.loads(before.read_text())
    document |= {"machine": machine, "when": time.strftime("%Y-%m-%d")}
    for name in CASES:
        if given.only in name:
            document["cases"] = [c for c in document["cases"] if (c["case"], c["revision"]) != (name, here)]
            with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
                found = measure(name, given.repeats, Path(folder), raw)
            document["cases"].append({"revision": here, **found})
            document["cases"].sort(key=lambda case: list(CASES).index(case["case"]))
            out.mkdir(parents=True, exist_ok=True)
            (out / "prediction.json").write_text(json.dumps(plain(document), indent=1) + "\n")
            (out / "prediction.md").write_text(table(document))


if __name__ == "__main__":
    sys.exit(main())
