"""Writing figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

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
