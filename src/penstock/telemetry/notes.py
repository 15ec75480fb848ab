"""Notes of which rows came to a sink when: a file of a run's folder for each batch, an array of whole µs since 1970."""

from __future__ import annotations

import io

import numpy as np

from penstock.arrays import Array


def read_note(content: bytes) -> tuple[Array, Array, Array]:
    """Return when rows of a note became visible, their stimulus time (s since 1970), and how many had both.

    Rows of a batch become visible together: that time and the stimulus times, array (n + 1), or both times and how many
    rows had them, array (3, n). Others become visible each by itself: both times of each, array (2, n).

    Raises
    ------
    ValueError
        If it is no note.
    """
    noted = np.load(io.BytesIO(content))
    if noted.ndim == 1:
        noted = np.stack([np.full(noted.size - 1, noted[0]), noted[1:]])
    visible, stimulus = noted[:2] / 1e6
    return visible, stimulus, noted[2].astype(float) if len(noted) == 3 else np.ones(visible.size)


def row_by_row(content: bytes) -> tuple[Array, Array]:
    """Return when each row of a note became visible, and its stimulus time (s since 1970)."""
    visible, stimulus, rows = read_note(content)
    count = rows.astype(int)
    return np.repeat(visible, count), np.repeat(stimulus, count)
