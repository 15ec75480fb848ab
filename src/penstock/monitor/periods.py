"""Series that hold a value for each period, over the bins of a window, which may be longer or shorter than periods."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array

WITHIN = 1e-6
"""Share of a period by which a bin may reach into it by rounding alone."""


def highest(values: Array, edges: Array) -> Array:
    """Return the greatest of the values that hold within each bin, array (bins,); NaN where none does.

    Parameters
    ----------
    values
        Array (periods,).
    edges
        Array (bins + 1,): of the bins, in periods since the first one began.

    Examples
    --------
    >>> highest(np.array([1.0, 5.0, 2.0]), np.array([0.0, 2.0, 4.0, 6.0])).tolist()
    [5.0, 2.0, nan]
    """
    first = np.clip(np.floor(edges[:-1] + WITHIN), 0, values.size).astype(np.int64)
    behind = np.clip(np.ceil(edges[1:] - WITHIN), 0, values.size).astype(np.int64)
    # One more, so that what is behind the last is a place too.
    reached = np.append(values, np.nan)[: behind.max(initial=0) + 1]
    found = np.fmax.reduceat(reached, np.stack([first, behind], axis=1).ravel())[::2]
    return np.where(first < behind, found, np.nan)


def mean(values: Array, edges: Array) -> Array:
    """Return the mean over time of the values within each bin, array (..., bins); NaN where no period is.

    Parameters
    ----------
    values
        Array (..., periods).
    edges
        As of `highest`.

    Examples
    --------
    >>> mean(np.array([1.0, 5.0, 2.0]), np.array([0.0, 2.0, 4.0, 6.0])).tolist()
    [3.0, 2.0, nan]
    """
    inside = np.clip(edges, 0, values.shape[-1])
    first = int(inside[0])
    values, inside = values[..., first : int(np.ceil(inside[-1]))], inside - first
    whole = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)
    place = np.floor(inside).astype(np.int64)
    upto = whole[..., place] + (inside - place) * np.append(values, np.zeros_like(whole[..., :1]), axis=-1)[..., place]
    length = np.diff(inside)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(length > WITHIN, np.diff(upto, axis=-1) / length, np.nan)
