"""Tables 1 and 3 and figures 9 to 15 of Tatbul et al., Staying FIT.

The paper's vertical axes are seconds on machines of 2007. What is counted here is the same on every machine: linear
programs solved, points of a grid, cells of a quadtree; seconds are measured by the benchmarks. The space of input rates
is 0 to 100 tuples/s in every dimension (figure 5's); that of the experiments is not in the text.
"""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, Host
from penstock.experiments.base import Claim, Curve, Figure, Panel, listed
from penstock.network import Network, Operator, Sink, Source
from penstock.network.shapes import chains
from penstock.shedding import Exact, LookUp, PlanTable, Program, Question, build_program, build_table
from penstock.simulation import Options, simulate
from penstock.workload import Rates

PAPER = "shedding"
Matrix = NDArray[np.float64]
Costs = tuple[float, ...]

TOP = 100.0
"""Greatest rate of every input (tuples/s)."""
NETWORKS: tuple[Costs, ...] = ((48, 48), (64, 32), (72, 24), (80, 16), (88, 8))
"""Costs in ms of two chains on either server (figure 9); only the second is in the text."""
LP, POINT = 30e-6, 0.1e-6
"""Seconds of a warm linear program and of a grid point on one core, to weigh counts with."""


def _claim(figure: str, name: str, expected: str, measured: str, holds: bool, note: str = "") -> Claim:
    return Claim(
        paper=PAPER, figure=figure, name=name, expected=expected, measured=measured, holds=bool(holds), note=note
    )


def _chains(costs: Costs) -> Program:
    """Two operators a query, the first on one server and the second on another, all of the given costs (ms)."""
    network = chains([[cost / 1e3] * 2 for cost in costs])
    placement = {name: "h1" if name.endswith(".1") else "h2" for name in network.operators}
    return build_program(network, Cluster.uniform(2), placement)


def _question(costs: Costs, error: float, scale: float | None = None) -> Question:
    return Question(Exact(_chains(costs)), np.full(len(costs), TOP), error, scale)


def _fits(program: Program, points: Matrix) -> NDArray[np.bool_]:
    """Return which rates every server can take with nothing dropped."""
    flow = np.linalg.solve(np.eye(program.arcs) - program.G, program.S)
    return np.asarray((points @ (program.K @ flow / program.limit[:, None]).T <= 1 + 1e-9).all(axis=1))


def _cells(table: PlanTable) -> tuple[Matrix, Matrix, NDArray[np.bool_]]:
    """Return the lower and upper corners of a quadtree's cells, and which are leaves."""
    child, dims = table.arrays["child"], len(table.upto)
    low, high = np.zeros((len(child), dims)), np.tile(table.upto, (len(child), 1))
    corners = np.array([[(k >> s) & 1 for s in range(dims)] for k in range(1 << dims)], float)
    at = np.zeros(1, np.int64)
    while len(at := at[child[at] >= 0]):
        below = child[at][:, None] + np.arange(1 << dims)
        half = ((high[at] - low[at]) / 2)[:, None]
        low[below] = low[at][:, None] + corners * half
        high[below] = low[below] + half
        at = below.ravel()
    return low, high, child < 0


def _programs(program: Program, table: PlanTable) -> int:
    """Count the calls of the solver for a quadtree: the distinct extreme points of its overloaded cells."""
    low, high, _ = _cells(table)
    over = ~_fits(program, high)
    return len(np.unique(np.concatenate([low[over], high[over]]), axis=0))


def _expected_error(question: Question, table: PlanTable, scale: float) -> float:
    """Return the mean over an exponential workload of the greatest error of each cell (section 5.2)."""
    low, high, leaf = _cells(table)
    over = leaf & ~_fits(question.exact.program, high)
    low, high = low[over], high[over]
    top, bottom = question.exact.values(high), question.exact.values(low)
    a, b = (np.exp(-corner / table.upto / scale) for corner in (low, high))
    chance = ((a - b) / -np.expm1(-1 / scale)).prod(axis=1)
    return float((chance * (1 - bottom / top)).sum())


