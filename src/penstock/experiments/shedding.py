"""Table 1 and Figures 9 to 12 of Tatbul et al., Staying FIT.

The paper's vertical axes are seconds on machines of 2007. What is counted here is the same on every machine: linear
programs solved, points of a grid, cells of a quadtree; seconds are measured by the benchmarks. The space of input rates
is 0 to 100 tuples/s in every dimension (figure 5's); that of the experiments is not in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import attrs
import numpy as np

from penstock.cluster import Cluster
from penstock.experiments.base import Ask, Made, Paper, panel, scatter
from penstock.experiments.runs import Floats, listed, rising, said
from penstock.network.shapes import chains
from penstock.shedding import Exact, LookUp, PlanTable, Program, Question, build_program, build_table
from penstock.shedding.fit import plain_grid
from penstock.shedding.quadtree import corners, full_load
from penstock.simulation import Options, simulate
from penstock.workload import Rates

PAPER = Paper("shedding", compiled=True)
Costs = tuple[float, ...]

TOP = 100.0
"""Greatest rate of every input (tuples/s)."""
NETWORKS: tuple[Costs, ...] = ((48, 48), (64, 32), (72, 24), (80, 16), (88, 8))
"""Costs in ms of two chains on either server (figure 9); only the second is in the text."""
LP, POINT = 30e-6, 0.1e-6
"""Seconds of a warm linear program and of a grid point on one core, to weigh counts with."""


def split(costs: Sequence[Costs], selectivities: Sequence[Costs] | None = None) -> Program:
    """Return chains whose first operators are on one server and the others on another, by their costs (ms)."""
    network = chains([[cost / 1e3 for cost in row] for row in costs], selectivities)
    placement = {name: "h1" if name.endswith(".1") else "h2" for name in network.operators}
    return build_program(network, Cluster.uniform(2), placement)


def two_servers(costs: Costs) -> Program:
    """Return chains of two operators of the same cost (ms)."""
    return split([(cost, cost) for cost in costs])


def asked(costs: Costs, error: float, scale: float | None = None) -> Question:
    """Return a question to the planners about two servers."""
    return Question(Exact(two_servers(costs)), np.full(len(costs), TOP), error, scale)


def solved(program: Program, table: PlanTable) -> Floats:
    """Return the points that the solver was called for: the distinct extreme points of overloaded cells."""
    low, high, _ = corners(table)
    over = ~full_load(program)(high)
    return np.unique(np.concatenate([low[over], high[over]]), axis=0)


def _expected_error(question: Question, table: PlanTable, scale: float) -> float:
    """Return the mean over an exponential workload of the greatest error of each cell (section 5.2)."""
    low, high, leaf = corners(table)
    over = leaf & ~full_load(question.exact.program)(high)
    low, high = low[over], high[over]
    top, bottom = question.exact.values(high), question.exact.values(low)
    a, b = (np.exp(-corner / table.upto / scale) for corner in (low, high))
    chance = ((a - b) / -np.expm1(-1 / scale)).prod(axis=1)
    return float((chance * (1 - bottom / top)).sum())


def grid_points(costs: Costs, error: float) -> int:
    """Count the points of the planner's grid, one dimension for each kind of input."""
    return int(np.prod(plain_grid(Exact(two_servers(costs)), error)[1].astype(float)))


def worst(question: Question, table: PlanTable, seed: int) -> float:
    """Return the greatest loss of a table at random overloads."""
    program = question.exact.program
    points = np.random.default_rng(seed).uniform(0, 1, (400, len(question.upto))) * question.upto
    points = points[~full_load(program)(points)]
    look_up = LookUp(program, table)
    scores = np.array([program.score(look_up.plan(point)) for point in points])
    return float((1 - scores / question.exact.values(points)).max())


def named(costs: Costs) -> str:
    """Return costs as a label."""
    return "(" + ", ".join(f"{cost:g}" for cost in costs) + ")"


