"""Writing figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from penstock.pictures.save import save


def test_names_are_no_formulas(tmp_path: Path) -> None:
    """Dollar signs in titles and legends are dollar signs, while the powers of a logarithmic axis stay formulas."""
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [1, 1000], label="$a^^b$")
    axes.set(title="costs $a^^b$ <b>&", xlabel="$\\bad{$", yscale="log")
    axes.legend()
    figure.suptitle("$_$^$")
    save(figure, tmp_path / "a.png")
    assert axes.yaxis.get_major_ticks()[0].label1.get_parse_math()


def test_letters_are_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters that the font lacks come from another one of the machine; one sentence tells those that none has."""
    lender = [font for font in fontManager.ttflist if font.name in ("DejaVu Sans", "STIXGeneral")]
    monkeypatch.setattr(fontManager, "ttflist", lender)
    figure = Figure()
    axes = figure.subplots()
    axes.set(title="\u1d81 出", xlabel="力 出")
    with pytest.warns(UserWarning, match="no font") as told:
        save(figure, tmp_path / "a.png")
    assert [str(each.message) for each in told] == [
        "no font of this machine has 出 力: the picture shows boxes for them"
    ]
    assert axes.title.get_fontfamily()[-1] == "STIXGeneral"