def _grid(load: Matrix, error: float) -> tuple[Matrix, NDArray[np.int64]]:
    """Return the paper's grid (section 6.2.1): from the greatest feasible rate by 1 - error down to 1 tuple/s, and 0.

    Parameters
    ----------
    load
        Array (servers, inputs): load per tuple (s).

    Returns
    -------
    levels, counts
        Arrays (inputs, most), falling, and (inputs,).
    """
    columns = []
    for top in 1 / load.max(axis=0):
        steps = max(0, int(np.floor(np.log(1 / top) / np.log1p(-error)) + 1e-9))
        columns.append(np.append(top * (1 - error) ** np.arange(steps + 1), 0.0))
    counts = np.array([len(column) for column in columns], np.int64)
    levels = np.zeros((len(columns), int(counts.max())))
    for row, column in zip(levels, columns, strict=True):
        row[: len(column)] = column
    return levels, counts


def _rows(load: Matrix, error: float) -> Matrix:
    """Return the paper's FIT: the points of the grid that fit while the next one up in every input does not."""
    from penstock.shedding import kernels

    levels, counts = _grid(load, error)
    rows = np.zeros((kernels.boundary(levels, counts, load, np.zeros((0, len(counts)))), len(counts)))
    kernels.boundary(levels, counts, load, rows)
    return rows


def _named(costs: Costs) -> str:
    return "(" + ", ".join(f"{cost:g}" for cost in costs) + ")"


def table_1(quick: bool, seed: int) -> Figure:
    """Return the load shedding plans of figure 1, run in the simulator with tuple-fair servers."""
    network = chains([[0.01, 0.03], [0.02, 0.01]])
    placement = {"o1.1": "a", "o2.1": "a", "o1.2": "b", "o2.2": "b"}
    cluster = Cluster.of([Host(name="a"), Host(name="b")])
    program = build_program(network, cluster, placement)
    # Rates at A, A's and B's load if all that arrives were served, throughput of A's and of B's two queries.
    printed = {
        0: ((1, 1), 3, (1 / 3, 1 / 3), 4 / 3, (1 / 4, 1 / 4)),
        1: ((1 / 3, 1 / 3), 1, (1 / 3, 1 / 3), 4 / 3, (1 / 4, 1 / 4)),
        2: ((1, 0), 1, (1, 0), 3, (1 / 3, 0)),
        3: ((0, 1 / 2), 1, (0, 1 / 2), 1 / 2, (0, 1 / 2)),
        4: ((1 / 5, 2 / 5), 1, (1 / 5, 2 / 5), 1, (1 / 5, 2 / 5)),
    }
    seconds = 200.0 if quick else 2000.0
    claims, totals = [], []
    for number, (rates, *expected) in printed.items():
        given = Rates.constant({"s1": 100 * rates[0], "s2": 100 * rates[1]}, seconds)
        run = simulate(network, cluster, placement, given, Options(policy="round-robin", queue=10), seed=seed)
        arrived = {name: row["arrived"] / seconds for name, row in run.streams.items()}
        left = [arrived[name] / 100 for name in ("o1.1->o1.2", "o2.1->o2.2")]
        out = [arrived[name] / 100 for name in ("o1.2->t1", "o2.2->t2")]
        at_a = arrived["s1->o1.1"] * 0.01 + arrived["s2->o2.1"] * 0.02
        at_b = arrived["o1.1->o1.2"] * 0.03 + arrived["o2.1->o2.2"] * 0.01
        found = [at_a, *left, at_b, *out]
        wanted = [expected[0], *expected[1], expected[2], *expected[3]]  # type: ignore[misc]
        totals.append(sum(out))
        claims.append(
            _claim(
                "Table 1",
                f"plan {number}: load and throughput of A, load and throughput of B",
                listed(wanted),
                listed(found),
                bool(np.allclose(found, wanted, rtol=0.02, atol=0.01)),
            )
        )
    exact = Exact(program)
    best = program.score(exact.plan(np.array([100.0, 100.0]))) / 100
    row = int(np.argmin(exact.table.alpha + exact.table.beta @ np.array([100.0, 100.0])))
    claims.append(_claim("Table 1", "plan 4 is optimal", "3/5", f"{best:.6g}", abs(best - 0.6) < 1e-6))
    worth = exact.table.alpha[row] / 100
    claims.append(
        _claim("Table 1", "what both capacities are worth there", "2/5 + 1/5", f"{worth:.6g}", abs(worth - 0.6) < 1e-6)
    )
    plans = tuple(float(number) for number in printed)
    return Figure(
        paper=PAPER,
        name="Table 1",
        title="Alternate load shedding plans",
        parameters={"servers": "one tuple per query and turn, 10 may wait", "rate 1": "100 tuples/s, 1 cost: 10 ms"},
        panels=(Panel(x="plan", y="total throughput", curves=(Curve(label="simulated", x=plans, y=tuple(totals)),)),),
        claims=tuple(claims),
    )


