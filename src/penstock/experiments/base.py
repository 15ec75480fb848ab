"""What an experiment gives: curves in the paper's axes, and claims that a machine has checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

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


class Mean(float):
    """The mean of a figure's value over runs; ``error`` is its standard error, 0 of one run."""

    error: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        """Return the mean of what is known: runs without a result (nan) are left out."""
        known = np.array([value for value in values if np.isfinite(value)])
        found = cls(known.mean() if known.size else np.nan)
        found.error = float(known.std(ddof=1) / known.size**0.5) if known.size > 1 else 0.0
        return found

    @classmethod
    def over(cls, runs: ArrayLike) -> list[Mean]:
        """Return the means over runs, array (runs, places), at each place."""
        return [cls.of(column) for column in np.asarray(runs).T]


@attrs.frozen(kw_only=True)
class Curve:
    """One line of a plot; ``error`` holds standard errors of means over runs, or nothing."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()

    @classmethod
    def of(cls, label: str, x: Iterable[float], y: Sequence[float]) -> Curve:
        """Return a curve whose values may be means."""
        error = tuple(float(getattr(value, "error", 0.0)) for value in y)
        return cls(label=label, x=tuple(map(float, x)), y=tuple(map(float, y)), error=error if any(error) else ())


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


def listed(values: Iterable[float]) -> str:
    """Return numbers with three digits, for a claim."""
    return ", ".join(f"{value:.3g}" for value in values)


class Sheet:
    """Builds a figure: what is measured goes in as rows by label, and each claim with how it was judged."""

    def __init__(self, paper: str, name: str, title: str, **parameters: object) -> None:
        self.paper, self.name, self.title = paper, name, title
        self.parameters = {key.replace("_", " "): str(value) for key, value in parameters.items()}
        self._panels: list[Panel] = []
        self._claims: list[Claim] = []

    def claim(
        self, name: str, expected: str, measured: str, holds: bool | np.bool_, note: str = "", part: str = ""
    ) -> None:
        """Add a claim of a part, as ``(a)``; the note says why it does not hold, or what the paper leaves open."""
        self._claims.append(
            Claim(
                paper=self.paper, figure=self.name + part, name=name, expected=expected, measured=measured,
                holds=bool(holds), note=note,
            )
        )  # fmt: skip

    def panel(
        self, x: str, y: str, at: Iterable[float], rows: Mapping[str, Sequence[float]], log: bool = False
    ) -> None:
        """Add a pair of axes with a curve for each row, all over the same places."""
        places = tuple(map(float, at))
        curves = tuple(Curve.of(label, places, row) for label, row in rows.items())
        self._panels.append(Panel(x=x, y=y, curves=curves, log=log))

    def scatter(self, x: str, y: str, rows: Mapping[str, Iterable[tuple[float, float]]], log: bool = False) -> None:
        """Add a pair of axes with a curve through points of its own for each row."""
        curves = []
        for label, points in rows.items():
            first, second = zip(*sorted(points), strict=True)
            curves.append(Curve.of(label, first, second))
        self._panels.append(Panel(x=x, y=y, curves=tuple(curves), log=log))

    def done(self) -> Figure:
        """Return the figure."""
        return Figure(
            paper=self.paper, name=self.name, title=self.title, parameters=self.parameters,
            panels=tuple(self._panels), claims=tuple(self._claims),
        )  # fmt: skip


def rng(*parts: int) -> np.random.Generator:
    """Return the generator that belongs to these numbers."""
    return np.random.default_rng(list(parts))


def averaged(at: Iterable[T], seeds: int, one: Callable[[T, int], Mapping[str, float]]) -> dict[str, list[Mean]]:
    """Return by label the mean over seeds of what is measured at each place."""
    found: dict[str, list[Mean]] = {}
    for place in at:
        rows = [one(place, k) for k in range(seeds)]
        for label in rows[0]:
            found.setdefault(label, []).append(Mean.of(row[label] for row in rows))
    return found


def said(rows: Mapping[str, Sequence[float]]) -> str:
    """Return rows in words, for a claim."""
    return "; ".join(f"{label} {listed(row)}" for label, row in rows.items())
