"""A picture of a run: latency, queues and load of the hosts over time."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.files import atomic
from penstock.simulation.result import SimulationResult
from penstock.simulation.state import ARRIVAL, COMPLETE, TRACE


def plot(path: str | os.PathLike[str], result: SimulationResult, cores: Mapping[str, int]) -> None:
    """Draw a run that kept its trace and its log.

    Parameters
    ----------
    path
        A file that matplotlib can write, by its ending.
    result
        Of ``simulate(…, trace=True, log=True)``.
    cores
        Number of cores of each host, in the order of the cluster.

    Raises
    ------
    InputError
        If the run kept no log, or the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if result.log is None:
        raise InputError("expected a run with a log", hint="simulate with trace=True and log=True")
    log, end = result.log, max(result.end, 1e-9)
    edges = np.linspace(0.0, end, 201)
    middle = (edges[1:] + edges[:-1]) / 2
    figure = Figure(figsize=(8, 8), layout="constrained")
    FigureCanvasAgg(figure)
    top, centre, bottom = figure.subplots(3, 1, sharex=True)

    names = list(result.sinks)
    rows = (
        result.trace
        if result.trace is not None
        else np.zeros(0, [("stimulus", "f8"), ("egress", "f8"), ("sink", "i8")])
    )
    for index, name in enumerate(names):
        mine = rows[rows["sink"] == index]
        if len(mine):
            top.plot(middle, _mean(mine["egress"], mine["egress"] - mine["stimulus"], edges), label=name)
    top.set_ylabel("latency (s)")
    top.set_title("latency at the sinks, mean per interval", loc="left")

    entered = np.isin(log["kind"], (ARRIVAL, TRACE))
    inside = np.cumsum(np.histogram(log["time"][entered], edges)[0])
    done = log["kind"] == COMPLETE
    centre.plot(middle, inside, label="entered")
    first = 0
    for name, count in cores.items():
        mine = done & (log["index"] >= first) & (log["index"] < first + count)
        first += count
        rate = np.histogram(log["time"][mine], edges)[0] / np.diff(edges)
        bottom.plot(middle, rate, label=name)
    centre.plot(middle, np.cumsum(np.histogram(rows["egress"], edges)[0]), label="delivered")
    centre.set_ylabel("tuples")
    centre.set_title("tuples that entered and that reached a sink", loc="left")
    bottom.set_ylabel("services per second")
    bottom.set_xlabel("time (s)")
    bottom.set_title("hosts at work", loc="left")
    for axes in (top, centre, bottom):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper left", fontsize="small")
    ending = os.path.splitext(path)[1].lstrip(".").lower() or "png"
    if ending not in figure.canvas.get_supported_filetypes():
        raise InputError(f"expected a picture such as out.png, got {os.fspath(path)!r}", at="--plot")
    with atomic(path, "wb") as file:
        figure.savefig(file, format=ending, dpi=120)


def _mean(times: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = np.histogram(times, edges)[0]
    sums = np.histogram(times, edges, weights=values)[0]
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
