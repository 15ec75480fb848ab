"""Whether predictions hold what they promise, over runs that differ in network, saturated host, trigger and burst.

Each run is drawn from its number, starts its own hosts, calibrates, predicts, and runs; it appends one line to
benchmarks/results/coverage.jsonl, so that runs can be made in pieces and at different times. Those of this revision
that are there are left out; all are shown, of all revisions:

    python benchmarks/bench_coverage.py --runs 1-20     # about 3 minutes each
    python benchmarks/bench_coverage.py --page          # only writes benchmarks/results/coverage.md anew

Needs a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from about import RESULTS, revision
from bench_prediction import auction, gaps, quantiles, two_steps

from penstock.arrays import Array
from penstock.cluster import Cluster, Placement, SparkSettings
from penstock.files import plain
from penstock.latency.batches import BatchHosts
from penstock.latency.estimate import Quantiles
from penstock.load import Statistics, load_model
from penstock.load.fitting import FOLLOWS
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.running import two_sites
from penstock.running.calibrating import calibrate_in_place
from penstock.running.drift import Seen, history
from penstock.running.ended import seen
from penstock.running.job import Job, execute, finish
from penstock.running.prediction import predict
from penstock.running.record import Record
from penstock.spark import calibrate, hosts, run
from penstock.workload import Rates

LINES = RESULTS / "coverage.jsonl"
LENGTH = 44
"""Seconds of a trace."""

WANDERING = (0.02, 0.04)
"""Machines, from calm to restless, by the standard deviation of their cores' speed from ten seconds to ten others."""

USUAL = 1.15
"""What costs become in place, about: the burst is as high as it takes to reach a load."""

SOON = 0.1
"""Seconds before the rates begin in which the first batches of a run may start."""


def sites(costly: str) -> tuple[Network, dict[str, str]]:
    """Return the demo's network, both steps of one site and its windows on one host."""
    network = two_sites.network()
    other = "h2" if costly == "h1" else "h1"
    return network, {name: costly if name.endswith("_west") else other for name in network.operators}


def steps(costly: str) -> tuple[Network, dict[str, str]]:
    """Return a chain of two costly operators, the costlier one on either host."""
    return two_steps(*((0.0004, 0.0002) if costly == "h1" else (0.0002, 0.0004)))


NETWORKS: Mapping[str, Callable[[str], tuple[Network, dict[str, str]]]] = {
    "auction": auction, "two sites": sites, "chain": steps,
}  # fmt: skip


@attrs.frozen
class Case:
    """What a number draws: host to be saturated, trigger (s), load of the burst, its length (s), and the base rate as a
    share of it; networks take turns.
    """

    network: str
    host: str
    trigger: float
    load: float
    burst: int
    quiet: float

    @classmethod
    def of(cls, number: int) -> Case:
        """Draw a case."""
        rng = np.random.default_rng(number)
        return cls(
            network=list(NETWORKS)[number % len(NETWORKS)],
            host=str(rng.choice(["h1", "h2"])),
            trigger=float(rng.choice([1.0, 2.0, 3.0])),
            load=round(float(rng.uniform(1.15, 1.6)), 2),
            burst=int(rng.integers(6, 11)),
            quiet=round(float(rng.uniform(0.1, 0.3)), 2),
        )

    def rates(self, network: Network, placed: Mapping[str, str]) -> Rates:
        """Return rates whose burst gives the host its load, by costs measured alone."""
        bursting = [name for name in network.sources if name != "east"]
        model = load_model(network, Rates.of(1.0, {name: [float(name in bursting)] for name in network.sources}))
        cluster = Cluster.uniform(2)
        work = model.host_load(Placement(dict(placed)), cluster)[list(cluster.hosts).index(self.host), 0]
        peak = min(self.load / (USUAL * float(work)), 6_000.0)
        found = {name: np.full(LENGTH, self.quiet * peak) for name in network.sources}
        for name in bursting:
            found[name][8 : 8 + self.burst] = peak
        return Rates.of(1.0, found)


