"""What figures are made of: measurements over places and runs, their means and how claims say them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T")
Floats = NDArray[np.float64]
Rows = Mapping[str, ArrayLike]
"""By label a value for each place, or array (runs, places) of which the means count."""


def rng(*parts: int) -> np.random.Generator:
    """Return the generator that belongs to these numbers."""
    return np.random.default_rng(list(parts))


def repeated(runs: int, one: Callable[[int], Rows]) -> dict[str, Floats]:
    """Return by label array (runs, places) of what each run measures at all places."""
    rows = [one(k) for k in range(runs)]
    return {label: np.array([row[label] for row in rows], float) for label in rows[0]}


def swept(at: Sequence[T], runs: int, one: Callable[[T, int], Mapping[str, float]]) -> dict[str, Floats]:
    """Return by label array (runs, places) of what each run measures at each place."""

    def all_of(k: int) -> dict[str, list[float]]:
        found = [one(place, k) for place in at]
        return {label: [each[label] for each in found] for label in found[0]}

    return repeated(runs, all_of)


def _known(row: ArrayLike) -> list[Floats]:
    """Return what is known at each place: runs without a result (nan) are left out."""
    return [column[np.isfinite(column)] for column in np.atleast_2d(np.asarray(row, float)).T]


def means(row: ArrayLike) -> Floats:
    """Return the mean over runs at each place; of a single row the row."""
    return np.array([values.mean() if values.size else np.nan for values in _known(row)])


def errors(row: ArrayLike) -> Floats:
    """Return the standard errors of the means over runs, 0 of one run."""
    return np.array([values.std(ddof=1) / values.size**0.5 if values.size > 1 else 0.0 for values in _known(row)])


def mean(runs: Iterable[float]) -> float:
    """Return the mean of a value over runs; those without a result (nan) are left out."""
    return float(means([[value] for value in runs])[0])


def columns(rows: Rows) -> list[Floats]:
    """Return the means of all rows, to compare them place by place."""
    return [means(row) for row in rows.values()]


def listed(values: Iterable[float]) -> str:
    """Return numbers with three digits, for a claim."""
    return ", ".join(f"{value:.3g}" for value in values)


def said(rows: Rows) -> str:
    """Return rows in words, for a claim."""
    return "; ".join(f"{label} {listed(means(row))}" for label, row in rows.items())


def rising(values: Iterable[float]) -> bool:
    """Whether each value is above the one before."""
    return bool((np.diff(list(values)) > 0).all())
