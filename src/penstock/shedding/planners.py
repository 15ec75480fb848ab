"""The planners: each builds a table, and looks rates up in it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import attrs
import numpy as np

from penstock.arrays import Numbers
from penstock.errors import InputError
from penstock.files import Document
from penstock.shedding import fit
from penstock.shedding.apart import Apart
from penstock.shedding.baselines import input_only, random_drop
from penstock.shedding.exact import DualTable, Exact
from penstock.shedding.grid import TooLarge
from penstock.shedding.hosts import HostPart, host_parts
from penstock.shedding.parts import Part, split
from penstock.shedding.program import Matrix, Program
from penstock.shedding.quadtree import descend
from penstock.shedding.shapes import again, check_range, check_shapes
from penstock.shedding.solver import build_solver
from penstock.shedding.solver_w import build_solver_w
from penstock.shedding.tables import PlanTable, fingerprint
from penstock.shedding.trees import Tables, kept_rates, make_tables, restored, stored
from penstock.shedding.whole import worthwhile

FURTHER = 8.0, 5.0, 3.0, 2.0, 1.5, 1.25
"""Factors on an error for which tables are too large, to find one that fits."""

EXACT = {
    "alpha": ("f", "rows"), "beta": ("f", "rows", "sources"), "tights": ("i", "rows", "resources"),
    "signs": ("i", "rows", "arcs"), "complete": ("i", "once"),
}  # fmt: skip
"""Arrays of the table of ``exact``."""

PARTS = "parts"
"""Of the arrays of a table the one that says how many parts it has, where these have tables of their own."""

Answer = Callable[[Matrix], Matrix]


@attrs.frozen(eq=False)
class Question:
    """What a planner is asked.

    Attributes
    ----------
    exact
        The program and its optimum.
    upto
        Array (sources,): the region is 0..upto (tuples/s).
    error
        Promised share of the optimum that may be lost.
    scale
        Of an exponential workload (mean rate as a share of ``upto``), for ``solver-w``; None: uniform.
    budget
        `BUDGETED` planners stop after this time (s) with what error they have reached; None: when they have reached the
        promised one.
    clock
        What time is measured by.
    """

    exact: Exact
    upto: Matrix
    error: float = 0.05
    scale: float | None = None
    budget: float | None = None
    clock: Callable[[], float] = time.perf_counter


@attrs.frozen
class Planner:
    """A row of `PLANNERS`.

    Attributes
    ----------
    build
        Makes a table for a question.
    answers
        Returns the look-up of a table: overloaded rates in, array (sources,); kept rates out, array (arcs,).
    facts
        What else a table has to say, as JSON data.
    worthwhile
        Whether streams that are worth nothing are dropped first, and the table is for what is left: by that alone
        nothing would be lost, while errors are shares of what is worth something.
    apart
        Whether parts of the network that share nothing have tables of their own (section 8.2.4): ``everywhere`` where
        each may make the error that all may make, ``mean`` where their errors add up; None: they have not.
    """

    build: Callable[[Question], PlanTable]
    answers: Callable[[Program, PlanTable], Answer]
    facts: Callable[[PlanTable], Document] = lambda _: {}
    worthwhile: bool = False
    apart: Literal["everywhere", "mean"] | None = None


def build_exact(question: Question) -> PlanTable:
    """Keep the dual vertices: optimal everywhere."""
    table = question.exact.table
    arrays: dict[str, Numbers] = {
        "alpha": table.alpha,
        "beta": table.beta,
        "tights": table.tights,
        "signs": table.signs,
    }
    arrays["complete"] = np.array([int(table.complete)])
    return _table(question, "exact", len(table), arrays, 1e-6)


def answer_exact(program: Program, table: PlanTable) -> Answer:
    """Look dual vertices up."""
    a = table.arrays
    counts = {"sources": len(program.sources), "resources": len(program.limit), "arcs": program.arcs}
    sizes = check_shapes(a, EXACT, once=1, **counts)
    check_range(a, "tights", 0, sizes["resources"] + sizes["arcs"])
    check_range(a, "signs", -1, 2)
    dual = DualTable(a["alpha"], a["beta"], a["tights"], a["signs"], bool(a["complete"][0]))
    return Exact(program, dual).plan


def build_formula(name: str) -> Callable[[Question], PlanTable]:
    """Return the builder of a baseline: there is nothing to prepare."""

    def build(question: Question) -> PlanTable:
        return _table(question, name, 0, {}, 1.0)

    return build


def answer_formula(formula: Callable[[Program, Matrix], Matrix]) -> Callable[[Program, PlanTable], Answer]:
    """Return the look-up of a baseline: its formula."""
    return lambda program, _: lambda rates: formula(program, rates)


def build_fit(question: Question) -> PlanTable:
    """c-fit; see `penstock.shedding.fit`."""
    exact, error = question.exact, question.error
    fit.linear(exact.program)
    if fit.plain(exact.program):
        arrays = fit.plain_table(exact, error)
    else:
        parts = _parts(exact.program)
        if parts is not None and (table := _by_host(question, parts)) is not None:
            return table
        arrays = fit.planned_table(fit.local_plans(exact, question.upto, parts), question.upto, error)
    return _table(question, "c-fit", len(arrays["points"]), arrays, error)


def _parts(program: Program) -> dict[str, HostPart] | None:
    """Return the hosts' shares of a program, or None where they form no trees."""
    try:
        return host_parts(program)
    except InputError:
        return None


