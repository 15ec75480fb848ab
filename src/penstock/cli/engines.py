"""Engines for ``penstock control``: made from what the command line says, and closed at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from penstock.cli import common
from penstock.cli.hosts import FILE
from penstock.cluster import Cluster, Placement
from penstock.errors import InputError
from penstock.load import Statistics
from penstock.network import Network
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.control.engine import Engine

Report = Callable[[str, float], None]


@attrs.frozen(eq=False, kw_only=True)
class Wanted:
    """What an engine is made of.

    Attributes
    ----------
    network, statistics, cluster, placement
        What runs and where.
    rates
        Of the sources; Spark needs none.
    seconds
        How long there is input; None: as long as the rates, or the sources, say.
    directory
        The run's folder.
    seed
        Of everything random.
    trigger, overhead, move_time, pace
        Of the simulator.
    apart
        Operators that are queries of their own on Spark.
    """

    network: Network
    statistics: Statistics
    cluster: Cluster
    placement: Placement
    rates: Rates | None
    seconds: float | None
    directory: str
    seed: int = 0
    trigger: float | None = None
    overhead: float | None = None
    move_time: float = 0.5
    pace: float | None = None
    apart: tuple[str, ...] = ()


@contextmanager
def simulation(wanted: Wanted, tell: Report) -> Iterator[Engine]:
    """Give the simulator."""
    from penstock.simulation import MicroBatch, Options, SimulationEngine

    if wanted.rates is None:
        raise InputError("the simulator needs rates", at="--rates")
    batches = None if wanted.trigger is None else MicroBatch(trigger=wanted.trigger, overhead=wanted.overhead or 0.0)
    options = Options(duration=wanted.seconds, move_time=wanted.move_time, microbatch=batches)
    yield SimulationEngine(
        wanted.network, wanted.cluster, wanted.placement, wanted.rates, options, seed=wanted.seed, pace=wanted.pace,
        clock=time.monotonic, sleep=time.sleep,
    )  # fmt: skip


@contextmanager
def spark(wanted: Wanted, tell: Report) -> Iterator[Engine]:
    """Start hosts, or reach those that run, and give the network on them."""
    from penstock.spark.compile import check_network, check_placement
    from penstock.spark.hosts import start_hosts
    from penstock.spark.hosts.cores import available_cpus
    from penstock.spark.run import Engine, SparkEngine

    for at, value in (("--trigger", wanted.trigger), ("--overhead", wanted.overhead), ("--pace", wanted.pace)):
        if value is not None:
            raise InputError("is for the simulator", at=at)
    check_network(wanted.network, wanted.cluster.spark)
    check_placement(wanted.placement)
    machines = wanted.cluster.crowded(sorted(wanted.cluster.hosts), len(available_cpus()) or os.cpu_count() or 1)
    tell("starting hosts", 0.0)
    with start_hosts(machines, names=sorted(machines.hosts), kept=FILE) as hosts:
        engine = Engine(machines, hosts)
        deployment = engine.prepare(
            wanted.network, wanted.placement, wanted.directory, rates=wanted.rates, live=True, apart=wanted.apart
        )
        running = SparkEngine(engine, deployment)
        try:
            yield running
        finally:
            running.close()


ENGINES: dict[str, Callable[[Wanted, Report], Any]] = {"simulation": simulation, "spark": spark}


def first_placement(wanted: str | None, algorithm: str | None, engine: str, directory: str, **parts: Any) -> Placement:
    """Return where operators are at first: as a run on Spark left them, as given, or as an algorithm says."""
    if engine == "spark":
        from penstock.spark.run import claimed, placement_of

        there = claimed(directory)
        if there is not None:
            return placement_of(there).check(parts["network"].operators, parts["cluster"].hosts)
    return common.decide_placement(placement=wanted, algorithm=algorithm, **parts)
