"""``penstock shed``: what to drop."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import common, options
from penstock.errors import Infeasible, InputError
from penstock.files import suggest
from penstock.pictures.save import kind_of

if TYPE_CHECKING:
    from penstock.cluster import Cluster, Placement
    from penstock.network import Network
    from penstock.shedding import Program, Question
    from penstock.shedding.program import Matrix


def command(
    network: options.NetworkArgument,
    placement: options.PlacementOption,
    at: Annotated[str, typer.Option("--at", metavar="INLINE", help="Source rates, e.g. clicks=120,bids=300.")],
    planner: Annotated[
        str | None,
        typer.Option("--planner", help="exact, solver, solver-w, c-fit, d-fit, replica, random-drop or input-only."),
    ] = None,
    cluster_file: options.ClusterOption = None,
    hosts: options.HostsOption = None,
    statistics: options.StatisticsOption = None,
    upto: Annotated[
        str | None, typer.Option("--upto", metavar="INLINE", help="Highest rates in the table; default: twice --at.")
    ] = None,
    error: Annotated[float, typer.Option("--error", metavar="E", help="Share of the optimum that may be lost.")] = 0.05,
    workload: Annotated[
        str, typer.Option("--workload", help="solver-w: uniform, or exponential:MEAN (as a share of --upto).")
    ] = "uniform",
    budget: Annotated[
        float | None,
        typer.Option("--budget", metavar="SECONDS", help="solver: stop after this time with the table so far."),
    ] = None,
    save: Annotated[str | None, typer.Option("--save", metavar="FILE", help="Write the plan table here.")] = None,
    plan: Annotated[str | None, typer.Option("--plan", metavar="FILE", help="Answer from this plan table.")] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw score against load, with the baselines (SVG, PNG or PDF)."),
    ] = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Plan what to drop so that no host exceeds its quota and the most valuable output survives.

    Example: penstock shed examples/two-chains/network.toml --hosts 2
    --placement views=h1,scored=h2,paid=h1,billed=h2 --planner d-fit --at clicks=400,buys=150
    """
    from penstock.cli import reading

    del seed  # every planner is deterministic
    from penstock.shedding import Exact, build_program

    graph, _ = reading.get_network(network, statistics)
    cluster = reading.get_cluster(cluster_file, hosts, graph)
    placed = reading.get_placement(placement, graph, cluster)
    rates = _rates(at, graph, "--at")
    if (planner is None) == (plan is None):
        raise InputError("expected one of --planner and --plan", at="--planner")
    if not 0 < error < 1:
        raise InputError(f"expected an error between 0 and 1, got {error:g}", at="--error")
    if budget is not None and not 0 <= budget < math.inf:
        raise InputError(f"expected a time of at least 0 s, got {budget:g}", at="--budget")
    if plot is not None:
        kind_of(plot)
    program = build_program(graph, cluster, placed)
    if planner == "replica":
        if save is not None or plot is not None:
            raise InputError("replica answers from the placement alone: there is no table", at="--planner")
        _show(_replica(program, cluster, placed, rates), json=json)
        return
    exact = Exact(program)
    most = _rates(upto, graph, "--upto") if upto else 2 * rates
    if (most < rates).any():
        raise InputError("expected rates of at least --at", at="--upto")
    from penstock.shedding import Question

    question = Question(exact, most, error, _scale(workload), budget)
    document = _planned(program, question, rates, planner, plan, save)
    if plot:
        from penstock.shedding.plot import draw_scores

        draw_scores(program, question, rates, plot)
    _show(document, json=json)


def _planned(
    program: Program, question: Question, rates: Matrix, planner: str | None, plan: str | None, save: str | None
) -> dict[str, Any]:
    from penstock.shedding import PLANNERS, LookUp, build_table, read_table, save_table, upper_bound

    begun = time.perf_counter()
    if plan is not None:
        table = read_table(plan)
        try:
            look_up = LookUp(program, table)
        except InputError as wrong:
            raise wrong.located(plan) from None
    else:
        if planner not in PLANNERS:
            known = [*PLANNERS, "replica"]
            raise InputError(
                f"unknown planner {planner!r}", at="--planner", hint=suggest(str(planner), known, "planners")
            )
        table = build_table(planner, question)
        look_up = LookUp(program, table)
    seconds = time.perf_counter() - begun
    if save:
        save_table(table, save)
    kept = look_up.plan(rates)
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        look_up.plan(rates)
        took.append(time.perf_counter() - begun)
    full = program.flow(rates)
    best = question.exact.plan(rates)
    load = program.load(kept)
    # The optimum of a network with time-window joins is the best that was found; the bound says what it may miss.
    bound = {"bound": upper_bound(program, rates)} if program.products else {}
    return {
        "planner": table.planner,
        "feasible": program.feasible(kept),
        "score": program.score(kept),
        "optimum": program.score(best),
        "full": program.score(full),
        **bound,
        "keep": program.keep(rates, kept),
        "hosts": {name: {"load": float(load[k])} for k, name in enumerate(program.resources[: program.hosts])},
        "entries": table.entries,
        **PLANNERS[table.planner].facts(table),
        "seconds": seconds,
        "lookup": min(took),
    }


