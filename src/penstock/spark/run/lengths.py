"""How long a unit's batches take beside their rows: what of it is overhead, what a row costs, and how sure that is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.inspection import FEW, Fit, fit_batches, fit_given
from penstock.network import Network
from penstock.spark.run.outcome import Batch, Counts, taken_by

REMEMBERED = 20
"""Batches with rows, and as many without, that tell overhead and cost."""

COLD = 10.0
"""Seconds after a unit's first batch on a host in which batches become shorter, whatever their rows."""

GIVEN = 0.3
"""How far off costs that the network gives may be, relative standard deviation."""

READING = 1e-4
"""What it costs to read a row that is dropped at once, as a share of what its operators cost."""


@attrs.define
class Lengths:
    """The last batches of a unit on its host.

    A line through batches of different sizes tells overhead from cost. Where costs are given it is drawn towards them
    (`penstock.inspection.fit_given`), and batches of one size tell overhead too. Elsewhere
    (`penstock.inspection.fit_batches`) what was told stays known while batches are too alike to tell anything new; when
    they become shorter, as on a host that warms up, it is by their overhead. An empty batch tells little: much of what
    Spark does once a batch it leaves out there, and a busy unit has none. The first batch on a host is left out: it is
    cold. Where costs are given, those of the first `COLD` seconds are.

    Attributes
    ----------
    size
        How much there is to do in a batch with rows, in any unit: its rows, unless some of them are dropped.
    given
        Whether that is in seconds, by costs that the network gives.
    """

    size: Callable[[Batch], float] = attrs.field(default=lambda batch: float(batch.rows))
    given: bool = False
    host: str = ""
    overhead: float | None = None
    _fed: deque[tuple[float, float]] = attrs.field(factory=lambda: deque(maxlen=REMEMBERED))
    _empty: deque[float] = attrs.field(factory=lambda: deque(maxlen=REMEMBERED))
    _fit: Fit = attrs.field(factory=Fit)
    _told: bool = False
    _unsure: float = 0.0
    _cost: float = 0.0
    _less: float = 0.0
    _begun: float = 0.0

    def add(self, batches: Iterable[Batch]) -> None:
        """Add batches in the order in which they ran; on another host everything is learned anew."""
        news = False
        for batch in batches:
            if batch.host != self.host:
                self._fed.clear()
                self._empty.clear()
                self.host, self.overhead, self._fit, self._told = batch.host, None, Fit(), False
                self._begun = batch.start
                continue
            if not batch.known or batch.busy is None or (self.given and batch.start < self._begun + COLD):
                continue
            seconds = batch.busy * batch.duration
            if batch.rows:
                self._fed.append((self.size(batch), seconds))
                news = True
            else:
                self._empty.append(seconds)
        if news and self._fed:
            sizes, took = np.array(self._fed, float).T
            if self.given:
                self._fit, self._told = fit_given(sizes, took, GIVEN), True
                self.overhead = self._fit.overhead
            else:
                self._learn(sizes, took)

    def _learn(self, sizes: Array, took: Array) -> None:
        """Take in batches, if they tell anything, where no costs are given."""
        fit = self._fit = fit_batches(sizes, took)
        fixed, cost = fit.overhead or 0.0, fit.cost
        # The work in a batch is more than what overheads differ by among themselves.
        self._told = cost is not None and cost * float(np.median(sizes)) >= fit.spread * fixed
        if self._told:
            self.overhead, self._unsure = fit.overhead, FEW * float(fit.overhead_error or 0.0)
            self._cost, self._less = float(cost or 0.0), 0.0
            self._fit = attrs.evolve(fit, cost_error=FEW * float(fit.cost_error or 0.0))
        elif self.overhead is not None:
            now = float(np.median(took - self._cost * sizes))
            self._less = min(max(0.0, self.overhead - now), self.overhead)

    @property
    def fixed(self) -> float | None:
        """Seconds of a batch besides its rows: told by batches with rows, now or before, or else by empty ones."""
        if self.overhead is not None:
            return self.overhead - self._less
        return float(np.median(self._empty)) if self._empty else None

    def work(self, batches: Iterable[Batch]) -> tuple[float, float]:
        """Return the seconds that batches have worked on their rows, and the standard error of that.

        Where overhead and cost cannot be told apart now, but could be before, the work is what batches took beyond that
        overhead; what that has become less by is as unsure. Where they never could, it is anything up to what exceeds
        an empty batch: the middle of that is returned, with an error as large as itself.
        """
        mine = [batch for batch in batches if batch.known and batch.rows]
        took = np.array([batch.busy * batch.duration for batch in mine if batch.busy is not None])
        if not took.size:
            return 0.0, 0.0
        if self._told:
            size = sum(map(self.size, mine))
            return float(self._fit.cost or 0.0) * size, float(self._fit.cost_error or 0.0) * size
        if self.overhead is not None:
            unsure = self._unsure + self._less
            error = unsure * len(mine) + self._fit.spread * float(np.sqrt(np.sum(took**2)))
            return max(0.0, float(np.sum(took - (self.overhead - self._less)))), error
        idle = float(np.median(self._empty)) if self._empty else 0.0
        most = max(0.0, float(np.sum(took - idle)))
        return most / 2, most / 2


def work_in(network: Network, operators: Sequence[str], counts: Counts, rows: float = 0) -> float:
    """Return how much work rows are for some operators, after drops, in any unit.

    Costs that the network gives weigh the operators' rows; where one is not given all weigh alike.

    Parameters
    ----------
    counts
        What arrived and was dropped, by stream.
    rows
        How many were read for it.
    """
    weights = network.given_costs(operators)
    if not sum(weights):
        weights = [1.0] * len(operators)
    worked = sum(weight * taken_by(network, name, counts) for name, weight in zip(operators, weights, strict=True))
    return READING * sum(weights) * rows + worked