def _by_host(question: Question, parts: Mapping[str, HostPart]) -> PlanTable | None:
    """Return the hosts' tables with their greedy local plans, or None where one grid of the sources is the better way.

    What one place makes for all hosts is what each makes alone (sections 6.2.2 and 6.3), without the messages. Where
    hosts read from each other and streams split, merged tables can be a thousand times as large as the grid of the
    sources, which one place can use instead.
    """
    if any(part.children for part in parts.values()):
        return None
    try:
        tables = make_tables(question.exact.program, question.upto, question.error)
    except TooLarge:
        return None
    return attrs.evolve(host_plan(question, tables), planner="c-fit")


def answer_fit(program: Program, table: PlanTable) -> Answer:
    """Look the best point below up, in the central table or host by host where streams split."""
    if "points" in table.arrays:
        fit.check_arrays(program, table.arrays)
        return lambda rates: fit.fit_plan(program, table.arrays, rates)
    return answer_distributed(program, table)


def build_distributed(question: Question) -> PlanTable:
    """d-fit: every host makes its own table; see `penstock.shedding.trees`."""
    exact, error = question.exact, question.error
    try:
        return host_plan(question, make_tables(exact.program, question.upto, error))
    except TooLarge as large:
        advice = fit.smallest_error(exact, error) if fit.plain(exact.program) else _larger_error(question)
        raise TooLarge(large.problem, advice) from None


def _larger_error(question: Question) -> str:
    """Return advice: an error for which hosts' tables fit where streams split, found by trying for a while."""
    begun, fits = question.clock(), None
    # The largest first: tables are the sooner made the larger the error.
    for factor in FURTHER:
        error = math.ceil(100 * factor * question.error) / 100
        if error >= 1:
            continue
        if question.clock() - begun > fit.TRYING:
            break
        try:
            make_tables(question.exact.program, question.upto, error)
        except TooLarge:
            break
        fits = error
    if fits is None:
        return "take --planner exact, which needs no grid"
    return f"--error {fits:g} fits; --planner exact needs no grid"


def host_plan(question: Question, tables: Tables) -> PlanTable:
    """Return the tables of all hosts as one plan table."""
    entries = sum(map(len, tables.hosts.values()))
    return _table(question, "d-fit", entries, stored(tables), question.error)


def answer_distributed(program: Program, table: PlanTable) -> Answer:
    """Let every host look up in its own table, parents first."""
    found, arcs = restored(program, table.arrays)
    return lambda rates: kept_rates(program, found, arcs, rates)


def distributed_facts(table: PlanTable) -> Document:
    """Return the size of each host's table, and how many bytes it sent to its parent."""
    sent = {name.removesuffix("/sent"): value for name, value in table.arrays.items() if name.endswith("/sent")}
    return {
        "tables": {
            host: {"entries": len(table.arrays[f"{host}/score"]), "bytes": int(value.sum())}
            for host, value in sent.items()
        }
    }


def reached_fact(table: PlanTable) -> Document:
    """Return the error that a table keeps, which is larger than the promised one where time was up before."""
    return {"reached": table.error}


