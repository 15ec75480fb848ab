"""Notes of which rows came to a sink when: a file of a run's folder for each batch, an array of whole µs since 1970."""

from __future__ import annotations

import io

import numpy as np

from penstock.arrays import Array


def read_note(content: bytes) -> tuple[Array, Array]:
    """Return when each row of a note became visible, and its stimulus time (s since 1970).

    Rows of a batch become visible together: that time and the stimulus times, array (n + 1), or both times and how many
    rows had them, array (3, n). Others become visible each by itself: both times of each, array (2, n).

    Raises
    ------
    ValueError
        If it is no note.
    """
    noted = np.load(io.BytesIO(content))
    if noted.ndim == 1:
        return np.full(noted.size - 1, noted[0] / 1e6), noted[1:] / 1e6
    if len(noted) == 3:
        noted = np.repeat(noted[:2], noted[2], axis=1)
    visible, stimulus = noted / 1e6
    return visible, stimulus
