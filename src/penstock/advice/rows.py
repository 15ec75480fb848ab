"""The batches of one query in a replay, and how late its rows were."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np

from penstock.arrays import Array


@attrs.frozen(eq=False)
class Rows:
    """Latencies of a query's rows, in pieces within which it changes evenly; arrays (pieces,).

    Attributes
    ----------
    first, last
        Latency of the first and the last row of each piece (s).
    weight
        Rows of each piece.
    arrival
        When the first row of each piece arrived (s from the beginning of the rates).
    """

    first: Array
    last: Array
    weight: Array
    arrival: Array

    @classmethod
    def joined(cls, parts: Iterable[Rows]) -> Rows:
        """Return the rows of several queries together."""
        every = tuple(parts)
        return cls(
            np.concatenate([rows.first for rows in every]),
            np.concatenate([rows.last for rows in every]),
            np.concatenate([rows.weight for rows in every]),
            np.concatenate([rows.arrival for rows in every]),
        )

    @property
    def worst(self) -> float:
        """Largest latency (s)."""
        return float(max(self.first.max(), self.last.max())) if self.weight.size else 0.0

    def quantile(self, share: float) -> float:
        """Return the latency (s) that a share of the rows does not exceed, exact to a ten-thousandth of the largest."""
        if not self.weight.size:
            return 0.0
        low, high = np.minimum(self.first, self.last), np.maximum(self.first, self.last)
        width = np.maximum(high - low, 1e-12)
        bottom, top = float(low.min()), float(high.max())
        wanted = share * self.weight.sum()
        while top - bottom > 1e-4 * max(top, 1e-9):
            middle = (bottom + top) / 2
            below = self.weight @ np.clip((middle - low) / width, 0.0, 1.0)
            bottom, top = (bottom, middle) if below >= wanted else (middle, top)
        return top


@attrs.frozen(eq=False)
class Replayed:
    """The batches of one query in a replay, and the latencies of its rows; arrays (batches,)."""

    start: Array
    end: Array
    rows: Array
    latency: Rows
