"""Pictures of the reproduced figures, and the page that shows them with their claims."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from penstock.experiments.base import Figure
from penstock.pictures.curves import draw_curves


def file_name(figure: Figure) -> str:
    """Return the name of a figure's picture."""
    return f"{figure.paper}-{figure.name.lower().replace('. ', '-').replace(' ', '-')}.png"


def draw(figure: Figure, folder: str | os.PathLike[str]) -> Path:
    """Draw a figure in the paper's axes into a folder, and return the picture's path."""
    path = Path(folder) / file_name(figure)
    draw_curves(figure.panels, f"{figure.paper}, {figure.name}: {figure.title}", path)
    return path


def page(figures: Iterable[Figure], folder: str = "", quick: bool = False) -> str:
    """Return the Markdown page of all figures and claims; ``folder`` is where it finds the pictures."""
    figures = list(figures)
    claims = [claim for figure in figures for claim in figure.claims]
    prefix = f"{folder}/" if folder else ""
    lines = [
        "# The papers' figures, reproduced",
        "",
        f"Made by `penstock reproduce{' --quick' if quick else ''}`: {len(figures)} figures and tables with "
        f"{len(claims)} claims, of which {sum(claim.holds for claim in claims)} hold. A claim that does not hold says "
        "why; what the papers leave open, and how it was chosen, stands above each table. Plotted values of the papers "
        "are lost; what their texts and tables give is drawn as `paper`. Bars are standard errors of means over runs. "
        "All figures take a quarter of an hour on one core, with `--quick` a minute and a half once all is compiled.",
        "",
    ]
    for figure in figures:
        lines += [
            f"## {figure.paper}, {figure.name}: {figure.title}",
            "",
            f"![{figure.title}]({prefix}{file_name(figure)})",
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