@PAPER.figure("Table 1", "Alternate load shedding plans")
def table_1(ask: Ask) -> Made:
    """Run the load shedding plans of figure 1 in the simulator with tuple-fair servers."""
    network, cluster = chains([[0.01, 0.03], [0.02, 0.01]]), Cluster.uniform(2)
    placement = {"o1.1": "h1", "o2.1": "h1", "o1.2": "h2", "o2.2": "h2"}
    # Rates at A, A's and B's load if all that arrives were served, throughput of A's and of B's two queries.
    printed: dict[int, tuple[tuple[float, float], list[float]]] = {
        0: ((1, 1), [3, 1 / 3, 1 / 3, 4 / 3, 1 / 4, 1 / 4]),
        1: ((1 / 3, 1 / 3), [1, 1 / 3, 1 / 3, 4 / 3, 1 / 4, 1 / 4]),
        2: ((1, 0), [1, 1, 0, 3, 1 / 3, 0]),
        3: ((0, 1 / 2), [1, 0, 1 / 2, 1 / 2, 0, 1 / 2]),
        4: ((1 / 5, 2 / 5), [1, 1 / 5, 2 / 5, 1, 1 / 5, 2 / 5]),
    }
    seconds, simulated = ask.pick(200.0, 2000.0), {}
    for number, (rates, _) in printed.items():
        given = Rates.constant({"s1": 100 * rates[0], "s2": 100 * rates[1]}, seconds)
        run = simulate(network, cluster, placement, given, Options(policy="round-robin", queue=10, seed=ask.seed))
        share = {name: row["arrived"] / seconds / 100 for name, row in run.streams.items()}
        left = [share["o1.1->o1.2"], share["o2.1->o2.2"]]
        first, second = share["s1->o1.1"] + 2 * share["s2->o2.1"], 3 * left[0] + left[1]
        simulated[number] = [first, *left, second, share["o1.2->t1"], share["o2.2->t2"]]
    program = build_program(network, cluster, placement)
    exact, full = Exact(program), np.array([100.0, 100.0])
    best = program.score(exact.plan(full)) / 100
    row = int(np.argmin(exact.table.alpha + exact.table.beta @ full))
    worth = exact.table.alpha[row] / 100
    paper = {number: wanted for number, (_, wanted) in printed.items()}
    both = {"paper": paper, "simulated": simulated}
    rows = {label: [sum(each[4:]) for each in found.values()] for label, found in both.items()}
    return {"servers": "one tuple per query and turn, 10 may wait", "rate 1": "100 tuples/s, 1 cost: 10 ms"}, [
        *((f"plan {number}: load and throughput of A, load and throughput of B", listed(wanted),
           listed(simulated[number]), np.allclose(simulated[number], wanted, rtol=0.02, atol=0.01))
          for number, wanted in paper.items()),
        ("plan 4 is optimal", "3/5", f"{best:.6g}", abs(best - 0.6) < 1e-6),
        ("what both capacities are worth there", "2/5 + 1/5", f"{worth:.6g}", abs(worth - 0.6) < 1e-6),
    ], [panel("plan", "total throughput", printed, rows)]  # fmt: skip


@PAPER.figure("Fig. 9", "Query load distributions and feasibility boundaries")
def figure_9(ask: Ask) -> Made:
    """Compute the feasibility boundaries of the five query networks."""
    lines = {}
    for first, second in NETWORKS:
        x = np.linspace(0, 1e3 / first, 41)
        lines[named((first, second))] = np.stack([x, (1 - x * first / 1e3) * 1e3 / second], axis=1).tolist()
    program, edge = two_servers((64, 32)), np.array(lines["(64, 32)"])
    exact = Exact(program)
    kept = np.array([exact.plan(1.2 * point) for point in edge])
    full = (program.K @ kept.T / program.limit[:, None]).max(axis=0)
    inside = full_load(program)(edge)
    return {"costs": "only (64, 32) is in the text; the sum is 96 ms in all"}, [
        ("below the boundary everything is feasible, beyond it a server is full", "all points; load 1",
         f"{int(inside.sum())} of {len(inside)}; load {full.min():.6g}",
         inside.all() and abs(full.min() - 1) < 1e-6),
    ], [scatter("rate 1 (tuples/s)", "rate 2 (tuples/s)", lines)]  # fmt: skip


