"""A picture of a run: latency, queues and load of the hosts over time."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.pictures.save import save
from penstock.simulation.result import SimulationResult


def plot(path: str | os.PathLike[str], result: SimulationResult) -> None:
    """Draw a run that kept its trace and its samples.

    Parameters
    ----------
    path
        A file that matplotlib can write, by its ending.
    result
        Of ``simulate(…, trace=True, sample=…)``.

    Raises
    ------
    InputError
        If the run kept no samples, or the file cannot be written.
    """
    from matplotlib.figure import Figure

    if result.series is None:
        raise InputError("expected a run with samples", hint="simulate with trace=True and sample=SECONDS")
    series = result.series
    figure = Figure(figsize=(8, 8), layout="constrained")
    top, centre, bottom = figure.subplots(3, 1, sharex=True)
    for index, name in enumerate(result.sinks):
        mine = None if result.trace is None else result.trace[result.trace["sink"] == index]
        if mine is not None and len(mine):
            edges = np.concatenate(([0.0], series.times))
            top.plot(series.times, _mean(mine["egress"], mine["egress"] - mine["stimulus"], edges), label=name)
    for index, name in enumerate(result.hosts):
        centre.plot(series.times, series.queued[index], label=name)
        bottom.plot(series.times, series.busy[index], label=name)
    top.set(ylabel="latency (s)", title="latency at the sinks, mean of each interval")
    centre.set(ylabel="tuples", title="tuples that wait for each host")
    bottom.set(ylabel="busy", xlabel="time (s)", title="share of each interval that a host worked", ylim=(0, 1.05))
    for axes in (top, centre, bottom):
        axes.grid(alpha=0.3)
        if 0 < len(axes.get_lines()) <= 12:
            axes.legend(loc="upper left", fontsize="small")
    save(figure, path)


def _mean(times: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = np.histogram(times, edges)[0]
    sums = np.histogram(times, edges, weights=values)[0]
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
