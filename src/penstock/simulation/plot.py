"""A picture of a run: latency, queues and load of the hosts over time."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.pictures.lines import draw_lines, highest
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
    late = {}
    for index, name in enumerate(result.sinks):
        mine = None if result.trace is None else result.trace[result.trace["sink"] == index]
        if mine is not None and len(mine):
            edges = _edges(np.concatenate(([0.0], series.times)), mine["egress"])
            late[name] = edges[1:], _mean(mine["egress"], mine["egress"] - mine["stimulus"], edges)
    queued, busy = (
        {name: (series.times, row) for name, row in zip(result.hosts, rows, strict=True)}
        for rows in (series.queued, series.busy)
    )
    draw_lines(top, late, highest(late))
    hosts = highest(queued, busy)
    draw_lines(centre, queued, hosts)
    draw_lines(bottom, busy, hosts)
    top.set(ylabel="latency (s)", title="latency at the sinks, mean of each interval")
    centre.set(ylabel="tuples", title="tuples that wait for each host")
    bottom.set(ylabel="busy", xlabel="time (s)", title="share of each interval that a host worked", ylim=(0, 1.05))
    for axes in (top, centre):
        most = float(axes.dataLim.y1)  # without values it is not finite
        axes.set_ylim(0, 1.1 * most if 0 < most < np.inf else 1)
    save(figure, path)


def _edges(edges: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the edges of the intervals, twice as far apart as a sink puts rows out where that leaves some without.

    Where too few intervals would be left, they stay as they are.
    """
    busy = np.flatnonzero(np.histogram(times, edges)[0])
    apart = int(np.median(np.diff(busy))) if busy.size > 1 else 1
    return np.append(edges[: -1 : 2 * apart], edges[-1]) if 1 < apart <= edges.size / (2 * LEAST) else edges


def _mean(times: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = np.histogram(times, edges)[0]
    sums = np.histogram(times, edges, weights=values)[0]
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