def figure_9(quick: bool, seed: int) -> Figure:
    """Return the feasibility boundaries of the five query networks."""
    curves = []
    for costs in NETWORKS:
        first, second = costs[0] / 1e3, costs[1] / 1e3
        x = np.linspace(0, 1 / first, 41)
        curves.append(Curve(label=_named(costs), x=tuple(x.tolist()), y=tuple(((1 - x * first) / second).tolist())))
    program = _chains((64, 32))
    exact = Exact(program)
    beyond = [[1.2 * a, 1.2 * b] for a, b in zip(curves[1].x, curves[1].y, strict=True)]
    kept = np.array([exact.plan(np.array(point)) for point in beyond])
    full = (program.K @ kept.T / program.limit[:, None]).max(axis=0)
    inside = _fits(program, np.array([curves[1].x, curves[1].y]).T)
    return Figure(
        paper=PAPER,
        name="Fig. 9",
        title="Query load distributions and feasibility boundaries",
        parameters={"costs": "only (64, 32) is in the text; the sum is 96 ms in all"},
        panels=(Panel(x="rate 1 (tuples/s)", y="rate 2 (tuples/s)", curves=tuple(curves)),),
        claims=(
            _claim(
                "Fig. 9",
                "below the boundary everything is feasible, beyond it a server is full",
                "all points; load 1",
                f"{int(inside.sum())} of {len(inside)}; load {full.min():.6g}",
                bool(inside.all()) and abs(full.min() - 1) < 1e-6,
            ),
        ),
    )


def figure_10(quick: bool, seed: int) -> Figure:
    """Return the work of planning by query load imbalance: Solver, C-FIT and Solver-W."""
    solved, points, entries, error, cells, weighted = [], [], [], [], [], []
    for costs in NETWORKS:
        question = _question(costs, 0.05)
        table = build_table("solver", question)
        solved.append(_programs(question.exact.program, table))
        points.append(int(np.prod(_grid(np.array([costs, costs]) / 1e3, 0.05)[1])))
        entries.append(len(_rows(np.array([costs, costs]) / 1e3, 0.05)))
        error.append(_expected_error(question, table, 0.05))
        cells.append(len(table.arrays["child"]))
        lighter = attrs.evolve(question, error=error[-1], scale=0.05)
        weighted.append(len(build_table("solver-w", lighter).arrays["child"]))
    at = tuple(float(costs[0] - costs[1]) for costs in NETWORKS)
    solver, fit = [LP * count for count in solved], [POINT * count for count in points]
    claims = (
        _claim(
            "Fig. 10(a)",
            "C-FIT generates plans with the same guarantee in significantly shorter time",
            "a tenth or less",
            f"Solver {listed(solver)} s, C-FIT {listed(fit)} s",
            all(b <= a / 10 for a, b in zip(solver, fit, strict=True)),
            f"counted: {solved} linear programs, {points} grid points ({entries} kept)",
        ),
        _claim(
            "Fig. 10(a)",
            "Solver is more sensitive to the query load distribution",
            "greatest over least work: Solver above C-FIT",
            f"{max(solver) / min(solver):.3g} above {max(fit) / min(fit):.3g}",
            max(solver) / min(solver) > max(fit) / min(fit),
        ),
        _claim(
            "Fig. 10(a)",
            "Solver's work grows with the imbalance",
            "rising",
            ", ".join(map(str, solved)),
            all(a < b for a, b in pairwise(solved)),
        ),
        _claim(
            "Fig. 10(b)",
            "Solver's greatest error of 5 % is much less when expected over the workload",
            "about 1.44 % on the average",
            f"{100 * float(np.mean(error)):.2g} % on the average",
            float(np.mean(error)) < 0.0144,
            "the space of rates is not in the text, and the share of feasible rates depends on it",
        ),
        _claim(
            "Fig. 10(b)",
            "Solver-W guarantees the same expected error in much shorter time",
            "less than half of the cells in all",
            f"{sum(weighted)} of {sum(cells)}",
            sum(weighted) < sum(cells) / 2,
        ),
    )
    return Figure(
        paper=PAPER,
        name="Fig. 10",
        title="Effect of query load imbalance",
        parameters={
            "greatest error": "5 %",
            "workload": "exponential, mean 5 tuples/s",
            "work": "30 µs a linear program, 0.1 µs a grid point",
        },
        panels=(
            Panel(
                x="imbalance (ms)",
                y="work (s)",
                curves=(Curve(label="Solver", x=at, y=tuple(solver)), Curve(label="C-FIT", x=at, y=tuple(fit))),
                log=True,
            ),
            Panel(
                x="imbalance (ms)",
                y="cells",
                curves=(
                    Curve(label="Solver", x=at, y=tuple(map(float, cells))),
                    Curve(label="Solver-W", x=at, y=tuple(map(float, weighted))),
                ),
                log=True,
            ),
        ),
        claims=claims,
    )


