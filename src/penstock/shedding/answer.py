"""What a plan says at given rates, as a document: what ``penstock shed`` answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.cluster import Cluster
from penstock.files import Document
from penstock.shedding.optimum import upper_bound
from penstock.shedding.planners import PLANNERS, LookUp, Question
from penstock.shedding.program import Matrix, Program
from penstock.shedding.replica import replica_plan
from penstock.shedding.runs import Run

COPIES = (
    "a stream keeps one share for all copies of its reader, also in the optimum; --planner replica drops on some "
    "copies alone, and may lose less"
)


def look_up_document(look_up: LookUp, question: Question, rates: Matrix, run: Run) -> Document:
    """Return what a plan table says, beside the optimum and what there would be without limits."""
    program, table = look_up.program, look_up.table
    kept = look_up.plan(rates)
    load = run.load(kept)
    # The optimum of a network with time-window joins is the best that was found; the bound says what it may miss.
    bound = {"bound": upper_bound(program, rates)} if program.products else {}
    copied = any(len(hosts) > 1 for hosts in program.places.values())
    return {
        "planner": table.planner,
        "feasible": program.feasible(kept),
        "score": program.score(kept),
        "optimum": program.score(question.exact.plan(rates)),
        "full": program.score(program.flow(rates)),
        **bound,
        "keep": run.keep(rates, kept),
        "hosts": {name: {"load": float(load[k])} for k, name in enumerate(program.resources[: program.hosts])},
        "entries": table.entries,
        **PLANNERS[table.planner].facts(table),
        **({"notes": [COPIES]} if copied else {}),
    }


def replica_answer(program: Program, cluster: Cluster, placed: Mapping[str, str], rates: Matrix) -> Document:
    """Return what replicas keep of their inputs; some copy of every operator sees everything, so nothing is lost."""
    plan = replica_plan(program, cluster, placed, rates)
    full = program.score(program.flow(rates))
    return {
        "planner": "replica",
        "feasible": True,
        "score": full,
        "optimum": full,
        "full": full,
        "keep": plan.streams(program.network, placed),
        "hosts": {name: {"load": load} for name, load in plan.load.items()},
        "intact": dict(plan.intact),
        "entries": len(plan.keep),
    }


WITHOUT_TABLE: Mapping[str, Callable[[Program, Cluster, Mapping[str, str], Matrix], Document]] = {
    "replica": replica_answer
}
"""The planners that answer from the placement alone, by their names on the command line."""
