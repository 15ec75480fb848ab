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

from penstock.cli.layers import layered
from penstock.files import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]


@attrs.frozen
class Theme:
    """Colours: of text, what is faint, the page, sources, the grid, the phases, measurements, and hosts."""

    ink: str
    faint: str
    paper: str
    box: str
    grid: str
    burst: str
    drain: str
    measured: str
    on_host: str
    hosts: tuple[str, ...]


THEMES: Mapping[str, Theme] = {
    # Hosts are told apart also by most people who confuse red and green.
    "light": Theme(
        "#1f2933", "#6b7785", "#ffffff", "#eef1f4", "#e4e8ec", "#fdeeca", "#e3ebf3", "#c8553d", "#ffffff",
        ("#2a78b5", "#c9730c", "#2f855a", "#a05195", "#c8553d", "#6b7fd7", "#8a6d3b", "#3b8794"),
    ),
    "dark": Theme(
        "#e6edf3", "#9aa5b1", "#0d1117", "#21262d", "#262c36", "#4a3a10", "#1c2733", "#ff8f70", "#0d1117",
        ("#6cb6ff", "#f0a04b", "#6bc990", "#d2a8ff", "#ff8f70", "#a5b4fc", "#d4b483", "#76c7d6"),
    ),
}  # fmt: skip

BOX = (0.80, 0.60)  # of a node, in layers and rows

SMOOTH = 6.0
"""Seconds over which busy shares are averaged, predicted and measured alike: single batches are all or nothing."""

FULL = 0.95
"""Share of its time from which on a host counts as saturated."""


