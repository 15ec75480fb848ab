"""The papers' figures and tables, one file per paper."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from penstock.errors import InputError
from penstock.experiments.base import Claim, Curve, Figure, Panel
from penstock.files import suggest

__all__ = ["FIGURES", "Claim", "Curve", "Figure", "Panel", "reproduce"]

FIGURES: Mapping[str, tuple[str, str]] = {
    **{f"potential-{number}": ("potential", f"figure_{number}") for number in range(2, 11)},
    "shedding-table-1": ("shedding", "table_1"),
    "shedding-table-3": ("shedding", "table_3"),
    **{f"shedding-{number}": ("shedding", f"figure_{number}") for number in range(9, 16)},
    "economical-6": ("economical", "figure_6"),
    "economical-7": ("economical", "figure_7"),
    "economical-8": ("economical", "figure_8"),
    "economical-9": ("economical", "figure_9"),
    "economical-10": ("economical", "figure_10"),
    "correlation-1": ("correlation", "figure_1"),
    "correlation-table-1": ("correlation", "table_1"),
    "correlation-3": ("correlation", "figure_3"),
    "correlation-4": ("correlation", "figure_4"),
    "correlation-table-3": ("correlation", "table_3"),
    **{f"correlation-{number}": ("correlation", f"figure_{number}") for number in range(5, 11)},
    "mace-3": ("mace", "figure_3"),
    **{f"mace-{number}": ("latency", f"figure_{number}") for number in (4, 5, 6, 7, 8, 10)},
    "mace-12": ("mace", "figure_12"),
    "mace-13": ("mace", "figure_13"),
}
"""Name on the command line to the file and function that make the figure."""


def reproduce(
    names: Iterable[str] = (),
    *,
    quick: bool = False,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> Iterator[Figure]:
    """Run experiments one after another.

    Parameters
    ----------
    names
        Of ``FIGURES``; all by default.
    quick
        Fewer seeds and smaller sizes.
    seed
        Of everything random.
    progress
        Called with each figure's name before it is made, and the share that is done.

    Raises
    ------
    InputError
        If there is no such figure; before any is made.
    """
    wanted = tuple(names) or tuple(FIGURES)
    for name in wanted:
        if name not in FIGURES:
            raise InputError(f"{name!r} is no figure", at="FIGURE", hint=suggest(name, FIGURES, "figures"))
    return _made(wanted, quick, seed, progress)


def _made(
    names: tuple[str, ...], quick: bool, seed: int, progress: Callable[[str, float], None] | None
) -> Iterator[Figure]:
    for index, name in enumerate(names):
        if progress:
            progress(name, index / len(names))
        module, function = FIGURES[name]
        figure: Figure = getattr(importlib.import_module(f"penstock.experiments.{module}"), function)(quick, seed)
        yield figure
