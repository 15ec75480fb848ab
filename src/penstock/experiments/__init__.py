"""The papers' figures and tables, one file per paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from penstock.errors import InputError
from penstock.experiments import correlation, economical, latency, mace, potential, shedding
from penstock.experiments.base import Claim, Curve, Figure, Panel
from penstock.files import suggest

__all__ = ["FIGURES", "Claim", "Curve", "Figure", "Panel", "reproduce"]

Make = Callable[[bool, int], Figure]
"""Makes a figure: quick or not, seed."""

FIGURES: Mapping[str, Make] = {
    "potential-2": potential.figure_2,
    "potential-3": potential.figure_3,
    "potential-4": potential.figure_4,
    "potential-5": potential.figure_5,
    "potential-6": potential.figure_6,
    "potential-7": potential.figure_7,
    "potential-8": potential.figure_8,
    "potential-9": potential.figure_9,
    "potential-10": potential.figure_10,
    "shedding-table-1": shedding.table_1,
    "shedding-table-3": shedding.table_3,
    "shedding-9": shedding.figure_9,
    "shedding-10": shedding.figure_10,
    "shedding-11": shedding.figure_11,
    "shedding-12": shedding.figure_12,
    "shedding-13": shedding.figure_13,
    "shedding-14": shedding.figure_14,
    "shedding-15": shedding.figure_15,
    "economical-6": economical.figure_6,
    "economical-7": economical.figure_7,
    "economical-8": economical.figure_8,
    "economical-9": economical.figure_9,
    "economical-10": economical.figure_10,
    "correlation-1": correlation.figure_1,
    "correlation-table-1": correlation.table_1,
    "correlation-3": correlation.figure_3,
    "correlation-4": correlation.figure_4,
    "correlation-table-3": correlation.table_3,
    "correlation-5": correlation.figure_5,
    "correlation-6": correlation.figure_6,
    "correlation-7": correlation.figure_7,
    "correlation-8": correlation.figure_8,
    "correlation-9": correlation.figure_9,
    "correlation-10": correlation.figure_10,
    "mace-3": mace.figure_3,
    "mace-4": latency.figure_4,
    "mace-5": latency.figure_5,
    "mace-6": latency.figure_6,
    "mace-7": latency.figure_7,
    "mace-8": latency.figure_8,
    "mace-10": latency.figure_10,
    "mace-12": mace.figure_12,
    "mace-13": mace.figure_13,
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