PLANNERS: dict[str, Planner] = {
    "exact": Planner(build_exact, answer_exact, apart="everywhere"),
    "solver": Planner(build_solver, descend, reached_fact, worthwhile=True, apart="everywhere"),
    "solver-w": Planner(build_solver_w, descend, reached_fact, worthwhile=True, apart="mean"),
    "c-fit": Planner(build_fit, answer_fit, worthwhile=True, apart="everywhere"),
    "d-fit": Planner(build_distributed, answer_distributed, distributed_facts),
    "random-drop": Planner(build_formula("random-drop"), answer_formula(random_drop)),
    "input-only": Planner(build_formula("input-only"), answer_formula(input_only)),
}
"""The names on the command line of the planners that have a table; the others are `answer.WITHOUT_TABLE`."""

BUDGETED = "solver", "solver-w"
"""Those that can stop before they have kept their promise."""


def build_table(planner: str, question: Question) -> PlanTable:
    """Build the table of a planner by its name."""
    row, program = PLANNERS[planner], question.exact.program
    if row.apart and (parts := split(program)):
        return _joined(question, planner, parts)
    left = worthwhile(program) if row.worthwhile else program
    if left is program:
        return row.build(question)
    return attrs.evolve(row.build(attrs.evolve(question, exact=Exact(left))), fingerprint=fingerprint(program))


def _joined(question: Question, planner: str, parts: Sequence[Part]) -> PlanTable:
    """Return the tables of all parts as one: the arrays of each are behind its number.

    A mean error is at most the sum of those of the parts, whichever of them is worth how much.
    """
    mean, exact, count = PLANNERS[planner].apart == "mean", question.exact, len(parts)
    whole = exact if isinstance(exact, Apart) else Apart(exact.program, tuple(parts))
    tables = [
        build_table(
            planner,
            attrs.evolve(
                question,
                exact=own,
                upto=np.asarray(question.upto, float)[part.sources],
                error=question.error / count if mean else question.error,
                budget=None if question.budget is None else question.budget / count,
            ),
        )
        for part, own in whole.parts
    ]
    errors = [table.error for table in tables]
    arrays = {f"{k}/{name}": array for k, table in enumerate(tables) for name, array in table.arrays.items()}
    entries = sum(table.entries for table in tables)
    return _table(
        question, planner, entries, {**arrays, PARTS: np.array([count])}, sum(errors) if mean else max(errors)
    )


def _look_ups(program: Program, table: PlanTable) -> list[tuple[Part, LookUp]]:
    """Return the look-ups of the parts of a table that `_joined` has made."""
    parts = split(program)
    if not np.array_equal(table.arrays[PARTS], [len(parts)]):
        raise again(f"is damaged: expected those of {len(parts)} parts")
    found = []
    for number, part in enumerate(parts):
        begin = f"{number}/"
        own = {name.removeprefix(begin): a for name, a in table.arrays.items() if name.startswith(begin)}
        upto = table.upto[part.sources]
        mine = PlanTable.of(part.program, table.planner, upto, table.error, table.entries, own)
        found.append((part, LookUp(part.program, mine)))
    return found


class LookUp:
    """A table in use: rates in, kept rates out.

    Raises
    ------
    InputError
        If the table was made for another program, or is damaged.
    """

    def __init__(self, program: Program, table: PlanTable) -> None:
        self.program, self.table = table.check(program), table
        program = self.program
        if table.planner not in PLANNERS:
            raise again(f"has the unknown planner {table.planner!r}")
        row = PLANNERS[table.planner]
        self._parts = _look_ups(program, table) if row.apart and PARTS in table.arrays else []
        self._left = worthwhile(program) if row.worthwhile else program
        try:
            self._answer: Answer = self._part_by_part if self._parts else row.answers(self._left, table)
        except KeyError as error:
            raise again(f"is damaged or of an earlier version: {error} is missing") from None

    def plan(self, rates: Matrix) -> Matrix:
        """Return the kept rate of each arc, array (arcs,): everything where everything fits.

        Raises
        ------
        InputError
            If the rates are outside the table's region.
        """
        rates = np.asarray(rates, float)
        self.table.within(rates, self.program.sources)
        full = self.program.flow(rates)
        if self.program.feasible(full):
            return full
        if self._left is not self.program and self._left.feasible(full := self._left.flow(rates)):
            return full
        return self._answer(rates)

    def _part_by_part(self, rates: Matrix) -> Matrix:
        kept = np.zeros(self.program.arcs)
        for part, look_up in self._parts:
            kept[part.arcs] = look_up.plan(rates[part.sources])
        return kept


def _table(question: Question, name: str, entries: int, arrays: Mapping[str, Numbers], error: float) -> PlanTable:
    return PlanTable.of(question.exact.program, name, question.upto, error, entries, arrays)