def figure_11(quick: bool, seed: int) -> Figure:
    """Return Solver-W's work by workload and by provision level."""
    means = (2.0, 3.0, 5.0, 8.0) if quick else (2.0, 3.0, 5.0, 8.0, 12.0)

    def cells(costs: Costs, mean: float, error: float) -> int:
        return len(build_table("solver-w", _question(costs, error, mean / TOP)).arrays["child"])

    by_mean = {costs: [cells(costs, mean, 0.005) for mean in means] for costs in NETWORKS}
    provision: list[Costs] = [(64, 32), (56, 28), (48, 24), (40, 20), (32, 16)]
    by_cost = [cells(costs, 10.0, 0.01) for costs in provision]
    claims = (
        _claim(
            "Fig. 11(a)",
            "Solver-W's work rises with the mean of the workload",
            "never falls, for all five networks",
            "; ".join(f"{_named(costs)} {row}" for costs, row in by_mean.items()),
            all(a <= b for row in by_mean.values() for a, b in pairwise(row))
            and all(row[0] < row[-1] for row in by_mean.values()),
        ),
        _claim(
            "Fig. 11(a)",
            "it rises with the imbalance",
            "rising, for means of 5 tuples/s and more; below, next to nothing is divided",
            "the same",
            all(a < b for column in list(zip(*by_mean.values(), strict=True))[2:] for a, b in pairwise(column)),
        ),
        _claim(
            "Fig. 11(c)",
            "it falls as the system is provisioned better",
            "falling from (64, 32) to (32, 16)",
            ", ".join(map(str, by_cost)),
            all(a > b for a, b in pairwise(by_cost)),
            "the trace of the Internet Traffic Archive is not at hand; its rates look exponential, says the paper",
        ),
    )
    return Figure(
        paper=PAPER,
        name="Fig. 11",
        title="Workload distribution and provision level",
        parameters={
            "expected error": "0.5 % (a), 1 % (c); not in the text",
            "workload": "exponential; (c): mean 10 tuples/s",
        },
        panels=(
            Panel(
                x="mean rate (tuples/s)",
                y="cells of Solver-W",
                curves=tuple(
                    Curve(label=_named(costs), x=means, y=tuple(map(float, row))) for costs, row in by_mean.items()
                ),
                log=True,
            ),
            Panel(
                x="cost of the first query (ms)",
                y="cells of Solver-W",
                curves=(
                    Curve(
                        label="mean 10 tuples/s",
                        x=tuple(float(costs[0]) for costs in provision),
                        y=tuple(map(float, by_cost)),
                    ),
                ),
            ),
        ),
        claims=claims,
    )


