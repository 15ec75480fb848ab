"""Solver at any time: stopped early it says what error it has reached, and keeps it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise

import numpy as np
import pytest
from shedding_cases import optimum, random_program, two_hosts

from penstock.errors import InputError
from penstock.shedding import Exact, LookUp, Question, build_table, division
from penstock.shedding.program import Matrix


def ticking() -> Callable[[], float]:
    """A clock that moves on by a second whenever somebody looks."""
    ticks = count()
    return lambda: float(next(ticks))


@pytest.mark.parametrize("budget", [0, 3, 8, 20])
def test_stopped_early(budget: float) -> None:
    """A table stopped after some time keeps the error that it reports, which is more than was asked for."""
    program = two_hosts((0.064, 0.032), (0.032, 0.064))
    exact, upto = Exact(program), np.array([100.0, 100.0])
    table = build_table("solver", Question(exact, upto, 0.02, budget=budget, clock=ticking()))
    assert 0.02 <= table.error <= 1
    look_up = LookUp(program, table)
    for point in np.random.default_rng(3).uniform(0, 100, (300, 2)):
        kept = look_up.plan(point)
        assert program.feasible(kept)
        assert program.score(kept) >= (1 - table.error) * exact.values(point[None])[0] * (1 - 1e-8)


@pytest.mark.parametrize("budget", [0, 3, 8, 20])
def test_mean_losses_of_a_table_stopped_early(budget: float) -> None:
    """Solver-W stopped after some time loses no more in the mean than it reports."""
    program = two_hosts((0.064, 0.032), (0.032, 0.064))
    exact, upto = Exact(program), np.array([100.0, 100.0])
    table = build_table("solver-w", Question(exact, upto, 0.002, budget=budget, clock=ticking()))
    assert 0.002 < table.error <= 1
    look_up, points = LookUp(program, table), np.random.default_rng(3).uniform(0, 100, (400, 2))
    scores = np.array([program.score(look_up.plan(point)) for point in points])
    assert float((1 - scores / exact.values(points)).mean()) <= table.error


def test_more_time_reaches_less_error() -> None:
    """The longer it runs the smaller the error, until it is the one asked for; then the table is the whole one."""
    program = two_hosts((0.064, 0.032), (0.032, 0.064))
    exact, upto = Exact(program), np.array([100.0, 100.0])
    tables = [
        build_table("solver", Question(exact, upto, 0.05, budget=budget, clock=ticking()))
        for budget in (0, 5, 15, 30, 1000)
    ]
    errors = [table.error for table in tables]
    assert all(a >= b for a, b in pairwise(errors))
    assert errors[0] == 1
    assert errors[-1] == 0.05
    assert tables[-1].entries == build_table("solver", Question(exact, upto, 0.05)).entries


@pytest.mark.parametrize("planner", ["solver", "solver-w"])
@pytest.mark.parametrize("upto", [(0.0, 400.0, 0.0), (300.0, 0.0, 200.0), (0.0, 0.0, 0.0)])
def test_sources_without_rates_are_not_divided(planner: str, upto: tuple[float, ...]) -> None:
    """A table for sources of which some bring nothing ends, and keeps its promise for the others."""
    program = two_hosts((0.01, 0.02, 0.005), (0.015, 0.005, 0.01))
    question = Question(Exact(program), np.array(upto), 0.05)
    table = build_table(planner, question)
    assert len(table.arrays["child"]) < 2_000
    look_up, points = LookUp(program, table), np.random.default_rng(3).uniform(0, 1, (200, 3)) * upto
    plans = [look_up.plan(point) for point in points]
    assert all(program.feasible(kept) for kept in plans)
    best = np.array([optimum(program, point) for point in points])
    losses = 1 - np.array([program.score(kept) for kept in plans]) / np.where(best > 0, best, 1.0) - (best == 0)
    assert (losses.max() if planner == "solver" else losses.mean()) <= table.error == 0.05


class Slow(Exact):
    """An optimum that takes a millisecond for each point, whether it is asked for a value or for a plan."""

    time = 0.0

    def values(self, points: Matrix) -> Matrix:
        self.time += 1e-3 * len(points)
        return super().values(points)

    def plan(self, rates: Matrix) -> Matrix:
        self.time += 1e-3
        return super().plan(rates)

    def plans(self, points: Matrix) -> Matrix:
        self.time += 1e-3 * len(points)
        return super().plans(points)


@pytest.mark.parametrize("planner", ["solver", "solver-w"])
@pytest.mark.parametrize("budget", [0.5, 5.0])
def test_a_table_is_whole_when_time_is_up(planner: str, budget: float) -> None:
    """A budget holds for all that a table takes: its cells, and the plans of all of them."""
    exact = Slow(two_hosts((0.064, 0.032), (0.032, 0.064)))
    table = build_table(
        planner, Question(exact, np.array([100.0, 100.0]), 1e-4, budget=budget, clock=lambda: exact.time)
    )
    assert budget <= exact.time < 1.1 * budget
    assert table.error > 1e-4
    assert table.entries > 50 * budget


@pytest.mark.parametrize("planner", ["solver", "solver-w"])
def test_plenty_of_time_ends_at_the_most_cells(planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a budget the table so far is kept where there would be too many cells; without one that is refused."""
    monkeypatch.setattr(division, "MOST_CELLS", 500)
    exact, upto = Exact(two_hosts((0.064, 0.032), (0.032, 0.064))), np.array([100.0, 100.0])
    table = build_table(planner, Question(exact, upto, 1e-4, budget=1e9, clock=ticking()))
    assert 490 < len(table.arrays["child"]) <= 500
    assert 1e-4 < table.error < 1
    with pytest.raises(InputError, match="more than 500 cells") as refused:
        build_table(planner, Question(exact, upto, 1e-4))
    assert "--budget" in str(refused.value)


def test_plans_of_many_points_are_those_of_each() -> None:
    """Plans made together are the ones made one by one, whether something must be dropped or not."""
    exact = Exact(random_program(np.random.default_rng(4), 3, 3, links=True))
    points = np.random.default_rng(5).uniform(0, 300, (200, 3))
    np.testing.assert_allclose(exact.plans(points), [exact.plan(point) for point in points], rtol=1e-9, atol=1e-9)
