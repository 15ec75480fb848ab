"""The demo: the whole chain on two embedded hosts, with nothing to prepare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement, SparkSettings
from penstock.files import Document
from penstock.load import Statistics, load_model
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.placement import Problem, place
from penstock.running.as_modelled import simulated
from penstock.running.calibrating import calibrate_in_place, said
from penstock.running.job import Job, execute, finish
from penstock.running.prediction import Prediction, predict
from penstock.running.record import Record
from penstock.running.two_sites import bursts, network, peak_of
from penstock.running.workplace import workplace
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.simulation import SimulationResult
    from penstock.spark.run import Engine

ALGORITHMS = ("correlation", "largest-first", "random")

OURS, IN_TURN = "correlation", "in turn"
"""The plans that are run: penstock's, and queries dealt out in turn."""

PATIENCE = 60.0
"""Seconds for calibrating in place: newcomers wait five minutes, but not six."""

WORTH, UNLIKE = 1.5, 1.1
"""How many times as long the slowest row should take with queries dealt out in turn; where it does not, a machine that
became faster or slower by so much since it was calibrated is why."""


def in_turn(network: Network, hosts: Sequence[str]) -> Placement:
    """Deal queries out to hosts, as one does who knows nothing of their costs.

    The first query goes to the first host, the next to the next, and begins again with the first behind the last.

    Parameters
    ----------
    network
        Each sink is a query, in their order; what several queries need goes with the first of them.
    """
    placed: dict[str, str] = {}
    for number, sink in enumerate(network.sinks.values()):
        needed = [sink.input]
        while needed:
            name = needed.pop()
            if name in network.operators and name not in placed:
                placed[name] = hosts[number % len(hosts)]
                needed += network.operators[name].inputs
    return Placement(placed)


def demo(seed: int, tell: Callable[[str, float], None], say: Callable[[str], None]) -> Document:
    """Calibrate, place, predict, run and compare; then run the same events with the queries dealt out in turn.

    Parameters
    ----------
    seed
        Of the random placement, and of intervals.
    tell
        Told what is being done, and how much of it is done.
    say
        Told results as they come.

    Returns
    -------
    dict
        The report: what ``penstock run`` reports, ``calibration`` and ``plans``. Plans that were run have ``measured``
        beside ``predicted``, and ``series.latency`` has ``in_turn``.
    """
    from penstock.spark import hosts, run

    graph, rates, record = network(), bursts(), Record.of_user()
    cluster = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=2.0))
    with workplace() as scratch:
        tell("starting two Spark hosts", 0.0)
        with hosts.start_hosts(cluster) as running:
            engine = run.Engine(cluster, running)
            tell("calibrating", 0.05)
            alone = calibrated_alone(engine, graph, lambda what, share: tell(what, 0.05 + 0.13 * share))
            known = alone.complete(graph, override=True)
            plans = {name: decide(name, known, cluster, rates, seed) for name in ALGORITHMS}
            plans[IN_TURN] = in_turn(graph, list(cluster.hosts))
            warming = Job(graph, cluster, plans[OURS], scratch / "calibration", rates=rates)
            statistics = calibrate_in_place(
                engine, warming, alone, lambda what, share: tell(what, 0.18 + 0.17 * share), budget=PATIENCE
            )
            statistics = record.applied(statistics, cluster)
            say(said(statistics.measured))
            measured = statistics.complete(graph, override=True)
            rates = bursts(peak_of(measured, cluster, plans[OURS], statistics))
            say(f"bursts of {rates.values.max():,.0f} events/s, which take all that these hosts can do")
            ours = Setting(network=measured, cluster=cluster, placement=plans[OURS], statistics=statistics)
            prediction = predict(ours, rates, rng=np.random.default_rng(seed))
            comparison = compare_plans(ours, plans, rates)
            say(foretold(prediction))
            job = Job(graph, cluster, plans[OURS], scratch / "run", statistics=statistics, rates=rates)
            outcome = execute(engine, job, lambda _what, share: tell("running", 0.37 + 0.28 * share))
            dealt = attrs.evolve(job, placement=plans[IN_TURN], folder=scratch / "in-turn")
            beside = execute(
                engine, dealt, lambda _what, share: tell("running with queries dealt out in turn", 0.65 + 0.32 * share)
            )
        document = finish(job, outcome, prediction, record=record).report
        other = finish(dealt, beside).report
        tell("simulating", 0.98)
        add_simulated(document, measured, simulated(ours, rates))
        comparison[OURS] |= came_of(document)
        comparison[IN_TURN] |= came_of(other)
        document["series"]["latency"]["in_turn"] = other["series"]["latency"]["measured"]
        document["balanced"] = document["balanced"] and other["balanced"]
        return {**document, "calibration": statistics.document(), "plans": comparison}


