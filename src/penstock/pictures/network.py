"""The network of the demo's picture, and the colours of all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from penstock.files import Document
from penstock.pictures.layers import layered
from penstock.units import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
ROOMY = 4.0
"""Rows up to which a node has room for three lines."""

DASHED = (0, (3, 1.6))


def draw_network(
    axes: Axes, network: Document, placement: Mapping[str, str], colour: Mapping[str, str], theme: Theme
) -> None:
    """Draw a placed network in layers, its operators coloured by host."""
    inputs: dict[str, list[str]] = {name: [] for name in network["sources"]}
    inputs.update({name: list(operator["inputs"]) for name, operator in network["operators"].items()})
    # a sink may be called like the operator it reads
    sinks = {f"sink {name}": name for name in network["sinks"]}
    inputs.update({key: [network["sinks"][name]["input"]] for key, name in sinks.items()})
    layout = layered(inputs, list(sinks))
    layers = max(x for x, _ in layout.places.values()) + 1
    heights = [y for _, y in layout.places.values()]
    rows = max(heights) - min(heights) + 1
    crossing = {
        (start, stop)
        for start, stop in layout.paths
        if start in placement and stop in placement and placement[start] != placement[stop]
    }
    for (start, stop), points in layout.paths.items():
        _stream(axes, points, colour.get(placement.get(start, ""), theme.faint), (start, stop) in crossing)
    for node, place in layout.places.items():
        if node in sinks:
            shown = _Node(theme.paper, theme.faint, theme.ink, sinks[node], "sink")
        elif node in network["sources"]:
            shown = _Node(theme.box, theme.faint, theme.ink, node, "source")
        else:
            tint = colour[placement[node]] if node in placement else theme.faint
            told = _describe(network["operators"][node])
            # Boxes of many rows are too low for three lines.
            told = told.replace("\n", " · ") if rows > ROOMY else told
            shown = _Node(tint, tint, theme.on_host, node, told)
        _box(axes, place, shown, theme, layers)
    axes.set_xlim(-0.52, layers - 0.48)
    axes.set_ylim(max(heights) + 0.75, min(heights) - 0.75)
    axes.axis("off")
    axes.set_title("The network, coloured by host", loc="left", fontsize=12, fontweight="bold")
    _legend(axes, colour, theme, crossing=bool(crossing))


class _Node(NamedTuple):
    """What a box looks like: its colours, and what is written in it."""

    face: str
    edge: str
    ink: str
    title: str
    below: str


def _stream(axes: Axes, points: Sequence[tuple[float, float]], tint: str, crosses: bool) -> None:
    """Draw a stream as a curve through points; dashed where it crosses hosts."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    width = BOX[0]
    vertices, codes = [(points[0][0] + width / 2, points[0][1])], [Curve.MOVETO]
    for k, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        begin = x0 + width / 2 if k == 0 else x0
        end = x1 - width / 2 if k == len(points) - 2 else x1
        middle = (begin + end) / 2
        vertices += [(middle, y0), (middle, y1), (end, y1)]
        codes += [Curve.CURVE4] * 3
    axes.add_patch(
        PathPatch(
            Curve(vertices, codes),
            fill=False,
            edgecolor=tint,
            linewidth=1.8 if crosses else 1.3,
            linestyle=DASHED if crosses else "-",
            alpha=0.9 if crosses else 0.6,
            zorder=1,
        )
    )


def _box(axes: Axes, place: tuple[float, float], node: _Node, theme: Theme, layers: float) -> None:
    """Draw a node as a box with a title and what is below it."""
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = place, BOX
    size = float(np.clip(72 / (layers * 1.35), 6.0, 10.5))
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.09",
            facecolor=node.face,
            edgecolor=node.edge,
            linewidth=1.2,
            zorder=2,
        )
    )
    faint = node.ink if node.face not in (theme.paper, theme.box) else theme.faint
    lines = node.below.count("\n") + 1
    name, fitting = _fit(node.title, size, layers)
    axes.text(x, y - 0.055 - 0.055 * lines, name, ha="center", va="center", color=node.ink, fontsize=fitting,
              fontweight="bold", zorder=3)  # fmt: skip
    axes.text(x, y + 0.105 + 0.01 * lines, node.below, ha="center", va="center", color=faint,
              fontsize=size * 0.82, linespacing=1.15, zorder=3)  # fmt: skip


def _legend(axes: Axes, colour: Mapping[str, str], theme: Theme, *, crossing: bool) -> None:
    from matplotlib.lines import Line2D

    handles: list[Line2D] = [
        Line2D([], [], marker="s", linestyle="", markersize=9, color=tint, label=host) for host, tint in colour.items()
    ]
    if crossing:
        handles.append(Line2D([], [], color=theme.ink, linestyle=DASHED, linewidth=1.8, label="crosses hosts"))
    axes.legend(handles=handles, loc="lower left", ncols=len(handles), frameon=False, borderaxespad=0.0)


def _describe(operator: Document) -> str:
    """Return kind, cost per tuple and selectivity, those that are known."""

    def number(value: float | Sequence[float | None] | None) -> float | None:
        values = [value] if isinstance(value, int | float) else [item for item in value or () if item is not None]
        return max(values) if values else None

    cost, selectivity = number(operator.get("cost")), number(operator.get("selectivity"))
    parts = []
    least = operator.get("resolution") or 0.0
    if cost is not None and cost < least:
        parts.append(f"< {digits(least * 1e6, 2)} µs")
    elif cost is not None:
        parts.append(f"{digits(cost * 1e3, 2)} ms" if cost >= 1e-3 else f"{cost * 1e6:.3g} µs")
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
