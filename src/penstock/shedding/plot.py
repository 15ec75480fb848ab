"""The picture of what shedding delivers, beside what it would deliver otherwise."""

from __future__ import annotations

import os

import numpy as np

from penstock.pictures.save import save
from penstock.shedding.baselines import input_only, random_drop
from penstock.shedding.planners import Question
from penstock.shedding.program import Matrix, Program

BEYOND = 3.0
"""Share of what it may carry that the fullest host or link is asked for at the end of the curves, dropping nothing."""


def draw_scores(program: Program, question: Question, rates: Matrix, path: str | os.PathLike[str]) -> None:
    """Draw the score over a factor on the rates of all sources, for the best plan and for simpler ones.

    Parameters
    ----------
    rates
        Array (sources,), tuples per second: the direction in which the load grows.
    path
        The file to write; its ending gives the format.
    """
    from matplotlib.figure import Figure

    factors = np.linspace(0, _last(program, rates), 61)
    points = factors[:, None] * rates[None, :]
    lines = {
        "no limit": [program.score(program.flow(point)) for point in points],
        "exact": [program.score(question.exact.plan(point)) for point in points],
        "same share of every input": [program.score(input_only(program, point)) for point in points],
        "each host for itself": [program.score(random_drop(program, point)) for point in points],
    }
    figure = Figure(figsize=(8.5, 4.5), layout="constrained")
    axes = figure.subplots()
    for (name, line), style in zip(lines.items(), (":", "-", "--", "-."), strict=True):
        axes.plot(factors, line, style, label=name)
    axes.axvline(1.0, color="grey", linewidth=0.8, label="the rates given")
    axes.set_ylim(0, 1.5 * max(lines["exact"]) or 1)
    axes.set_xlabel("rates of all sources, times those given")
    axes.set_ylabel("score (weighted tuples/s)")
    axes.set_title(f"{program.network.name}: what shedding delivers")
    # Beside the axes, where it covers nothing.
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, path)


def _last(program: Program, rates: Matrix) -> float:
    """Return the factor on the rates where a host or link is asked for `BEYOND`; at least just behind the rates."""

    def fullest(factor: float) -> float:
        return float((program.K @ program.flow(factor * rates) / program.limit).max(initial=0.0))

    least, given = 1.2, fullest(1.0)
    if given <= 0:
        return BEYOND
    # Load grows in proportion to the rates, or faster: joins with a time window.
    low, high = sorted((1.0, BEYOND / given))
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fullest(middle) < BEYOND else (low, middle)
    return max(high, least)
