"""Curves on pairs of axes, beside each other: what figures of measurements are."""

from __future__ import annotations

import os
from collections.abc import Sequence

import attrs

from penstock.pictures.save import save

MARKERS = "osv^dxP*"


@attrs.frozen(kw_only=True)
class Curve:
    """One line of a plot; ``error`` holds standard errors of means over runs, or nothing."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()


@attrs.frozen(kw_only=True)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    x, y
        What the axes show, with units.
    log
        Whether the vertical axis is logarithmic.
    """

    x: str
    y: str
    curves: tuple[Curve, ...]
    log: bool = False


def draw_curves(panels: Sequence[Panel], title: str, path: str | os.PathLike[str]) -> None:
    """Draw panels, up to three beside each other; the path's ending gives the format."""
    from matplotlib.figure import Figure

    across = min(len(panels), 2 if len(panels) == 4 else 3)
    down = -(-len(panels) // across)
    figure = Figure(figsize=(5 * across, 0.3 + 3.3 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis, panel in zip(axes, panels, strict=False):
        for curve, marker in zip(panel.curves, MARKERS, strict=False):
            style = {"marker": marker, "markersize": 4, "linewidth": 1.2, "capsize": 2}
            axis.errorbar(curve.x, curve.y, yerr=curve.error or None, label=curve.label, **style)
        axis.set(xlabel=panel.x, ylabel=panel.y, yscale="log" if panel.log else "linear")
        if not panel.log:
            axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    save(figure, path, dpi=110)