def measure(number: int, record: Record) -> dict[str, Any]:
    """Make one run: calibrate, predict with what the runs before it taught, run, compare."""
    case, begin = Case.of(number), time.monotonic()
    network, placed = NETWORKS[case.network](case.host)
    cluster = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=case.trigger))
    took: dict[str, float] = {}

    def done(what: str) -> None:
        took[what] = time.monotonic() - begin - sum(took.values())

    with tempfile.TemporaryDirectory(prefix="penstock-") as folder, hosts.start_hosts(cluster) as running:
        engine = run.Engine(cluster, running)
        done("start")
        samples = calibrate.read_samples(engine.sessions["h1"], network, None, events=6_000)
        alone = calibrate.calibrate_alone(engine, "h1", network, samples, calibrate.Precision(budget=1.0))
        priced = alone.complete(network, override=True)
        done("alone")
        rates = case.rates(priced, placed)
        job = Job(network, cluster, Placement(placed), Path(folder) / "calibration", rates=rates, seed=number)
        statistics = record.applied(calibrate_in_place(engine, job, alone, lambda _what, _share: None), cluster)
        kept = record.file.read_text() if record.file is not None and record.file.exists() else ""
        done("in place")
        known = statistics.complete(network, override=True)
        setting = Setting(network=known, cluster=cluster, placement=Placement(placed), statistics=statistics)
        prediction = predict(setting, rates, rng=np.random.default_rng(number))
        job = attrs.evolve(job, folder=Path(folder) / "run", statistics=statistics)
        outcome = execute(engine, job, lambda _what, _share: None)
        done("run")
    report = finish(job, outcome, prediction, record=record).report
    after = calibrate.calibrate_in_place(statistics, priced, cluster, placed, outcome, rates)
    hindsight, of_sinks = in_hindsight(after.complete(network, override=True), cluster, placed, rates, after, outcome)
    return {
        "run": number, "before": kept.count('"off"'), "case": attrs.asdict(case),
        "peak": float(rates.values.max()), "seconds": took,
        "predicted": quantiles(prediction), "interval": report["interval"], "measured": report["latency"],
        "hindsight": {name: gaps(row, report["latency"]) for name, row in hindsight.items()},
        "sinks": {n: {"predicted": row["predicted"]["p50"], "measured": row["latency"]["p50"], "hindsight": of_sinks[n]}
                  for n, row in report["sinks"].items() if row["latency"]["count"]},
        "forecast": [row for row in report["forecast"] if row["horizon"] == 10.0],
        "drifts": report["drifts"], "balanced": report["balanced"],
        "slower": {name: row["slower"] for name, row in report["hosts"].items()},
        "intervals": dict(statistics.intervals), "calibrated": hosts_of(statistics), "in_run": hosts_of(after),
        "measured_by": dict(statistics.measured),
    }  # fmt: skip


