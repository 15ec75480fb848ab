"""Pictures of the reproduced figures, and the page that shows them with their claims."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from penstock.experiments.base import Figure


def file_name(figure: Figure) -> str:
    """Return the name of a figure's picture."""
    return f"{figure.paper}-{figure.name.lower().replace('. ', '-').replace(' ', '-')}.png"


def draw(figure: Figure, folder: str | os.PathLike[str]) -> Path:
    """Draw a figure in the paper's axes into a folder, and return the picture's path."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(5 * len(figure.panels), 3.6), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(1, len(figure.panels), squeeze=False)[0]
    for axis, panel in zip(axes, figure.panels, strict=True):
        for curve, marker in zip(panel.curves, "osv^dxP*", strict=False):
            axis.plot(curve.x, curve.y, marker=marker, markersize=4, linewidth=1.2, label=curve.label)
        axis.set(xlabel=panel.x, ylabel=panel.y, yscale="log" if panel.log else "linear")
        if not panel.log:
            axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    canvas.suptitle(f"{figure.paper}, {figure.name}: {figure.title}", fontsize=10)
    path = Path(folder) / file_name(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a date the same figure is the same bytes.
    canvas.savefig(path, dpi=110, metadata={"Software": None})
    return path


def page(figures: Iterable[Figure]) -> str:
    """Return the Markdown page of all figures and claims."""
    lines = ["# The papers' figures, reproduced", "", "Made by `penstock reproduce --out docs/background/gallery`.", ""]
    for figure in figures:
        lines += [
            f"## {figure.paper}, {figure.name}: {figure.title}",
            "",
            f"![{figure.title}]({file_name(figure)})",
            "",
        ]
        lines += ["; ".join(f"{key}: {value}" for key, value in figure.parameters.items()) + ".", ""]
        lines += ["| claim | expected | measured | holds |", "|---|---|---|---|"]
        for claim in figure.claims:
            note = f" ({claim.note})" if claim.note else ""
            lines.append(
                f"| {claim.name}{note} | {claim.expected} | {claim.measured} | {'yes' if claim.holds else 'no'} |"
            )
        lines.append("")
    return "\n".join(lines)
