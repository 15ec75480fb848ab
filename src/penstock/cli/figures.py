"""The demo's picture: the placed network, and what was predicted and measured over time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.files import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#2a78b5", "#e08a1e", "#3b9b6d", "#a05195", "#c8553d", "#6b7fd7", "#8a6d3b", "#4c9aa8")
"""Of hosts, in the order of their names; told apart also by most people who confuse red and green."""

INK, FAINT, PAPER, BURST = "#1f2933", "#8793a1", "#ffffff", "#fdeeca"
BOX = (0.80, 0.60)  # of a node, in layers and rows


@attrs.frozen
class Layout:
    """Where the nodes of a layered graph stand and how its edges run.

    Attributes
    ----------
    places
        Layer and row of each node; rows are real numbers and grow downwards.
    paths
        For each edge the points it passes, from the writer to the reader, one a layer.
    """

    places: Mapping[str, tuple[float, float]]
    paths: Mapping[tuple[str, str], Sequence[tuple[float, float]]]


def layered(inputs: Mapping[str, Sequence[str]], last: Sequence[str] = ()) -> Layout:
    """Lay out an acyclic graph in layers, with few crossings (Sugiyama's method with barycentres).

    Parameters
    ----------
    inputs
        The nodes that each node reads; sources read none.
    last
        Nodes that stand in the last layer whatever they read.
    """
    layer: dict[str, int] = {}

    def depth(node: str) -> int:
        if node not in layer:
            layer[node] = 1 + max((depth(name) for name in inputs[node]), default=-1)
        return layer[node]

    for node in inputs:
        depth(node)
    end = max(layer.values(), default=0)
    layer.update(dict.fromkeys(last, end))
    # an edge over several layers gets a place to pass in each, so that it does not cross boxes;
    # edges of one writer share them, as the stream is one
    columns: list[list[str]] = [[] for _ in range(end + 1)]
    for node in inputs:
        columns[layer[node]].append(node)
    readers: dict[str, list[str]] = {}
    writers: dict[str, list[str]] = {}
    paths: dict[tuple[str, str], list[str]] = {}
    for node, names in inputs.items():
        for name in names:
            path = [name]
            for column in range(layer[name] + 1, layer[node]):
                bend = f"{name}\0{column}"
                if bend not in columns[column]:
                    columns[column].append(bend)
                path.append(bend)
            path.append(node)
            paths[name, node] = path
            for start, stop in pairwise(path):
                if stop not in readers.setdefault(start, []):
                    readers[start].append(stop)
                    writers.setdefault(stop, []).append(start)

    row = {name: float(k) for column in columns for k, name in enumerate(column)}
    gap = {name: 0.55 if "\0" in name else 1.0 for name in row}
    for sweep in range(24):
        forward = sweep % 2 == 0
        near = writers if forward else readers
        for names in columns[1:] if forward else columns[-2::-1]:
            wish = {name: np.mean([row[other] for other in near.get(name, [name])]) for name in names}
            names.sort(key=lambda name: (wish[name], row[name]))
            _spread(names, [float(wish[name]) for name in names], gap, row)
    places = {name: (float(layer[name]), row[name]) for name in inputs}
    points = {
        edge: [(float(layer[path[0]] + k), row[name]) for k, name in enumerate(path)] for edge, path in paths.items()
    }
    return Layout(places, points)


def _spread(column: Sequence[str], wish: Sequence[float], gap: Mapping[str, float], row: dict[str, float]) -> None:
    """Set the rows of a column: as near as possible to the wishes, in order, and apart (pool adjacent violators)."""
    offset = np.concatenate([[0.0], np.cumsum([(gap[a] + gap[b]) / 2 for a, b in pairwise(column)])])
    pools: list[list[float]] = []
    for value in np.asarray(wish) - offset[: len(wish)]:
        pools.append([float(value), 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, size = pools.pop()
            pools[-1] = [(pools[-1][0] * pools[-1][1] + mean * size) / (pools[-1][1] + size), pools[-1][1] + size]
    flat = [mean for mean, size in pools for _ in range(int(size))]
    row.update({name: mean + shift for name, mean, shift in zip(column, flat, offset, strict=False)})


def demo_picture(report: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Draw a report as one picture.

    Parameters
    ----------
    report
        Keys ``network`` (``sources``, ``operators`` with kind, inputs, cost, selectivity; ``sinks`` with input),
        ``placement``, ``series`` (``time`` in s, ``rate`` by source, ``hosts`` with predicted and measured load,
        ``latency`` predicted and measured, worst of each period in s), ``latency`` and ``predicted``
        (mean, p50, p99, max in s). What is null or missing is left out.
    path
        The file to write; its ending gives the format (png, svg, pdf).
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    style: Any = {
        "font.family": ["DejaVu Sans"],
        "font.size": 9,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "xtick.color": FAINT,
        "ytick.color": FAINT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "penstock",  # the same report gives the same bytes
    }
    with mpl.rc_context(style):
        figure = Figure(
            figsize=(15, 7.4),
            facecolor=PAPER,
            layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.05, wspace=0.03, hspace=0.03),
        )
        grid = figure.add_gridspec(3, 2, width_ratios=(1.12, 1), height_ratios=(0.72, 1, 1.25))
        left = figure.add_subplot(grid[:, 0])
        rates = figure.add_subplot(grid[0, 1])
        loads = figure.add_subplot(grid[1, 1], sharex=rates)
        waits = figure.add_subplot(grid[2, 1], sharex=rates)
        hosts = sorted({*report["placement"].values(), *report["series"].get("hosts", {})})
        colour = {host: COLOURS[k % len(COLOURS)] for k, host in enumerate(hosts)}
        _network(left, report["network"], report["placement"], colour)
        _rates(rates, report["series"])
        _loads(loads, report["series"], colour)
        _latency(waits, report)
        figure.align_ylabels([rates, loads, waits])
        ending = Path(path).suffix.lstrip(".").lower() or "png"
        metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
        with atomic(path, "wb") as file:
            figure.savefig(file, format=ending, dpi=140, metadata=metadata)


def _network(axes: Axes, network: Mapping[str, Any], placement: Mapping[str, str], colour: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path as Curve

    inputs: dict[str, list[str]] = {name: [] for name in network["sources"]}
    inputs.update({name: list(operator["inputs"]) for name, operator in network["operators"].items()})
    # a sink may be called like the operator it reads
    sinks = {f"sink {name}": name for name in network["sinks"]}
    inputs.update({key: [network["sinks"][name]["input"]] for key, name in sinks.items()})
    layout = layered(inputs, list(sinks))
    width, height = BOX

    for (start, stop), points in layout.paths.items():
        crosses = start in placement and stop in placement and placement[start] != placement[stop]
        vertices, codes = [(points[0][0] + width / 2, points[0][1])], [Curve.MOVETO]
        for k, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
            begin = x0 + width / 2 if k == 0 else x0
            end = x1 - width / 2 if k == len(points) - 2 else x1
            middle = (begin + end) / 2
            vertices += [(middle, y0), (middle, y1), (end, y1)]
            codes += [Curve.CURVE4] * 3
        tint = colour.get(placement.get(start, ""), FAINT)
        axes.add_patch(
            PathPatch(
                Curve(vertices, codes),
                fill=False,
                edgecolor=tint,
                linewidth=1.8 if crosses else 1.3,
                linestyle=(0, (3, 1.6)) if crosses else "-",
                alpha=0.9 if crosses else 0.6,
                zorder=1,
            )
        )
    layers = max(x for x, _ in layout.places.values()) + 1
    size = float(np.clip(60 / (layers * 1.35), 6.0, 10.0))
    for node, (x, y) in layout.places.items():
        if node in sinks:
            face, edge, title, below = PAPER, FAINT, sinks[node], "sink"
        elif node in network["sources"]:
            face, edge, title, below = "#eef1f4", FAINT, node, "source"
        else:
            operator = network["operators"][node]
            edge = colour[placement[node]] if node in placement else FAINT
            face, title, below = edge, node, _describe(operator)
        dark = face not in (PAPER, "#eef1f4")
        axes.add_patch(
            FancyBboxPatch(
                (x - width / 2, y - height / 2),
                width,
                height,
                boxstyle="round,pad=0,rounding_size=0.09",
                facecolor=face,
                edgecolor=edge,
                linewidth=1.2,
                zorder=2,
            )
        )
        ink = PAPER if dark else INK
        lines = below.count("\n") + 1
        name = _fit(title, size, layers)
        axes.text(x, y - 0.055 - 0.055 * lines, name[0], ha="center", va="center", color=ink, fontsize=name[1],
                  fontweight="bold", zorder=3)  # fmt: skip
        axes.text(x, y + 0.105 + 0.01 * lines, below, ha="center", va="center", color=ink if dark else FAINT,
                  fontsize=size * 0.82, linespacing=1.15, zorder=3)  # fmt: skip
    rows = [y for _, y in layout.places.values()]
    axes.set_xlim(-0.52, layers - 0.48)
    axes.set_ylim(max(rows) + 0.75, min(rows) - 0.75)
    axes.axis("off")
    handles: list[Any] = [
        Line2D([], [], marker="s", linestyle="", markersize=9, color=tint, label=host) for host, tint in colour.items()
    ]
    handles.append(Line2D([], [], color=INK, linestyle=(0, (3, 1.6)), linewidth=1.8, label="crosses hosts"))
    axes.legend(handles=handles, loc="lower left", ncols=len(handles), frameon=False, borderaxespad=0.0)
    axes.set_title("The network, coloured by host", loc="left", fontsize=11.5, fontweight="bold")


def _describe(operator: Mapping[str, Any]) -> str:
    """Return kind, cost per tuple and selectivity, those that are known."""

    def number(value: Any) -> float | None:
        values = [value] if isinstance(value, int | float) else [item for item in value or () if item is not None]
        return max(values) if values else None

    cost, selectivity = number(operator.get("cost")), number(operator.get("selectivity"))
    parts = []
    if cost is not None:
        parts.append(f"{cost * 1e3:.2g} ms" if cost >= 1e-3 else f"{cost * 1e6:.3g} µs")
    if selectivity is not None:
        parts.append(f"×{selectivity:.2g}")
    kind = str(operator.get("kind", ""))
    return kind + ("\n" + "  ".join(parts) if parts else "")


def _fit(name: str, size: float, layers: float) -> tuple[str, float]:
    """Return a name and a font size that fit a box."""
    room = int(100 / layers)
    if len(name) <= room:
        return name, size
    if len(name) <= room * 1.35:
        return name, size * room / len(name)
    return name[: int(room * 1.3)] + "…", size / 1.35


def _rates(axes: Axes, series: Mapping[str, Any]) -> None:
    time = _numbers(series["time"])
    for k, (source, values) in enumerate(sorted(series.get("rate", {}).items())):
        rate = _numbers(values)[: time.size]
        shade = ("#52606d", "#9aa5b1", "#cbd2d9")[k % 3]
        axes.fill_between(time[: rate.size], rate, step="post", color=shade, alpha=0.25, linewidth=0)
        axes.step(time[: rate.size], rate, where="post", color=shade, linewidth=1.5, label=source)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("tuples/s")
    _panel(axes, series, "Rate of the source" if len(series.get("rate", {})) < 2 else "Rate of the sources")
    axes.tick_params(labelbottom=False)
    if len(series.get("rate", {})) > 1:
        axes.legend(frameon=False, fontsize=8, loc="upper right", ncols=3)


def _loads(axes: Axes, series: Mapping[str, Any], colour: Mapping[str, str]) -> None:
    time = _numbers(series["time"])
    step = float(time[1] - time[0]) if time.size > 1 else 1.0
    for host, load in sorted(series.get("hosts", {}).items()):
        predicted, measured = _numbers(load.get("predicted")), _numbers(load.get("measured"))
        axes.step(
            time[: predicted.size],
            predicted,
            where="post",
            color=colour[host],
            linewidth=1.8,
            label=f"{host} predicted",
        )
        axes.plot(
            time[: measured.size] + step / 2,  # measured over the period
            measured,
            color=colour[host],
            linestyle="",
            marker="o",
            markersize=3,
            alpha=0.55,
            markeredgewidth=0,
            label=f"{host} measured",
        )
    axes.axhline(1.0, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    axes.set_ylim(0, max(1.15, axes.get_ylim()[1]))
    axes.annotate("capacity", (1, 1.0), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
                  ha="right", va="bottom", fontsize=8, color=INK)  # fmt: skip
    axes.set_ylabel("share of capacity")
    _panel(axes, series, "Load of each host")
    axes.tick_params(labelbottom=False)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles, labels, frameon=False, fontsize=8, ncols=max(1, len(labels)), loc="lower right",
                bbox_to_anchor=(1, 0.99), borderaxespad=0.0, handlelength=1.4, columnspacing=1.0)  # fmt: skip


def _latency(axes: Axes, report: Mapping[str, Any]) -> None:
    series = report["series"]
    time = _numbers(series["time"])
    predicted = _numbers(series.get("latency", {}).get("predicted"))
    measured = _numbers(series.get("latency", {}).get("measured"))
    axes.fill_between(time[: measured.size], measured, color="#c8553d", alpha=0.18, linewidth=0)
    axes.plot(time[: measured.size], measured, color="#c8553d", linestyle="", marker="o", markersize=3.2,
              markeredgewidth=0, label="measured")  # fmt: skip
    axes.plot(time[: predicted.size], predicted, color=INK, linewidth=1.8, label="predicted")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("seconds")
    axes.set_xlabel("time (s)", color=INK)
    _panel(axes, series, "Latency, worst of each second")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.99), borderaxespad=0.0)
    lines = [f"{'':6}{'predicted':>10}{'measured':>10}{'off by':>9}"]
    for key, word in (("max", "worst"), ("p99", "p99"), ("p50", "p50"), ("mean", "mean")):
        ours, real = (report.get(part, {}).get(key) for part in ("predicted", "latency"))
        if ours is None and real is None:
            continue
        off = f"{(ours - real) / real:+.1%}" if ours is not None and real else ""
        lines.append(f"{word:6}{_seconds(ours):>10}{_seconds(real):>10}{off:>9}")
    top = np.nanmax(np.concatenate([predicted, measured, [0.0]]))
    # room for the figures: on the side where the curve is lower
    half = time.size // 2
    both = [values[: time.size] for values in (predicted, measured) if values.size]
    late = [float(np.nanmax(part, initial=0.0)) for part in _halves(both, half)]
    right = late[1] <= late[0]
    axes.set_ylim(0, top * 1.12 if top > 0 else 1.0)
    axes.text(0.985 if right else 0.015, 0.95, "\n".join(lines), transform=axes.transAxes, family="DejaVu Sans Mono",
              fontsize=8.5, ha="right" if right else "left", va="top", linespacing=1.35,
              bbox={"boxstyle": "round,pad=0.5", "facecolor": PAPER, "edgecolor": "#d5dbe1"})  # fmt: skip


def _halves(series: Sequence[NDArray[np.float64]], half: int) -> list[NDArray[np.float64]]:
    empty = np.zeros(1)
    first = np.concatenate([empty, *(values[:half] for values in series)])
    return [first, np.concatenate([empty, *(values[half:] for values in series)])]


def _panel(axes: Axes, series: Mapping[str, Any], title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold")
    axes.grid(axis="y", color="#e4e8ec", linewidth=0.8)
    axes.set_axisbelow(True)
    time = _numbers(series["time"])
    if time.size:
        step = float(time[1] - time[0]) if time.size > 1 else 1.0
        axes.set_xlim(time[0], time[-1] + step)
        for begin, end in _bursts(series, time, step):
            axes.axvspan(begin, end, color=BURST, zorder=0, linewidth=0)


def _bursts(series: Mapping[str, Any], time: NDArray[np.float64], step: float) -> list[tuple[float, float]]:
    """Return the intervals in which the total rate is far above its median."""
    total = np.zeros(time.size)
    for values in series.get("rate", {}).values():
        rate = _numbers(values)[: time.size]
        total[: rate.size] += np.nan_to_num(rate)
    usual, top = float(np.median(total)), float(total.max(initial=0.0))
    if top <= 1.15 * usual:
        return []
    high = np.concatenate([[False], total > (usual + top) / 2, [False]])
    edges = np.flatnonzero(high[1:] != high[:-1])
    return [(float(time[a]), float(time[b - 1] + step)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _numbers(values: Sequence[float | None] | None) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values or ()], dtype=np.float64)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
