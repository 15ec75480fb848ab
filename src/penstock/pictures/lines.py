"""Lines with users' names over time: those that matter in colours of their own, others in grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from penstock.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows: TypeAlias = Mapping[str, tuple[Array, Array]]
"""Times and values of lines, by name; nan where nothing is known."""

MOST = 10
"""Lines that have a colour each; more cannot be told apart."""


def highest(*panels: Rows) -> list[str]:
    """Return which lines are to have colours: those with the highest means in the first panel, and where these tie in
    the next.

    Parameters
    ----------
    panels
        The same lines in each.
    """

    def mean(values: Array) -> float:
        return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0

    rank = {name: tuple(-mean(rows[name][1]) for rows in panels) for name in panels[0]}
    first = set(sorted(rank, key=rank.__getitem__)[:MOST])
    return [name for name in rank if name in first]


def draw_lines(axes: Axes, rows: Rows, coloured: Sequence[str]) -> None:
    """Draw lines with a legend beside them.

    Parameters
    ----------
    coloured
        Those with a colour of their own, which is the same wherever these are given; others are grey.
    """
    others = [name for name in rows if name not in coloured]
    style: Any = {"marker": "o", "markersize": 3}
    legend = {}
    for number, name in enumerate(coloured):
        times, values = rows[name]
        (legend[name],) = axes.plot(times, values, markevery=_alone(values), color=f"C{number}", label=name, **style)
    for name in others:
        times, values = rows[name]
        (line,) = axes.plot(times, values, markevery=_alone(values), color="lightgrey", zorder=1, **style)
        legend[f"{len(others)} others"] = line
    axes.grid(alpha=0.3)
    if legend:
        # Beside the axes, where it covers nothing; told what to hold, as matplotlib leaves out names like _this.
        axes.legend(legend.values(), legend.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")


def _alone(values: Array) -> list[int]:
    """Return which values stand between nan: no line goes through them."""
    known = np.concatenate(([False], ~np.isnan(values), [False]))
    found: list[int] = np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist()
    return found
