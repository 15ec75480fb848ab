"""The papers' figures and tables, one file per paper."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from penstock.errors import InputError
from penstock.experiments.base import Claim, Curve, Figure, Panel
from penstock.files import suggest

__all__ = ["FIGURES", "Claim", "Curve", "Figure", "Panel", "reproduce"]

_BY_FILE: tuple[tuple[str, str, tuple[int | str, ...]], ...] = (
    ("potential", "potential", (*range(2, 11),)),
    ("shedding", "shedding", ("table-1", "table-3", *range(9, 16))),
    ("economical", "economical", (*range(6, 11),)),
    ("correlation", "correlation", (1, "table-1", 3, 4, "table-3", *range(5, 11))),
    ("mace", "mace", (3,)),
    ("mace", "latency", (4, 5, 6, 7, 8, 10)),
    ("mace", "mace", (12, 13)),
)
FIGURES: Mapping[str, tuple[str, str]] = {
    f"{paper}-{name}": (file, f"figure_{name}" if isinstance(name, int) else name.replace("-", "_"))
    for paper, file, names in _BY_FILE
    for name in names
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
