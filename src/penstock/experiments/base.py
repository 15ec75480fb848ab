"""How all figures are made: each says how it was set up, what is claimed and was measured, and what is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

import attrs
import numpy as np

from penstock.experiments.runs import Rows, errors, means, rng, said
from penstock.native.jit import compiling
from penstock.pictures.curves import Curve, Panel

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Claim:
    """One statement of a paper, and whether it was found to hold.

    Attributes
    ----------
    paper, figure
        Where it is stated.
    name
        What is stated.
    expected, measured
        In words and numbers.
    holds
        Whether the measurement agrees.
    note
        Why it does not hold, or what was not known and how it was chosen.
    """

    paper: str
    figure: str
    name: str
    expected: str
    measured: str
    holds: bool
    note: str = ""


@attrs.frozen(kw_only=True)
class Figure:
    """One reproduced figure or table.

    Attributes
    ----------
    paper, name
        The paper's short name and its figure: ``economical``, ``Fig. 7``.
    title
        What it shows.
    parameters
        As run, with what the paper leaves open said.
    """

    paper: str
    name: str
    title: str
    parameters: Mapping[str, str]
    panels: tuple[Panel, ...]
    claims: tuple[Claim, ...]


Claimed = (
    tuple[str, str, str | Rows, bool | np.bool_]
    | tuple[str, str, str | Rows, bool | np.bool_, str]
    | tuple[str, str, str | Rows, bool | np.bool_, str, str]
)
"""A claim's name, what is expected, what was measured, whether it holds; a note; of which part, as ``(a)``."""
Made = tuple[Mapping[str, object], Sequence[Claimed], Sequence[Panel]]
"""How a figure was set up, its claims and its panels."""
Make = Callable[[bool, int], Figure]
"""Makes a figure: quick or not, seed."""


@attrs.frozen
class Ask:
    """How a figure is asked for: quick or whole, and the seed of everything random."""

    quick: bool
    seed: int

    def pick(self, quick: T, whole: T) -> T:
        """Return the first for a quick figure, the second for a whole one."""
        return quick if self.quick else whole

    def rng(self, *parts: int) -> np.random.Generator:
        """Return the generator that belongs to the seed and these numbers."""
        return rng(self.seed, *parts)


class Paper:
    """What makes the figures of a paper, by their names on the command line.

    Parameters
    ----------
    compiled
        Whether its figures are large enough to compile all kernels for.
    """

    def __init__(self, name: str, *, compiled: bool = False) -> None:
        self.name, self.compiled = name, compiled
        self.figures: dict[str, Make] = {}

    def figure(self, name: str, title: str) -> Callable[[Callable[[Ask], Made]], Make]:
        """Return a decorator of what measures a figure."""

        def registered(measure: Callable[[Ask], Made]) -> Make:
            def make(quick: bool, seed: int) -> Figure:
                with compiling() if self.compiled else nullcontext():
                    setup, claims, panels = measure(Ask(quick, seed))
                return Figure(
                    paper=self.name, name=name, title=title, panels=tuple(panels),
                    parameters={key.replace("_", " "): str(value) for key, value in setup.items()},
                    claims=tuple(self._claim(name, claim) for claim in claims),
                )  # fmt: skip

            self.figures[f"{self.name}-{name.lower().replace('fig. ', '').replace(' ', '-')}"] = make
            return make

        return registered

    def _claim(self, figure: str, claimed: Claimed) -> Claim:
        name, expected, measured, holds, note, part = (*claimed, "", "")[:6]
        found = measured if isinstance(measured, str) else said(measured)
        return Claim(
            paper=self.name, figure=figure + part, name=name, expected=expected, measured=found, holds=bool(holds),
            note=note,
        )  # fmt: skip


def panel(x: str, y: str, at: Iterable[float], rows: Rows, log: bool = False) -> Panel:
    """Return a pair of axes with a curve for each row, all over the same places; bars where rows are of runs."""
    places, curves = tuple(map(float, at)), []
    for label, row in rows.items():
        error = tuple(errors(row).tolist())
        curves.append(Curve(label=label, x=places, y=tuple(means(row).tolist()), error=error if any(error) else ()))
    return Panel(x=x, y=y, curves=tuple(curves), log=log)


def scatter(x: str, y: str, rows: Mapping[str, Iterable[tuple[float, ...]]], log: bool = False) -> Panel:
    """Return a pair of axes with a curve through points of its own for each row: x, y, and maybe an error."""
    curves = []
    for label, points in rows.items():
        first, second, *bars = (tuple(map(float, each)) for each in zip(*sorted(points), strict=True))
        curves.append(Curve(label=label, x=first, y=second, error=bars[0] if bars and any(bars[0]) else ()))
    return Panel(x=x, y=y, curves=tuple(curves), log=log)
