"""What a reader takes at once of what has piled up while its query was stopped."""

from __future__ import annotations

import time

FIRST, PART, GROWTH = 100, 2.0, 8.0
"""Rows of the first part, how long the others are to take (s), and by how much one may be larger than the last."""


class Parts:
    """How many rows a reader that begins in the middle takes at once, until it has caught up.

    In one batch nothing of what has piled up would be visible before all of it is worked off. How long rows take, the
    time from one part to the next says.
    """

    def __init__(self) -> None:
        self._begun, self._caught_up, self._rows, self._since = False, False, 0, 0.0

    def begin(self, *, middle: bool) -> bool:
        """Note where a reader begins; return whether that is in the ``middle``. Later calls note nothing: False."""
        if self._begun:
            return False
        self._begun, self._caught_up = True, not middle
        return middle

    def most(self) -> int | None:
        """Return how many rows to take now; None: all that are there."""
        if self._caught_up:
            return None
        now = time.monotonic()
        factor = min(GROWTH, PART / max(now - self._since, 1e-3))
        most = max(1, round(self._rows * factor)) if self._rows else FIRST
        self._since = now
        return most

    def took(self, rows: int, *, caught_up: bool) -> None:
        """Note how many rows were taken, and whether these were all that there were."""
        self._rows, self._caught_up = rows, self._caught_up or caught_up