def figure_13(quick: bool, seed: int) -> Figure:
    """Return the work of Solver and C-FIT by operator fan-out."""
    fans = (2, 4, 8) if quick else (2, 4, 8, 16)
    work: dict[str, list[float]] = {"Solver": [], "C-FIT": []}
    worst = 0.0
    for fan in fans:
        shares = np.arange(1, fan + 1) / (fan * (fan + 1) / 2)
        network = Network.of(
            "fan",
            [Source(name="s")],
            [Operator(name="common", kind="map", inputs=("s",), cost=(0.008,))]
            + [
                Operator(name=f"branch{k}", kind="map", inputs=("common",), cost=(0.064 * float(share),))
                for k, share in enumerate(shares)
            ],
            [Sink(name=f"t{k}", input=f"branch{k}") for k in range(fan)],
        )
        program = build_program(network, Cluster.uniform(1), dict.fromkeys(network.operators, "h1"))
        question = Question(Exact(program), np.array([TOP]), 0.01)
        for name, planner in (("Solver", "solver"), ("C-FIT", "c-fit")):
            table = build_table(planner, question)
            # A plan sets every drop location.
            work[name].append(float(table.entries * len(program.streams)))
            look_up = LookUp(program, table)
            points = np.linspace(0.5, TOP, 150)[:, None]
            scores = np.array([program.score(look_up.plan(point)) for point in points])
            worst = max(worst, float((1 - scores / question.exact.values(points)).max()))
    rising = all(a < b for row in work.values() for a, b in pairwise(row))
    first, *later = [b < a for a, b in zip(work["Solver"], work["C-FIT"], strict=True)]
    at = tuple(map(float, fans))
    return Figure(
        paper=PAPER,
        name="Fig. 13",
        title="Effect of operator fan-out",
        parameters={"greatest error": "1 %", "server": "one; a common operator and branches of cost 1 : 2 : … : n"},
        panels=(
            Panel(
                x="fan-out",
                y="plans times drop locations",
                curves=tuple(Curve(label=name, x=at, y=tuple(row)) for name, row in work.items()),
                log=True,
            ),
        ),
        claims=(
            _claim(
                "Fig. 13",
                "both need more with a higher fan-out",
                "rising",
                "; ".join(f"{name} {listed(row)}" for name, row in work.items()),
                rising,
            ),
            _claim(
                "Fig. 13",
                "Solver is slightly faster at fan-out 2, C-FIT above",
                "C-FIT needs less from 4 on",
                "; ".join(f"{name} {listed(row)}" for name, row in work.items()),
                not first and all(later),
                "Solver's plans depend on one input only, and a quadtree of one dimension needs few; the paper's C-FIT "
                "finds its local plans greedily, ours by the linear program",
            ),
            _claim(
                "Fig. 13", "both stay within the error", "at most 1 %", f"{100 * worst:.3g} %", worst <= 0.01 + 1e-9
            ),
        ),
    )


def figure_14(quick: bool, seed: int) -> Figure:
    """Return the work of Solver-W and C-FIT by the number of inputs."""
    networks: dict[int, Costs] = {2: (64, 32), 4: (32, 16) * 2, 8: (16, 8) * 4}
    errors = (0.05, 0.02, 0.01, 0.005)
    cells = {
        dims: [len(build_table("solver-w", _question(costs, error, 0.03)).arrays["child"]) for error in errors]
        for dims, costs in networks.items()
    }
    allowed = (0.1, 0.2, 0.3, 0.4, 0.5)
    grids = {
        dims: [float(np.prod(_grid(np.array([costs, costs]) / 1e3, e)[1].astype(float))) for e in allowed]
        for dims, costs in networks.items()
    }
    merged = build_table("c-fit", _question(networks[8], 0.1))
    hour = POINT * grids[8][0]
    return Figure(
        paper=PAPER,
        name="Fig. 14",
        title="Effect of input dimensionality",
        parameters={"workload of (a)": "exponential, mean 3 tuples/s", "grid of (b)": "down to 1 tuple/s"},
        panels=(
            Panel(
                x="expected error (%)",
                y="cells of Solver-W",
                curves=tuple(
                    Curve(label=f"{dims} inputs", x=tuple(100 * e for e in errors), y=tuple(map(float, row)))
                    for dims, row in cells.items()
                ),
                log=True,
            ),
            Panel(
                x="greatest error (%)",
                y="grid points of C-FIT",
                curves=tuple(
                    Curve(label=f"{dims} inputs", x=tuple(100 * e for e in allowed), y=tuple(row))
                    for dims, row in grids.items()
                ),
                log=True,
            ),
        ),
        claims=(
            _claim(
                "Fig. 14(a)",
                "more inputs need more time for the same expected error",
                "rising with the inputs, and with a smaller error",
                "; ".join(f"{dims} inputs {row}" for dims, row in cells.items()),
                all(a < b for column in zip(*cells.values(), strict=True) for a, b in pairwise(column))
                and all(a <= b for row in cells.values() for a, b in pairwise(row)),
            ),
            _claim(
                "Fig. 14(b)",
                "C-FIT suffers from dimensionality: about an hour for 8 inputs at 10 %",
                "an hour or more for a full grid",
                f"{hour:.3g} s at 0.1 µs a point",
                hour > 3600,
                "the paper's pruning is not in the text",
            ),
            _claim(
                "Fig. 14(b)",
                "inputs that differ in scale only can be merged (8.2.4)",
                "a table of 8 inputs as small as one of 2",
                f"{merged.entries} entries",
                merged.entries < 1000,
            ),
        ),
    )


