"""Load series: mean, variance and correlation are population statistics (1/k)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _scaled(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre each row and divide it by its norm; rows that are constant up to rounding become 0."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    norm = np.sqrt((centred * centred).sum(axis=-1, keepdims=True))
    size = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    flat = norm <= 1e-12 * size * np.sqrt(rows.shape[-1])
    return np.where(flat, 0.0, centred / np.where(flat, 1.0, norm))


def deviation(series: ArrayLike) -> float:
    """Return the standard deviation of a load series; of one that is constant up to rounding it is 0."""
    values = np.asarray(series, float)
    if values.size == 0 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return 0.0
    return float(values.std())


def correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Return the correlation coefficient of two load series; with an empty or constant one it is 0.

    Source: Xing et al., section 2.3.

    Examples
    --------
    >>> round(correlation((1, 2, 3, 4), (1, 3, 2, 4)), 12)
    0.8
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    if a.size == 0 or b.size == 0:
        return 0.0
    return float(np.clip(_scaled(a) @ _scaled(b), -1.0, 1.0))


def correlation_matrix(series: ArrayLike) -> NDArray[np.float64]:
    """Return the correlation coefficients of all pairs of rows.

    Parameters
    ----------
    series
        Array (rows, periods).

    Returns
    -------
    ndarray, shape (rows, rows)
        Symmetric; 1 on the diagonal, also of constant rows, 0 elsewhere in the rows and columns of constant rows.
    """
    rows = _scaled(np.asarray(series, float))
    matrix = np.clip(rows @ rows.T, -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix
