"""What is known of how long a batch takes, by its rows."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.arrays import Array


@attrs.frozen(kw_only=True)
class Fit:
    """Seconds of a batch by its rows, and how well they are known.

    Attributes
    ----------
    overhead, cost
        Seconds a batch, and seconds a row; None where the data cannot tell (`reason`).
    overhead_error, cost_error
        Standard errors (s; s a row); None with them. Batches that follow each other are alike: the errors allow for
        that (Newey and West 1987).
    cost_most
        What a row costs at most (s): two standard errors above the fit, and where overhead or cost cannot be told no
        more than all of the batch. None without batches.
    spread
        Scale of the relative residuals: one in three batches differs by more than this share from the fit.
    batches
        Batches with rows that were looked at.
    typical
        Median seconds of these batches; NaN without any.
    reason
        Why overhead or cost are None, in one sentence without a full stop.
    """

    overhead: float | None = None
    cost: float | None = None
    overhead_error: float | None = None
    cost_error: float | None = None
    cost_most: float | None = None
    spread: float = 0.0
    batches: int = 0
    typical: float = float("nan")
    reason: str | None = None

    @property
    def error(self) -> float | None:
        """Relative standard error of the cost."""
        return self.cost_error / self.cost if self.cost and self.cost_error is not None else None

    def seconds(self, rows: Array) -> Array:
        """Return the seconds of batches of so many rows; the typical batch where the fit cannot tell."""
        if self.overhead is None:
            return np.full(np.shape(rows), self.typical)
        return np.asarray(self.overhead + (self.cost or 0.0) * rows)