def table_3(quick: bool, seed: int) -> Figure:
    """Return the number of FIT entries and their size by the number of inputs."""
    networks: dict[int, Costs] = {2: (64, 32), 4: (32, 16) * 2}
    printed = {2: (46, 52), 4: (984, 96), 8: (42472, 184)}
    entries = {dims: len(_rows(np.array([costs, costs]) / 1e3, 0.1)) for dims, costs in networks.items()}
    return Figure(
        paper=PAPER,
        name="Table 3",
        title="Effect of dimensionality",
        parameters={
            "greatest error": "10 %",
            "costs": "(64, 32) and (32, 16, 32, 16)",
            "entries": "points of the grid that fit while the next one up in every input does not; which of them the "
            "paper leaves out is not in the text, so that its counts are not determined",
        },
        panels=(
            Panel(
                x="inputs",
                y="entries",
                curves=(
                    Curve(label="paper", x=(2.0, 4.0, 8.0), y=(46.0, 984.0, 42472.0)),
                    Curve(label="without pruning", x=(2.0, 4.0), y=tuple(map(float, entries.values()))),
                ),
                log=True,
            ),
        ),
        claims=(
            _claim(
                "Table 3",
                "more inputs need more entries",
                "46 and 984 in the paper",
                ", ".join(map(str, entries.values())),
                entries[4] > 10 * entries[2],
                "an upper bound of the paper's: its pruning heuristics are not in the text",
            ),
            _claim(
                "Table 3",
                "unpruned tables hold at least the paper's entries",
                "46 and 984 or more",
                ", ".join(map(str, entries.values())),
                entries[2] >= 46 and entries[4] >= 984,
            ),
            _claim(
                "Table 3",
                "bytes of an entry",
                "8 + 22 an input: 52, 96, 184",
                ", ".join(str(8 + 22 * dims) for dims in printed),
                all(8 + 22 * dims == size for dims, (_, size) in printed.items()),
            ),
        ),
    )


def _table(parent: Costs, child: Costs, error: float) -> Matrix:
    """Return what a child sends: its feasible grid points but for those below the feasibility triangle (figure 6)."""
    levels, counts = _grid(np.array([child]) / 1e3, error)
    rows = np.stack(np.meshgrid(*(row[:n] for row, n in zip(levels, counts, strict=True)), indexing="ij"), -1)
    above = [np.append(np.inf, row[: n - 1]) for row, n in zip(levels, counts, strict=True)]
    higher = np.stack(np.meshgrid(*above, indexing="ij"), -1)
    most = np.maximum(parent, child) / 1e3
    chosen = (rows @ np.array(child) / 1e3 <= 1 + 1e-9) & (higher @ most > 1)
    return np.asarray(rows[chosen])


def _sent(rows: Matrix, known: Matrix, child: Costs, worth: Matrix, differences: tuple[float, ...]) -> list[float]:
    """Return the share of new rows that a parent must be sent, for each allowed difference.

    A row need not be sent where the parent knows one that still fits, is nowhere above it, and scores within the
    difference.
    """
    known = known[known @ np.array(child) / 1e3 <= 1 + 1e-9]
    values, wanted = known @ worth, rows @ worth
    best = np.array([values[(known <= row + 1e-12).all(axis=1)].max(initial=-1.0) for row in rows])
    return [float((best < (1 - d) * wanted - 1e-12).mean()) for d in differences]


