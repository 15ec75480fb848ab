"""Solver at any time: stopped early it says what error it has reached, and keeps it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise

import numpy as np
import pytest
from shedding_cases import two_hosts

from penstock.shedding import Exact, LookUp, Question, build_table


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
