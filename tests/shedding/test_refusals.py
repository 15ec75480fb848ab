"""Planners that cannot make their table say so soon."""

from __future__ import annotations

import numpy as np
import pytest
from shedding_cases import two_hosts

from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import Question, build_program, build_table, fit, grid, optimum


@pytest.mark.parametrize("planner", ["c-fit", "d-fit", "solver", "solver-w"])
@pytest.mark.parametrize("sources", [30, 180])
def test_too_many_sources(planner: str, sources: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many different sources a table that would be too large is refused at once, and exact is advised."""
    rng = np.random.default_rng(1)
    monkeypatch.setattr(grid, "MOST_STEPS", 100_000)
    monkeypatch.setattr(fit, "TRYING", 0.3)
    program = two_hosts(*(tuple(rng.uniform(0.001, 0.1, sources).tolist()) for _ in range(2)))
    with pytest.raises(InputError) as refused:
        build_table(planner, Question(optimum(program), np.full(sources, 50.0), 0.1))
    assert "exact" in str(refused.value.hint)


def test_solver_needs_a_budget_with_a_join_over_time() -> None:
    """With a time-window join solver is refused without a budget, since it may never be done, and works with one."""
    join = Operator(
        name="j", kind="join", inputs=("a", "b"), within=1.0, on="true", cost=(0.005, 0.004), selectivity=(0.01, 0.01)
    )
    network = Network.of("j", [Source(name="a"), Source(name="b")], [join], [Sink(name="k", input="j")])
    program = build_program(network, Cluster.uniform(1), {"j": "h1"})
    question = Question(optimum(program), np.array([200.0, 100.0]), 0.2)
    with pytest.raises(InputError, match="never be done") as refused:
        build_table("solver", question)
    assert "--budget" in str(refused.value.hint)
    stopped = Question(question.exact, question.upto, 0.2, budget=0.0)
    assert build_table("solver", stopped).error >= 0.2
