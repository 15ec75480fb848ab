"""A picture of a run: latency, queues and load of the hosts over time."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.pictures.save import save
from penstock.simulation.result import SimulationResult

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
    for index, name in enumerate(result.sinks):
        mine = None if result.trace is None else result.trace[result.trace["sink"] == index]
        if mine is not None and len(mine):
            edges = _edges(np.concatenate(([0.0], series.times)), mine["egress"])
            mean = _mean(mine["egress"], mine["egress"] - mine["stimulus"], edges)
            top.plot(edges[1:], mean, label=name, marker="o", markersize=3, markevery=_alone(mean))
    for index, name in enumerate(result.hosts):
        centre.plot(series.times, series.queued[index], label=name)
        bottom.plot(series.times, series.busy[index], label=name)
    top.set(ylabel="latency (s)", title="latency at the sinks, mean of each interval")
    centre.set(ylabel="tuples", title="tuples that wait for each host")
    bottom.set(ylabel="busy", xlabel="time (s)", title="share of each interval that a host worked", ylim=(0, 1.05))
    for axes in (top, centre, bottom):
        axes.grid(alpha=0.3)
        if 0 < len(axes.get_lines()) <= 12:
            # Beside the axes, where it covers nothing.
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    save(figure, path)


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