def in_hindsight(
    network: Network, cluster: Cluster, placed: dict[str, str], rates: Rates, after: Statistics, outcome: run.Outcome
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return what the model says with what the run itself told.

    ``cores``: with the costs of the run, as one regression tells them, and the speeds that its cores had. ``hosts``:
    with the speeds that its hosts had, from one interval of the trigger to the next, by what their batches took. Of
    the second also the median latency (s) of each sink.
    """
    begun = attrs.evolve(rates, start=outcome.epoch)
    placing = BatchHosts.of(after, cluster).placed(load_model(network, begun), placed)
    told = [batch for batch in seen(network, cluster, placed, after, outcome) if batch.start > -SOON]
    of_cores = [attrs.evolve(b, duration=b.expected * b.core**-FOLLOWS) for b in told if b.core is not None]
    results = {
        name: placing.run(slower(batches, cluster.spark.trigger))
        for name, batches in (("cores", of_cores), ("hosts", told))
    }
    found = {name: result.quantiles().figures() for name, result in results.items()}
    return found, {name: Quantiles.of(*row[1:]).p50 for name, row in results["hosts"].sinks.items()}


def slower(batches: Sequence[Seen], trigger: float) -> dict[str, Array]:
    """Return by host by what its batches took longer, in one interval of the trigger after another."""
    return {name: took / expected for name, (took, expected, _) in history(batches, trigger).items()}


def hosts_of(statistics: Statistics) -> dict[str, Any]:
    return {name: attrs.asdict(row) for name, row in statistics.hosts.items()}


def inside(row: Mapping[str, Any], word: str, key: str) -> bool:
    low, high = row["interval"][word]
    return bool(low <= row["measured"][key] <= high)


def half(row: Mapping[str, Any], word: str, key: str) -> float:
    """Return half the width of an interval, as a share of the prediction."""
    low, high = row["interval"][word]
    return float((high - low) / 2 / row["predicted"][key])


HEAD = (
    "| | inside p05 to p95 | half-width, median / p90 | error of the prediction | in hindsight, by cores | by hosts |",
    "|---|---|---|---|---|---|",
)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the runs have in common, a line each."""
    lines = []
    for word, key in (("worst", "max"), ("p99", "p99"), ("p50", "p50"), ("mean", "mean")):
        covered = sum(inside(row, word, key) for row in rows)
        halves = np.array([half(row, word, key) for row in rows])
        errors = np.abs([row["predicted"][key] / row["measured"][key] - 1 for row in rows])
        after = [shown(np.abs([row["hindsight"][what][key] for row in rows])) for what in ("cores", "hosts")]
        lines.append(f"| {word} | {covered} of {len(rows)} | {shown(halves)} | {shown(errors)} | {' | '.join(after)} |")
    return lines


def by_wandering(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how intervals did on machines as calm, a line each."""
    parts, low = [], -1.0
    for high in (*WANDERING, np.inf):
        words = f"up to {100 * high:.0f} %" if low < 0 else f"{100 * low:.0f} to {100 * high:.0f} %"
        some = [row for row in rows if low < wandered(row) <= high]
        parts.append((words if np.isfinite(high) else f"more than {100 * low:.0f} %", some))
        low = high
    return parted(parts)


def by_revision(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how intervals did at each revision, a line each."""
    names = dict.fromkeys(row["revision"] for row in rows)
    return parted((name, [row for row in rows if row["revision"] == name]) for name in names)


def parted(parts: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> list[str]:
    """Return how intervals did in parts of the runs, a line each."""
    lines = []
    for words, some in parts:
        cells = [words, str(len(some))]
        for word, key in (("worst", "max"), ("p99", "p99")):
            halves = [half(row, word, key) for row in some]
            errors = np.abs([row["predicted"][key] / row["measured"][key] - 1 for row in some])
            after = np.abs([row["hindsight"]["cores"][key] for row in some])
            held = sum(inside(row, word, key) for row in some)
            cells.append(f"{held}, {shown(halves)}, {shown(errors)}, {shown(after)}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def shown(values: Any) -> str:
    """Return median and 90th percentile in percent."""
    values = np.asarray(values, float)
    return f"{100 * np.median(values):.1f} / {100 * np.quantile(values, 0.9):.1f} %" if values.size else ""


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as a page for people."""
    ahead = [row for each in rows for row in each["forecast"] if row["measured"]]
    held = sum(row["low"] <= row["measured"] <= row["high"] for row in ahead)
    sinks = [(each["case"]["network"], name, row) for each in rows for name, row in each["sinks"].items()]
    windows = [row for network, name, row in sinks if network == "auction" and name in ("q5", "q8")]
    after = [{**row, "predicted": row["hindsight"]} for row in windows if "hindsight" in row]
    lines = [
        "# Whether predictions hold",
        "",
        f"{rows[0]['machine']}; two embedded hosts with a core each, directory hop. Each run is drawn from its number:",
        "host that the burst saturates, trigger, load of the burst (by costs measured alone) and its length.",
        "All runs are shown, each predicted with what those before it taught; the first had "
        f"{rows[0].get('before', 0)} before it. In hindsight: the model with the costs",
        "of the run itself, an overhead and a factor for each host, and either the speed that its core had (by cores),",
        "or the speed that it had itself (by hosts): what its batches took of what they should have taken, from one",
        "interval of the trigger to the next.",
        "",
        *HEAD,
        *summary(rows),
        "",
        "By how much the cores wandered while calibrated (deviation of their speed, ten seconds to ten others):",
        "",
        "| cores wandered | runs | worst: inside, half-width, error, in hindsight | p99: likewise |",
        "|---|---|---|---|",
        *by_wandering(rows),
        "",
        "By revision:",
        "",
        "| revision | runs | worst: inside, half-width, error, in hindsight by cores | p99: likewise |",
        "|---|---|---|---|",
        *by_revision(rows),
        "",
        f"Forecasts 10 s ahead, through the bursts: error {shown(gap(ahead))}, {held} of {len(ahead)} inside their",
        "interval (errors: median / p90). Median latency of the auction's windows and join, q5 and q8: error",
        f"{shown(gap(windows))}, in hindsight {shown(gap(after))}.",
        "",
        "The core of the saturated host was faster or slower in the run than while calibrated by "
        f"{100 * moved(rows):.1f} % (standard",
        "deviation): no interval from a calibration can be narrower than this allows.",
        "",
        "| run | revision | when | network | saturated | trigger | burst | worst (s) | predicted | p05 to p95 "
        "| p99 (s) | predicted | p05 to p95 | in hindsight | calibrated, seconds | speed, run to calibration "
        "| batches, run to calibration | cores wandered | runs before were off by | and their overhead besides |",
        "|" + "---|" * 20,
    ]
    for row in rows:
        case, cells = row["case"], []
        for word, key in (("worst", "max"), ("p99", "p99")):
            low, high = row["interval"][word]
            mark = "" if inside(row, word, key) else " (outside)"
            cells += [f"{row['measured'][key]:.2f}", f"{row['predicted'][key]:.2f}", f"{low:.2f} to {high:.2f}{mark}"]
        model = " / ".join(f"{100 * row['hindsight']['hosts'][key]:+.1f} %" for key in ("max", "p99"))
        seconds = row["seconds"]["alone"] + row["seconds"]["in place"]
        what = [row["run"], row["revision"], row["when"], case["network"], case["host"], f"{case['trigger']:g} s"]
        what += [f"{case['burst']} s at load {case['load']}", *cells, model, f"{seconds:.0f}", paces(row)]
        before, fixed = (
            max(known.get(key) or 0.0 for known in row["calibrated"].values())
            for key in ("between_runs", "overhead_between_runs")
        )
        what.append(", ".join(f"{host} {share:.2f}" for host, share in row.get("slower", {}).items()))
        what += [f"{100 * wandered(row):.0f} %", f"{100 * before:.0f} %" if before else ""]
        what.append(f"{100 * fixed:.0f} %" if fixed else "")
        lines.append(f"| {' | '.join(map(str, what))} |")
    return "\n".join(lines) + "\n"


def wandered(row: Mapping[str, Any]) -> float:
    """Return how the speed of cores differed between stretches of the calibration, as a share."""
    return max(float(known["wander"]) for known in row["calibrated"].values())


def moved(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return by how much the speed of the saturated host's core differed between calibration and run, as a share."""
    hosts = [(row["calibrated"][row["case"]["host"]], row["in_run"][row["case"]["host"]]) for row in rows]
    speeds = np.array([(then["speed"], now["speed"]) for then, now in hosts if then["speed"] and now["speed"]])
    return float(np.diff(np.log(speeds)).std())


def gap(rows: Sequence[Mapping[str, Any]]) -> Any:
    return [abs(row["predicted"] / row["measured"] - 1) for row in rows]


def paces(row: Mapping[str, Any]) -> str:
    """Return by host how fast the core was in the run, as a share of what it was while calibrated."""
    both = {host: (row["in_run"][host]["speed"], known["speed"]) for host, known in row["calibrated"].items()}
    return ", ".join(f"{host} {now / then:.2f}" for host, (now, then) in both.items() if now and then)


def known(path: Path) -> list[dict[str, Any]]:
    """Return the runs that are there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--runs", default="1-20", help="numbers of the first and the last run")
    options.add_argument("--out", default=str(LINES), help="file of lines; the page is written beside it")
    options.add_argument("--page", action="store_true", help="only write the page")
    given = options.parse_args()
    first, _, last = given.runs.partition("-")
    here = revision()
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    for number in range(int(first), int(last or first) + 1) if not given.page else ():
        if any((row["run"], row["revision"]) == (number, here) for row in known(out)):
            continue
        found = measure(number, Record(out.with_name("record.jsonl")))
        about = {
            "revision": here,
            "when": time.strftime("%Y-%m-%d %H:%M"),
            "machine": f"{platform.machine()}, 2 cores",
        }
        with out.open("a") as file:
            file.write(json.dumps(plain({**found, **about})) + "\n")
        low, high = found["interval"]["worst"]
        print(
            f"run {number} {found['case']}: worst {found['measured']['max']:.2f} s, predicted "
            f"{found['predicted']['max']:.2f} [{low:.2f}, {high:.2f}], seconds {found['seconds']}", flush=True,
        )  # fmt: skip
    rows = sorted(known(out), key=lambda row: row["when"])
    if rows:
        out.with_suffix(".md").write_text(page(rows))


if __name__ == "__main__":
    sys.exit(main())