def demo_picture(report: Mapping[str, Any], path: str | os.PathLike[str], theme: str = "light") -> None:
    """Draw a report as one picture, which can be read at the width of a page.

    Parameters
    ----------
    report
        Keys ``network`` (``sources``, ``operators`` with kind, inputs, cost, selectivity; ``sinks`` with input),
        ``placement``, ``series`` (``time`` in s, ``rate`` by source, ``hosts`` with the share of its time that a host
        is busy, predicted (``busy``) and measured, ``latency`` predicted, low, high and measured, worst of each period
        in s), ``latency`` and ``predicted`` (mean, p50, p99, max in s), ``interval`` (p05 and p95 of worst, p99, p50,
        mean). What is null or missing is left out.
    path
        The file to write; its ending gives the format (png, svg, pdf).
    theme
        ``light`` or ``dark``.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    look = THEMES[theme]
    style: Any = {
        "font.family": ["DejaVu Sans"],
        "font.size": 10,
        "text.color": look.ink,
        "axes.facecolor": look.paper,
        "axes.labelcolor": look.ink,
        "axes.edgecolor": look.faint,
        "xtick.color": look.faint,
        "ytick.color": look.faint,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "penstock",  # the same report gives the same bytes
    }
    with mpl.rc_context(style):
        figure = Figure(
            figsize=(10, 11.8),
            facecolor=look.paper,
            layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.03, hspace=0.03),
        )
        grid = figure.add_gridspec(4, 1, height_ratios=(2.0, 0.6, 1.0, 1.3))
        top = figure.add_subplot(grid[0])
        rates = figure.add_subplot(grid[1])
        loads = figure.add_subplot(grid[2], sharex=rates)
        waits = figure.add_subplot(grid[3], sharex=rates)
        hosts = sorted({*report["placement"].values(), *report["series"].get("hosts", {})})
        colour = {host: look.hosts[k % len(look.hosts)] for k, host in enumerate(hosts)}
        _network(top, report["network"], report["placement"], colour, look)
        _rates(rates, report["series"], look)
        _loads(loads, report["series"], colour, look)
        _latency(waits, report, look)
        figure.align_ylabels([rates, loads, waits])
        ending = Path(path).suffix.lstrip(".").lower() or "png"
        metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
        with atomic(path, "wb") as file:
            figure.savefig(file, format=ending, dpi=160, metadata=metadata)


def _network(
    axes: Axes, network: Mapping[str, Any], placement: Mapping[str, str], colour: Mapping[str, str], theme: Theme
) -> None:
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
        tint = colour.get(placement.get(start, ""), theme.faint)
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
    size = float(np.clip(72 / (layers * 1.35), 6.0, 10.5))
    for node, (x, y) in layout.places.items():
        if node in sinks:
            face, edge, title, below = theme.paper, theme.faint, sinks[node], "sink"
        elif node in network["sources"]:
            face, edge, title, below = theme.box, theme.faint, node, "source"
        else:
            operator = network["operators"][node]
            edge = colour[placement[node]] if node in placement else theme.faint
            face, title, below = edge, node, _describe(operator)
        dark = face not in (theme.paper, theme.box)
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
        ink = theme.on_host if dark else theme.ink
        lines = below.count("\n") + 1
        name = _fit(title, size, layers)
        axes.text(x, y - 0.055 - 0.055 * lines, name[0], ha="center", va="center", color=ink, fontsize=name[1],
                  fontweight="bold", zorder=3)  # fmt: skip
        axes.text(x, y + 0.105 + 0.01 * lines, below, ha="center", va="center", color=ink if dark else theme.faint,
                  fontsize=size * 0.82, linespacing=1.15, zorder=3)  # fmt: skip
    rows = [y for _, y in layout.places.values()]
    axes.set_xlim(-0.52, layers - 0.48)
    axes.set_ylim(max(rows) + 0.75, min(rows) - 0.75)
    axes.axis("off")
    handles: list[Any] = [
        Line2D([], [], marker="s", linestyle="", markersize=9, color=tint, label=host) for host, tint in colour.items()
    ]
    handles.append(Line2D([], [], color=theme.ink, linestyle=(0, (3, 1.6)), linewidth=1.8, label="crosses hosts"))
    axes.legend(handles=handles, loc="lower left", ncols=len(handles), frameon=False, borderaxespad=0.0)
    axes.set_title("The network, coloured by host", loc="left", fontsize=12, fontweight="bold")


def _describe(operator: Mapping[str, Any]) -> str:
    """Return kind, cost per tuple and selectivity, those that are known."""

    def number(value: Any) -> float | None:
        values = [value] if isinstance(value, int | float) else [item for item in value or () if item is not None]
        return max(values) if values else None

    cost, selectivity = number(operator.get("cost")), number(operator.get("selectivity"))
    parts = []
    least = operator.get("resolution") or 0.0
    if cost is not None and cost < least:
        parts.append(f"< {least * 1e6:.2g} µs")
    elif cost is not None:
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


def _rates(axes: Axes, series: Mapping[str, Any], theme: Theme) -> None:
    time = _numbers(series["time"])
    for k, (source, values) in enumerate(sorted(series.get("rate", {}).items())):
        rate = _numbers(values)[: time.size]
        shade = (theme.ink, theme.faint)[k % 2]
        axes.fill_between(time[: rate.size], rate, step="post", color=shade, alpha=0.2, linewidth=0)
        axes.step(time[: rate.size], rate, where="post", color=shade, linewidth=1.5, label=source)
    axes.set_ylim(0, 1.3 * max(axes.get_ylim()[1], 1e-9))
    axes.set_ylabel("tuples/s")
    _panel(axes, series, "Rate of the source" if len(series.get("rate", {})) < 2 else "Rate of the sources", theme)
    for number, (begin, end) in enumerate(bursts(series)):
        if number == 0:
            _name(axes, (begin + end) / 2, "burst", theme)
    axes.tick_params(labelbottom=False)
    if len(series.get("rate", {})) > 1:
        axes.legend(frameon=False, fontsize=9, loc="upper right", ncols=3)


def _loads(axes: Axes, series: Mapping[str, Any], colour: Mapping[str, str], theme: Theme) -> None:
    time = _numbers(series["time"])
    for host, load in sorted(series.get("hosts", {}).items()):
        busy = load.get("busy", load.get("predicted"))
        for key, values, form in (("predicted", busy, "-"), ("measured", load.get("measured"), (0, (1, 1.2)))):
            row = smoothed(_numbers(values)[: time.size], _step(time))
            axes.plot(
                time[: row.size] + _step(time) / 2,
                row,
                color=colour[host],
                linestyle=form,
                linewidth=1.8 if key == "predicted" else 2.2,
                label=f"{host} {key}",
            )
    axes.axhline(1.0, color=theme.ink, linewidth=1, linestyle=(0, (1, 2)))
    axes.set_ylim(0, 1.4)
    axes.set_yticks([0, 0.5, 1.0])
    _panel(axes, series, "Share of its time that each host is busy", theme)
    for number, (host, begin, end) in enumerate(saturated(series)):
        level = 1.05 + 0.15 * (number % 2)
        axes.plot([begin, end], [level, level], color=colour[host], linewidth=3, solid_capstyle="butt")
        axes.text((begin + end) / 2, level + 0.02, f"{host} saturated", color=colour[host], ha="center", va="bottom",
                  fontsize=9)  # fmt: skip
    axes.set_ylabel("busy share")
    axes.tick_params(labelbottom=False)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, frameon=False, fontsize=9, ncols=max(1, len(labels)), loc="lower right",
                    bbox_to_anchor=(1, 0.99), borderaxespad=0.0, handlelength=1.8, columnspacing=1.0)  # fmt: skip


def _latency(axes: Axes, report: Mapping[str, Any], theme: Theme) -> None:
    series = report["series"]
    time, rows = _numbers(series["time"]), series.get("latency", {})
    predicted, measured, low, high = (_numbers(rows.get(key)) for key in ("predicted", "measured", "low", "high"))
    size = min(low.size, high.size)
    if size:
        axes.fill_between(time[:size], low[:size], high[:size], color=theme.ink, alpha=0.18, linewidth=0,
                          label="p05 to p95")  # fmt: skip
    axes.plot(time[: predicted.size], predicted, color=theme.ink, linewidth=1.8, label="predicted")
    axes.plot(time[: measured.size], measured, color=theme.measured, linestyle="", marker="o", markersize=3.6,
              markeredgewidth=0, label="measured")  # fmt: skip
    axes.set_ylabel("seconds")
    axes.set_xlabel("time (s)", color=theme.ink)
    _panel(axes, series, "Latency, worst of each second", theme)
    top = np.nanmax(np.concatenate([predicted, measured, high, [0.0]]))
    axes.set_ylim(0, top * 1.12 if top > 0 else 1.0)
    for begin, end in drains(series):
        axes.axvspan(begin, end, color=theme.drain, zorder=0, linewidth=0)
        _name(axes, (begin + end) / 2, "drain", theme)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles, labels, frameon=False, fontsize=9, ncols=3, loc="lower right", bbox_to_anchor=(1, 0.99),
                borderaxespad=0.0)  # fmt: skip
    # The figures stand on the side where the curve is lower.
    half = time.size // 2
    both = [values[: time.size] for values in (predicted, measured, high) if values.size]
    late = [float(np.nanmax(part, initial=0.0)) for part in _halves(both, half)]
    right = late[1] <= late[0]
    axes.text(0.985 if right else 0.015, 0.93, _figures(report), transform=axes.transAxes, family="DejaVu Sans Mono",
              fontsize=9, ha="right" if right else "left", va="top", linespacing=1.35,
              bbox={"boxstyle": "round,pad=0.5", "facecolor": theme.paper, "edgecolor": theme.grid})  # fmt: skip


def _figures(report: Mapping[str, Any]) -> str:
    """Return predicted beside measured, with the interval, as lines of equal width."""
    interval = report.get("interval", {})
    wide = f"{'p05 to p95':>20}" if interval else ""
    lines = [f"{'':6}{'predicted':>10}{wide}{'measured':>10}"]
    for key, word in (("max", "worst"), ("p99", "p99"), ("p50", "p50"), ("mean", "mean")):
        ours, real = (report.get(part, {}).get(key) for part in ("predicted", "latency"))
        if ours is None and real is None:
            continue
        between = " to ".join(_seconds(value) for value in interval[word]) if word in interval else ""
        lines.append(f"{word:6}{_seconds(ours):>10}{between:>{len(wide)}}{_seconds(real):>10}")
    return "\n".join(lines)


def _halves(series: Sequence[Array], half: int) -> list[Array]:
    empty = np.zeros(1)
    first = np.concatenate([empty, *(values[:half] for values in series)])
    return [first, np.concatenate([empty, *(values[half:] for values in series)])]


def _panel(axes: Axes, series: Mapping[str, Any], title: str, theme: Theme) -> None:
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.grid(axis="y", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    time = _numbers(series["time"])
    if time.size:
        axes.set_xlim(time[0], time[-1] + _step(time))
        for begin, end in bursts(series):
            axes.axvspan(begin, end, color=theme.burst, zorder=0, linewidth=0)


def _name(axes: Axes, place: float, word: str, theme: Theme) -> None:
    """Name a phase at the upper edge of a panel."""
    axes.text(place, 0.97, word, transform=axes.get_xaxis_transform(), ha="center", va="top", fontsize=9,
              color=theme.ink, style="italic")  # fmt: skip


def bursts(series: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return the intervals (s) in which the total rate is far above its median."""
    time = _numbers(series["time"])
    total = np.zeros(time.size)
    for values in series.get("rate", {}).values():
        rate = _numbers(values)[: time.size]
        total[: rate.size] += np.nan_to_num(rate)
    usual, top = float(np.median(total)) if time.size else 0.0, float(total.max(initial=0.0))
    return _spells(time, total > (usual + top) / 2) if top > 1.15 * usual else []


