"""Writing figures: the same figure gives the same bytes, whole or not at all."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import InputError
from penstock.files import atomic
from penstock.pictures.fonts import lend_letters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNDATED = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""By format: what matplotlib would write into a file that differs from run to run."""


def kind_of(path: str | os.PathLike[str], at: str | None = "--plot") -> str:
    """Return the format that a path's ending names; png without an ending.

    Raises
    ------
    InputError
        If figures cannot be written in it.
    """
    ending = Path(path).suffix.lstrip(".").lower() or "png"
    if ending not in UNDATED:
        raise InputError(f"expected a name that ends in .svg, .png or .pdf, got {os.fspath(path)!r}", at=at)
    return ending


def save(figure: Figure, path: str | os.PathLike[str], dpi: int = 120) -> None:
    """Write a figure in the format that the path's ending names.

    Raises
    ------
    InputError
        If figures cannot be written in it, or the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    kind = kind_of(path)
    FigureCanvasAgg(figure)
    _plain(figure)
    lend_letters(figure)
    with mpl.rc_context({"svg.hashsalt": "penstock"}), warnings.catch_warnings(), atomic(path, "wb") as file:
        warnings.filterwarnings("ignore", "Glyph .* missing")  # told for all letters at once
        figure.savefig(file, format=kind, dpi=dpi, metadata=UNDATED[kind])


def _plain(figure: Figure) -> None:
    """Draw texts as they are: names may hold dollar signs, and only ticks of logarithmic axes are formulas."""
    from matplotlib.axis import Tick
    from matplotlib.text import Text

    ticks = {text for tick in figure.findobj(Tick) for text in tick.findobj(Text)}
    for text in figure.findobj(Text):
        if text not in ticks:
            text.set_parse_math(False)
