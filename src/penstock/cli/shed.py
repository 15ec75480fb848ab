"""``penstock shed``: what to drop."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli import common, options
from penstock.errors import Infeasible, InputError, locating
from penstock.files import Document, file_of, suggest
from penstock.units import decimal, pairs

if TYPE_CHECKING:
    from penstock.cluster import Cluster, Placement
    from penstock.load import Statistics
    from penstock.network import Network
    from penstock.shedding import LookUp, PlanTable, Program, Question
    from penstock.shedding.program import Matrix
    from penstock.shedding.room import Room
    from penstock.shedding.runs import Run


class TableOptions(NamedTuple):
    """The plan table."""

    planner: Annotated[
        str | None,
        typer.Option(
            "--planner",
            help="exact, solver, solver-w, c-fit, d-fit, replica, random-drop or input-only; it or --plan is needed.",
        ),
    ] = None
    upto: Annotated[
        str | None, typer.Option("--upto", metavar="INLINE", help="Highest rates in the table; default: twice --at.")
    ] = None
    error: Annotated[float, typer.Option("--error", metavar="E", help="Share of the optimum that may be lost.")] = 0.05
    workload: Annotated[
        str, typer.Option("--workload", help="solver-w: uniform, or exponential:MEAN (as a share of --upto).")
    ] = "uniform"
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            parser=options.span,
            help="solver, solver-w: stop after this time with the table so far.",
        ),
    ] = None
    save: Annotated[
        str | None, typer.Option("--save", metavar="FILE", callback=options.output, help="Write the plan table here.")
    ] = None
    plan: Annotated[str | None, typer.Option("--plan", metavar="FILE", help="Answer from this plan table.")] = None


def command(
    network: options.NetworkOptions,
    placement: options.PlacementOption,
    at: Annotated[str, typer.Option("--at", metavar="INLINE", help="Source rates, e.g. clicks=120,bids=300.")],
    wish: TableOptions,
    answer: options.AnswerOptions,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            callback=options.picture,
            help="Draw score against rates, with the baselines (SVG, PNG or PDF).",
        ),
    ] = None,
) -> None:
    """Plan what to drop so that no host exceeds its quota and the most valuable output survives.

    Example: penstock shed examples/two-chains/network.toml --hosts 2
    --placement views=h1,scored=h2,paid=h1,billed=h2 --planner d-fit --at clicks=400,buys=150
    """
    from penstock.cli import reading

    graph, known, cluster = reading.get_deployment(network)
    placed = reading.get_placement(placement, graph, cluster)
    rates = _rates(at, graph, "--at")
    _check(wish)
    reading.note_unresolved(graph, known, dict(zip(graph.sources, rates.tolist(), strict=True)))
    program, found, table = _program(graph, known, cluster, placed, wish)
    from penstock.shedding import Question, optimum
    from penstock.shedding.answer import WITHOUT_TABLE
    from penstock.shedding.room import told
    from penstock.shedding.runs import Run

    if (direct := WITHOUT_TABLE.get(wish.planner or "")) is not None:
        if wish.save is not None or plot is not None:
            raise InputError(f"{wish.planner} answers from the placement alone: there is no table", at="--planner")
        begun = time.perf_counter()
        document = told(direct(program, cluster, placed, rates), found)
        seconds = time.perf_counter() - begun
        _show(document | {"seconds": seconds, "lookup": seconds}, graph, json=answer.json)
        return

    most = 2 * rates if wish.upto is None else _rates(wish.upto, graph, "--upto")
    if (most < rates).any():
        raise InputError("expected rates of at least --at", at="--upto")
    run = Run.of(program, rates)
    if run.program.whole and (wish.save or wish.plan or plot):
        raise InputError(
            f"a table cannot tell what a run drops, which is nothing on {', '.join(sorted(run.program.whole))}",
            at="--save" if wish.save else "--plan" if wish.plan else "--plot",
            hint="leave it out, or let control --policy shed decide while it runs",
        )
    question = Question(optimum(run.program), most, wish.error, _scale(wish.workload), wish.budget)
    document = told(_planned(run, question, rates, wish, table), found)
    if plot:
        from penstock.shedding.plot import draw_scores

        draw_scores(run.program, question, rates, plot)
    _show(document, graph, json=answer.json)


def _program(
    graph: Network, known: Statistics, cluster: Cluster, placed: Placement, wish: TableOptions
) -> tuple[Program, Mapping[str, Room], PlanTable | None]:
    """Return the program, what plans may fill of its hosts where that is told, and the table that answers, if any."""
    from penstock.shedding import build_program, read_table
    from penstock.shedding.room import in_table, rooms, shares, stale

    program, found = build_program(graph, cluster, placed), rooms(graph, cluster, placed, known)
    if wish.plan is None:
        return program.leaving(shares(cluster, found)), found, None
    table = read_table(wish.plan)
    with locating(file_of(wish.plan)):
        if wish.planner not in (None, table.planner):
            hint = "leave --planner out, or build a table with --save"
            raise InputError(
                f"{wish.planner!r} did not make this table, {table.planner!r} did", at="--planner", hint=hint
            )
        program = table.check(program)
    for line in stale(table, cluster, found):
        common.note(line)
    return program, in_table(table, cluster), table


def _check(wish: TableOptions) -> None:
    if wish.planner is None and wish.plan is None:
        raise InputError("expected --planner or --plan", at="--planner", hint="e.g. --planner exact")
    if not 0 < wish.error < 1:
        raise InputError(f"expected an error between 0 and 1, got {wish.error:g}", at="--error")
    if wish.budget is not None and not 0 <= wish.budget < math.inf:
        raise InputError(f"expected a time of at least 0 s, got {wish.budget:g}", at="--budget")
    _must_fit(wish)


def _must_fit(wish: TableOptions) -> None:
    """Say what is said of a table that is not made, or to a planner that does not heed it; a budget is refused."""
    # A table that is there was made before: what is said of its making decides nothing, whoever made it.
    makes = wish.planner if wish.plan is None else None
    from penstock.shedding import PLANNERS
    from penstock.shedding.answer import WITHOUT_TABLE
    from penstock.shedding.planners import BUDGETED

    if wish.planner is not None and wish.planner not in (known := [*PLANNERS, *WITHOUT_TABLE]):
        raise InputError(
            f"unknown planner {wish.planner!r}", at="--planner", hint=suggest(wish.planner, known, "planners")
        )
    for option, heeding in (("upto", PLANNERS), ("error", PLANNERS), ("workload", ["solver-w"]), ("budget", BUDGETED)):
        if getattr(wish, option) != TableOptions._field_defaults[option] and makes not in heeding:
            said = f"goes only with --planner {', '.join(heeding)}"
            if wish.plan is not None:
                said = "is of the making of a table, and --plan gives one that is made"
            if option == "budget":
                raise InputError(said, at="--budget", hint="leave it out")
            common.note(f"note: --{option} {said}: it decides nothing here")


def _planned(run: Run, question: Question, rates: Matrix, wish: TableOptions, table: PlanTable | None) -> Document:
    from penstock.shedding import save_table
    from penstock.shedding.answer import look_up_document

    begun = time.perf_counter()
    look_up = _look_up(run.program, question, wish, table)
    seconds = time.perf_counter() - begun
    if wish.save:
        save_table(look_up.table, wish.save)
    return look_up_document(look_up, question, rates, run) | {"seconds": seconds, "lookup": _shortest(look_up, rates)}


def _look_up(program: Program, question: Question, wish: TableOptions, table: PlanTable | None) -> LookUp:
    from penstock.shedding import LookUp, build_table

    if table is not None:
        with locating(wish.plan):
            return LookUp(program, table)
    return LookUp(program, build_table(str(wish.planner), question))


def _shortest(look_up: LookUp, rates: Matrix) -> float:
    """Return how long a look-up takes (s): the shortest of some."""
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        look_up.plan(rates)
        took.append(time.perf_counter() - begun)
    return min(took)


def _show(document: Document, graph: Network, *, json: bool) -> None:
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
    from penstock.network.windows import drops_whole, windows_behind

    for stream in graph.streams:
        if document["keep"].get(stream.name, 1.0) >= 1:
            continue
        length = max((length for length, _ in windows_behind(graph, stream)), default=0.0)
        if not drops_whole(graph, stream):
            common.say(f"{stream.name}: no window behind it can be dropped whole, so that a run drops nothing there")
        elif length > 0:
            common.say(
                f"{stream.name}: drops whole windows of {length:g} s, so a change takes effect when the next one begins"
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
        where = "in the mean over the workload" if document["planner"] == "solver-w" else "everywhere up to --upto"
        common.say(f"the score is within {document['reached']:.3g} of the optimum {where}")
    for note in document.get("notes", ()):
        common.say(note)
    made, took = f"planned in {document['seconds']:.3g} s", document["lookup"]
    table = f"{document['entries']} entries, {made}, look-up {took * 1e6:.3g} µs"
    common.say(table if document["entries"] else f"no table: each plan is computed for its rates; {made}")


def _rates(given: str, graph: Network, at: str) -> Matrix:
    import numpy as np

    found = pairs(given, at, "source=rate", "clicks=120,bids=300")
    for name in found:
        if name not in graph.sources:
            raise InputError(f"{name!r} is no source", at=at, hint=suggest(name, graph.sources, "sources"))
    for name in graph.sources:
        if name not in found:
            raise InputError(f"source {name!r} has no rate", at=at, hint=f"add {name}=RATE")
    return np.array([found[name] for name in graph.sources], float)


def _scale(workload: str) -> float | None:
    if workload == "uniform":
        return None
    kind, _, number = workload.partition(":")
    try:
        scale = decimal(number)
    except ValueError:
        scale = math.nan
    if kind != "exponential" or not (math.isfinite(scale) and scale > 0):
        raise InputError(f"expected uniform or exponential:MEAN, got {workload!r}", at="--workload")
    return scale