def came_of(report: Document) -> Document:
    """Return what a plan's run came to: latency, and by host how many times as long as calibrated its batches took."""
    slower = {name: row["slower"] for name, row in report["hosts"].items() if "slower" in row}
    return {"measured": report["latency"], "slower": slower}


def add_simulated(document: Document, network: Network, virtual: SimulationResult) -> None:
    """Add what the simulator says to a report, but for windows: there they end on time, on Spark a batch later."""
    document["simulated"] = dict(virtual.latency)
    for name, row in virtual.sinks.items():
        if network.operators[network.sinks[name].input].window is None:
            document["sinks"][name]["simulated"] = dict(row)


def calibrated_alone(engine: Engine, network: Network, tell: Callable[[str, float], None]) -> Statistics:
    """Measure each operator alone, on the first of an engine's hosts."""
    from penstock.spark import calibrate

    host = next(iter(engine.hosts))
    samples = calibrate.read_samples(engine.sessions[host], network, None, events=6_000)
    return calibrate.calibrate_alone(engine, host, network, samples, calibrate.Precision(budget=1.0), report=tell)


def foretold(prediction: Prediction) -> str:
    """Say what was predicted before the run."""
    guess = prediction.result.quantiles().figures()
    figures = ", ".join(f"{word} {guess[key]:.2f} s" for word, key in (("worst", "max"), ("p99",) * 2, ("p50",) * 2))
    return f"predicted before the run: {figures}"


def outcome_of(plans: Mapping[str, Document]) -> str:
    """Say in one sentence what the two runs had to do with each other, and why, should it be little."""
    ours, theirs = (plans[name]["measured"]["max"] for name in (OURS, IN_TURN))
    slower = [share for name in (OURS, IN_TURN) for share in plans[name].get("slower", {}).values()]
    moved = max(slower, key=lambda share: abs(math.log(share)), default=1.0)
    why = ""
    if theirs < WORTH * ours and abs(math.log(moved)) > math.log(UNLIKE):
        why = (
            f", since batches took up to {moved:.2f} times what they had taken while calibrated: try again while this "
            "machine does nothing else"
        )
    return (
        f"Placed by penstock, the slowest row took {ours:.1f} s; with the queries dealt out in turn, on the same two "
        f"hosts and the same events, {theirs:.1f} s: {theirs / ours:.1f} times as long{why}."
    )


def decide(name: str, network: Network, cluster: Cluster, rates: Rates, seed: int) -> Placement:
    """Place the operators by an algorithm."""
    problem = Problem(load_model(network, rates), cluster, None, network.pins)
    return place(problem, name, np.random.default_rng(seed)).placement


def compare_plans(setting: Setting, plans: dict[str, Placement], rates: Rates) -> dict[str, Document]:
    """Return load and predicted latency of each plan, in place of the setting's own placement."""
    rows = {}
    for name, placed in plans.items():
        prediction = predict(attrs.evolve(setting, placement=placed), rates)
        load = prediction.model.host_load(placed, setting.cluster)
        rows[name] = {
            "placement": dict(placed),
            "load": {
                host: {"mean": float(row.mean()), "std": float(row.std()), "max": float(row.max())}
                for host, row in zip(setting.cluster.hosts, load, strict=True)
            },
            "predicted": prediction.result.quantiles().figures(),
        }
    return rows