@PAPER.figure("Fig. 10", "Effect of query load imbalance")
def figure_10(ask: Ask) -> Made:
    """Count the work of planning by query load imbalance: Solver, C-FIT and Solver-W."""
    calls, points, entries, divided, weighted, losses = [], [], [], [], [], []
    error: dict[float, list[float]] = {mean: [] for mean in (5.0, 10.0, 20.0)}
    for costs in NETWORKS:
        question = asked(costs, 0.05)
        table, central = build_table("solver", question), build_table("c-fit", question)
        calls.append(len(solved(question.exact.program, table)))
        points.append(grid_points(costs, 0.05))
        entries.append(central.entries)
        losses.append(100 * max(worst(question, made, ask.seed + k) for made in (table, central) for k in range(3)))
        for mean, row in error.items():
            row.append(100 * _expected_error(question, table, mean / TOP))
        divided.append(len(table.arrays["child"]))
        lighter = attrs.evolve(question, error=error[5.0][-1] / 100, scale=0.05)
        weighted.append(len(build_table("solver-w", lighter).arrays["child"]))
    work = {"Solver": [LP * count for count in calls], "C-FIT": [POINT * count for count in points]}
    apart = [max(row[1:]) / min(row[1:]) for row in work.values()]
    average = [float(np.mean(row)) for row in error.values()]
    at = [costs[0] - costs[1] for costs in NETWORKS]
    return {
        "greatest error": "5 %", "workload": "exponential, mean 5 tuples/s",
        "work": "30 µs a linear program, 0.1 µs a grid point",
    }, [
        ("C-FIT generates plans with the same guarantee in significantly shorter time", "a tenth or less",
         f"Solver {listed(work['Solver'])} s, C-FIT {listed(work['C-FIT'])} s",
         all(b <= a / 10 for a, b in zip(*work.values(), strict=True)),
         f"counted: {calls} linear programs, {points} grid points ({entries} kept)", "(a)"),
        ("both guarantee that the greatest error is at most 5 %",
         "at most 5 % at 400 random rates, three times, on each network", f"{listed(losses)} %",
         max(losses) <= 5 * (1 + 1e-9), "", "(a)"),
        ("Solver is more sensitive to the query load distribution", "greatest over least work: Solver above C-FIT",
         f"{apart[0]:.3g} above {apart[1]:.3g}", apart[0] > apart[1],
         "without (48, 48), whose inputs C-FIT merges into one", "(a)"),
        ("Solver's work grows with the imbalance", "rising", ", ".join(map(str, calls)), rising(calls), "", "(a)"),
        ("Solver's greatest error of 5 % is much less when expected over the workload", "about 1.44 % on the average",
         f"{listed(average)} % on the average, for means of {listed(error)} tuples/s",
         min(average) <= 1.44 <= max(average),
         "the unit of lambda and the space of rates are not in the text; here it is up to "
         f"{TOP:g} tuples/s, and Fig. 11's means are of that size", "(b)"),
        ("Solver-W guarantees the same expected error in much shorter time", "less than half of the cells in all",
         f"{sum(weighted)} of {sum(divided)}", sum(weighted) < sum(divided) / 2, "", "(b)"),
    ], [
        panel("imbalance (ms)", "work (s)", at, work, log=True),
        panel("imbalance (ms)", "cells", at, {"Solver": divided, "Solver-W": weighted}, log=True),
    ]  # fmt: skip


TRACE = np.array([
    0.0001, 0.0544, 0.0774, 0.0970, 0.1161, 0.1356, 0.1563, 0.1827, 0.2235, 0.2819, 0.3597, 0.4749, 0.6387, 0.8224,
    1.0199, 1.2709, 1.4701, 1.6856, 2.0612, 3.6439, 21.25,
])  # fmt: skip
"""Requests a minute of the World Cup log of 1998 in the Internet Traffic Archive, 125,300 minutes: the quantiles at
each twentieth, over the mean."""
MEANS = (2.0, 3.0, 5.0, 8.0, 12.0)
"""Means of exponential workloads (tuples/s)."""