def saturated(series: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Return hosts and the longest interval (s) in which each is busy nearly all of its time, as predicted."""
    time, found = _numbers(series["time"]), []
    for host, load in sorted(series.get("hosts", {}).items()):
        row = np.nan_to_num(_numbers(load.get("busy"))[: time.size])
        busy = np.zeros(time.size, np.bool_)
        busy[: row.size] = smoothed(row, _step(time)) >= FULL
        spells = _spells(time, busy)
        if spells:
            found.append((host, *max(spells, key=lambda spell: spell[1] - spell[0])))
    return found


def drains(series: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return the intervals (s) after a burst in which what waits is worked off: until latency is as usual again."""
    time, found = _numbers(series["time"]), []
    late = np.nan_to_num(_numbers(series.get("latency", {}).get("predicted"))[: time.size])
    spells = bursts(series)
    for number, (_, end) in enumerate(spells):
        until = spells[number + 1][0] if number + 1 < len(spells) else np.inf
        usual = 1.25 * float(np.median(late)) if late.size else 0.0
        over = (time[: late.size] >= end) & (time[: late.size] < until) & (late > usual)
        after = [spell for spell in _spells(time[: late.size], over) if spell[0] <= end + _step(time)]
        if after and after[0][1] - end >= 2 * _step(time):
            found.append((end, after[0][1]))
    return found


def _spells(time: Array, inside: NDArray[np.bool_]) -> list[tuple[float, float]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(np.int8)))
    return [(float(time[a]), float(time[b - 1] + _step(time))) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def smoothed(row: Array, step: float) -> Array:
    """Return the mean over the `SMOOTH` seconds about each period, of those that are known."""
    width = max(1, round(SMOOTH / step))
    known = ~np.isnan(row)
    kernel = np.ones(min(width, max(row.size, 1)))
    if not row.size:
        return row
    total, count = (np.convolve(each, kernel, "same") for each in (np.where(known, row, 0.0), known.astype(float)))
    return np.where(known, total / np.maximum(count, 1.0), np.nan)


def _step(time: Array) -> float:
    return float(time[1] - time[0]) if time.size > 1 else 1.0


def _numbers(values: Sequence[float | None] | None) -> Array:
    known: Sequence[float | None] = () if values is None else values
    return np.array([np.nan if value is None else value for value in known], np.float64)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
