"""Speed and size of the shedding planners, beside scipy's linprog and the figures of Tatbul et al.

Run on one quiet core: ``python benchmarks/bench_shedding.py``; writes benchmarks/results/shedding.{json,md}.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from about import RESULTS, ROOT, revision
from numba import njit

sys.path.insert(0, str(ROOT / "tests" / "shedding"))

from shedding_cases import optimum, two_hosts

from penstock.shedding import Exact, LookUp, Question, build_table, points_kernel
from penstock.shedding.exact import dual_table
from penstock.shedding.optimum import Solver

SEED = 0
PAPER = {
    "c-fit, (64, 32) x 1, error 0.1": "46 entries",
    "c-fit, (16, 8) x 4, error 0.1": "about 1 h, 42,472 entries",
}
"""What Tatbul et al. say of a case."""
TIMES = ("build_s", "plan_compiled_s", "plan_from_python_s", "highs_warm_s", "scipy_linprog_s")


def best(work: Callable[[], Any], times: int = 5) -> float:
    """Return the least time of a few runs (s)."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


@njit
def many_cells(child: Any, lower: Any, upper: Any, points: Any) -> int:
    """Look points up in a quadtree; the sum keeps the compiler from leaving them out."""
    total = 0
    for q in range(len(points)):
        total += points_kernel.descend(child, lower, upper, points[q])
    return total


@njit
def many_points(low: Any, first: Any, last: Any, most: Any, rows: Any, score: Any, points: Any) -> int:
    """Look points up in a table of feasible inputs."""
    total = 0
    for q in range(len(points)):
        total += points_kernel.search(low, first, last, most, rows, score, points[q])
    return total


def compiled_look_up(table: Any, points: Any) -> float | None:
    """Return seconds a look-up of row or cell in compiled code; None where each host looks up in its own table."""
    a = table.arrays
    if "child" not in a and "points" not in a:
        return None
    if "child" in a:
        one = lambda: many_cells(a["child"], np.zeros(points.shape[1]), table.upto, points)  # noqa: E731
    else:
        merged = np.zeros((len(points), a["points"].shape[1]))
        np.add.at(merged.T, a["group"], (a["factor"] * points).T)
        one = lambda: many_points(  # noqa: E731
            a["low"], a["first"], a["last"], a["most"], a["points"], a["score"], merged
        )
    one()
    return best(one) / len(points)


def shown(seconds: float | None) -> str:
    """Return a time as people read it."""
    if seconds is None:
        return ""
    scale, unit = next(((k, u) for k, u in ((1, "s"), (1e3, "ms")) if seconds * k >= 1), (1e6, "µs"))
    return f"{seconds * scale:.{2 if seconds < 1e-5 else 3}g} {unit}"


def page(document: dict[str, Any]) -> str:
    """Return the results for people."""
    lines = [
        "# Shedding: speed",
        "",
        f"`python benchmarks/bench_shedding.py`, revision {document['revision']}, seed {document['seed']}, "
        f"Python {document['python']}, {document['machine']}. One core of a machine that",
        "others use too: figures vary by up to a factor of two between runs.",
        "",
        "| case | rows | build | look-up, compiled | look-up, Python | HiGHS warm | scipy linprog | paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        cells = [row["case"], f"{row['rows']:,}", *(shown(row.get(name)) for name in TIMES), PAPER.get(row["case"], "")]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "The compiled look-up of `exact` includes the kept rates of all streams, the others find the row or cell.",
        "HiGHS warm includes the calls from Python. Compilation (once per machine, cached) is left out.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    rng = np.random.default_rng(SEED)
    rows: list[dict[str, Any]] = []
    for inputs in (2, 8, 16, 64):
        program = two_hosts(tuple(rng.uniform(1, 5, inputs)), tuple(rng.uniform(1, 5, inputs)))
        dual_table(program)
        build = best(lambda p=program: dual_table(p))
        exact, rates = Exact(program), np.ones(inputs)
        points, kept = np.ones((20_000, inputs)), np.zeros((20_000, program.arcs))

        def compiled(e: Any = exact, points: Any = points, kept: Any = kept) -> None:
            e._walker.look_up(points, kept)

        compiled()
        solver = Solver(program)
        turn = iter(rng.uniform(0.5, 1.5, (10_000, inputs)))
        rows.append(
            {
                "case": f"exact, {inputs} inputs, 2 hosts",
                "rows": len(exact.table),
                "build_s": build,
                "plan_compiled_s": best(compiled) / 20_000,
                "plan_from_python_s": best(lambda e=exact, r=rates: e.plan(r)),
                "highs_warm_s": best(lambda v=solver, i=turn: [v._linear(next(i)) for _ in range(200)], 3) / 200,
                "scipy_linprog_s": best(lambda p=program, r=rates: optimum(p, r)),
            }
        )
    for planner, costs, error, repeat in (
        ("solver", (88, 8), 0.05, 1),
        ("solver", (64, 32), 0.05, 1),
        ("c-fit", (88, 8), 0.05, 1),
        ("c-fit", (64, 32), 0.1, 1),
        ("c-fit", (32, 16), 0.1, 2),
        ("c-fit", (16, 8), 0.1, 4),
        ("d-fit", (64, 32), 0.1, 1),
    ):
        first = tuple(c / 1e3 for c in costs) * repeat
        program = two_hosts(first, first)
        question = Question(Exact(program), np.full(len(first), 100.0), error)
        table = build_table(planner, question)
        look_up = LookUp(program, table)
        rates = np.full(len(first), 60.0)
        look_up.plan(rates)
        rows.append(
            {
                "case": f"{planner}, {costs} x {repeat}, error {error}",
                "rows": table.entries,
                "build_s": best(lambda p=planner, q=question: build_table(p, q), 3),
                "plan_compiled_s": compiled_look_up(table, rng.uniform(10, 100, (20_000, len(first)))),
                "plan_from_python_s": best(lambda v=look_up, r=rates: v.plan(r)),
            }
        )
    document = {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "revision": revision(),
        "seed": SEED,
        "rows": rows,
    }
    out = RESULTS / "shedding.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(document, indent=2) + "\n")
    out.with_suffix(".md").write_text(page(document))
    print(page(document))


if __name__ == "__main__":
    main()
