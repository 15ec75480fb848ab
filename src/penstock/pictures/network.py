"""The network of the demo's picture, and the colours of all of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from penstock.pictures.layers import layered

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


def draw_network(
    axes: Axes, network: Mapping[str, Any], placement: Mapping[str, str], colour: Mapping[str, str], theme: Theme
) -> None:
    """Draw a placed network in layers, its operators coloured by host."""
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
