"""The picture of what shedding delivers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import Exact, Program, Question, build_program
from penstock.shedding.plot import draw_scores


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures that are drawn, in place of files."""
    figures: list[Any] = []
    monkeypatch.setattr("penstock.shedding.plot.save", lambda figure, _path: figures.append(figure))
    return figures


def joined() -> Program:
    """Return pairs of a join with a time window, whose load grows with the square of the rates."""
    sources = [Source(name="l"), Source(name="r")]
    join = Operator(name="j", kind="join", inputs=("l", "r"), within=2.0, cost=(1e-4, 1e-4), selectivity=(0.01, 0.01))
    work = Operator(name="m", kind="map", inputs=("j",), cost=(0.01,))
    network = Network.of("pairs", sources, [join, work], [Sink(name="o", input="m")])
    return build_program(network, Cluster.uniform(1), Placement({"j": "h1", "m": "h1"}))


def linked() -> Program:
    """Return two idle hosts with a link of 100 tuples/s between them."""
    operators = [
        Operator(name="a", kind="map", inputs=("s",), cost=(0.001,)),
        Operator(name="b", kind="map", inputs=("a",), cost=(0.001,)),
    ]
    network = Network.of("link", [Source(name="s")], operators, [Sink(name="o", input="b")])
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], links={("h1", "h2"): Link(0.0, 100.0)})
    return build_program(network, cluster, Placement({"a": "h1", "b": "h2"}))


@pytest.mark.parametrize(("program", "rates"), [(joined(), [30.0, 30.0]), (linked(), [150.0])])
def test_the_axis_is_a_factor_on_the_rates(drawn: list[Any], program: Program, rates: list[float]) -> None:
    """Each point stands over the factor on the rates that it is the score of, and overload is in the picture."""
    given = np.array(rates)
    draw_scores(program, Question(Exact(program), 2 * given), given, "x.png")
    (axes,) = drawn[0].axes
    assert "times those given" in axes.get_xlabel()
    curves = {line.get_label(): line.get_data() for line in axes.get_lines()}
    factors, whole = curves["no limit"]
    assert whole == pytest.approx([program.score(program.flow(factor * given)) for factor in factors])
    assert np.max(program.K @ program.flow(factors[-1] * given) / program.limit) == pytest.approx(3, rel=0.01)
    assert curves["exact"][1][-1] < 0.9 * whole[-1]


def test_the_legend_explains_all_and_covers_nothing(drawn: list[Any]) -> None:
    """Every line has its words, that of the rates given too, beside the axes."""
    program = linked()
    draw_scores(program, Question(Exact(program), np.array([300.0])), np.array([150.0]), "x.png")
    (axes,) = drawn[0].axes
    axes.figure.draw_without_rendering()
    assert len(axes.get_legend().get_texts()) == len(axes.get_lines()) == 5
    assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