@cache
def _weighted(costs: Costs, mean: float, error: float) -> int:
    """Return the cells of Solver-W for an exponential workload; figures 11 and 12 have some in common."""
    return len(build_table("solver-w", asked(costs, error, mean / TOP)).arrays["child"])


@PAPER.figure("Fig. 11", "Workload distribution and provision level")
def figure_11(ask: Ask) -> Made:
    """Count Solver-W's work by workload and by provision level, beside the rates of a trace."""
    at = ask.pick(MEANS[:4], MEANS)
    by_mean = {named(costs): [_weighted(costs, mean, 0.005) for mean in at] for costs in NETWORKS}
    provision: list[Costs] = [(64, 32), (56, 28), (48, 24), (40, 20), (32, 16)]
    by_cost = [_weighted(costs, 10.0, 0.01) for costs in provision]
    table, chance = np.array(list(by_mean.values())), np.linspace(0, 1, len(TRACE))
    far = float(np.abs(chance + np.expm1(-TRACE)).max())
    shares = {"trace": TRACE[:-1], "exponential": -np.log1p(-chance[:-1])}
    return {
        "expected error": "0.5 % (a), 1 % (c); not in the text", "workload": "exponential; (c): mean 10 tuples/s",
        "trace": "the paper names none of its TCP traces; here requests a minute of another log of the same archive, "
        "of the World Cup of 1998",
    }, [
        ("Solver-W's work rises with the mean of the workload", "never falls, for all five networks", said(by_mean),
         (np.diff(table) >= 0).all() and (table[:, 0] < table[:, -1]).all(), "", "(a)"),
        ("it rises with the imbalance", "rising, for means of 5 tuples/s and more; below, next to nothing is divided",
         "the same", all(map(rising, table.T[2:])), "", "(a)"),
        ("the rates of the trace look essentially like an exponential", "distribution functions at most 0.1 apart",
         f"{far:.3g}", far <= 0.1,
         "the paper does not say which trace: this one, too, has most of its minutes far below the mean and a long "
         "tail, but day and night make two humps", "(b)"),
        ("it falls as the system is provisioned better", "falling from (64, 32) to (32, 16)",
         ", ".join(map(str, by_cost)), rising(by_cost[::-1]), "with exponential rates", "(c)"),
    ], [
        panel("mean rate (tuples/s)", "cells of Solver-W", at, by_mean, log=True),
        scatter("rate over its mean", "share of the time below",
                {label: np.stack([row, chance[:-1]], axis=1).tolist() for label, row in shares.items()}),
        panel("cost of the first query (ms)", "cells of Solver-W", [costs[0] for costs in provision],
              {"mean 10 tuples/s": by_cost}),
    ]  # fmt: skip


@PAPER.figure("Fig. 12", "Exponential workload distribution")
def figure_12(ask: Ask) -> Made:
    """Compute where the probability of two exponential rates lies, beside what the network (64, 32) can take."""
    x = (np.arange(400) + 0.5) * TOP / 400
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    feasible = full_load(two_servers((64, 32)))(grid).reshape(400, 400)
    density = {mean: np.exp(-x / mean) / np.exp(-x / mean).sum() for mean in MEANS}
    over = [1 - float(each @ feasible @ each) for each in density.values()]
    divided = [_weighted((64, 32), mean, 0.005) for mean in MEANS]
    # Half of the probability lies below the line r1 + r2 = 1.678 means.
    lines = {f"mean {mean:g}: half of it below": [(0.0, 1.678 * mean), (1.678 * mean, 0.0)] for mean in MEANS}
    return {
        "network": "(64, 32)", "picture": "lines of equal probability; the paper's is a map of colours"
    }, [
        ("the more probability lies above the feasibility boundary, the more Solver-W has to do",
         "both rise with the mean",
         f"{listed(100 * share for share in over)} % above it; {listed(divided)} cells",
         rising(over) and rising(divided)),
    ], [
        scatter("rate 1 (tuples/s)", "rate 2 (tuples/s)", {"feasible": [(0.0, 1e3 / 32), (1e3 / 64, 0.0)], **lines}),
        panel("mean rate (tuples/s)", "share that is overload", MEANS, {"(64, 32)": over}),
    ]  # fmt: skip
