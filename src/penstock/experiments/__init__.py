"""The papers' figures and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from penstock.errors import InputError
from penstock.experiments import correlation, economical, fit, latency, mace, pairwise, potential, shedding
from penstock.experiments.base import Claim, Figure, Make
from penstock.files import suggest

__all__ = ["FIGURES", "Claim", "Figure", "reproduce"]

FIGURES: Mapping[str, Make] = {
    name: make
    for file in (potential, shedding, fit, economical, correlation, pairwise, latency, mace)
    for name, make in file.PAPER.figures.items()
}
"""Name on the command line to what makes the figure."""


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
        yield FIGURES[name](quick, seed)
