"""The controller on the simulator: drift, bursts, a day of a real trace, four minutes of everything, and its size.

``python benchmarks/bench_control.py --trace requests_per_minute.csv`` writes benchmarks/results/control.{json,md}. The
trace has the columns ``period,count``, a row a minute (1998 World Cup web site). Decisions are timed by the processor,
so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from about import RESULTS

from penstock.cluster import Cluster, Host
from penstock.control.controller import Controller
from penstock.control.folder import Folder
from penstock.control.goals import Goals, Prices
from penstock.control.loop import Control
from penstock.control.policies import Policy, policies
from penstock.control.policies.cheapest import Cheapest
from penstock.control.policies.provision import Provision
from penstock.control.policies.rebalance import Rebalance
from penstock.control.policies.shed import Shed
from penstock.control.scenario import Happening
from penstock.control.state import State
from penstock.files import plain
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding.optimum import Solver
from penstock.shedding.program import build_program
from penstock.simulation import MicroBatch, Options, Recording, SimulationEngine
from penstock.steering import Admit, Kill, Recover
from penstock.workload import Rates


def queries(count: int, cost: float, weights: Mapping[int, float] | None = None) -> Network:
    """Return chains of a cheap and a dear operator, each with a source of its own."""
    operators = [
        Operator(name=f"{kind}{q}", kind="map", inputs=(given,), cost=(price,), selectivity=(1.0,))
        for q in range(count)
        for kind, given, price in (("cheap", f"s{q}", cost / 10), ("dear", f"cheap{q}", cost))
    ]
    sinks = [Sink(name=f"t{q}", input=f"dear{q}", weight=(weights or {}).get(q, 1.0)) for q in range(count)]
    return Network.of("queries", [Source(name=f"s{q}") for q in range(count)], operators, sinks)


def controlled(
    network: Network, cluster: Cluster, placement: dict[str, str], rates: Rates, control: Control,
    scenario: tuple[Happening, ...] = (), move_time: float = 0.5,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:  # fmt: skip
    """Return the report and the history of a controlled run."""
    with tempfile.TemporaryDirectory() as folder:
        place = Folder(folder)
        engine = SimulationEngine(network, cluster, placement, rates, Options(move_time=move_time))
        controller = Controller(
            engine=engine, control=control, folder=place, scenario=scenario, until=rates.duration
        )  # fmt: skip
        with place.held():
            return controller.run(), place.history()


def drift() -> dict[str, Any]:
    """Load drifts from one half of the queries to the other; the worst latency with and without moves."""
    network, length = queries(8, 0.004), 240
    shift = np.clip((np.arange(length) - 30) / 90, 0, 1)
    rates = Rates.of(1.0, {f"s{q}": 15 + 65 * (shift if q < 4 else 1 - shift) for q in range(8)})
    placement = {f"{kind}{q}": f"h{1 + q // 4 * 2 + q % 2}" for q in range(8) for kind in ("cheap", "dear")}
    placement = {name: {"h1": "h1", "h2": "h1", "h3": "h2", "h4": "h3"}[host] for name, host in placement.items()}
    found: dict[str, Any] = {}
    for name in ("", "rebalance", "rebalance-two-way", "rebalance-exchange", "rebalance-potential"):
        control = Control(policies=policies(name), act=True)
        report, _ = controlled(network, Cluster.uniform(3), placement, rates, control)
        last = max((move["time"] for move in report["moves"]), default=None)
        found[name or "unmanaged"] = {
            "worst": report["latency"]["max"], "p99": report["latency"]["p99"], "moves": len(report["moves"]),
            "last_move": last, "balanced": report["balanced"],
        }  # fmt: skip
    return {"drift_ends": 120.0, "ends": float(length), "policies": found}


def burst() -> dict[str, Any]:
    """A burst of twice what fits: reaction, worst latency, and the score against the optimum of the linear program."""
    found = {}
    for name, arrivals, batches in (
        ("even", "even", None),
        ("poisson", "poisson", None),
        ("poisson, micro-batches", "poisson", MicroBatch(trigger=0.25, overhead=0.03)),
    ):
        found[name] = [one_burst(arrivals, batches, seed) for seed in range(1 if arrivals == "even" else 5)]
    return {"bound": 2.0, "runs": found}


def one_burst(arrivals: str, batches: MicroBatch | None, seed: int) -> dict[str, Any]:
    """One burst; the optimum is that of all tuples that entered in it, had they come evenly."""
    begin, end, length = 30, 150, 180
    plain = queries(4, 0.008, {0: 4.0, 1: 2.0})
    sources = [attrs.evolve(source, arrivals=arrivals) for source in plain.sources.values()]
    network = Network.of("queries", sources, plain.operators.values(), plain.sinks.values())
    t = np.arange(length)
    rates = Rates.of(1.0, {f"s{q}": np.where((t >= begin) & (t < end), 120.0, 25.0) for q in range(4)})
    placement = {f"{kind}{q}": f"h{1 + q % 2}" for q in range(4) for kind in ("cheap", "dear")}
    control = Control(policies=policies("shed"), act=True, every=0.25, goals=Goals(bound=2.0))
    cluster, score, entered = Cluster.uniform(2), [0.0], {}
    weight = np.array([sink.weight for sink in network.sinks.values()])

    def trace(rows: Any) -> None:
        mine = (rows["stimulus"] >= begin) & (rows["stimulus"] < end)
        score[0] += float(weight[rows["sink"][mine]].sum())

    def tell(_what: str, _share: float) -> None:
        now = round(engine.now, 6)
        if now in (begin, end):
            entered[now] = {s: row["arrived"] for s, row in engine.report()["streams"].items()}

    with tempfile.TemporaryDirectory() as folder:
        place = Folder(folder)
        engine = SimulationEngine(
            network, cluster, placement, rates, Options(microbatch=batches, seed=seed), record=Recording(trace=trace)
        )
        controller = Controller(engine=engine, control=control, folder=place, until=float(length), tell=tell)
        with place.held():
            report, lines = controller.run(), place.history()
    usable = 1.0 if batches is None else 1 - float(batches.overhead) / batches.trigger  # type: ignore[arg-type]
    hosts = [attrs.evolve(host, quota=usable) for host in cluster.hosts.values()]
    program = build_program(network, Cluster.of(hosts), placement)
    first = [network.outputs(name)[0].name for name in network.sources]
    came = np.array([entered[end][name] - entered[begin][name] for name in first]) / (end - begin)
    return {
        "reaction": lines[0]["time"] - begin, "worst": report["latency"]["max"],
        "score_of_optimum": score[0] / (program.score(Solver(program).solve(came)) * (end - begin)),
        "decisions": len(lines), "balanced": report["balanced"],
    }  # fmt: skip


def everything() -> dict[str, Any]:
    """Four minutes: a burst, a slow drift, a host that dies and comes back, a query that is admitted."""
    network = queries(6, 0.006)
    t = np.arange(240)
    slow = 20 + 70 * np.clip((t - 80) / 80, 0, 1)
    series = {f"s{q}": np.where((t >= 30) & (t < 60), 100.0, slow if q % 3 == 0 else 20.0) for q in range(6)}
    new = Network.of(
        "late", [Source(name="s0")],
        [Operator(name="late", kind="map", inputs=("s0",), cost=(0.004,), selectivity=(1.0,))],
        [Sink(name="late-out", input="late")],
    )  # fmt: skip
    scenario = (Happening(130.0, Kill("h2")), Happening(150.0, Recover("h2")), Happening(200.0, Admit(new)))
    placement = {f"{kind}{q}": f"h{1 + q % 3}" for q in range(6) for kind in ("cheap", "dear")}
    control = Control(policies=policies("replicate,rebalance,shed"), act=True, goals=Goals(bound=2.0))
    report, lines = controlled(network, Cluster.uniform(3), placement, Rates.of(1.0, series), control, scenario)
    dead = sorted(name for name, row in report["sinks"].items() if not row["latency"]["count"])
    return {
        "balanced": report["balanced"], "silent_sinks": dead, "worst": report["latency"]["max"],
        "lost": report["lost"], "dropped": report["dropped"], "arrived": report["arrived"],
        "decisions": {name: sum(line["policy"] == name for line in lines) for name in ("shed", "rebalance", "replicate",
                                                                                        "admit")},
        "story": [{key: line[key] for key in ("time", "policy", "why")} for line in lines],
    }  # fmt: skip


def scale(operators: int, hosts: int, looks: int) -> dict[str, Any]:
    """Processor seconds of one turn of the loop, without the observation, on a large network whose rates drift."""
    rng, chains, sources = np.random.default_rng(0), operators // 10, 100
    rows, sinks, placement = [], [], {}
    for c in range(chains):
        given = f"s{c % sources}"
        for k in range(10):
            name = f"o{c}-{k}"
            cost = float(rng.uniform(0.002, 0.0135))
            rows.append(Operator(name=name, kind="map", inputs=(given,), cost=(cost,), selectivity=(1.0,)))
            placement[name], given = f"h{1 + len(rows) * 7919 % hosts}", name
        sinks.append(Sink(name=f"t{c}", input=given))
    network = Network.of("large", [Source(name=f"s{s}") for s in range(sources)], rows, sinks)
    walk = np.clip(1.0 + np.cumsum(rng.normal(0, 0.05, (sources, looks)), axis=1), 0.5, 2.0)
    rates = Rates.of(1.0, {f"s{s}": row for s, row in enumerate(walk)})
    engine = SimulationEngine(network, Cluster.uniform(hosts), placement, rates, Options(move_time=0.2))
    goals = Goals(moves=50, cool_down=2.0)
    control = Control(policies=policies("replicate,shed,rebalance"), act=True, goals=goals)
    state, flow, turns, busy = State(), None, [], []
    for k in range(looks):
        engine.wait(k + 1.0)
        watch = Timed(engine)
        begin = time.process_time()
        turned = control.turn(watch, state, flow)
        turns.append(time.process_time() - begin - watch.spent)
        state, flow = turned.state, turned.flow
        state, _ = control.settled(state, turned.seen)
        busy.append(max(host.busy or 0.0 for host in turned.seen.hosts.values()))
    return {
        "operators": operators, "hosts": hosts, "looks": looks, "moves": sum(len(row["moves"]) for row in state.fresh),
        "decision": {"mean": float(np.mean(turns[1:])), "worst": max(turns[1:]), "first": turns[0]},
        "busiest": {"first": max(busy[2:5]), "last": max(busy[-3:])},
    }  # fmt: skip


@attrs.define
class Timed:
    """An engine whose own work is timed apart."""

    engine: Any
    spent: float = 0.0

    def _timed(self, call: Any, *given: Any) -> Any:
        begin = time.process_time()
        found = call(*given)
        self.spent += time.process_time() - begin
        return found

    def observe(self) -> Any:
        """Observe."""
        return self._timed(self.engine.observe)

    def apply(self, plan: Any) -> Any:
        """Apply."""
        return self._timed(self.engine.apply, plan)


def day_of(path: Path, day: str) -> np.ndarray:
    """Return a day of a trace as shares of its highest minute, array (1440,)."""
    with open(path, newline="") as file:
        counts = [float(row["count"]) for row in csv.DictReader(file) if row["period"].startswith(day)]
    series = np.array(counts[:1440])
    found: np.ndarray = series / series.max()
    return found


def day(path: Path, date: str) -> dict[str, Any]:
    """A day of a real trace under each policy alone and under `cheapest`; what each costs in one currency."""
    weights = {0: 4.0, 1: 2.0}
    network = queries(6, 0.05, weights)
    shape = day_of(path, date)
    rates = Rates.of(60.0, {f"s{q}": (3.0 + 2.0 * (q % 3)) * 2.0 * shape for q in range(6)})
    spare = tuple(Host(name=f"h{k}") for k in range(3, 8))
    goals = Goals(bound=5.0, horizon=120.0, spare=spare, moves=4, rest=120.0, cool_down=20.0, prices=Prices())
    provision = Provision(patience=300.0)
    found: dict[str, Any] = {}
    courses: dict[str, tuple[Policy, ...]] = {
        "nothing": (),
        "shed": (Shed(),),
        "rebalance": (Rebalance(),),
        "provision": (provision,),
        "provision,rebalance": (provision, Rebalance()),
        "cheapest": (Cheapest(provision=Provision(retire=0.85, patience=300.0)),),
    }
    for name, chosen in courses.items():
        found[name] = _priced(network, rates, goals, chosen)
    return {"date": date, "bound": goals.bound, "prices": attrs.asdict(goals.prices), "policies": found}


def _priced(network: Network, rates: Rates, goals: Goals, chosen: tuple[Policy, ...]) -> dict[str, Any]:
    every, late = 15.0, [0.0]
    weight = np.array([sink.weight for sink in network.sinks.values()])

    def trace(rows: Any) -> None:
        late[0] += float(weight[rows["sink"][rows["egress"] - rows["stimulus"] > goals.bound]].sum())

    placement = {f"{kind}{q}": f"h{1 + q % 2}" for q in range(6) for kind in ("cheap", "dear")}
    engine = SimulationEngine(
        network, Cluster.uniform(2), placement, rates, Options(move_time=0.5), record=Recording(trace=trace)
    )
    control = Control(policies=chosen, act=True, every=every, goals=goals)
    state, flow, hours, at = State(), None, 0.0, 0.0
    while engine.wait(at + every):
        at += every
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
        state = attrs.evolve(state, open=())
        hours += len(turned.seen.cluster.hosts) * every / 3600
    report, prices = engine.report(), goals.prices
    lost = 0.0
    for name, sink in network.sinks.items():
        arrived = report["streams"][f"s{name[1:]}->cheap{name[1:]}"]["arrived"]
        lost += sink.weight * (arrived - report["streams"][f"{sink.input}->{name}"]["delivered"])
    cost = {
        "lost": prices.value * lost, "late": prices.late * late[0], "hosts": prices.hour * hours,
        "moves": prices.move * sum(len(row["moves"]) for row in state.fresh),
    }  # fmt: skip
    return {**cost, "total": sum(cost.values()), "decisions": state.decisions, "balanced": report["balanced"]}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", type=Path, help="requests_per_minute.csv; without it the day is left out")
    parser.add_argument("--date", default="1998-06-30")
    parser.add_argument("--operators", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", help="parts to measure; the others stay as they are in the results")
    given = parser.parse_args()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "drift": drift,
        "burst": burst,
        "everything": everything,
        "scale": lambda: scale(given.operators, given.operators // 100, 30),
    }
    if given.trace is not None:
        parts["day"] = lambda: day(given.trace, given.date)
    known = RESULTS / "control.json"
    document: dict[str, Any] = json.loads(known.read_text()) if known.exists() else {}
    for name in given.only or parts:
        document[name] = parts[name]()
        known.write_text(json.dumps(plain(document), indent=1) + "\n")
    (RESULTS / "control.md").write_text(table(document))


def table(document: dict[str, Any]) -> str:
    """Return the results for people."""
    drifted, shed, size = document["drift"], document["burst"], document.get("scale")
    lines = ["# The controller on the simulator", "", "Written by `benchmarks/bench_control.py`.", "", "## Drift", ""]
    lines += ["| policy | worst latency, s | moves | last move, s |", "|---|---|---|---|"]
    for name, row in drifted["policies"].items():
        last = "" if row["last_move"] is None else f"{row['last_move']:.0f}"
        lines.append(f"| {name} | {row['worst']:.2f} | {row['moves']} | {last} |")
    lines += ["", f"The drift ends at {drifted['drift_ends']:.0f} s, the run at {drifted['ends']:.0f} s."]
    lines += ["", "## Burst", ""]
    lines.append(f"For two minutes twice as much comes as fits; {shed['bound']:g} s are allowed; a look each 0.25 s.")
    lines += ["", "| arrivals | seeds | least score of the optimum | mean | worst latency, s | reaction, s |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, runs in shed["runs"].items():
        scores = [row["score_of_optimum"] for row in runs]
        worst, reaction = max(row["worst"] for row in runs), max(row["reaction"] for row in runs)
        lines.append(
            f"| {name} | {len(runs)} | {min(scores):.4f} | {np.mean(scores):.4f} | {worst:.2f} | {reaction:.2f} |"
        )
    lines += ["", "In micro-batches the optimum is that of batches as long as the trigger: longer ones do more."]
    four = document["everything"]
    lines += ["", "## Four minutes of everything", ""]
    lines.append(
        f"{four['arrived']} tuples on streams, {four['dropped']} dropped, {four['lost']} lost with the dead host; "
        f"every tuple accounted for: {'yes' if four['balanced'] else 'no'}; worst latency {four['worst']:.2f} s."
    )
    lines += ["", "| time, s | policy | why |", "|---|---|---|"]
    lines += [f"| {line['time']:g} | {line['policy']} | {line['why']} |" for line in four["story"]]
    if "day" in document:
        one = document["day"]
        lines += ["", f"## A day of a real trace ({one['date']})", "", f"Prices: {one['prices']}.", ""]
        lines += ["| policy | lost | late | hosts | moves | total |", "|---|---|---|---|---|---|"]
        for name, row in one["policies"].items():
            numbers = " | ".join(f"{row[key]:.2f}" for key in ("lost", "late", "hosts", "moves", "total"))
            lines.append(f"| {name} | {numbers} |")
    if size is not None:
        lines += ["", "## Size", "", f"{size['operators']} operators on {size['hosts']} hosts: a decision takes "]
        lines[-1] += f"{size['decision']['mean']:.2f} s of a processor, at most {size['decision']['worst']:.2f} s "
        lines[-1] += (
            f"(the first, which lays the network out, {size['decision']['first']:.2f} s); {size['moves']} moves."
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