def figure_15(quick: bool, seed: int) -> Figure:
    """Return D-FIT's overhead: entries by error and load, and what is sent after changes of selectivity and load."""
    errors = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2)
    loads: tuple[Costs, ...] = ((64, 32), (48, 24), (32, 16), (16, 8))
    counts = {costs: [len(_rows(np.array([costs]) / 1e3, e)) for e in errors] for costs in loads}
    differences = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)

    # The first query has two operators of 32 ms at the child, and the selectivity of one of them falls.
    parent: Costs = (48, 48)
    before = _table(parent, (64, 32), 0.05)
    by_change = {}
    for change in (0.1, 0.2, 0.4, 0.6):
        child = (32 + 32 * (1 - change), 32.0)
        rows = _table(parent, child, 0.05)
        by_change[change] = _sent(rows, before, child, np.array([1 - change, 1.0]), differences)

    # Load of the first query moves from the parent to the child.
    before = _table((60, 36), (36, 60), 0.1)
    by_move = {}
    for units in (8, 16, 24):
        child = (36.0 + units, 60.0)
        rows = _table((60 - units, 36), child, 0.1)
        by_move[units] = _sent(rows, before, child, np.ones(2), differences)

    def falls(table: dict[float, list[float]] | dict[int, list[float]]) -> bool:
        return all(a >= b for row in table.values() for a, b in pairwise(row))

    def rises(table: dict[float, list[float]] | dict[int, list[float]]) -> bool:
        # With no difference allowed nearly every row is new: the grids do not coincide.
        columns = list(zip(*table.values(), strict=True))[1:]
        return all(a <= b for column in columns for a, b in pairwise(column)) and columns[0][0] < columns[0][-1]

    shown = {
        "b": "; ".join(f"{change:g}: {listed(row)}" for change, row in by_change.items()),
        "c": "; ".join(f"{units}: {listed(row)}" for units, row in by_move.items()),
    }
    percent = tuple(100 * d for d in differences)
    return Figure(
        paper=PAPER,
        name="Fig. 15",
        title="D-FIT overhead",
        parameters={
            "(b)": "parent (48, 48), child 32 + 32 s and 32 ms, s falls from 1; spread 5 %",
            "(c)": "parent (60 - moved, 36), child (36 + moved, 60); spread 10 %; the paper's are not in the text",
            "sent": "rows for which the parent knows none that fits, is below them and within the difference",
        },
        panels=(
            Panel(
                x="greatest error (%)",
                y="entries",
                curves=tuple(
                    Curve(label=_named(costs), x=tuple(100 * e for e in errors), y=tuple(map(float, row)))
                    for costs, row in counts.items()
                ),
                log=True,
            ),
            Panel(
                x="allowed difference (%)",
                y="share of entries sent",
                curves=tuple(
                    Curve(label=f"selectivity - {change:g}", x=percent, y=tuple(row))
                    for change, row in by_change.items()
                ),
            ),
            Panel(
                x="allowed difference (%)",
                y="share of entries sent",
                curves=tuple(
                    Curve(label=f"parent-to-child-{units}", x=percent, y=tuple(row)) for units, row in by_move.items()
                ),
            ),
        ),
        claims=(
            _claim(
                "Fig. 15(a)",
                "fewer entries for a larger error, more for a smaller load",
                "falling; rising",
                "; ".join(f"{_named(costs)} {row}" for costs, row in counts.items()),
                all(a > b for row in counts.values() for a, b in pairwise(row))
                and all(a < b for column in zip(*counts.values(), strict=True) for a, b in pairwise(column)),
            ),
            _claim(
                "Fig. 15(b)",
                "a larger change of selectivity needs more entries",
                "rising with the change",
                shown["b"],
                rises(by_change),
            ),
            _claim(
                "Fig. 15(b)",
                "a smaller allowed difference needs more entries",
                "falling with the difference",
                shown["b"],
                falls(by_change),
            ),
            _claim(
                "Fig. 15(c)", "more load moved needs more entries", "rising with the load", shown["c"], rises(by_move)
            ),
            _claim(
                "Fig. 15(c)",
                "after a reversal some entries must be sent whatever is allowed",
                "parent-to-child-24 stays at 8 % or more, the others fall to 0",
                "; ".join(f"{units}: {100 * min(row):.2g} %" for units, row in by_move.items()),
                min(by_move[24]) > 0 and min(by_move[8]) == min(by_move[16]) == 0,
                "how many depends on the spread; the paper's costs and its rule for what is sent are not in the text",
            ),
        ),
    )