def _replica(program: Program, cluster: Cluster, placed: Placement, rates: Matrix) -> dict[str, Any]:
    from penstock.shedding import replica_plan

    begun = time.perf_counter()
    found = replica_plan(program, cluster, placed, rates)
    seconds = time.perf_counter() - begun
    full = program.score(program.flow(rates))
    operators = program.network.operators
    share = dict(found.keep)
    for copy in found.keep:
        # A stream's fraction holds for every copy of its reader that has none of its own.
        share |= {other: found.keep.get(other, 1.0) for other in placed if copy == other.partition("#")[0]}
    keep = {
        f"{given}->{copy}": kept
        for copy, kept in sorted(share.items())
        for given in operators[copy.partition("#")[0]].inputs
    }
    return {
        "planner": "replica",
        "feasible": True,
        "score": full,
        "optimum": full,
        "full": full,
        "keep": keep,
        "hosts": {name: {"load": load} for name, load in found.load.items()},
        "intact": dict(found.intact),
        "entries": len(found.keep),
        "seconds": seconds,
        "lookup": seconds,
    }


def _show(document: dict[str, Any], *, json: bool) -> None:
    if not document["feasible"]:
        raise Infeasible("the plan does not keep every host within its quota", **document)
    if json:
        common.answer(document)
        return
    common.table(
        f"{document['planner']}: score {document['score']:.6g} of {document['optimum']:.6g} at best, "
        f"{document['full']:.6g} without a limit",
        ["stream", "keep"],
        list(document["keep"].items()) or [("(nothing is dropped)", "")],
    )
    common.table(
        "hosts: load as a share of capacity",
        ["host", "load"],
        [(name, row["load"]) for name, row in document["hosts"].items()],
    )
    if "bound" in document:
        common.say(f"time-window joins are not linear: no plan scores more than {document['bound']:.6g}")
    if "tables" in document:
        common.table(
            "tables: rows, and bytes that the host sent to its parent",
            ["host", "entries", "bytes"],
            [(name, row["entries"], row["bytes"]) for name, row in document["tables"].items()],
        )
    if "reached" in document:
        common.say(f"the score is within {document['reached']:.3g} of the optimum everywhere up to --upto")
    common.say(
        f"{document['entries']} entries, planned in {document['seconds']:.3g} s, "
        f"look-up {document['lookup'] * 1e6:.3g} µs"
    )


def _rates(given: str, graph: Network, at: str) -> Matrix:
    import numpy as np

    found: dict[str, float] = {}
    for item in given.split(","):
        name, equals, number = (part.strip() for part in item.partition("="))
        if not (name and equals):
            raise InputError(f"expected source=rate, got {item!r}", at=at, hint="e.g. clicks=120,bids=300")
        if name not in graph.sources:
            raise InputError(f"{name!r} is no source", at=at, hint=suggest(name, graph.sources, "sources"))
        if name in found:
            raise InputError(f"source {name!r} is given twice", at=at)
        try:
            rate = float(number)
        except ValueError:
            rate = math.nan
        if not (math.isfinite(rate) and rate >= 0):
            raise InputError(f"expected a rate of at least 0, got {number!r}", at=f"{at} {name}")
        found[name] = rate
    for name in graph.sources:
        if name not in found:
            raise InputError(f"source {name!r} has no rate", at=at, hint=f"add {name}=RATE")
    return np.array([found[name] for name in graph.sources], float)


def _scale(workload: str) -> float | None:
    if workload == "uniform":
        return None
    kind, _, number = workload.partition(":")
    try:
        scale = float(number)
    except ValueError:
        scale = math.nan
    if kind != "exponential" or not (math.isfinite(scale) and scale > 0):
        raise InputError(f"expected uniform or exponential:MEAN, got {workload!r}", at="--workload")
    return scale
