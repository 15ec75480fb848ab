"""``penstock control`` and the commands that reach a controller at work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import attrs
import typer

from penstock.cli import common, options
from penstock.cli.decisions import show
from penstock.cli.engines import ENGINES, Wanted, begun, folder_for, make_room, rehearsed
from penstock.errors import InputError, locating
from penstock.files import Document

if TYPE_CHECKING:
    from penstock.cluster import Cluster, Placement
    from penstock.control.loop import Control
    from penstock.control.scenario import Happening
    from penstock.network import Network
    from penstock.workload import Rates

DirectoryArgument = Annotated[
    str | None, typer.Argument(metavar="[DIR]", help="The controller's folder; default: the only one in .penstock.")
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]


class InputOptions(NamedTuple):
    """What runs at first, and what comes in and happens."""

    rates: Annotated[
        str | None,
        typer.Option("--rates", metavar="FILE|INLINE", help="Rates file, or clicks=100,bids=50; not needed on Spark."),
    ] = None
    duration: options.DurationOption = 60.0
    period: options.PeriodOption = 1.0
    placement: Annotated[
        str | None, typer.Option("--placement", metavar="FILE|INLINE", help="Placement to begin with.")
    ] = None
    algorithm: options.AlgorithmOption = None
    scenario: Annotated[
        str | None, typer.Option("--scenario", metavar="FILE", help="File of events that happen during the run.")
    ] = None
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="S", parser=options.span, help="Stop after this time (s).")
    ] = None


class GoalOptions(NamedTuple):
    """What is wanted."""

    policy: Annotated[str, typer.Option("--policy", metavar="P1,P2", help="Policies, the most important first.")] = (
        "replicate,shed,rebalance"
    )
    latency: Annotated[
        float, typer.Option("--latency", metavar="S", parser=options.span, help="Latency bound (s).")
    ] = 5.0
    every: Annotated[
        float | None,
        typer.Option(
            "--every",
            metavar="S",
            parser=options.span,
            help="Time between decisions (s); default 1, in real-time mode 0.25.",
        ),
    ] = None
    moves: Annotated[int, typer.Option("--moves", metavar="K", help="Most operators that may move at a time.")] = 4
    spare: Annotated[int, typer.Option("--spare", metavar="N", help="How many hosts like the first may be added.")] = 0
    prices: Annotated[
        str | None,
        typer.Option(
            "--prices", metavar="P", help="Prices of lost rows, late rows, hosts and moves, e.g. value=1e-4,late=5e-5."
        ),
    ] = None


class EngineOptions(NamedTuple):
    """What runs the network, and how."""

    engine: Annotated[
        str, typer.Option("--engine", metavar="E", help="What runs the network: simulation or spark.")
    ] = "simulation"
    trigger: Annotated[
        float | None,
        typer.Option(
            "--trigger", metavar="S", parser=options.span, help="Simulation: micro-batches with this trigger (s)."
        ),
    ] = None
    overhead: Annotated[
        float | None,
        typer.Option(
            "--overhead",
            metavar="S",
            parser=options.span,
            help="Simulation: fixed time of a micro-batch (s); default: from the statistics, or 0.",
        ),
    ] = None
    move_time: Annotated[
        float | None,
        typer.Option(
            "--move-time",
            metavar="S",
            parser=options.span,
            help="How long a moving operator pauses (s); default 0.5, on Spark 3.",
        ),
    ] = None
    apart: Annotated[
        str | None,
        typer.Option(
            "--apart", metavar="OP,…|all", help="Spark: operators that can move alone; default: those with state."
        ),
    ] = None
    pace: Annotated[
        float | None,
        typer.Option(
            "--pace", metavar="X", help="Simulation: virtual seconds per second; default: as fast as possible."
        ),
    ] = None


class FolderOptions(NamedTuple):
    """What is done and written."""

    act: Annotated[bool, typer.Option("--act", help="Apply decisions; without it they are only recorded.")] = False
    history: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="FILE", callback=options.output, help="Also write the decisions here, as JSON lines."
        ),
    ] = None
    directory: Annotated[
        str | None,
        typer.Option(
            "--directory",
            metavar="DIR",
            help="The controller's folder; default .penstock/<network name>, which a run on Spark does not share "
            "with a simulated one: that is in .penstock/<network name>-simulated.",
        ),
    ] = None
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over where a controller was killed, instead of going on.")
    ] = False


def command(
    network: options.NetworkOptions,
    inputs: InputOptions,
    goal: GoalOptions,
    run: EngineOptions,
    folder: FolderOptions,
    answer: options.AnswerOptions,
) -> None:
    """Keep a running network healthy: observe, decide, act, and record why.

    Example: penstock control examples/two-chains/network.toml --hosts 3 --rates clicks=100,buys=20
    --placement examples/two-chains/placement.json --policy shed,rebalance --act
    """
    from penstock.cli import reading

    _check(inputs, goal, run)
    graph, known, cluster = deployed = reading.get_deployment(network)
    directory = folder_for(run.engine, folder.directory or cluster.spark.directory, graph.name)
    # A run that was cut off waits for its hosts: what comes next is imported meanwhile.
    with begun(run.engine, graph, cluster, goal.spare, directory) as left:
        from penstock.control import request
        from penstock.control.controller import Controller, left_by
        from penstock.control.folder import Folder

        happenings = request.scenario_of(inputs.scenario, graph, cluster, known, run.engine)
        simulated = run.engine == "simulation"
        rates, own, happenings = _rates(inputs, graph, happenings, priced=simulated)
        given = inputs.placement, inputs.algorithm
        placed = _going_on(left.placement, *given, network=graph, cluster=left.cluster)
        if placed is None:
            placed = reading.decide_placement(deployed, *given, own, answer.seed, overload=True)
        control = _control(goal, run, cluster, folder.act, answer.seed, _every(goal, run, graph, cluster))
        span = inputs.seconds if inputs.seconds is not None or not simulated or rates is None else rates.duration
        wanted = Wanted(
            network=graph, statistics=known, cluster=left.cluster, placement=placed, rates=rates if simulated else own,
            seconds=span, directory=directory, seed=answer.seed, trigger=run.trigger, overhead=run.overhead,
            move_time=control.goals.pause, pace=run.pace, apart=request.apart_of(run.apart, graph), hosts=left.hosts,
        )  # fmt: skip
        place, began = Folder(directory), time.perf_counter()
        identity = _identity(wanted, inputs, goal, run, control, happenings)
        if not simulated:
            make_room(directory)
        with place.held():
            before = None if folder.fresh else left_by(place, identity, happenings)  # refuses before anything runs
            wanted = _since(wanted, before, happenings)
            with common.progress() as tell, rehearsed(run.engine, wanted, control, tell) as running:
                controller = Controller(
                    engine=running, control=control, folder=place, scenario=happenings, identity=identity, tell=tell,
                    until=span if simulated or span is None else running.now + span, fresh=folder.fresh,
                )  # fmt: skip
                report = controller.run()
    if controller.aside is not None:
        common.say(f"note: the run that was here before has its history in {controller.aside}")
    about = {"network": graph.name, "engine": run.engine, "policy": goal.policy, "seed": answer.seed}
    document = {**about, **report, "directory": directory, "seconds": time.perf_counter() - began}
    common.say_unread(document)
    _tell(document, place.history(), folder, json=answer.json)


def _tell(document: Document, lines: list[Document], folder: FolderOptions, *, json: bool) -> None:
    """Write the history that is wanted, and print the answer: neither is lost with the other.

    The reader of the answer may leave, or a disk be full.
    """
    try:
        if folder.history is not None:
            write_lines(folder.history, lines)
    finally:
        if json:
            common.answer(document)
        else:
            show(document, lines, act=folder.act)


def _identity(
    wanted: Wanted, inputs: InputOptions, goal: GoalOptions, run: EngineOptions, control: Control,
    happenings: tuple[Happening, ...],
) -> Document:  # fmt: skip
    """Return what makes a run: where anything else is asked for a controller does not go on with it."""
    from penstock.control.request import identity_of, identity_of_setting

    simulated = run.engine == "simulation"
    found = identity_of(control, wanted.network, wanted.rates, priced=simulated)
    found |= identity_of_setting(happenings, wanted.cluster if simulated else None)
    found |= {"engine": run.engine, "policy": goal.policy, "scenario": inputs.scenario}
    if not simulated:
        return found
    work = [run.trigger, run.overhead, wanted.move_time]
    return found | {"placement": dict(wanted.placement), "for": wanted.seconds, "options": work}


def _rates(
    inputs: InputOptions, network: Network, happenings: tuple[Happening, ...], *, priced: bool
) -> tuple[Rates | None, Rates | None, tuple[Happening, ...]]:
    """Return the rates of all that may come to run, those of what runs first, and the events that know theirs.

    ``priced``: what runs needs costs and rates.
    """
    from penstock.control.request import control_rates, expecting
    from penstock.load import load_model

    rates = control_rates(inputs.rates, network, happenings, inputs.duration, inputs.period)
    if rates is None:
        if priced:
            raise InputError("the simulator needs rates", at="--rates")
        return None, None, happenings
    own = rates.only(network.sources)
    if priced:
        load_model(network, own)  # names a missing one
        with locating(inputs.scenario):
            happenings = expecting(happenings, network, rates, inputs.seconds)
    return rates, own, happenings


def _since(wanted: Wanted, before: Document | None, happenings: tuple[Happening, ...]) -> Wanted:
    """Return what is wanted from where a run was cut off; of a new one, say what is as nobody may want it."""
    from penstock.control.verify import unfit

    if before is not None:
        return attrs.evolve(wanted, since=before["state"]["at"])
    end = wanted.seconds
    for sentence in unfit(wanted.network, wanted.cluster, wanted.placement):
        common.say(f"note: {sentence}")
    if late := [f"{each.at:g} s" for each in happenings if end is not None and each.at > end + 1e-9]:
        common.say(f"note: the run ends at {end:g} s, before what the scenario lets happen at {', '.join(late)}")
    return wanted


def _going_on(
    there: Placement | None, given: str | None, algorithm: str | None, *, network: Network, cluster: Cluster
) -> Placement | None:
    """Return where the operators of a run are that goes on; say so if the command line says something else."""
    from penstock.cli import reading

    if there is None:
        return None
    asked = {**network.pins, **({} if given is None else reading.get_placement(given, network, cluster))}
    if algorithm is not None or any(there.get(name) != host for name, host in asked.items()):
        common.say("note: operators go on where the run has left them; move them with: penstock move OP HOST")
    return there


def _control(goal: GoalOptions, run: EngineOptions, cluster: Cluster, act: bool, seed: int, every: float) -> Control:
    from penstock.control.goals import Goals
    from penstock.control.loop import Control
    from penstock.control.policies import policies
    from penstock.control.policies.replicate import Replicate
    from penstock.control.request import read_prices

    pause = (3.0 if run.engine == "spark" else 0.5) if run.move_time is None else run.move_time
    hosts, prices, deciding = cluster.spares(goal.spare), read_prices(goal.prices), policies(goal.policy)
    if act and not any(isinstance(each, Replicate) for each in deciding):
        common.say("note: none of these policies starts what a dead host ran: only replicate does, on other hosts")
    return Control(
        policies=deciding,
        goals=Goals(bound=goal.latency, moves=goal.moves, pause=pause, spare=hosts, prices=prices),
        every=every,
        act=act,
        seed=seed,
        journaled=run.engine == "simulation",
    )


def _every(goal: GoalOptions, run: EngineOptions, network: Network, cluster: Cluster) -> float:
    """Return the time between two decisions (s): rows that pass one by one wait for nobody."""
    from penstock.latency.real_time import prompt_operators

    if goal.every is not None:
        return goal.every
    return 0.25 if run.engine == "spark" and prompt_operators(network, cluster.spark) else 1.0


def _check(inputs: InputOptions, goal: GoalOptions, run: EngineOptions) -> None:
    times = {"--every": goal.every, "--latency": goal.latency, "--for": inputs.seconds, "--pace": run.pace}
    for at, value in times.items():
        if value is not None and not 0 < value < 1e9:
            raise InputError(f"expected a time > 0 s, got {value:g}", at=at)
    simulated = {"--trigger": run.trigger, "--overhead": run.overhead}
    for at, value in {**simulated, "--move-time": run.move_time}.items():
        if value is not None and not 0 <= value < 1e9:
            raise InputError(f"expected a time >= 0 s, got {value:g}", at=at)
    if run.engine not in ENGINES:
        raise InputError(f"expected {' or '.join(ENGINES)}, got {run.engine!r}", at="--engine")
    strange = {"--apart": run.apart} if run.engine == "simulation" else {**simulated, "--pace": run.pace}
    for at, given in strange.items():
        if given is not None:
            raise InputError(f"means nothing to --engine {run.engine}", at=at)
    if goal.moves < 1 or goal.spare < 0:
        raise InputError(f"expected at least 1 and 0, got {goal.moves} and {goal.spare}", at="--moves, --spare")
    if run.overhead is not None and run.trigger is None:
        raise InputError("expected --trigger with --overhead", at="--trigger")


def write_lines(path: str, lines: list[Document]) -> None:
    """Write one JSON line a decision."""
    import json

    from penstock.files import atomic

    with atomic(path) as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
