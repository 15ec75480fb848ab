"""A picture of a run: latency, queues and load of the hosts over time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.pictures.save import save
from penstock.simulation.result import SimulationResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 10
"""Lines that have a colour each; more cannot be told apart."""

LEAST = 20
"""Intervals that the latency of a sink is drawn over at least, where they are made longer."""


def plot(path: str | os.PathLike[str], result: SimulationResult) -> None:
    """Draw a run that kept its trace and its samples.

    Parameters
    ----------
    path
        A file that matplotlib can write, by its ending.
    result
        Of ``simulate(…, record=Recording(trace=True, sample=…))``.

    Raises
    ------
    InputError
        If the run kept no samples, or the file cannot be written.
    """
    from matplotlib.figure import Figure

    if result.series is None:
        raise InputError("expected a run with samples", hint="record=Recording(trace=True, sample=SECONDS)")
    series = result.series
    figure = Figure(figsize=(8, 8), layout="constrained")
    top, centre, bottom = figure.subplots(3, 1, sharex=True)
    late = {}
    for index, name in enumerate(result.sinks):
        mine = None if result.trace is None else result.trace[result.trace["sink"] == index]
        if mine is not None and len(mine):
            edges = _edges(np.concatenate(([0.0], series.times)), mine["egress"])
            late[name] = edges[1:], _mean(mine["egress"], mine["egress"] - mine["stimulus"], edges)
    _draw(top, late)
    for axes, rows in ((centre, series.queued), (bottom, series.busy)):
        _draw(axes, {name: (series.times, row) for name, row in zip(result.hosts, rows, strict=True)})
    top.set(ylabel="latency (s)", title="latency at the sinks, mean of each interval")
    centre.set(ylabel="tuples", title="tuples that wait for each host")
    bottom.set(ylabel="busy", xlabel="time (s)", title="share of each interval that a host worked", ylim=(0, 1.05))
    for axes in (top, centre, bottom):
        axes.grid(alpha=0.3)
        if axes.get_lines():
            # Beside the axes, where it covers nothing.
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    save(figure, path)


def _draw(axes: Axes, rows: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    """Draw lines: those with the highest means in colour, and others, where there are more, in grey."""
    # nan where nothing came
    height = {
        name: float(np.nanmean(values)) if np.isfinite(values).any() else 0.0 for name, (_, values) in rows.items()
    }
    highest = set(sorted(rows, key=lambda name: -height[name])[:MOST])
    rest = "" if len(rows) <= MOST else f"{len(rows) - MOST} lower ones"
    for name in sorted(rows, key=lambda name: name in highest):
        times, values = rows[name]
        style = {"label": name} if name in highest else {"color": "lightgrey", "label": rest, "zorder": 1}
        rest = rest if name in highest else ""
        axes.plot(times, values, marker="o", markersize=3, markevery=_alone(values), **style)


def _edges(edges: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the edges of the intervals, twice as far apart as a sink puts rows out where that leaves some without.

    Where too few intervals would be left, they stay as they are.
    """
    busy = np.flatnonzero(np.histogram(times, edges)[0])
    apart = int(np.median(np.diff(busy))) if busy.size > 1 else 1
    return np.append(edges[: -1 : 2 * apart], edges[-1]) if 1 < apart <= edges.size / (2 * LEAST) else edges


def _alone(values: NDArray[np.float64]) -> list[int]:
    """Return which values stand between nan: no line goes through them."""
    known = np.concatenate(([False], ~np.isnan(values), [False]))
    found: list[int] = np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist()
    return found


def _mean(times: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = np.histogram(times, edges)[0]
    sums = np.histogram(times, edges, weights=values)[0]
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
