"""The picture of what shedding delivers, beside what it would deliver otherwise."""

from __future__ import annotations

import os

import numpy as np

from penstock.pictures.save import save
from penstock.shedding.baselines import input_only, random_drop
from penstock.shedding.planners import Question
from penstock.shedding.program import Matrix, Program


def draw_scores(program: Program, question: Question, rates: Matrix, path: str | os.PathLike[str]) -> None:
    """Draw the score over the load of the busiest host, for the best plan and for simpler ones.

    Parameters
    ----------
    rates
        Array (sources,), tuples per second: the direction in which the load grows.
    path
        The file to write; its ending gives the format.
    """
    from matplotlib.figure import Figure

    whole = program.K @ program.flow(rates) / program.limit
    heaviest = float(whole.max(initial=0.0)) or 1.0
    share = np.linspace(0, 3, 61)
    points = share[:, None] / heaviest * rates[None, :]
    lines = {
        "no limit": [program.score(program.flow(point)) for point in points],
        "exact": [program.score(question.exact.plan(point)) for point in points],
        "same share of every input": [program.score(input_only(program, point)) for point in points],
        "each host for itself": [program.score(random_drop(program, point)) for point in points],
    }
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for (name, line), style in zip(lines.items(), (":", "-", "--", "-."), strict=True):
        axes.plot(share, line, style, label=name)
    axes.axvline(heaviest, color="grey", linewidth=0.8)
    axes.set_ylim(0, 1.5 * max(lines["exact"]) or 1)
    axes.set_xlabel("load of the busiest host, if nothing were dropped (share of its quota)")
    axes.set_ylabel("score (weighted tuples/s)")
    axes.set_title(f"{program.network.name}: what shedding delivers")
    axes.legend(loc="upper left")
    save(figure, path)
