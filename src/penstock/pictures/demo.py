"""The demo's picture: the placed network, and what was predicted and measured over time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.files import Document
from penstock.pictures.network import THEMES, Theme, draw_network
from penstock.pictures.save import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SMOOTH = 6.0
"""Seconds over which busy shares are averaged, predicted and measured alike: single batches are all or nothing."""

FULL = 0.95
"""Share of its time from which on a host counts as saturated."""

BOX, UNDER = 0.87, 0.49
"""Shares of the panel's height at which the box of figures begins, below the names of phases, and that lie below it."""

WIDE = 0.1
"""Share of the picture's width from which on each of several bursts is named."""


def demo_picture(report: Document, path: str | os.PathLike[str], theme: str = "light") -> None:
    """Draw a report as one picture, which can be read at the width of a page.

    Parameters
    ----------
    report
        Keys ``network`` (``sources``, ``operators`` with kind, inputs, cost, selectivity; ``sinks`` with
        input), ``placement``, ``series`` (``time`` in s, ``rate`` by source, ``hosts`` with the share of its
        time that a host is busy, predicted (``busy``) and measured, ``latency`` predicted, low, high and
        measured, and that of another run, ``in_turn``: worst of each period in s), ``latency`` and
        ``predicted`` (mean, p50, p99, max in s), ``interval`` (p05 and p95 of worst, p99, p50, mean). What is
        null or missing is left out.
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
        draw_network(top, report["network"], report["placement"], colour, look)
        _rates(rates, report["series"], look)
        _loads(loads, report["series"], colour, look)
        _latency(waits, report, look)
        figure.align_ylabels([rates, loads, waits])
        save(figure, path, dpi=160)


def _rates(axes: Axes, series: Document, theme: Theme) -> None:
    time, lines = _numbers(series["time"]), []
    for k, (source, values) in enumerate(sorted(series.get("rate", {}).items())):
        rate = _numbers(values)[: time.size]
        shade = (theme.ink, theme.faint)[k % 2]
        axes.fill_between(time[: rate.size], rate, step="post", color=shade, alpha=0.2, linewidth=0)
        lines += axes.step(time[: rate.size], rate, where="post", color=shade, linewidth=1.5, label=source)
    axes.set_ylim(0, 1.3 * max(axes.get_ylim()[1], 1e-9))
    axes.set_ylabel("tuples/s")
    _panel(axes, series, "Rate of the source" if len(series.get("rate", {})) < 2 else "Rate of the sources", theme)
    found = bursts(series)
    for begin, end in [(a, b) for a, b in found if b - a >= WIDE * (time[-1] - time[0])] or found[:1]:
        _name(axes, (begin + end) / 2, "burst", theme)
    axes.tick_params(labelbottom=False)
    if len(series.get("rate", {})) > 1:
        axes.legend(handles=lines, frameon=False, fontsize=9, loc="upper right", ncols=3)


def _loads(axes: Axes, series: Document, colour: Mapping[str, str], theme: Theme) -> None:
    time, lines = _numbers(series["time"]), []
    for host, load in sorted(series.get("hosts", {}).items()):
        busy = load.get("busy", load.get("predicted"))
        for key, values, form in (("predicted", busy, "-"), ("measured", load.get("measured"), (0, (1, 1.2)))):
            row = smoothed(_numbers(values)[: time.size], _step(time))
            lines += axes.plot(
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
    for number, (host, spells) in enumerate(saturated(series).items()):
        level = 1.05 + 0.15 * (number % 2)
        for begin, end in spells:
            axes.plot([begin, end], [level, level], color=colour[host], linewidth=3, solid_capstyle="butt")
        # What was measured lies below, and may say otherwise.
        begin, end = max(spells, key=lambda spell: spell[1] - spell[0])
        axes.text((begin + end) / 2, level + 0.02, f"{host} predicted full", color=colour[host], ha="center",
                  va="bottom", fontsize=9)  # fmt: skip
    axes.set_ylabel("busy share")
    axes.tick_params(labelbottom=False)
    if lines:
        # Told which: names that begin with an underscore would be left out.
        axes.legend(handles=lines, frameon=False, fontsize=9, ncols=len(lines), loc="lower right",
                    bbox_to_anchor=(1, 0.99), borderaxespad=0.0, handlelength=1.8, columnspacing=1.0)  # fmt: skip


def _latency(axes: Axes, report: Document, theme: Theme) -> None:
    series = report["series"]
    time, rows = _numbers(series["time"]), series.get("latency", {})
    predicted, measured, low, high = (_numbers(rows.get(key)) for key in ("predicted", "measured", "low", "high"))
    dealt = _numbers(rows.get("in_turn"))[: time.size]
    size = min(low.size, high.size)
    if size:
        axes.fill_between(time[:size], low[:size], high[:size], color=theme.ink, alpha=0.18, linewidth=0,
                          label="p05 to p95")  # fmt: skip
    if dealt.size:
        axes.plot(time[: dealt.size], dealt, color=theme.faint, linestyle="", marker="x", markersize=4,
                  label="measured, dealt out in turn")  # fmt: skip
    axes.plot(time[: predicted.size], predicted, color=theme.ink, linewidth=1.8, label="predicted")
    axes.plot(time[: measured.size], measured, color=theme.measured, linestyle="", marker="o", markersize=3.6,
              markeredgewidth=0, label="measured")  # fmt: skip
    axes.set_ylabel("seconds")
    axes.set_xlabel("time (s)", color=theme.ink)
    _panel(axes, series, "Latency, worst of each second", theme)
    both = [values[: time.size] for values in (predicted, measured, high, dealt) if values.size]
    first, second = (float(np.nanmax(part, initial=0.0)) for part in _halves(both, time.size // 2))
    # The figures stand on the side where less is, above all of it.
    axes.set_ylim(0, max(1.12 * max(first, second), min(first, second) / UNDER) or 1.0)
    for begin, end in drains(series):
        axes.axvspan(begin, end, color=theme.drain, zorder=0, linewidth=0)
        _name(axes, (begin + end) / 2, "drain", theme)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles, labels, frameon=False, fontsize=9, ncols=4, loc="lower right", bbox_to_anchor=(1, 0.99),
                borderaxespad=0.0)  # fmt: skip
    right = second <= first
    axes.text(0.985 if right else 0.015, BOX, _figures(report), transform=axes.transAxes, family="DejaVu Sans Mono",
              fontsize=9, ha="right" if right else "left", va="top", linespacing=1.35,
              bbox={"boxstyle": "round,pad=0.5", "facecolor": theme.paper, "edgecolor": theme.grid})  # fmt: skip


def _figures(report: Document) -> str:
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


def _panel(axes: Axes, series: Document, title: str, theme: Theme) -> None:
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


def bursts(series: Document) -> list[tuple[float, float]]:
    """Return the intervals (s) in which the rate of a source is far above what it usually is."""
    time = _numbers(series["time"])
    # A picture goes on until all is worked off, long after the rates may have ended.
    rates = [np.trim_zeros(np.nan_to_num(_numbers(row)[: time.size]), "b") for row in series.get("rate", {}).values()]
    rates = [row for row in rates if row.size]
    # Sources that burst one after another keep the total high for most of the time, but not each its own.
    usual = [float(np.median(row)) for row in rates]
    inside = np.zeros(time.size, np.bool_)
    for row, level in zip(rates, usual, strict=True):
        top = float(row.max())
        if top - level > 0.15 * sum(usual):
            inside[: row.size] |= row > (level + top) / 2
    return _spells(time, inside)


def saturated(series: Document) -> dict[str, list[tuple[float, float]]]:
    """Return by host the intervals (s) in which it is busy nearly all of its time, as predicted; none without any."""
    time, found = _numbers(series["time"]), {}
    for host, load in sorted(series.get("hosts", {}).items()):
        row = np.nan_to_num(_numbers(load.get("busy"))[: time.size])
        busy = np.zeros(time.size, np.bool_)
        busy[: row.size] = smoothed(row, _step(time)) >= FULL
        spells = _spells(time, busy)
        if spells:
            found[host] = spells
    return found


def drains(series: Document) -> list[tuple[float, float]]:
    """Return the intervals (s) after a burst in which what waits is worked off.

    They last until latency is as usual again, and hosts that were full have a pause.
    """
    time, found, spells = _numbers(series["time"]), [], bursts(series)
    if not spells:
        return []
    signs = [_late(series, time, spells)]
    for host in saturated(series):
        busy = np.nan_to_num(_numbers(series["hosts"][host]["busy"])[: time.size])
        signs.append(np.append(busy >= FULL, np.zeros(time.size - busy.size, np.bool_)))
    for (_, end), (until, _) in zip(spells, [*spells[1:], (np.inf, np.inf)], strict=True):
        between = (time >= end) & (time < until)
        after = [spell for sign in signs for spell in _spells(time, sign & between) if spell[0] <= end + _step(time)]
        last = max((stop for _, stop in after), default=end)
        if last - end >= 2 * _step(time):
            found.append((end, last))
    return found


def _late(series: Document, time: Array, spells: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Return when what enters waits longer than before the first burst, or where that is unknown, between bursts."""
    late = np.zeros(time.size)
    known = np.nan_to_num(_numbers(series.get("latency", {}).get("predicted"))[: time.size])
    late[: known.size] = known
    quiet = time < spells[0][0]
    if not quiet.any():
        quiet = ~np.any([(time >= begin) & (time < end) for begin, end in spells], axis=0)
    # Between two triggers latency falls, so that most of what is usual lies below its upper quarter.
    return late > 1.25 * np.quantile(late[quiet], 0.75) if quiet.any() else np.zeros(time.size, np.bool_)


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
