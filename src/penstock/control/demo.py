"""The demo: the whole chain on two embedded hosts, with nothing to prepare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement, SparkSettings
from penstock.control import chain
from penstock.control.calibrating import calibrate_in_place
from penstock.control.job import Job, execute, finish
from penstock.control.workplace import workplace
from penstock.load import load_model
from penstock.network import Network, read_network
from penstock.placement import Problem, place
from penstock.workload import Rates

ALGORITHMS = ("correlation", "largest-first", "random")


def network() -> Network:
    """Return the auction network, which is shipped with the package."""
    with resources.as_file(resources.files("penstock") / "control" / "auction.toml") as path:
        return read_network(path)


def burst() -> Rates:
    """Return 70 s of events: a quiet stretch, a burst of 7 s that overloads one host, a quiet stretch, a small wave."""
    rate = np.full(70, 700.0)
    rate[20:27] = 4_000.0
    rate[46:58] = 700.0 + 500.0 * np.sin(np.linspace(0, np.pi, 12))
    return Rates.of(1.0, {"events": rate})


def demo(seed: int, tell: Callable[[str, float], None], say: Callable[[str], None]) -> dict[str, Any]:
    """Calibrate, place, predict, run and compare.

    Parameters
    ----------
    seed
        Of the random placement.
    tell
        Told what is being done, and how much of it is done.
    say
        Told results as they come.

    Returns
    -------
    dict
        The report: what ``penstock run`` reports, and ``calibration`` and ``plans``.
    """
    from penstock.spark import calibrate, hosts, run

    graph, rates = network(), burst()
    cluster = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=2.0))
    with workplace() as scratch:
        tell("starting two Spark hosts", 0.0)
        with hosts.start_hosts(cluster) as running:
            engine = run.Engine(cluster, running)
            first = next(iter(running))
            tell("calibrating", 0.05)
            samples = calibrate.read_samples(engine.sessions[first], graph, None, events=6_000)
            alone = calibrate.calibrate_alone(
                engine, first, graph, samples, budget=1.5, report=lambda what, share: tell(what, 0.05 + 0.2 * share)
            )
            known = alone.complete(graph, override=True)
            plans = {name: decide(name, known, cluster, rates, seed) for name in ALGORITHMS}
            placed = plans["correlation"]
            warming = Job(graph, cluster, placed, scratch / "calibration", rates=rates)
            statistics = calibrate_in_place(
                engine, warming, known, alone, lambda what, share: tell(what, 0.25 + 0.3 * share)
            )
            say(calibrated(statistics.measured))
            measured = statistics.complete(graph, override=True)
            prediction = chain.predict(measured, cluster, placed, rates, statistics, rng=np.random.default_rng(seed))
            comparison = compare_plans(measured, cluster, plans, rates, statistics)
            _, latency, weight = prediction.result.whole()
            guess = chain.summary(latency, weight)
            figures = ", ".join(
                f"{word} {guess[key]:.2f} s" for word, key in (("worst", "max"), ("p99",) * 2, ("p50",) * 2)
            )
            say(f"predicted before the run: {figures}")
            job = Job(graph, cluster, placed, scratch / "run", statistics=statistics, rates=rates)
            outcome = execute(engine, job, lambda _what, share: tell("running", 0.58 + 0.4 * share))
        document = finish(job, outcome, prediction).report
        tell("simulating", 0.98)
        virtual = chain.simulated(measured, cluster, placed, rates, statistics)
        document["simulated"] = dict(virtual.latency)
        for name, row in virtual.sinks.items():
            document["sinks"][name]["simulated"] = dict(row)
        return {**document, "calibration": statistics.document(), "plans": comparison}


def calibrated(measured: Mapping[str, Any]) -> str:
    """Say how the calibration in place went."""
    apart = ", ".join(f"{host} {gap:.1%}" for host, gap in measured["apart"].items())
    ended = "agreed" if measured["agreed"] else "did not agree in time"
    return f"calibrated in place by {measured['bursts']} bursts; the last two {ended}: largest batches apart by {apart}"


def decide(name: str, network: Network, cluster: Cluster, rates: Rates, seed: int) -> Placement:
    """Place the operators by an algorithm."""
    problem = Problem(load_model(network, rates), cluster, None, network.pins)
    return place(problem, name, np.random.default_rng(seed)).placement


def compare_plans(
    network: Network, cluster: Cluster, plans: dict[str, Placement], rates: Rates, statistics: Any
) -> dict[str, dict[str, Any]]:
    """Return load and predicted latency of each plan."""
    rows = {}
    for name, placed in plans.items():
        prediction = chain.predict(network, cluster, placed, rates, statistics)
        load = prediction.model.host_load(placed, cluster)
        _, latency, weight = prediction.result.whole()
        rows[name] = {
            "placement": dict(placed),
            "load": {
                host: {"mean": float(row.mean()), "std": float(row.std()), "max": float(row.max())}
                for host, row in zip(cluster.hosts, load, strict=True)
            },
            "predicted": chain.summary(latency, weight),
        }
    return rows
